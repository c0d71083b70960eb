"""The layer profile: measures of pairs against plain NumPy, one pass for all layers, and what a
method's motion leaves as it is.
"""

from functools import partial

import numpy as np
import pytest
import torch

from raxalign.catalog import catalog
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.transforms import Affine, Transform
from raxalign.errors import RaxalignError
from raxalign.measured import Measured
from raxalign.tasks import representation
from raxalign.tasks.representation import Representation
from raxalign.tasks.vectors.geometry import PairMeasures, skewness
from raxalign.values.predictions import samples_of
from tests.methods.toy import toy_encoder
from tests.tasks.outcomes import made, static, values
from tests.tasks.test_representation import SPACES
from tests.tasks.test_representation import run as measured

EVERY = ["cka", "cka_unbiased", "hubness", "margin", "mexa", "retrieval", "language_probe"]


def near(n=100, d=16, seed=0, noise=0.8):
    """Vectors of pairs that are found more or less often."""
    draw = np.random.default_rng(seed)
    x = draw.standard_normal((n, d))
    return x, x + noise * draw.standard_normal((n, d))


def cosines(x, y):
    return np.array([[a @ b / np.linalg.norm(a) / np.linalg.norm(b) for b in x] for a in y])


def test_mexa_is_that_of_its_authors_on_100_pairs():
    """Rows are the pivot's sentences; the diagonal has to exceed all else in its row and column."""
    x, y = near()
    x[7] = x[8]  # a sentence that occurs twice is larger than nothing
    s = cosines(x, y)
    expected = [
        all(s[i, i] > max(s[i, j], s[j, i]) for j in range(100) if j != i) for i in range(100)
    ]
    found = PairMeasures.of(x, y, 10).mexa()
    assert found.tolist() == np.array(expected, float).tolist()
    assert 0.3 < found.mean() < 0.95
    assert not found[7:9].any()


def test_retrieval_margin_and_hubness_are_those_of_plain_numpy():
    x, y = near(seed=1)
    s, k = cosines(x, y), 4
    found = PairMeasures.of(x, y, k)
    own = np.arange(100)
    right = (s.argmax(0) == own), (s.argmax(1) == own)
    assert np.array_equal(found.retrieval(), np.mean(right, axis=0))
    nearest = np.sort(s, 0)[-k:].mean(0), np.sort(s, 1)[:, -k:].mean(1)
    assert np.allclose(found.margin(), s.diagonal() - np.mean(nearest, axis=0), atol=1e-12)
    counts = [np.zeros(100), np.zeros(100)]
    for i in range(100):
        counts[0][np.argsort(s[:, i])[-k:]] += 1
        counts[1][np.argsort(s[i])[-k:]] += 1
    third = [np.mean((c - k) ** 3) / np.std(c) ** 3 for c in counts]
    assert found.hubness() == pytest.approx(np.mean(third), abs=1e-9)
    assert PairMeasures.of(x[:5], y[:5], 10).hubness() is None
    assert skewness(np.ones(3)) == 0


def test_a_large_pool_is_searched_in_blocks():
    x, y = near(1100, 8, noise=0.3)
    found = PairMeasures.of(x, y, 3)
    unit = [side / np.linalg.norm(side, axis=1, keepdims=True) for side in (x, y)]
    s = unit[1] @ unit[0].T
    right = (s.argmax(0) == np.arange(1100)), (s.argmax(1) == np.arange(1100))
    assert np.array_equal(found.mexa() == 1, right[0] & right[1])


def test_cka_is_that_of_centred_grams_and_has_an_unbiased_form():
    x, y = near(30, 5)
    center = np.eye(30) - 1 / 30
    one, two = center @ x @ x.T @ center, center @ y @ y.T @ center
    expected = np.sum(one * two) / np.linalg.norm(one) / np.linalg.norm(two)
    assert PairMeasures.linear_cka(x, y) == pytest.approx(expected, abs=1e-12)

    def hsic(a, b):  # Song et al. 2012, with 1^T K 1 and products as they are printed
        a, b = (m - np.diag(m.diagonal()) for m in (a, b))
        n, one = len(a), np.ones(len(a))
        second = (one @ a @ one) * (one @ b @ one) / (n - 1) / (n - 2)
        return (np.trace(a @ b) + second - 2 / (n - 2) * one @ a @ b @ one) / n / (n - 3)

    one, two = x @ x.T, y @ y.T
    expected = hsic(one, two) / np.sqrt(hsic(one, one) * hsic(two, two))
    assert PairMeasures.unbiased_cka(x, y) == pytest.approx(expected, abs=1e-10)
    apart = np.random.default_rng(3).standard_normal((2, 30, 300))
    assert PairMeasures.linear_cka(*apart) > 0.8  # the bias of 30 vectors of 300 coordinates
    assert abs(PairMeasures.unbiased_cka(*apart)) < 0.1
    assert PairMeasures.linear_cka(np.ones((9, 2)), x[:9]) is None
    assert PairMeasures.unbiased_cka(x[:3], y[:3]) is None


def test_cka_is_the_same_after_a_rotation_and_a_shift():
    x, y = near(100, 64)
    turn, _ = np.linalg.qr(np.random.default_rng(5).standard_normal((64, 64)))
    for cka in (PairMeasures.linear_cka, PairMeasures.unbiased_cka):
        assert abs(cka(x @ turn + 3, y) - cka(x, y)) < 1e-6


run = partial(measured, projection="none")


