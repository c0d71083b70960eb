"""The program of the findings: which value a question means, and what its answer is called."""

from __future__ import annotations

from pathlib import Path

import pytest

from findings import answers as module
from findings.answers import Answer, answer, verdict
from findings.claims import CLAIMS
from findings.page import render
from findings.questions import Claim, Pick, Question, above
from raxalign.analysis.cells import cells
from raxalign.analysis.significance import Contrast
from raxalign.plan.results import rows
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


def test_the_page_has_every_claim_and_every_grid_as_they_are() -> None:
    page = (ROOT / "docs" / "explanation" / "findings.md").read_text(encoding="utf-8")
    for number, claim in enumerate(CLAIMS, start=1):
        assert f"| {number} | {claim.text} | {claim.paper} | " in page
        assert all(question.text in page for question in claim.questions)
    for name in {claim.grid for claim in CLAIMS}:
        assert (ROOT / "findings" / f"{name}.yaml").read_text(encoding="utf-8").strip() in page
