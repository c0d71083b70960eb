"""Representation: anisotropy of known vectors, the probe on planted ones, projections by hand, and
all of it on static and tiny encoders.
"""

from collections import Counter

import numpy as np
import pytest
import torch

from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.transforms import Affine, Transform
from raxalign.tasks import representation
from raxalign.tasks.vectors.geometry import anisotropy, probe_accuracy, project
from tests.methods.toy import WORDS, toy_encoder, toy_rows, write_pairs
from tests.tasks.outcomes import evaluated, made, static, values


def normal(n, seed, d=6):
    return np.random.default_rng(seed).standard_normal((n, d))


def test_anisotropy_of_known_vectors():
    assert anisotropy(np.array([[1.0, 0.0], [0.0, 5.0]])) == pytest.approx(0, abs=1e-15)
    assert anisotropy(np.array([[1.0, 2.0], [2.0, 4.0], [0.5, 1.0]])) == pytest.approx(1)
    assert anisotropy(np.array([[1.0, 0.0], [-2.0, 0.0]])) == pytest.approx(-1)
    assert anisotropy(np.array([[1.0, 0.0], [0.0, 0.0]])) == 0
    assert anisotropy(np.ones((1, 3))) is None


def test_anisotropy_is_the_mean_over_all_pairs():
    vectors = normal(20, 0)
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    pairs = [units[i] @ units[j] for i in range(20) for j in range(20) if i != j]
    assert anisotropy(vectors) == pytest.approx(np.mean(pairs), abs=1e-12)


def test_the_probe_finds_planted_languages_and_none_where_there_are_none():
    rows = np.repeat(np.arange(60), 3)
    one, other = normal(180, 1), normal(180, 2)
    assert probe_accuracy(one, other + 9 * np.eye(6)[0], rows, rows) == 1
    assert abs(probe_accuracy(one, other, rows, rows) - 0.5) < 0.12
    assert probe_accuracy(one, other, rows, rows, 3) == probe_accuracy(one, other, rows, rows, 3)


def test_no_sentence_is_in_both_halves():
    """Each sentence has a coordinate of its own that tells the language: of use only for sentences
    that were trained on.
    """
    rows = np.repeat(np.arange(40), 10)
    marks = np.eye(40)[rows] * np.where(np.arange(40)[rows] % 2, 1, -1)[:, None]
    noise = normal(400, 5, 40) * 1e-3
    found = probe_accuracy(marks + noise, -marks + noise, rows, rows)
    assert found < 0.8
    assert probe_accuracy(marks[:10], marks[:10], rows[:10], rows[:10]) is None


def test_pca_lays_a_flat_cloud_down_as_it_is():
    flat = np.array([[4.0, 0.0], [-2.0, 1.0], [-2.0, -1.0]])
    wide = np.concatenate([flat, np.zeros((3, 3))], axis=1) + 7
    found = project(wide, "pca")  # as it is, or in a mirror
    assert any(np.allclose(found, flat * [1, sign], atol=1e-12) for sign in (1, -1))
    assert project(np.ones((2, 5)), "pca").tolist() == [[0, 0], [0, 0]]
    assert project(np.arange(4.0)[:, None], "pca").shape == (4, 2)


def test_tsne_is_seeded():
    cloud = normal(12, 0)
    assert np.array_equal(project(cloud, "tsne", 1), project(cloud, "tsne", 1))


SPACES = {
    "de": {word: [1.0, 0.2 * i] for i, word in enumerate(WORDS)},
    "en": {word: [-1.0, 0.2 * i] for i, word in enumerate(WORDS.values())},
}


def run(folder, aligned, languages=("de",), **params):
    if not (folder / "data").is_dir():
        write_pairs(folder / "data", toy_rows(40))
    task, folders = made("representation", **params), dict.fromkeys(languages, folder)
    given = {"bitext": folders} if task.needs().bitext else {"heldout": folders}
    return evaluated(task, aligned, languages, **given)


