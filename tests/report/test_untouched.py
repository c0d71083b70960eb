"""Cells that are untouched: a word and a reason where a number would say nothing, in every
table.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from raxalign.config.grid import load
from raxalign.config.run import RunConfig
from raxalign.plan.expansion.expand import expand
from raxalign.plan.plan import Plan
from raxalign.plan.trial import Trial, Untouched
from raxalign.plan.values.results import rows
from raxalign.report.cells.judge import Judge
from raxalign.report.cells.results import Results
from raxalign.report.compose import compose
from raxalign.report.paper.short_tables import short_tables
from raxalign.report.plans import as_json, as_text
from raxalign.report.render import as_html, as_latex, as_markdown
from raxalign.report.status import status
from raxalign.report.tables import blocks
from raxalign.store.ledger import Ledger
from raxalign.store.storage import Storage
from tests.grids import write_grid
from tests.report.material import part, published

WHY = Untouched("fitted at layer 12", "layer 8", "8", "k")
TOLD = (
    "Untouched: {task} reads layer 8, but {method} is fitted at layer 12; the result would be that"
    " of the encoder itself."
)


def trial(
    method: str, *evaluations: str, untouched: tuple[str, ...] = (), sentences: int | None = 250_000
) -> Trial:
    keys = {task: f"{method}/{task}" for task in evaluations}
    params = {"supervision": "parallel"} if method == "rotation" else {}
    return Trial(
        method,
        method,
        params,
        "bert-base-multilingual-cased",
        ("de",),
        sentences,
        None,
        method,
        keys,
        dict.fromkeys(untouched, WHY),
    )


TRIALS = (
    trial("none", "pos", "xnli", sentences=None),
    trial("rotation", "pos", untouched=("xnli",)),
    trial("znorm", untouched=("pos", "xnli")),
)


def found(*trials: Trial) -> tuple[list[dict[str, Any]], Plan]:
    plan = Plan("p", "en", 3, trials, {}, {})
    base = {
        "params": {},
        "languages": ["de"],
        "seed": None,
        "lang": "de",
        "split": "test",
        "metric": "accuracy",
        "value": 0.5,
    }
    base |= {"task_params": {"setting": "zero-shot", "data": "hub"}}
    facts = [(one, task, key) for one in trials for task, key in one.evaluations.items()]

    def row(one: Trial, task: str, key: str) -> dict[str, Any]:
        own = {
            "trial": one.key,
            "method": one.method,
            "params": one.params,
            "encoder": one.encoder,
            "sentences": one.sentences,
        }
        return {**base, **own, "task": task, "evaluation": key}

    return [row(*fact) for fact in facts], plan


def test_the_grid_s_own_tables_say_untouched_and_why() -> None:
    section = part("own_tables", Results.of(*found(*TRIALS)), Judge())
    low, xnli = section.tables
    assert [
        (line.label, line.sub, [entry.text for entry in line.entries]) for line in low.lines
    ] == [
        ("none", "1 seed", ["50.0"]),
        ("rotation", "250,000 pairs, 1 seed", ["50.0"]),
        ("znorm", "250,000 pairs", ["untouched"]),
    ]
    assert [entry.text for line in xnli.lines for entry in line.entries] == [
        "50.0",
        "untouched",
        "untouched",
    ]
    assert xnli.notes == tuple(
        TOLD.format(task="xnli", method=method) for method in ("rotation", "znorm")
    )
    assert [entry.notes for line in xnli.lines for entry in line.entries] == [(), (1,), (2,)]


def test_a_short_table_names_in_its_caption_what_it_does_not_show() -> None:
    tables = {
        entry[0]: table for entry, table in short_tables(Results.of(*found(*TRIALS)), Judge())
    }
    assert [line.label for line in tables["xnli"].lines] == ["none"]
    told = "Not shown, as they change nothing that it reads: rotation, znorm."
    assert told in tables["xnli"].caption
    assert "it reads: znorm." in tables["pos"].caption


def test_a_published_table_says_it_too_beside_the_printed_figure() -> None:
    sections, records = published(Results.of(*found(*TRIALS)), Judge(), ["cao2020"])
    table = next(table for table in sections[0].tables if table.anchor == "cao2020-xnli_methods")
    line = next(
        line for line in table.lines if (line.label, line.group) == ("word-rotation", "zero-shot")
    )
    entry = line.entries[table.columns.index("de")]
    assert (entry.text, entry.state, entry.below != "") == ("untouched", "absent", True)
    assert [table.notes[number - 1] for number in entry.notes] == [
        TOLD.format(task="xnli", method="rotation")
    ]
    assert [
        record[-1]
        for record in records
        if record[1:4] == ("xnli_methods", "zero-shot/word-rotation", "de")
    ] == ["untouched"]
    other = next(
        line for line in table.lines if (line.label, line.group) == ("finetune", "zero-shot")
    )
    assert other.entries[table.columns.index("de")].text == "not run"


def test_every_form_of_the_report_holds_the_word_and_the_reason(tmp_path: Path) -> None:
    document = compose(*found(*TRIALS), tmp_path).document
    for text in (as_html(document), as_markdown(document), as_latex(document)):
        assert text.count("untouched") >= 3
        assert "the result would be that of the encoder itself" in text


def test_results_in_a_terminal_have_a_line_for_it_and_json_has_no_row() -> None:
    low, xnli = blocks(*found(*TRIALS))
    assert low.lines == (
        ("none", "", "50.0"),
        ("rotation", "250,000", "50.0"),
        ("znorm", "250,000", "untouched"),
    )
    assert xnli.lines[1:] == (
        ("rotation", "250,000", "untouched"),
        ("znorm", "250,000", "untouched"),
    )
    assert xnli.note.splitlines() == [
        TOLD.format(task="xnli", method=method) for method in ("rotation", "znorm")
    ]


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    methods = ("none: {}", "rotation: {layers: 1}", "znorm: {}")
    return expand(
        load(
            write_grid(
                tmp_path,
                methods=methods,
                tasks=("retrieval: {}",),
                languages="{each: [de]}",
                sentences="50",
            )
        )
    )


def test_a_trial_with_nothing_to_run_is_neither_done_nor_to_run(plan: Plan, tmp_path: Path) -> None:
    root = str(tmp_path / "storage")
    ledger = Ledger(root)
    assert "small: 3 points, 3 trials (0 cached)" in as_text(plan, Storage(root), RunConfig())
    assert "note: 1 evaluation is untouched and will not run" in as_text(
        plan, Storage(root), RunConfig()
    )
    assert '"cached": 0' in as_json(plan, Storage(root), RunConfig())
    assert (
        status(plan, ledger).trials,
        status(plan, ledger).missing,
        status(plan, ledger).idle,
    ) == (2, 2, 1)
    for one in plan.trials:
        for key in one.evaluations.values():
            ledger.write(key, {"key": key, "scores": [], "params": {}, "seconds": 1.0}, None)
    assert "3 trials (2 cached)" in as_text(plan, Storage(root), RunConfig())
    assert (
        status(plan, ledger).text("small")
        == "small: 2 of 2 trials done, 0 failed, 0 to run; 2 of 2 evaluations; 1 more have nothing"
        " to run"
    )
    assert rows(plan, ledger) == []
