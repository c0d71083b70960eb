"""Retrieval of sentences among those of all languages, against plain NumPy and by hand."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from raxalign.caveats import Caveats
from raxalign.encoders.models.transforms import Affine, Transform
from raxalign.similarity.measures import MEASURES
from raxalign.tasks.sentence_retrieval import SentenceRetrieval
from raxalign.values.predictions import samples_of
from tests.tasks.outcomes import evaluated, made, static, values, write_heldout

LANGUAGES = ("de", "fr")
COUNT, SIZE = 30, 6
MIXED = {"pool": "mixed"}


def run(folder, spaces, transforms=(), **params):
    """Sentence i of a language has one word, `lang` + i, and translates sentence i of the pivot."""
    words = {lang: {f"{lang}{i}": x for i, x in enumerate(table)} for lang, table in spaces.items()}
    for lang in LANGUAGES:
        src, tgt = ([[word] for word in words[code]] for code in (lang, "en"))
        write_heldout(folder / lang, id=list(range(len(src))), src=src, tgt=tgt)
    task = made("sentence_retrieval", **{**MIXED, **params})
    bitext = {lang: folder / lang for lang in LANGUAGES}
    return evaluated(task, static(words, transforms), LANGUAGES, bitext=bitext)


def planted(seed, apart):
    """What sentences mean, and by how much each language lies apart from the others."""
    rng = np.random.default_rng(seed)
    meaning = rng.standard_normal((COUNT, SIZE))
    return {
        lang: (
            meaning + apart * rng.standard_normal(SIZE) + 0.4 * rng.standard_normal(meaning.shape)
        ).astype(np.float32)
        for lang in (*LANGUAGES, "en")
    }


def by_numpy(spaces, lang, measure, k):
    """The values of one language's queries, all similarities at once."""
    pool = np.concatenate(list(spaces.values())).astype(np.float64)
    spoken, meaning = np.repeat(np.arange(3), COUNT), np.tile(np.arange(COUNT), 3)
    if measure != "dot":
        pool /= np.linalg.norm(pool, axis=1, keepdims=True)
    alike = pool @ pool.T
    np.fill_diagonal(alike, -np.inf)
    scores = alike
    if measure == "csls":
        scores = 2 * alike - np.sort(alike, axis=1)[:, -k:].mean(1)
    elif measure == "margin":
        around = np.sort(alike, axis=1)[:, -k:].mean(1)
        scores = alike / ((around + around[:, None]) / 2)
    elif measure == "inverted_softmax":
        scores = alike - 0.05 * np.log(np.exp(alike / 0.05).sum(1))
    elif measure == "sinkhorn":
        kernel, v = np.exp(alike / 0.05), np.ones(len(pool))
        for _ in range(10):
            v = 1 / (kernel.T @ (1 / (kernel @ v)))
        scores = alike + 0.05 * np.log(v)
    number = list(spaces).index(lang)
    scores = scores[spoken == number]
    order = np.argsort(-scores, axis=1)
    nearest, places = order[:, :10], np.argsort(order, axis=1)
    ranks = [1 + places[i, (meaning == i) & (scores[i] > -np.inf)].max() for i in range(COUNT)]
    own, right = spoken[nearest] == number, meaning[nearest[:, 0]] == np.arange(COUNT)
    return {
        "accuracy": right.mean(),
        "max_rank": np.mean(ranks),
        "own_language": own.mean(),
        "pivot_language": (spoken[nearest] == 2).mean(),
    }


@pytest.mark.parametrize(
    "measure", ["cosine", "csls", "dot", "margin", "inverted_softmax", "sinkhorn"]
)
@pytest.mark.parametrize("apart", [0.0, 1.0, 8.0])
def test_a_mixed_pool_is_that_of_plain_numpy(tmp_path, measure, apart):
    spaces = planted(7, apart)
    outcome = run(tmp_path, spaces, measure=measure, k=5)
    from_pivot = by_numpy(spaces, "en", measure, 5)
    for lang in LANGUAGES:
        found, to_pivot = values(outcome, f"{lang}-en"), by_numpy(spaces, lang, measure, 5)
        assert found["accuracy_to_pivot"] == pytest.approx(to_pivot["accuracy"])
        assert found["accuracy_from_pivot"] == pytest.approx(from_pivot["accuracy"])
        for name in ("own_language", "max_rank"):
            assert found[name] == pytest.approx((to_pivot[name] + from_pivot[name]) / 2)
        assert found["pivot_language"] == pytest.approx(to_pivot["pivot_language"])
        assert outcome.notes[f"{lang}-en"]["test"]["pool"] == {"de": 30, "fr": 30, "en": 30}


