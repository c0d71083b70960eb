"""XNLI on static vectors: what the classifier over frozen word vectors learns and transfers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from raxalign.caveats import collecting
from raxalign.encoders.models.aligned import Affine, AlignedEncoder, Transform
from raxalign.encoders.models.static import Lookup, StaticEncoder, VectorSpace
from raxalign.errors import RaxalignError
from raxalign.tasks.classification.model import WordClassifier
from raxalign.tasks.transfer.trained import Trained
from tests.tasks.outcomes import scores, trained
from tests.tasks.word_nli import ANSWERS, WORDS, task, write_all

WIDTH = 24
FAST = {"epochs": 6, "static_head": {"hidden": 16, "learning_rate": 1e-2}}


@pytest.fixture
def files(tmp_path):
    return write_all(tmp_path / "files")


def space(words, seed, same=None):
    """Random vectors; words of `same` have those of the words that they name."""
    rng = np.random.default_rng(seed)
    vectors = {word: rng.normal(size=WIDTH).astype(np.float32) for word in words}
    for word, other in (same or {}).items():
        vectors[word] = vectors[other]
    return VectorSpace(list(vectors), np.stack(list(vectors.values())))


JOINT = space(WORDS, 0, dict(zip(ANSWERS["de"], ANSWERS["en"], strict=True)))


def encoder(spaces, languages=None):
    return StaticEncoder(spaces, WIDTH, Lookup("keep", "none"), languages=languages)


def run(tmp_path, aligned, given, *, name="tuned", start=None, **params):
    xnli = task(given, **{**FAST, **params})
    return trained(xnli, aligned, tmp_path / name, start=start)[0]


def values(outcome):
    return scores(outcome, "accuracy")


def test_what_is_learnt_in_the_pivot_transfers_through_a_joint_space_alone(tmp_path, files):
    joint = AlignedEncoder(encoder({"joint": JOINT}, ("de", "en")))
    separate = AlignedEncoder(encoder({"en": JOINT, "de": space(WORDS, 1)}))
    found = values(run(tmp_path, joint, files, name="joint"))
    assert found["en", "test"] > 0.9
    assert found["de", "test"] > 0.9
    apart = values(run(tmp_path, separate, files, name="separate"))
    assert apart["en", "test"] == found["en", "test"]
    assert apart["de", "test"] < 0.6


def test_transforms_apply_to_the_words_of_their_language(tmp_path, files):
    """German vectors are turned; the readout turns them back."""
    turn = np.linalg.qr(np.random.default_rng(2).normal(size=(WIDTH, WIDTH)))[0].astype(np.float32)
    turned = encoder({"en": JOINT, "de": VectorSpace(JOINT.words, JOINT.vectors_VH @ turn)})
    back = Transform("de", 0, steps=(Affine(weight=torch.from_numpy(turn.T.copy())),))
    plain = AlignedEncoder(turned)
    before = values(run(tmp_path, plain, files, name="plain"))
    after = values(
        run(tmp_path, AlignedEncoder(turned, (back,)), files, start=plain, name="rotated")
    )
    assert after["en", "test"] == before["en", "test"]
    assert after["de", "test"] > 0.9 > 0.6 > before["de", "test"]


def test_the_vectors_are_not_trained_and_every_epoch_can_be_chosen(tmp_path, files):
    static = encoder({"joint": JOINT}, ("de", "en"))
    before = JOINT.vectors_VH.copy()
    options = {"selection": "mean-dev", "epochs": 3}
    outcome = run(tmp_path, AlignedEncoder(static), files, **options)
    again = run(tmp_path, AlignedEncoder(static), files, name="again", **options)
    assert outcome.predictions.equals(again.predictions)
    assert np.array_equal(before, JOINT.vectors_VH)
    (model,) = Trained.read(tmp_path / "tuned").models
    assert set(model.files) == {1, 2, 3}
    assert len(outcome.notes["models"]["all"]["dev_by_epoch"]["de"]) == 3


def test_texts_are_divided_as_corpora_are_and_unknown_words_are_reported():
    static = encoder({"en": VectorSpace(["dog", "."], np.eye(2, WIDTH, dtype=np.float32))})
    model = WordClassifier(AlignedEncoder(static), (2, 8, 3), dropout=0.1, seed=0).eval()
    rows = model.rows([[["a", "dog."]], [["cat"]]], ["en", "en"])
    assert rows[0] == (("en", ["a", "dog", "."]), ("en", ["cat"]))
    with collecting() as found:
        (first, second) = model.text_vectors(rows)[0]
    assert first[:2].tolist() == pytest.approx([(WIDTH / 2) ** 0.5] * 2)
    assert not second.any()
    assert found.notes() == {"unknown": {"en": 0.5}}
    assert torch.isfinite(model(rows)).all()


def test_weights_of_another_kind_of_encoder_are_refused(tmp_path):
    static = AlignedEncoder(encoder({"en": JOINT}))
    WordClassifier(static, (1, 8, 3), dropout=0.1, seed=0).save(tmp_path / "w.safetensors")
    other = WordClassifier(static, (1, 8, 3), dropout=0.1, seed=0)
    other.register_parameter("more", torch.nn.Parameter(torch.zeros(1)))
    with pytest.raises(RaxalignError, match=r"was trained on another encoder.*\['more'\] differ"):
        other.load(tmp_path / "w.safetensors")