@pytest.mark.parametrize("unit", ["words", "sentences"])
def test_languages_that_a_transform_lays_on_each_other_cannot_be_told_apart(tmp_path, unit):
    over = Transform("de", 0, steps=(Affine(shift=torch.tensor([-2.0, 0.0])),))
    apart, together = (
        values(run(tmp_path, static(SPACES, moves), unit=unit)) for moves in ((), (over,))
    )
    assert apart["language_probe"] == apart["layer0_language_probe"] == 1
    assert abs(together["language_probe"] - 0.5) < 0.1
    assert together["anisotropy"] == pytest.approx(together["anisotropy_pivot"])
    assert apart["anisotropy"] == pytest.approx(apart["anisotropy_pivot"])


def test_points_are_linked_pairs_and_the_most_frequent_types(tmp_path, monkeypatch):
    monkeypatch.setattr(representation, "_TYPES", 4)
    outcome = run(tmp_path, static(SPACES), occurrences=10, max_sentences=30)
    points = outcome.predictions.to_pylist()
    parts = {}
    for kind, n in (("occurrence", 10), ("type", 4)):
        part = parts[kind] = [row for row in points if row["kind"] == kind]
        assert len(part) == 2 * n
        halves = part[:n], part[n:]
        assert [row["side"] for row in part] == ["src"] * n + ["tgt"] * n
        assert [WORDS[row["word"]] for row in halves[0]] == [row["word"] for row in halves[1]]
    assert all(abs(a["x"] - b["x"]) > 1.9 for a, b in zip(*halves, strict=True)), "of types"
    rows = toy_rows(40)
    sentences = list(zip(rows["src"], rows["src_links"], strict=True))[:30]
    counts = Counter(words[place] for words, links in sentences for place in links)
    best = sorted(counts, key=lambda word: (-counts[word], word))[:4]
    assert [row["word"] for row in parts["type"] if row["side"] == "src"] == best
    first = parts["occurrence"][0]
    assert rows["src"][first["id"]][first["position"]] == first["word"]


def test_every_layer_of_a_transformer_and_the_mean_over_languages(tmp_path):
    encoder = toy_encoder(tmp_path / "encoder", layers=2)
    outcome = run(tmp_path, AlignedEncoder(encoder), ("de", "fr"), projection="none")
    found = values(outcome)
    probes = {"language_probe", *(f"layer{n}_language_probe" for n in range(3))}
    assert {name for name in found if name.endswith("language_probe")} == probes
    assert found["language_probe"] == found["layer2_language_probe"]
    assert values(outcome, "avg")["layer1_anisotropy"] == pytest.approx(found["layer1_anisotropy"])
    assert outcome.predictions.num_rows == 0
    assert outcome.notes["de-en"]["sentences"] == 40
    first = values(run(tmp_path, AlignedEncoder(encoder), layers="1"))
    assert first.keys() >= {"layer1_anisotropy", "anisotropy"}


def overlap(one, other):
    """By sets of types."""
    return len({*one} & {*other}) / len({*one} | {*other})


@pytest.mark.parametrize("pooling", ["words", "mean"])
def test_shared_subwords_are_those_of_both_texts_among_those_of_either(tmp_path, pooling):
    encoder = toy_encoder(tmp_path / "encoder", layers=1)
    how = {"unit": "sentences", "sentence_pooling": pooling, "projection": "none"}
    measures = ["shared_subwords", "mexa"]
    outcome = run(tmp_path, AlignedEncoder(encoder), measures=measures, max_sentences=10, **how)
    rows, found = toy_rows(40), values(outcome)
    one, other = (
        [
            piece
            for words in rows[side][:10]
            for piece in encoder.tokenizer.tokenize(list(words), is_split_into_words=True)
        ]
        for side in ("src", "tgt")
    )
    assert found["shared_subwords"] == pytest.approx(overlap(one, other))
    assert 0 < found["shared_subwords"] < 1
    assert "layer0_shared_subwords" not in found


def test_of_static_vectors_shared_subwords_are_shared_words(tmp_path):
    rows = {**toy_rows(2), "src": [["a", "b", "b"], ["c"]], "tgt": [["b", "d"], ["c", "e"]]}
    rows |= {"src_links": [[0], [0]], "tgt_links": [[0], [0]]}
    write_pairs(tmp_path / "data", rows)
    letters = {letter: [1.0, i] for i, letter in enumerate("abcde")}
    space = static({"de": letters, "en": letters})
    found = values(run(tmp_path, space, measures=["shared_subwords"], projection="none"))
    assert found == {"shared_subwords": 2 / 5}