def test_languages_that_lie_apart_find_nothing_but_themselves(tmp_path):
    spaces = planted(1, 0.0)
    for number, table in enumerate(spaces.values()):
        table[:, 0] = 1000 * number  # one coordinate says which language it is, the others what
    mixed = values(run(tmp_path / "mixed", spaces, measure="euclidean"), "avg")
    assert mixed.pop("max_rank") > COUNT, "all sentences of its own language come first"
    assert mixed == {"accuracy": 0.0, "own_language": 1.0, "pivot_language": 0.0}
    alone = values(run(tmp_path / "two", spaces, measure="euclidean", pool="bilingual"), "avg")
    assert alone["accuracy"] > 0.5, "in a pool of two languages the same vectors are good"


def test_a_translation_into_any_language_is_right_and_a_sentence_is_not_its_own(tmp_path):
    spaces = {**dict.fromkeys(LANGUAGES, np.eye(2, SIZE)), "en": np.eye(2, SIZE) - 1}
    outcome = run(tmp_path, spaces)
    rows = outcome.predictions.filter(outcome.predictions["lang"].to_numpy() == "de-en").to_pylist()
    rows = [row for row in rows if row["direction"] == "to_pivot"]
    assert [row["found_lang"] for row in rows] == ["fr", "fr"]
    assert [row["correct"] for row in rows] == [True, True]
    assert [row["found_id"] for row in rows] == [0, 1]


def test_equal_sentences_are_one_candidate_and_answer_for_all_their_translations(tmp_path):
    words = dict(zip("abc", np.eye(3, SIZE), strict=True))
    spaces = dict.fromkeys((*LANGUAGES, "en"), words)
    write_heldout(tmp_path / "de", id=[5, 6], src=[["a"], ["a"]], tgt=[["b"], ["a"]])
    task = made("sentence_retrieval", **MIXED)
    outcome = evaluated(task, static(spaces), ("de",), bitext={"de": tmp_path / "de"})
    assert outcome.notes["de-en"]["test"] == {"sentences": 2, "pool": {"de": 1, "en": 2}}
    assert outcome.predictions["correct"].to_pylist()[:2] == [True, True]


def test_sentences_of_a_pool_without_a_vector_are_counted(tmp_path):
    words = dict(zip("abc", np.eye(3, SIZE), strict=True))
    spaces = dict.fromkeys((*LANGUAGES, "en"), words)
    write_heldout(tmp_path / "de", id=[5, 6], src=[["?"], ["a"]], tgt=[["b"], ["a"]])
    task = made("sentence_retrieval", **MIXED)
    outcome = evaluated(task, static(spaces), ("de",), bitext={"de": tmp_path / "de"})
    counted = Caveats.counted("", outcome.notes)
    assert counted == {"sentences without a vector, which find nothing": "1 of 2 in de-en test"}


def test_the_pivot_is_moved_for_the_language_that_is_asked_about(tmp_path):
    spaces = planted(3, 0.0)
    swap = Affine(weight=torch.eye(SIZE).flip(0))
    moved = run(tmp_path / "one", spaces, (Transform("en", 0, steps=(swap,), toward="fr"),))
    plain = run(tmp_path / "two", spaces)
    assert values(moved, "de-en") == values(plain, "de-en")
    assert values(moved, "fr-en")["pivot_language"] < values(plain, "fr-en")["pivot_language"]


@given(st.sampled_from([*MEASURES]), st.integers(1, 40))
def test_every_measure_finds_ten_others(measure, k):
    from raxalign.tasks.vectors.pairs import SentencePairs
    from raxalign.tasks.vectors.pools import LanguageSentences, Nearness, Pool

    side = [[f"w{i}"] for i in range(6)]
    pairs = SentencePairs(np.arange(6), side, side)
    vectors = torch.randn(12, 4, generator=torch.Generator().manual_seed(k))
    own = LanguageSentences.of([(side, pairs)])
    every, near = {"de": own, "en": own}, Nearness(measure, k)
    pool = Pool(every, vectors, np.ones(12, dtype=bool), "en", near)
    nearest, last = pool._ranked(np.arange(12), "de")
    assert nearest.shape == (12, 10)
    assert all(i not in row and len(set(row)) == 10 for i, row in enumerate(nearest.tolist()))
    assert ((last >= 1) & (last <= 11)).all()


def test_its_shares_are_samples_and_the_old_pool_has_the_old_key(tmp_path):
    outcome = run(tmp_path, planted(5, 1.0))
    for metric in ("accuracy", "max_rank", "own_language", "pivot_language"):
        name = ("de-en", metric, "test")
        sample = samples_of(SentenceRetrieval.metrics, outcome.predictions, [name])[name]
        assert sample.value == pytest.approx(values(outcome, "de-en")[metric])
    assert "pool" not in made("sentence_retrieval", pool="bilingual").canonical()
    assert made("sentence_retrieval", **MIXED).canonical()["pool"] == "mixed"
