"""Querybank normalisation: by hand, in pools of two languages and in mixed ones, and its bank."""

import numpy as np
import pytest
import torch

from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.static import Lookup, StaticEncoder, VectorSpace
from raxalign.errors import RaxalignError
from raxalign.tasks.sentence_retrieval import SentenceRetrieval
from raxalign.tasks.vectors.querybank import querybank_nearest
from tests.tasks.outcomes import evaluated, values, write_dataset

COUNT, SIZE = 24, 6


def by_numpy(queries, candidates, bank, *, among=False):
    """The nearest candidate of each query, as the paper has it, β = 20; query i is candidate i
    where they are `among` them.
    """
    sides = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in (queries, candidates, bank)]
    queries, candidates, bank = (side.astype(np.float64) for side in sides)
    alike, known = queries @ candidates.T, bank @ candidates.T
    if among:
        np.fill_diagonal(alike, -np.inf)
    normalised = np.exp(20 * alike) / np.exp(20 * known).sum(0)
    activated = np.isin(alike.argmax(1), known.argmax(1))
    return np.where(activated, normalised.argmax(1), alike.argmax(1))


def test_the_nearest_by_a_bank_of_queries_are_those_of_the_printed_formulas():
    rng = np.random.default_rng(4)
    hub = 3 * rng.standard_normal(SIZE)
    queries, candidates, bank = (
        (rng.standard_normal((n, SIZE)) + hub).astype(np.float32) for n in (40, 30, 20)
    )
    found = querybank_nearest(*map(torch.from_numpy, (queries, candidates, bank)))
    assert found.tolist() == by_numpy(queries, candidates, bank).tolist()
    plain = (torch.from_numpy(queries) @ torch.from_numpy(candidates).T).argmax(1)
    assert found.tolist() != plain.tolist()


def run(folder, splits=("dev", "data"), **params):
    """Sentence i of a language translates sentence i of the pivot; the first half is dev."""
    rng = np.random.default_rng(2)
    meaning = rng.standard_normal((2 * COUNT, SIZE)) + 2
    spaces = {
        lang: (meaning + 0.6 * rng.standard_normal(meaning.shape)).astype(np.float32)
        for lang in ("de", "en")
    }
    tables = {
        lang: VectorSpace([f"{lang}{i}" for i in range(2 * COUNT)], table)
        for lang, table in spaces.items()
    }
    for split, ids in zip(splits, (range(COUNT), range(COUNT, 2 * COUNT)), strict=False):
        rows = {
            side: [[f"{lang}{i}"] for i in ids] for side, lang in (("src", "de"), ("tgt", "en"))
        }
        write_dataset(folder / split, id=list(ids), **rows)
    made = SentenceRetrieval(SentenceRetrieval.Params.model_validate(params))
    encoder = StaticEncoder(tables, SIZE, Lookup("keep", "none"))
    outcome = evaluated(made, AlignedEncoder(encoder, ()), bitext={"de": folder})
    return spaces, outcome


def test_the_development_side_is_the_bank_and_the_test_side_is_scored(tmp_path):
    spaces, outcome = run(tmp_path, measure="qb_norm")
    halves = {lang: (table[:COUNT], table[COUNT:]) for lang, table in spaces.items()}
    (bank, queries), (other_bank, candidates) = halves["de"], halves["en"]
    found = values(outcome, "de-en")
    ahead = by_numpy(queries, candidates, bank) == np.arange(COUNT)
    back = by_numpy(candidates, queries, other_bank) == np.arange(COUNT)
    assert found["accuracy_to_pivot"] == pytest.approx(ahead.mean())
    assert found["accuracy_from_pivot"] == pytest.approx(back.mean())
    assert {score.split for score in outcome.scores} == {"test"}


def test_in_a_mixed_pool_the_bank_has_the_querys_language(tmp_path):
    spaces, outcome = run(tmp_path, measure="qb_norm", pool="mixed", queries="other")
    pool = np.concatenate([spaces["de"][COUNT:], spaces["en"][COUNT:]])
    found = by_numpy(pool[:COUNT], pool, spaces["de"][:COUNT], among=True)
    right = (found == np.arange(COUNT) + COUNT).mean()
    assert values(outcome, "de-en")["accuracy"] == pytest.approx(right)
    assert 0 < right < 1


@pytest.mark.parametrize("pool", ["bilingual", "mixed"])
def test_without_a_development_side_there_is_no_bank(tmp_path, pool):
    with pytest.raises(RaxalignError, match="de has none: give `data"):
        run(tmp_path, splits=("data",), measure="qb_norm", pool=pool)
    made = SentenceRetrieval.Params.model_validate(
        {"measure": "qb_norm", "data": {"test": "some/{side}.txt"}}
    )
    assert SentenceRetrieval(made).check(("de",), "en") == [
        "measure: qb_norm takes the development part as its bank of queries: give dev and test"
    ]
