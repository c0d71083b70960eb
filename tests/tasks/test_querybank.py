"""Querybank normalisation: by hand, in pools of two languages and in mixed ones, and its bank."""

import numpy as np
import pytest
import torch

from raxalign.errors import RaxalignError
from raxalign.similarity.neighbors import nearest_neighbors
from raxalign.tasks.vectors.pools import Nearness
from tests.tasks.outcomes import evaluated, made, static, values, write_dataset

COUNT, SIZE = 24, 6
PRINTED = {"measure": "qb_norm", "beta": 20, "k": 10, "alpha": 0.5}


def by_numpy(queries, candidates, bank, *, among=False, **options):
    """The nearest candidate of each query, as the papers have it; query i is candidate i where they
    are `among` them.
    """
    sides = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in (queries, candidates, bank)]
    queries, candidates, bank = (side.astype(np.float64) for side in sides)
    alike, known = queries @ candidates.T, bank @ candidates.T
    if among:
        np.fill_diagonal(alike, -np.inf)
    measure, beta, k, alpha = (PRINTED | options).values()
    if measure == "nnn":
        return (alike - alpha * np.sort(known, axis=0)[-k:].mean(0)).argmax(1)
    normalised = np.exp(beta * alike) / np.exp(beta * known).sum(0)
    activated = np.isin(alike.argmax(1), known.argmax(1))
    return np.where(activated, normalised.argmax(1), alike.argmax(1))


def test_the_nearest_by_a_bank_of_queries_are_those_of_the_printed_formulas():
    rng = np.random.default_rng(4)
    hub = 3 * rng.standard_normal(SIZE)
    queries, candidates, bank = (
        (rng.standard_normal((n, SIZE)) + hub).astype(np.float32) for n in (40, 30, 20)
    )
    sides, printed = [torch.from_numpy(side) for side in (queries, candidates, bank)], []
    for more in ({}, {"measure": "nnn", "k": 3}):
        measure, _, k, _ = (PRINTED | more).values()
        found = Nearness(measure, k).nearest(*sides)
        printed.append(by_numpy(queries, candidates, bank, **more).tolist())
        assert found.tolist() == printed[-1]
    plain = (sides[0] @ sides[1].T).argmax(1)
    assert plain.tolist() not in printed
    assert len({tuple(found) for found in printed}) == 2


def test_nnn_with_a_half_and_the_queries_as_the_bank_is_csls():
    rng = np.random.default_rng(5)
    queries, candidates = (torch.from_numpy(rng.standard_normal((n, SIZE))) for n in (40, 30))
    found = Nearness("nnn", 4).nearest(queries, candidates, queries)
    assert torch.equal(found, nearest_neighbors(queries, candidates, measure="csls", k=4)[0])


def run(folder, dev=COUNT, **params):
    """Sentence i of a language translates sentence i of the pivot; the first half is dev."""
    rng = np.random.default_rng(2)
    meaning = rng.standard_normal((2 * COUNT, SIZE)) + 2
    spaces = {
        lang: (meaning + 0.6 * rng.standard_normal(meaning.shape)).astype(np.float32)
        for lang in ("de", "en")
    }
    words = {lang: {f"{lang}{i}": x for i, x in enumerate(table)} for lang, table in spaces.items()}
    for split, ids in (("dev", range(dev)), ("data", range(COUNT, 2 * COUNT))):
        src, tgt = ([[f"{lang}{i}"] for i in ids] for lang in ("de", "en"))
        write_dataset(folder / split, id=list(ids), src=src, tgt=tgt)
    task = made("sentence_retrieval", **params)
    return spaces, evaluated(task, static(words), bitext={"de": folder})


@pytest.mark.parametrize("measure", ["qb_norm", "nnn"])
def test_the_development_side_is_the_bank_and_the_test_side_is_scored(tmp_path, measure):
    spaces, outcome = run(tmp_path, measure=measure)
    halves = {lang: (table[:COUNT], table[COUNT:]) for lang, table in spaces.items()}
    (bank, queries), (other_bank, candidates) = halves["de"], halves["en"]
    found = values(outcome, "de-en")
    ahead = by_numpy(queries, candidates, bank, measure=measure) == np.arange(COUNT)
    back = by_numpy(candidates, queries, other_bank, measure=measure) == np.arange(COUNT)
    assert found["accuracy_to_pivot"] == pytest.approx(ahead.mean())
    assert found["accuracy_from_pivot"] == pytest.approx(back.mean())
    assert {score.split for score in outcome.scores} == {"test"}


@pytest.mark.parametrize("measure", ["qb_norm", "nnn"])
def test_in_a_mixed_pool_the_bank_has_the_querys_language(tmp_path, measure):
    spaces, outcome = run(tmp_path, measure=measure, pool="mixed")
    pool = np.concatenate([spaces["de"][COUNT:], spaces["en"][COUNT:]])
    found = by_numpy(pool[:COUNT], pool, spaces["de"][:COUNT], among=True, measure=measure)
    right = (found == np.arange(COUNT) + COUNT).mean()
    assert values(outcome, "de-en")["accuracy_to_pivot"] == pytest.approx(right)
    assert 0 < right < 1


@pytest.mark.parametrize("pool", ["bilingual", "mixed"])
def test_without_a_development_side_there_is_no_bank(tmp_path, pool):
    with pytest.raises(RaxalignError, match="de has none: give `data"):
        run(tmp_path, dev=0, measure="qb_norm", pool=pool)
    alone = made("sentence_retrieval", measure="qb_norm", data={"test": "some/{side}.txt"})
    assert alone.check(("de",), "en") == [
        "measure: qb_norm takes the development part as its bank of queries: give dev and test"
    ]