def sample_of(table, metric):
    name = (table["lang"][0].as_py(), metric, "test")
    return samples_of(Representation.metrics, table, [name])[name]


@pytest.fixture(scope="module")
def aligned(tmp_path_factory):
    return AlignedEncoder(toy_encoder(tmp_path_factory.mktemp("encoder"), layers=2))


@pytest.mark.parametrize(
    "reading",
    [{}, {"unit": "sentences"}, {"unit": "sentences", "sentence_pooling": "weighted"}],
    ids=["words", "sentences", "pieces"],
)
def test_every_value_of_a_pair_measure_is_the_mean_of_its_predictions(tmp_path, aligned, reading):
    outcome = run(tmp_path, aligned, measures=EVERY, **reading)
    found, table = values(outcome), outcome.predictions
    for layer in range(3):
        for name in EVERY:
            assert f"layer{layer}_{name}" in found
            sample = sample_of(table, f"layer{layer}_{name}")
            assert (sample is not None) == (name in ("mexa", "retrieval", "margin"))
            if sample is not None:
                assert sample.value == pytest.approx(found[f"layer{layer}_{name}"], abs=1e-12)
    assert found["mexa"] == found["layer2_mexa"]
    assert sample_of(table, "mexa").value == pytest.approx(found["mexa"], abs=1e-12)
    for name, value in found.items():
        assert not Measured.find(Representation.metrics, name).fault(value)


def test_sentences_are_read_as_sentence_retrieval_reads_them(tmp_path, aligned):
    """All layers of one pass are those of a pass for each."""
    reading = {"unit": "sentences", "sentence_pooling": "last", "measures": "margin"}
    every = values(run(tmp_path, aligned, **reading))
    for layer in range(3):
        alone = values(run(tmp_path, aligned, layers=str(layer), **reading))
        assert alone["margin"] == pytest.approx(every[f"layer{layer}_margin"], abs=1e-9)


def test_points_and_pairs_share_the_predictions(tmp_path, monkeypatch):
    monkeypatch.setattr(representation, "_MOST_PAIRS", 30)
    measures = ["mexa", "language_probe"]
    outcome = run(tmp_path, static(SPACES), projection="pca", measures=measures)
    kinds = outcome.predictions["kind"].to_pylist()
    assert {kind: kinds.count(kind) for kind in set(kinds)}.keys() == {"occurrence", "type", "pair"}
    assert kinds.count("pair") == 30
    assert outcome.predictions["mexa"].null_count == len(kinds) - 30


def test_defaults_are_those_of_before():
    plain = made("representation")
    assert "measures" not in plain.canonical()
    assert not plain.more_columns()
    twice = made("representation", measures=["anisotropy", "language_probe"])
    assert twice.canonical() == plain.canonical()
    reading = {"unit": "sentences", "sentence_pooling": "last", "projection": "none"}
    whole = made("representation", **reading, measures=["mexa"])
    assert whole.needs().bitext
    assert "pooling" not in whole.canonical()


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"measures": ["mexa", "ckaa"]}, "'ckaa' is not a measure; there are language_probe"),
        ({"measures": []}, "names no measure; there are"),
        ({"sentence_pooling": "last"}, "`sentence_pooling: last` is for `unit: sentences`"),
        ({"sentence_pooling": "last", "unit": "sentences"}, "write `projection: none`"),
    ],
)
def test_what_cannot_be_measured_is_refused(params, message):
    with pytest.raises(ValueError, match=message):
        Representation.Params.model_validate(params)


def test_static_vectors_have_no_pieces(tmp_path):
    with pytest.raises(RaxalignError, match="static vectors have `words`"):
        run(tmp_path, static(SPACES), unit="sentences", sentence_pooling="last", measures="mexa")


@pytest.mark.parametrize(
    ("kind", "params", "motion"),
    [
        ("rotation", {}, "rotation"),
        ("rotation", {"center": True}, "rigid"),
        ("sentence_rotation", {"center": True}, "rigid"),
        ("sentence_shift", {}, "rigid"),
        ("centering", {}, "rigid"),
        ("linear", {}, "any"),
        ("finetune", {}, "any"),
    ],
)
def test_methods_say_how_they_move_a_language(kind, params, motion):
    plugin = catalog("methods")[kind]
    assert plugin(plugin.Params.model_validate(params)).effect().motion == motion
    stay = {"any": (), "rigid": ("cka",), "rotation": ("cka", "anisotropy")}[motion]
    for name in ("cka", "anisotropy", "mexa"):
        assert Measured.find(Representation.metrics, f"layer3_{name}").stays(motion) == (
            name in stay
        ), name


def test_rounding_apart_a_rotation_leaves_what_is_declared(tmp_path, aligned):
    turn, _ = torch.linalg.qr(torch.randn(aligned.hidden_size, aligned.hidden_size))
    turned = Transform("de", 2, steps=(Affine(weight=turn),))
    measures = [*EVERY, "anisotropy"]
    before = values(run(tmp_path, aligned, measures=measures))
    after = values(run(tmp_path, AlignedEncoder(aligned.encoder, (turned,)), measures=measures))
    by_rank = ("probe", "mexa", "retrieval", "hubness")  # which may stay by chance
    for name in before:
        below = name.startswith(("layer0", "layer1"))
        stays = Measured.find(Representation.metrics, name).stays("rotation") or below
        assert (abs(before[name] - after[name]) < 1e-5) == stays or name.endswith(by_rank)
