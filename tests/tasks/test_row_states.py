"""Rows that share the encoder's rows have the losses, gradients and predictions of padded ones."""

from copy import copy
from itertools import product

import numpy as np
import pytest
import torch

from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.rows import RowSource
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.encoders.models.transforms import Affine, Transform
from raxalign.errors import RaxalignError
from raxalign.tasks.answers.rows import Answer, Question, Questions, WindowSizes
from raxalign.tasks.base import TaskInputs
from raxalign.tasks.classifiers.examples import Example, Examples
from raxalign.tasks.classifiers.head import SentenceClassifier
from raxalign.tasks.taggers.head import SentenceBatches
from raxalign.tasks.transfer.head import lay_out, shares_rows
from raxalign.tasks.transfer.training import Tuning
from raxalign.tasks.xnli import Xnli
from raxalign.train.loop import fit
from raxalign.train.objective import Step
from raxalign.train.options import TrainSettings
from raxalign.train.runtime import Runtime
from tests.encoders.architectures import encoder_of
from tests.every import in_turn
from tests.tasks.outcomes import made

POSITIONS = 24
WORDS = [f"w{i}" for i in range(20)]
N_ROWS = 13
OPTIONS = {"data": "phrasebook", "max_length": POSITIONS, "dropout": 0.0}


@pytest.fixture
def encoder(tiny):
    return copy(tiny(WORDS, positions=POSITIONS))


@pytest.fixture
def passes(monkeypatch):
    """The number of packed rows of every pass."""
    counts, lay_out_rows = [], TransformerEncoder.lay_out

    def counted(*args):
        packed = lay_out_rows(*args)
        counts.extend([len(packed.ids_BT)] * packed.shared)
        return packed

    monkeypatch.setattr(TransformerEncoder, "lay_out", counted)
    return counts


def texts(seed=0):
    """Sentences of 1 to 9 words, and one that fills the positions alone."""
    rng = np.random.default_rng(seed)
    found = [[WORDS[k] for k in rng.integers(0, 20, n)] for n in rng.integers(1, 10, N_ROWS)]
    found[5] = WORDS * 2
    return found


def turned(*langs):
    """A readout of the last layer for each language."""
    shift = torch.linspace(-1, 1, 32)
    return tuple(
        Transform(lang, 2, steps=(Affine(shift=shift * n),)) for n, lang in enumerate(langs, 1)
    )


def classifying(aligned):
    rows = [
        Example(" ".join(a), " ".join(b[:3]), ("entailment", "neutral")[i % 2], i)
        for i, (a, b) in enumerate(zip(texts(), texts(1), strict=True))
    ]
    mixed = {"setting": "translate-train", "code_switching": "sentence"}
    head = made("xnli", **OPTIONS, **mixed).head(TaskInputs("en"))
    head.labels, given = Xnli.labels, Examples("rows", rows)
    model = head.new_model(aligned, 0)
    return Tuning(model, head.batches(model, {"en": given, "de": given}))


def tagging(aligned):
    head = made("slots", **OPTIONS, tagger="linear").head(TaskInputs("en"))
    head.labels = ("O", "B-x", "I-x")
    tagger = head.new_model(aligned, 0)
    placed = tagger.place(texts(), "de")
    labels = [np.arange(len(words)) % 3 for words in placed.words]
    return Tuning(tagger, SentenceBatches(tagger, placed, labels, 0))


def questions():
    rows = []
    for i, (a, b) in enumerate(zip(texts(), texts(1), strict=True)):
        context = " ".join(b)
        answer = Answer(b[-1], context.rindex(b[-1]))
        rows.append(Question(str(i), " ".join(a[:4]), context, i, (answer,)))
    return Questions("rows", rows)


def answering(aligned):
    head = made("mlqa", **OPTIONS).head(TaskInputs("en"))
    model = head.new_model(aligned, 0)
    return Tuning(model, head.batches(model, {"en": questions()}))


TASKS = [classifying, tagging, answering]


def predicted(tuning):
    """What a model predicts for its training rows, as arrays."""
    model, batches = tuning.model, tuning.batches
    if isinstance(model, SentenceClassifier):
        return [model.probabilities(batches.entries).numpy()]
    if isinstance(batches, SentenceBatches):
        return model.predict(batches.placed)
    sizes = WindowSizes(64, 128, 30)
    windows = questions().windows(model.encoder, ("en", "en"), sizes)
    return [np.array(model.answers(windows, 30))]


def loss_of(objective, steps):
    """The loss over the parts of one global batch, and the gradients."""
    module = objective.module
    module.zero_grad()
    losses = []
    for step, positions in steps:
        objective.begin(step)
        losses.append(objective.loss(step, positions))
    torch.stack(losses).sum().backward()
    return float(sum(losses).detach()), {
        name: p.grad.clone() for name, p in module.named_parameters() if p.grad is not None
    }


