"""Hidden states are read once: equal to the last bit, never of other weights, never damaged."""

import os
import time
from contextlib import contextmanager
from copy import deepcopy

import numpy as np
import pytest
import torch

from raxalign.encoders.models import kept_states
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.kept_states import KeptStates
from raxalign.encoders.models.transforms import Affine, Transform
from raxalign.tasks.classifiers.head import SentenceClassifier
from raxalign.tasks.taggers.head import extract
from raxalign.tasks.vectors.frame import SentenceReading
from tests.encoders.conftest import WORDS

TEXT = [list(WORDS[:5]), list(WORDS[3:6]), list(WORDS[1:9])]


@contextmanager
def passes(model):
    """Count how often a model runs."""
    counted: list[int] = []
    hook = model.base_model.register_forward_hook(lambda *_: counted.append(1))
    yield counted
    hook.remove()


@pytest.fixture
def keeping(encoder, tmp_path):
    """An encoder whose states are kept."""
    encoder.keep_states(tmp_path / "states", "a" * 64, "b" * 64)
    return encoder


def words(encoder, layers=(1, 3)):
    """The vectors of the words of the text."""
    return encoder.words(TEXT, "de", layers=layers, pooling="mean").vectors_NLH


def files(tmp_path):
    """The files of kept states."""
    return sorted(path for path in (tmp_path / "states").rglob("*") if path.is_file())


def test_words_are_read_again_without_the_model_and_to_the_last_bit(keeping, tmp_path):
    first = words(keeping)
    with passes(keeping.model) as counted:
        again = words(keeping)
        fewer = words(keeping, (3,))
    assert not counted
    assert torch.equal(first, again)
    assert torch.equal(first[:, 1:], fewer)
    assert len(files(tmp_path)) == 2  # one batch, two layers


def test_sentences_under_a_map_use_what_was_read_without_it(keeping):
    turned = Affine(weight=torch.eye(keeping.hidden_size).flip(0))
    how = SentenceReading("last", "mean")
    plain = how.vectors(AlignedEncoder(keeping), TEXT, "de")[0]
    with passes(keeping.model) as counted:
        mapped = AlignedEncoder(keeping, (Transform("de", 3, steps=(turned,)),))
        found = how.vectors(mapped, TEXT, "de")[0]
    assert not counted
    keeping.kept = None
    assert torch.equal(found, how.vectors(mapped, TEXT, "de")[0])
    assert torch.allclose(found, plain.flip(-1), atol=1e-6)


def test_a_tagger_has_the_features_of_what_was_read_before(keeping):
    words(keeping)
    rows = keeping.pieces(TEXT, "de")
    with passes(keeping.model) as counted:
        found = extract(AlignedEncoder(keeping), rows, (1, 3))
    assert not counted
    keeping.kept = None
    without = extract(AlignedEncoder(keeping), rows, (1, 3))
    assert np.array_equal(found.flat_PH, without.flat_PH)


def test_a_transform_inside_the_encoder_has_states_of_its_own(keeping, tmp_path):
    plain = words(keeping)
    shift = Affine(shift=torch.ones(keeping.hidden_size))
    inside = AlignedEncoder(keeping, (Transform("de", 1, "inside", (shift,)),))
    moved = inside.words(TEXT, "de", layers=(1, 3)).vectors_NLH
    assert not torch.equal(plain, moved)
    assert len(files(tmp_path)) == 2


def test_weights_that_were_trained_are_never_read_from_what_was_kept(keeping):
    before = words(keeping)
    keeping.model = deepcopy(keeping.model)  # as a task's training has it
    with torch.no_grad():
        keeping.model.base_model.embeddings.word_embeddings.weight.mul_(2)
    assert not torch.equal(before, words(keeping))


@pytest.fixture
def trained(keeping, tmp_path):
    """Files of a classifier's weights after two epochs."""
    model = classifier(AlignedEncoder(keeping))
    paths = [tmp_path / f"{epoch}.safetensors" for epoch in (1, 2)]
    for path in paths:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.01 * parameter.requires_grad)
        model.save(path)
    return paths


def classifier(aligned):
    """A classifier that has not been trained."""
    return SentenceClassifier(aligned, 3, dropout=0.1, max_length=16, seed=0)


def probabilities(aligned, file):
    """What a trained classifier answers, and how often its encoder ran for that."""
    model, kept = classifier(aligned), aligned.encoder.kept
    model.load(file)
    model.encoder.kept = kept and kept.of_trained(file, model.model)
    rows = model.rows([(" ".join(words),) for words in TEXT], ["de"] * len(TEXT))
    with passes(model.model) as counted:
        return model.probabilities(rows), len(counted)


def test_a_trained_classifier_reads_a_text_once_for_all_maps_that_share_its_training(
    keeping, trained
):
    turned = Affine(weight=torch.eye(keeping.hidden_size).flip(0))
    mapped = AlignedEncoder(keeping, (Transform("de", 3, steps=(turned,)),))
    first, passes_before = probabilities(AlignedEncoder(keeping), trained[0])
    found, more = probabilities(mapped, trained[0])
    assert (passes_before, more) == (1, 0)
    assert not torch.equal(first, found)
    keeping.kept = None
    assert torch.equal(first, probabilities(AlignedEncoder(keeping), trained[0])[0])
    assert torch.equal(found, probabilities(mapped, trained[0])[0])


def test_an_encoder_that_has_the_trained_weights_already_reads_what_was_read_by_them(
    keeping, trained, tmp_path
):
    """A map that is fitted again after the training starts from what the training left."""
    first, _ = probabilities(AlignedEncoder(keeping), trained[0])
    keeping.keep_states(tmp_path / "states", "c" * 64, "b" * 64)
    again, ran = probabilities(AlignedEncoder(keeping), trained[0])
    assert ran == 0
    assert torch.equal(first, again)


