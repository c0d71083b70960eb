"""The program of the findings: which value a question means, and what its answer is called."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from findings import answers as module
from findings.answers import Answer, answer, encoders_of, pooled, verdict
from findings.claims import CLAIMS
from findings.page import render
from findings.questions import Claim, Pick, Question, above
from raxalign.analysis.cells import cells
from raxalign.analysis.runs import Runs
from raxalign.analysis.significance import Contrast
from raxalign.plan.estimates.cost import duration, seconds_by_key
from raxalign.plan.load import Opened
from raxalign.plan.values.results import rows
from raxalign.store.ledger import Ledger
from tests.ledgers import made_up

ROOT = Path(__file__).parents[2]


def answered(value: float, p: float | None) -> Answer:
    question = Question("a - b", (), "retrieval", "contextual_accuracy")
    return Answer(question, Contrast(value, None, None, p, (5, 5), 100), p)


def test_an_answer_is_held_refuted_or_cannot_be_told() -> None:
    assert answered(0.1, 0.01).verdict == "held"
    assert answered(-0.1, 0.01).verdict == "refuted"
    assert answered(0.1, 0.05).verdict == "cannot tell"
    assert answered(0.1, None).verdict == "cannot tell"
    assert Answer(answered(0, None).question, None).verdict == "not run"


def test_a_claim_is_held_if_all_its_answers_are_and_refuted_if_one_is() -> None:
    held, refuted, open_ = answered(1, 0.01), answered(-1, 0.01), answered(1, 0.5)
    assert verdict([held, held]) == "held"
    assert verdict([held, open_]) == "cannot tell"
    assert verdict([held, open_, refuted]) == "refuted"
    assert verdict([held, refuted, Answer(held.question, None)]) == "not run"


def test_questions_are_answered_from_the_cells_that_they_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, ledger = made_up(tmp_path)
    strong = Pick("finetune", {"lambda": 10.0}, 200)
    question = above("strong - none", strong, Pick("none"), metric="contextual_accuracy")
    missing = above("x", Pick("linear"), Pick("none"), metric="contextual_accuracy")
    claims = (Claim("A", "one", "words", (question,)), Claim("B", "two", "words", (missing,)))
    monkeypatch.setattr(module, "CLAIMS", claims)
    (_, (found,)), (_, (absent,)) = answer({"words": opened})
    name = ("retrieval", "avg", "contextual_accuracy", "test")
    by_name = {
        (cell.method, cell.params.get("lambda"), cell.sentences): cell.values[name].mean
        for cell in cells(rows(opened.plan, ledger), "en")
    }
    assert found.contrast is not None
    difference = by_name["finetune", 10.0, 200] - by_name["none", None, None]
    assert found.contrast.value == pytest.approx(difference)
    assert found.contrast.runs == (2, 1)
    assert absent.verdict == "not run"
    page = render([(claims[0], [found]), (claims[1], [absent])], {"words": opened})
    assert "| 2 | two | B | not run |" in page
    assert f"{100 * difference:+.2f}" in page


SCRATCH = "kind: scratch, layers: 1, hidden_size: 32, heads: 2, intermediate: 64, max_sentences: 10"


def of_encoders(folder: Path) -> Opened:
    opened, _ = made_up(
        folder,
        encoder=f"[{{{SCRATCH}, window: 20}}, {{{SCRATCH}, window: 20, seed: 1}},"
        f" {{{SCRATCH}, window: 40}}]",
        methods=("none: {}",),
        tasks=("retrieval: {}",),
        more="",
    )
    return opened


def test_encoders_that_differ_in_their_seed_are_runs_of_one_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = of_encoders(tmp_path)
    short, long = (Pick("none", encoder={"window": window}) for window in (20, 40))
    question = above("short - long", short, long, metric="contextual_accuracy")
    monkeypatch.setattr(module, "CLAIMS", (Claim("A", "one", "words", (question,)),))
    ((_, (found,)),) = answer({"words": opened})
    first, second, other = (
        cell.values["retrieval", "avg", "contextual_accuracy", "test"].mean
        for cell in cells(rows(opened.plan, Ledger(opened.root)), "en")
    )
    assert found.contrast is not None
    assert found.contrast.value == pytest.approx((first + second) / 2 - other)
    assert found.contrast.runs == (2, 1)
    kinds = Counter(opened.plan.stages[key].kind for key in found.keys)
    assert (kinds["evaluation"], kinds["encoder"]) == (3, 3)


def test_pooled_runs_keep_the_influence_of_every_example() -> None:
    one = Runs((0,), np.array([0.2]), np.array([1, 2]), np.array([[0.1, -0.1]]), chance=False)
    two = Runs((0,), np.array([0.6]), np.array([2, 3]), np.array([[0.3, -0.3]]), chance=False)
    runs = pooled([one, two])
    assert runs.values.tolist() == [0.2, 0.6]
    assert runs.units.tolist() == [1, 2, 3]
    assert runs.influences.tolist() == [[0.1, -0.1, 0.0], [0.0, 0.3, -0.3]]
    assert runs.chance
    assert runs.testable


def test_a_pick_that_leaves_more_open_than_the_seed_is_refused(tmp_path: Path) -> None:
    encoders = of_encoders(tmp_path).grid.encoders
    assert len(encoders_of(encoders, {"window": 20})) == 2
    for options in ({}, {"window": 60}):
        with pytest.raises(ValueError, match="must choose one encoder and its seeds"):
            encoders_of(encoders, options)


def test_a_claim_costs_all_that_its_values_were_made_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, ledger = made_up(tmp_path)
    strong = Pick("finetune", {"lambda": 10.0}, 200)
    question = above("strong - none", strong, Pick("none"), metric="contextual_accuracy")
    claim = Claim("A", "one", "words", (question,))
    monkeypatch.setattr(module, "CLAIMS", (claim,))
    ((_, (found,)),) = answer({"words": opened})
    evaluations = [key for key in found.keys if opened.plan.stages[key].kind == "evaluation"]
    assert len(evaluations) == 3  # two seeds of finetune, and the encoder as it is
    spent = sum(ledger.read(key)["seconds"] for key in evaluations)
    page = render([(claim, [found])], {"words": opened})
    assert f"| 1 | one | A | {found.verdict} | {duration(spent)} |" in page
    stored = seconds_by_key(opened.plan, opened.root)
    assert f"they took {duration(sum(stored.values()))} of machine time" in page


def test_the_page_has_every_claim_and_every_grid_as_they_are() -> None:
    page = (ROOT / "docs" / "explanation" / "findings.md").read_text(encoding="utf-8")
    for number, claim in enumerate(CLAIMS, start=1):
        assert f"| {number} | {claim.text} | {claim.paper} | " in page
        assert all(question.text in page for question in claim.questions)
    for name in {claim.grid for claim in CLAIMS}:
        assert (ROOT / "findings" / f"{name}.yaml").read_text(encoding="utf-8").strip() in page