def equal(found, wanted):
    assert found[0] == pytest.approx(wanted[0], rel=1e-5)
    assert found[1].keys() == wanted[1].keys()
    assert len(found[1]) > 5
    for name, gradient in wanted[1].items():
        assert torch.allclose(found[1][name], gradient, atol=1e-5), name


@pytest.mark.parametrize("make", TASKS)
@pytest.mark.parametrize(("n", "transforms"), [(1, ()), (2, ()), (N_ROWS, turned("en", "de"))])
def test_a_packed_batch_has_the_loss_and_the_gradients_of_a_padded_one(
    make, n, transforms, encoder, passes
):
    objective = make(AlignedEncoder(encoder, transforms))
    objective.module.eval()
    rows = np.random.default_rng(n).permutation(N_ROWS)[:n]
    steps = [(Step(0, 0, rows), np.arange(n))]
    found, together = loss_of(objective, steps), predicted(objective)
    assert len(passes) >= 2
    assert passes[0] < max(n, 2)
    before = len(passes)
    objective.model.encoder.packs = False
    equal(found, loss_of(objective, steps))
    for one, other in zip(together, predicted(objective), strict=True):
        if one.dtype.kind == "f":
            assert np.allclose(one, other, atol=1e-6)
        else:
            assert one.tolist() == other.tolist()
    assert len(passes) == before


def states_of_rows_alone(aligned, rows, atol):
    """The states of rows together, which are those of each row alone."""
    with torch.no_grad():
        layout = lay_out(aligned, rows.take())
        found = aligned.packed_hidden(layout)
        for s in range(len(rows)):
            alone = aligned.hidden(aligned.encoder.collate(rows, np.array([s])))[-1][0]
            assert torch.allclose(found[layout.starts_S[s] :][: len(alone)], alone, atol=atol)
    return found


def test_the_states_are_those_of_each_row_alone_with_its_own_languages(encoder):
    aligned = AlignedEncoder(encoder, turned("en", "de"))
    first, second = texts(), texts(1)
    pairs = encoder.pieces(first, "en", second, "de")
    alone = RowSource.join([encoder.pieces(first, "de"), encoder.pieces([WORDS * 3], "fr")])
    for rows in (pairs, alone):
        assert rows.lengths.max() == POSITIONS
        found = states_of_rows_alone(aligned, rows, 1e-5)
        assert len(found) < 1.1 * rows.lengths.sum()


@pytest.mark.parametrize(
    ("name", "packs"),
    [("bert", True), ("mt5", True), ("modernbert", False), ("xmod", False), ("xlm", False)],
)
def test_an_encoder_that_cannot_keep_sentences_apart_is_run_padded(name, packs, passes):
    encoder = encoder_of(name)
    rows = encoder.pieces([["w1", "w2"], ["w3"], ["w4", "w5", "w6"]], "en")
    states_of_rows_alone(AlignedEncoder(encoder), rows, 1e-4)
    assert bool(passes) is encoder.can_pack() is packs


def test_a_transform_inside_the_encoder_is_run_padded(encoder, passes):
    inside = Transform("de", 1, "inside", (Affine(shift=torch.ones(32)),))
    aligned, plain = AlignedEncoder(encoder, (inside,)), AlignedEncoder(encoder)
    rows = encoder.pieces(texts(), "de")
    assert not shares_rows(aligned, {"de"})
    with torch.no_grad():
        found, without = (v.packed_hidden(lay_out(v, rows.take())) for v in (aligned, plain))
        states_BTH = aligned.hidden(encoder.collate(rows))[-1]
    assert torch.equal(found, states_BTH.flatten(0, 1))
    assert not torch.allclose(found[0], without[0], atol=1e-2)
    assert len(passes) == 1
    with pytest.raises(RaxalignError, match="without inside transforms"):
        aligned.packed_hidden(lay_out(plain, rows.take()))


SETTINGS = TrainSettings(learning_rate=0.01, batch_size=3, steps=5)


def trained(make, aligned, runtime):
    objective = make(aligned)
    objective.model.dropout.p = 0.3
    fit(objective, objective.batches.count, SETTINGS, runtime)
    return torch.cat([p.detach().flatten() for p in objective.module.parameters()])


@pytest.mark.parametrize(
    ("make", "way"), [*product(TASKS, ["packed"]), *product(in_turn(TASKS, 1), ["padded"])]
)
def test_weights_are_bit_for_bit_those_of_a_plain_training(make, way, encoder):
    inside = Transform("en", 1, "inside", (Affine(shift=torch.ones(32)),))
    transforms = (inside, *turned("en", "de")) if way == "padded" else turned("en", "de")
    aligned = AlignedEncoder(encoder, transforms)
    plain, ahead = (
        trained(make, aligned, runtime)
        for runtime in (Runtime(), Runtime(prefetch=True, checkpointing="always"))
    )
    assert torch.equal(ahead, plain)
