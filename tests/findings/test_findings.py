"""The program of the findings: which value a question means, and what its answer is called."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from findings import answers as module
from findings import record as record_module
from findings.__main__ import GRIDS, PAGE, RECORD
from findings.answers import OTHER, Answer, Answered, answer, encoders_of, pooled
from findings.claims import CLAIMS
from findings.entries import common_entries, write_entries
from findings.page import render
from findings.questions import Claim, Pick, Quantity, Question, above
from findings.record import Ran, Record
from raxalign.analysis.cells import Cell
from raxalign.analysis.power import Assumed, Design
from raxalign.analysis.significance import ContrastTest, Runs
from raxalign.corpora.base import CorpusInputs
from raxalign.corpora.phrasebook import PhrasebookCorpus
from raxalign.grid.estimates import Times, duration
from raxalign.grid.load import Opened
from raxalign.values.comparisons import comparisons
from raxalign.values.results import rows
from tests.grids import write_grid
from tests.ledgers import made_up
from tests.ran import ran

ROOT = Path(__file__).parents[2]


WORDS = Quantity("word retrieval", "retrieval", "contextual_accuracy")
XNLI = Quantity("zero-shot accuracy on XNLI", "xnli", "accuracy")


def answered(value: float, p: float | None, quantity: Quantity = WORDS) -> Answer:
    question = Question("a - b", (), quantity)
    return Answer(question, ContrastTest(value, None, None, p, (5, 5), 100), p)


def verdict(*answers: Answer) -> str:
    """The verdict on a claim about word retrieval."""
    return Answered(claim(*(entry.question for entry in answers)), answers).verdict


def claim(*questions: Question, name: str = "A") -> Claim:
    return Claim(name, name, WORDS, "words", questions)


def test_an_answer_is_held_refuted_or_cannot_be_told():
    assert answered(0.1, 0.01).sign == "held"
    assert answered(-0.1, 0.01).sign == "refuted"
    assert answered(0.1, 0.05).sign == answered(0.1, None).sign == "cannot tell"
    assert Answer(answered(0, None).question, None).sign == "not run"
    near = ContrastTest(0.001, -0.005, 0.01, 0.5, (5, 5), 100)
    assert Answer(STRONG, near, 0.5).sign == "no difference above 1"
    assert Answer(STRONG, near, 0.01).sign == "held", "a difference is real before it is small"
    assert Answer(STRONG, replace(near, low=-0.011), 0.5).sign == "cannot tell"


def test_an_answer_says_what_it_could_have_seen_and_what_one_point_takes():
    spread = Assumed(run_sd=(0.5, 0.5)).spread(5)
    known = Answer(STRONG, ContrastTest(0.0, None, None, 0.5, (5, 5), 1000, spread=spread))
    assert known.detectable == Design.detectable(spread)
    assert known.more_runs is None, "1,000 examples do not show one point"
    spread = Assumed((10_000,), run_sd=(0.5, 0.5)).spread(5)
    several = Answer(STRONG, ContrastTest(0.0, None, None, 0.5, (5, 5), 10_000, spread=spread))
    assert several.more_runs == (Design.runs_for(spread, 0.01, measured=True) or 0) - 5
    assert several.more_runs
    assert answered(0.1, 0.5).detectable is answered(0.1, 0.5).more_runs is None


def test_a_claim_is_held_if_all_its_answers_are_and_refuted_if_one_is():
    held, refuted, open_ = answered(1, 0.01), answered(-1, 0.01), answered(1, 0.5)
    assert verdict(held, held) == "held"
    assert verdict(held, open_) == "cannot tell"
    assert verdict(held, open_, refuted) == "refuted"
    assert verdict(held, refuted, Answer(held.question, None)) == "not run"
    other = answered(-1, 0.01, XNLI)  # another quantity than the paper's decides nothing
    assert verdict(other) == OTHER
    assert verdict(held, other) == "held"
    assert verdict(open_, answered(1, 0.01, XNLI)) == "cannot tell"


def test_the_claims_name_the_quantities_of_their_tables():
    """Tables of XNLI, of entities and slots, and of word retrieval."""
    tasks = {
        "Cao et al. (2020), Table 2": {"xnli"},
        "Cao et al. (2020), Table 3": {"retrieval"},
        "Kulshreshtha et al. (2020), Table 3": {"slots", "ner, slots"},
        "Pan et al. (2021), Table 2": {"xnli"},
        "Pan et al. (2021), Table 5": {"xnli"},
        "Yang et al. (2021), Table 2": {"xnli"},
    }
    for claim in CLAIMS:
        if not claim.paper.startswith("Liu et al. (2020), "):
            assert claim.quantity.task in tasks[claim.paper], claim.text


STRONG = above("strong - none", Pick("finetune", {"lambda": 10.0}, 200), Pick("none"), WORDS)


def averages(opened: Opened) -> list[tuple[tuple[object, ...], float]]:
    """Method, λ and sentences of each cell, and its word retrieval."""
    name = ("retrieval", "avg", "contextual_accuracy", "test")
    found = Cell.grouped(rows(opened.plan, opened.storage.ledger), "en", opened.plan.measured)
    return [
        ((cell.method, cell.params.get("lambda"), cell.sentences), cell.values[name].mean)
        for cell in found
    ]


@pytest.fixture
def asked(monkeypatch):
    """Sets the claims whose questions are answered."""
    return lambda *claims: [
        monkeypatch.setattr(place, "CLAIMS", claims) for place in (module, record_module)
    ]


def test_questions_are_answered_from_the_cells_that_they_name(made, asked):
    opened, _ = made
    asked(claim(STRONG), claim(above("x", Pick("linear"), Pick("none"), WORDS), name="B"))
    first, second = answer({"words": opened})
    (found,), (absent,) = first.answers, second.answers
    by_name = dict(averages(opened))
    assert found.contrast is not None
    difference = by_name["finetune", 10.0, 200] - by_name["none", None, None]
    assert found.contrast.value == pytest.approx(difference)
    assert found.contrast.runs == (2, 1)
    assert absent.sign == second.verdict == "not run"
    page = render(Record((first, second), {}), {})
    assert "| 2 | B | B | word retrieval | word retrieval | 1 not run | not run |" in page
    assert f"{100 * difference:+.2f}" in page


def test_sides_that_share_their_trainings_are_compared_run_by_run_and_others_are_not(made, asked):
    opened, ledger = made
    sides = {
        name: Pick(name, own, sentences, "avg")
        for name, own, sentences in (
            ("none", {}, None),
            ("rotation", {}, 200),
            ("finetune", {"lambda": 10.0}, 200),
        )
    }
    asked(*(claim(above(f"{n} - none", sides[n], sides["none"], XNLI), name=n) for n in sides))
    answers = [entry.answers[0].contrast for entry in answer({"words": opened})]
    found = dict(zip(sides, answers, strict=True))
    compared = {
        entry.cell.method: entry.comparison
        for entry in comparisons(
            Cell.grouped(rows(opened.plan, ledger), "en", opened.plan.measured),
            opened.plan,
            ledger,
            tables={("xnli", "accuracy", "test")},
        )
        if entry.name[1] == "avg"
        and entry.cell.sentences in (None, 200)
        and entry.cell.params.get("lambda", 10.0) == 10.0
    }
    for name, runs in (("rotation", (2,)), ("finetune", (2, 2))):
        own, theirs = found[name], compared[name]
        assert own is not None
        assert theirs is not None
        assert own.runs == runs, "one difference per seed, or two independent sides"
        assert theirs.paired is (len(runs) == 1)
        assert own.value == pytest.approx(theirs.difference)
        assert (own.low, own.high, own.p) == pytest.approx((theirs.low, theirs.high, theirs.p))


SCRATCH = "kind: scratch, layers: 1, hidden_size: 32, heads: 2, intermediate: 64, max_sentences: 10"


def of_encoders(folder: Path) -> Opened:
    encoders = (f"{{{SCRATCH}, window: {own}}}" for own in ("20", "20, seed: 1", "40"))
    parts = {"methods": ("none: {}",), "tasks": ("retrieval: {}",), "more": ""}
    opened, _ = made_up(folder, encoder=f"[{', '.join(encoders)}]", **parts)
    return opened


def test_encoders_that_differ_in_their_seed_are_runs_of_one_value(tmp_path, asked):
    opened = of_encoders(tmp_path)
    short, long = (Pick("none", encoder={"window": window}) for window in (20, 40))
    question = above("short - long", short, long, WORDS)
    asked(claim(question))
    ((found,),) = (entry.answers for entry in answer({"words": opened}))
    first, second, other = (value for _, value in averages(opened))
    assert found.contrast is not None
    assert found.contrast.value == pytest.approx((first + second) / 2 - other)
    assert found.contrast.runs == (2, 1)
    _, keys = module._Reader(opened).answer(question)
    kinds = Counter(opened.plan.stages[key].kind for key in keys)
    assert (kinds["evaluation"], kinds["encoder"]) == (3, 3)


def test_pooled_runs_keep_the_influence_of_every_example():
    one = Runs((0,), np.array([0.2]), np.array([1, 2]), np.array([[0.1, -0.1]]), chance=False)
    two = Runs((0,), np.array([0.6]), np.array([2, 3]), np.array([[0.3, -0.3]]), chance=False)
    runs = pooled([one, two])
    assert runs.values.tolist() == [0.2, 0.6]
    assert runs.units.tolist() == [1, 2, 3]
    assert runs.influences.tolist() == [[0.1, -0.1, 0.0], [0.0, 0.3, -0.3]]
    assert runs.chance
    assert runs.testable


def test_a_pick_that_leaves_more_open_than_the_seed_is_refused(tmp_path):
    encoders = of_encoders(tmp_path).grid.encoders
    assert len(encoders_of(encoders, {"window": 20})) == 2
    for options in ({}, {"window": 60}):
        with pytest.raises(ValueError, match="must choose one encoder and its seeds"):
            encoders_of(encoders, options)


def test_a_claim_costs_all_that_its_values_were_made_from(made, asked):
    opened, ledger = made
    asked(claim(STRONG))
    (found,) = answer({"words": opened})
    _, keys = module._Reader(opened).answer(STRONG)
    evaluations = [key for key in keys if opened.plan.stages[key].kind == "evaluation"]
    assert len(evaluations) == 3  # two seeds of finetune, and the encoder as it is
    spent = sum(ledger.read(key)["seconds"] for key in evaluations)
    ran = Ran.of(opened)
    assert ran is not None
    page = render(Record((found,), {"words": ran}), {"words": "name: x\n"})
    assert f"| {found.verdict} | {duration(spent)} |" in page
    stored = Times(opened.plan, opened.storage).by_key()
    assert f"{len(stored)} stages and evaluations, {duration(sum(stored.values()))} of" in page


def test_what_is_kept_stays_and_counts_in_the_correction_of_what_is_new(made, tmp_path, asked):
    opened, _ = made
    new, old = (Claim(name, name, WORDS, name, (STRONG,)) for name in ("new", "old"))
    asked(new, old)
    contrast = ContrastTest(0.1, 0.05, 0.15, None, (5, 1), 0)
    kept = Answered(old, (Answer(STRONG, contrast, 0.5),), 60.0)
    record = Record((kept,), {"old": Ran("2026-01-01", 3, 9.0)})
    record.write(tmp_path / "record.json")
    read = Record.read(tmp_path / "record.json")
    assert read == record
    alone, absent = answer({"new": opened})
    both, same = answer({"new": opened}, read.answered)
    assert absent.verdict == "not run"
    assert same == kept
    (before,), (after,) = alone.answers, both.answers
    assert before.p_adjusted is not None
    assert after.p_adjusted == pytest.approx(min(1.0, 2 * before.p_adjusted))


DICTIONARY = "dictionary_retrieval: {{dictionary: '{folder}/{{lang}}.txt', max_contexts: 5}}"
GLOVE = "kind: static, algorithm: glove, dimension: 8, epochs: 1, min_count: 1"


def of_dictionaries(folder: Path, entries: Path, encoder: str) -> Opened:
    """A grid with static vectors and a dictionary, which ran."""
    folder.mkdir()
    parts = {"languages": "{each: [de]}", "size": 300, "sentences": "200"}
    tasks, methods = (DICTIONARY.format(folder=entries),), ("none: {}",)
    grid = write_grid(folder, encoder=encoder, methods=methods, tasks=tasks, **parts)
    return ran(grid)


def test_encoders_are_compared_over_the_entries_that_all_of_them_have(tmp_path):
    whole, common = tmp_path / "whole", tmp_path / "common"
    whole.mkdir()
    corpus = PhrasebookCorpus(PhrasebookCorpus.Params(size=240))
    pairs = corpus.read("de", "en", CorpusInputs({}, tmp_path))
    lines = sorted(
        {
            f"{pair.source_words[i]} {pair.target_words[j]}"
            for pair in pairs
            for i, j in pair.links or ()
        }
    )
    (whole / "de.txt").write_text("\n".join(lines), encoding="utf-8")
    few, many = (f"{{{GLOVE}, max_sentences: {count}}}" for count in (10, 200))
    with pytest.raises(ValueError, match="encoders have different entries"):
        common_entries(of_dictionaries(tmp_path / "apart", whole, f"[{few}, {many}]"))
    smallest = of_dictionaries(tmp_path / "smallest", whole, few)
    assert write_entries(smallest, common)
    left = (common / "de-en.txt").read_text(encoding="utf-8").splitlines()
    assert 0 < len(left) < len(lines)
    (common / "de-en.txt").rename(common / "de.txt")
    both = of_dictionaries(tmp_path / "both", common, f"[{few}, {many}]")
    assert common_entries(both) == {"de-en": len(left)}


@pytest.mark.slow
def test_the_page_is_made_from_the_record_alone():
    texts = {name: (ROOT / "findings" / f"{name}.yaml").read_text("utf-8") for name in GRIDS}
    record = Record.read(RECORD)
    assert [found.claim for found in record.answered] == list(CLAIMS)
    assert PAGE.read_text(encoding="utf-8") == render(record, texts)


def test_the_record_can_tell_the_questions_of_a_claim_apart():
    for entry in CLAIMS:
        assert len({question.text for question in entry.questions}) == len(entry.questions)
