"""Objectives of whole sentences: distillation and the margin."""

from math import exp, log

import numpy as np
import pytest
import torch

from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.errors import DataError, RaxalignError
from raxalign.methods.distillation import Distill, Distillation, Lessons, Teacher, tokenise
from raxalign.methods.families.rows import Bitexts
from raxalign.methods.sentence_margin import Margin, margin_loss
from raxalign.options.sources import LocalFile
from raxalign.train.objective import Step
from raxalign.train.runtime import Runtime
from tests.methods.contract import in_micro_batches
from tests.methods.toy import toy_encoder, toy_inputs, toy_rows, write_pairs
from tests.tiny import tiny_bert


def method(**params):
    return Distillation(Distillation.Params.model_validate(params))


@pytest.fixture(scope="module")
def teacher_folder(tmp_path_factory):
    """A sentence encoder without a masked-LM head, whose tokenizer has other pieces."""
    folder = tmp_path_factory.mktemp("teacher")
    tiny_bert(folder, ["the", "house", "dog", "old", "red", "qxyz"], seed=5, layers=1)
    encoder = TransformerEncoder.from_folder(folder)
    encoder.model.base_model.save_pretrained(folder)
    return folder


def sentence(encoder, words, pooling, layer=-1):
    """A layer's vector of a sentence alone."""
    states = encoder.hidden(encoder.collate(encoder.pieces([words], "x")))[layer][0].detach()
    return states[0] if pooling == "cls" else states.mean(0)


@pytest.mark.parametrize("pooling", ["mean", "cls"])
@pytest.mark.parametrize("cache", [1 << 20, 0])
def test_the_objective_reads_the_student_and_the_teacher_with_their_own_tokenizers(
    pooling, cache, teacher_folder, tmp_path
):
    student, columns = toy_encoder(tmp_path / "encoder"), toy_rows(5)
    columns["tgt"][3] = columns["tgt"][0]
    folder = write_pairs(tmp_path / "pairs", columns)
    teacher = TransformerEncoder.from_folder(teacher_folder)
    taught = Teacher(teacher, tokenise(teacher, [columns["tgt"]], 64), (teacher.n_layers,), "cls")
    lessons = Lessons(Bitexts.read_sentences(student, {"de": folder}, "en", 64), taught)
    objective = Distill(student, lessons, (2,), pooling, cache_bytes=cache)
    rows, expected = [3, 1, 4], 0.0
    for row in rows:
        target = sentence(teacher, columns["tgt"][row], "cls")
        for side in ("src", "tgt"):
            gap = sentence(student, columns[side][row], pooling) - target
            expected += float(gap.pow(2).mean()) / 3
    step = Step(0, 0, np.array(rows))
    assert objective.cached == (cache > 0)
    for parts in ([[0, 1, 2]], [[1], [0, 2]]):
        found = sum(objective.loss(step, np.array(part)).item() for part in parts)
        assert found == pytest.approx(expected, rel=1e-5)
    assert all(p.grad is None for p in teacher.model.parameters())


@pytest.mark.parametrize("cache", [1 << 20, 0])
def test_the_default_teacher_is_the_encoder_as_it_was_whatever_becomes_of_it(cache, tmp_path):
    student, columns = toy_encoder(tmp_path / "encoder"), toy_rows(5)
    folders = {"de": write_pairs(tmp_path / "pairs", columns)}
    teacher = Teacher(student, tokenise(student, [columns["tgt"]], 64), (2,), "mean")
    lessons = Lessons(Bitexts.read_sentences(student, folders, "en", 64), teacher)
    objective = Distill(student, lessons, (2,), "mean", cache)
    before = objective.taught(np.arange(5)).clone()
    with torch.no_grad():
        for p in student.model.parameters():
            p += 1
    student.model.train()
    assert torch.equal(objective.taught(np.arange(5)), before)
    assert student.model.training


def test_a_teacher_of_another_width_is_refused(tmp_path):
    made = method(teacher=str(tiny_bert(tmp_path / "wide", ["house"], hidden=48)))
    told = "the teacher's vectors have 48 coordinates and the encoder's 32"
    with pytest.raises(RaxalignError, match=told):
        made.align(toy_encoder(tmp_path / "encoder"), toy_inputs(tmp_path), Runtime())


def test_the_teachers_files_are_its_identity_and_its_place_is_not(teacher_folder):
    taught = method(teacher=str(teacher_folder))
    sources = taught.sources("de", "en")
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= set(sources)
    assert all(
        isinstance(source, LocalFile) and source.path.parent == teacher_folder
        for source in sources.values()
    )
    assert taught.canonical() == method().canonical()
    assert method().sources("de", "en") == {}


def test_a_teacher_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(DataError, match="there is no teacher"):
        method(teacher=str(tmp_path / "none")).sources("de", "en")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"no config\.json"):
        method(teacher=str(tmp_path / "empty")).sources("de", "en")


# Cosines x1·y1 = 1, x1·y2 = 0.6, x2·y1 = 0, x2·y2 = 0.8.
SRC = torch.tensor([[2.0, 0.0], [0.0, 0.5]], dtype=torch.float64)
TGT = torch.tensor([[1.0, 0.0], [0.6, 0.8]], dtype=torch.float64)


def test_the_margin_is_taken_from_the_translation_alone_and_both_directions_are_summed():
    def nll(gold, other):
        return -log(exp(5 * (gold - 0.3)) / (exp(5 * (gold - 0.3)) + exp(5 * other)))

    expected = (nll(1, 0.6) + nll(0.8, 0)) / 2 + (nll(1, 0) + nll(0.8, 0.6)) / 2
    assert margin_loss(SRC, TGT, margin=0.3, scale=5).item() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("pooling", ["cls", "mean"])
@pytest.mark.parametrize("mask", [True, False])
def test_the_objective_is_the_loss_from_its_definition_in_micro_batches_too(
    pooling, mask, tmp_path
):
    encoder = toy_encoder(tmp_path / "encoder")
    encoder.model.double()
    columns, rows = toy_rows(5), [4, 0, 1, 3]
    columns["tgt"][3] = columns["tgt"][0]  # the rows at the places 1 and 3 of the batch
    folders = {"de": write_pairs(tmp_path / "pairs", columns)}
    corpus = Bitexts.read_sentences(encoder, folders, "en", 64)
    options = {"layers": "1", "pooling": pooling, "margin": 0.3, "scale": 10.0}
    objective = Margin(encoder, corpus, options | {"same_sentence": "mask" if mask else "keep"})

    def vector(words):
        found = sentence(encoder, words, pooling, 1)
        return found / found.norm()

    src, tgt = ([vector(columns[side][row]) for row in rows] for side in ("src", "tgt"))
    expected = 0.0
    for mine, theirs in ((src, tgt), (tgt, src)):
        for i in range(4):
            gold = exp(10 * (float(mine[i] @ theirs[i]) - 0.3))
            others = [
                exp(10 * float(mine[i] @ theirs[j]))
                for j in range(4)
                if j != i and not (mask and {i, j} == {1, 3})
            ]
            expected -= log(gold / (gold + sum(others))) / 4
    for micro in (4, 3, 1):
        loss, _ = in_micro_batches(objective, rows, micro)
        assert loss == pytest.approx(expected, rel=1e-9)