def test_what_one_evaluation_alone_reads_is_not_kept(keeping, trained, tmp_path):
    keeping.keep_states(tmp_path / "states", "a" * 64)
    probabilities(AlignedEncoder(keeping), trained[0])
    assert files(tmp_path) == []


def test_weights_of_another_epoch_read_for_themselves(keeping, trained):
    first, _ = probabilities(AlignedEncoder(keeping), trained[0])
    second, ran = probabilities(AlignedEncoder(keeping), trained[1])
    assert ran == 1
    assert not torch.equal(first, second)


def test_a_classifier_under_a_transform_inside_reads_for_itself(keeping, trained):
    shift = Affine(shift=torch.ones(keeping.hidden_size))
    inside = AlignedEncoder(keeping, (Transform("de", 0, "inside", (shift,)),))
    plain, _ = probabilities(AlignedEncoder(keeping), trained[0])
    moved, ran = probabilities(inside, trained[0])
    assert ran == 1
    assert not torch.equal(plain, moved)


def test_what_is_in_training_is_not_kept(keeping, trained, tmp_path):
    model = classifier(AlignedEncoder(keeping))
    rows = model.rows([(" ".join(words),) for words in TEXT], ["de"] * len(TEXT))
    model.train()
    model(rows).sum().backward()  # before its weights are fixed
    model.load(trained[0])
    model.encoder.kept = keeping.kept.of_trained(trained[0], model.model)
    model.train()
    with torch.no_grad():
        model(rows)  # with dropout
    model.eval()
    model(rows).sum().backward()  # a gradient is asked for
    assert files(tmp_path) == []
    with torch.no_grad():
        model(rows)
    assert len(files(tmp_path)) == 1


def test_what_is_read_ahead_is_each_batch_once_and_ends_where_there_is_no_room(
    keeping, tmp_path, monkeypatch
):
    keeping.batch_tokens = 1  # a batch per sentence
    with passes(keeping.model) as counted:
        found = words(keeping)
    assert len(counted) == len(TEXT)
    assert len(files(tmp_path)) == 2 * len(TEXT)
    monkeypatch.setattr(kept_states, "_LEFT", {})
    monkeypatch.setattr(KeptStates, "LIMIT", 0)
    keeping.keep_states(tmp_path / "states", "b" * 64)
    with passes(keeping.model) as counted:
        assert torch.equal(found, words(keeping))
    assert len(counted) == len(TEXT) + 1


def test_all_files_are_looked_at_once_in_a_while_and_not_for_each_that_is_kept(
    keeping, tmp_path, monkeypatch
):
    looks: list[str] = []
    scandir = os.scandir
    monkeypatch.setattr(kept_states.os, "scandir", lambda path: looks.append(path) or scandir(path))
    keeping.batch_tokens = 1
    words(keeping)
    assert looks.count(tmp_path / "states") == 1, "six files, one look"
    monkeypatch.setattr(kept_states, "_LEFT", {})
    monkeypatch.setattr(KeptStates, "LIMIT", 0)
    keeping.words(TEXT[:1] * 2, "fr", layers=(0, 2), pooling="mean")
    assert looks.count(tmp_path / "states") == 2, "it is full, and is asked again after a minute"


@pytest.mark.parametrize("change", ["cut", "flipped", "empty"])
def test_a_damaged_file_is_read_anew(keeping, tmp_path, change):
    before, (file, _) = words(keeping), files(tmp_path)
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes({"cut": data[:-4], "flipped": data, "empty": b""}[change])
    with passes(keeping.model) as counted:
        assert torch.equal(before, words(keeping))
    assert counted == [1]
    with passes(keeping.model) as counted:  # it is whole again
        assert torch.equal(before, words(keeping))
    assert not counted


def test_a_folder_that_cannot_be_written_changes_nothing_but_time(encoder, tmp_path):
    (tmp_path / "states").write_text("a file where a folder should be")
    before = words(encoder)
    encoder.keep_states(tmp_path / "states", "a" * 64)
    assert torch.equal(before, words(encoder))


def test_what_is_in_use_stays_and_what_nothing_used_gives_way(keeping, tmp_path, monkeypatch):
    words(keeping)
    first = files(tmp_path)
    monkeypatch.setattr(kept_states, "_LEFT", {})
    monkeypatch.setattr(KeptStates, "LIMIT", sum(file.stat().st_size for file in first) + 100)
    keeping.words(TEXT[:1], "de", layers=(1, 3), pooling="mean")
    assert files(tmp_path) == first  # in use
    old = time.time() - 2 * KeptStates.STALE
    for file in first:
        os.utime(file, (old, old))
    monkeypatch.setattr(kept_states, "_LEFT", {})
    keeping.words(TEXT[:1], "de", layers=(3,), pooling="mean")
    left = files(tmp_path)
    assert len(left) == 2
    assert len(set(left) & set(first)) == 1


def test_states_are_kept_apart_by_weights_by_precision_and_by_threads(encoder, tmp_path):
    def folder(key="a" * 64):
        encoder.keep_states(tmp_path, key)
        return encoder.kept.folder

    one = folder()
    assert folder("b" * 64) != one
    encoder.precision = "bf16"
    assert folder() != one
    encoder.precision = "fp32"
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 1)
    other = folder()
    torch.set_num_threads(threads)
    assert other != one == folder()


def test_a_gpu_reads_by_itself(encoder, tmp_path):
    encoder.device = "cuda:0"
    encoder.keep_states(tmp_path, "a" * 64)
    assert encoder.kept is None
