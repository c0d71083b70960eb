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
    facts = (method, method, params, "bert-base-multilingual-cased", ("de",), sentences, None)
    return Trial(*facts, method, keys, dict.fromkeys(untouched, WHY))


TRIALS = (
    trial("none", "pos", "xnli", sentences=None),
    trial("rotation", "pos", untouched=("xnli",)),
    trial("znorm", untouched=("pos", "xnli")),
)


def found(*trials: Trial) -> tuple[list[dict[str, Any]], Plan]:
    base = {"params": {}, "languages": ["de"], "seed": None, "lang": "de", "split": "test"}
    base |= {"metric": "accuracy", "value": 0.5}
    base |= {"task_params": {"setting": "zero-shot", "data": "hub"}}
    own = ("method", "params", "encoder", "sentences")
    rows = [
        {**base, **{name: getattr(one, name) for name in own}}
        | {"trial": one.key, "task": task, "evaluation": key}
        for one in trials
        for task, key in one.evaluations.items()
    ]
    return rows, Plan("p", "en", 3, trials, {}, {})


def test_the_grid_s_own_tables_say_untouched_and_why() -> None:
    section = part("own_tables", Results.of(*found(*TRIALS)), Judge())
    low, xnli = section.tables
    shown = [(line.label, line.sub, line.entries[0].text) for line in low.lines]
    assert shown == [
        ("none", "1 seed", "50.0"),
        ("rotation", "250,000 pairs, 1 seed", "50.0"),
        ("znorm", "250,000 pairs", "untouched"),
    ]
    entries = [line.entries[0] for line in xnli.lines]
    assert [entry.text for entry in entries] == ["50.0", "untouched", "untouched"]
    assert [entry.notes for entry in entries] == [(), (1,), (2,)]
    methods = ("rotation", "znorm")
    assert xnli.notes == tuple(TOLD.format(task="xnli", method=method) for method in methods)


def test_a_short_table_names_in_its_caption_what_it_does_not_show() -> None:
    made = short_tables(Results.of(*found(*TRIALS)), Judge())
    tables = {entry[0]: table for entry, table in made}
    assert [line.label for line in tables["xnli"].lines] == ["none"]
    told = "Not shown, as they change nothing that it reads: rotation, znorm."
    assert told in tables["xnli"].caption
    assert "it reads: znorm." in tables["pos"].caption


def test_a_published_table_says_it_too_beside_the_printed_figure() -> None:
    sections, records = published(Results.of(*found(*TRIALS)), Judge(), ["cao2020"])
    table = next(table for table in sections[0].tables if table.anchor == "cao2020-xnli_methods")
    own = {line.label: line for line in table.lines if line.group == "zero-shot"}
    place = table.columns.index("de")
    entry = own["word-rotation"].entries[place]
    assert (entry.text, entry.state, entry.below != "") == ("untouched", "absent", True)
    (note,) = (table.notes[number - 1] for number in entry.notes)
    assert note == TOLD.format(task="xnli", method="rotation")
    (record,) = (r for r in records if r[1:4] == ("xnli_methods", "zero-shot/word-rotation", "de"))
    assert record[-1] == "untouched"
    assert own["finetune"].entries[place].text == "not run"


@pytest.mark.usefixtures("undrawn")
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
    parts = {"languages": "{each: [de]}", "sentences": "50", "tasks": ("retrieval: {}",)}
    methods = ("none: {}", "rotation: {layers: 1}", "znorm: {}")
    return expand(load(write_grid(tmp_path, methods=methods, **parts)))  # type: ignore[arg-type]


def test_a_trial_with_nothing_to_run_is_neither_done_nor_to_run(plan: Plan, tmp_path: Path) -> None:
    storage, run = Storage(str(tmp_path / "storage")), RunConfig()
    ledger = storage.ledger
    text = as_text(plan, storage, run)
    assert "small: 3 points, 3 trials (0 cached)" in text
    assert "note: 1 evaluation is untouched and will not run" in text
    assert '"cached": 0' in as_json(plan, storage, run)
    state = status(plan, ledger)
    assert (state.trials, state.missing, state.idle) == (2, 2, 1)
    for one in plan.trials:
        for key in one.evaluations.values():
            ledger.write(key, {"key": key, "scores": [], "params": {}, "seconds": 1.0}, None)
    assert "3 trials (2 cached)" in as_text(plan, storage, run)
    assert status(plan, ledger).text("small") == (
        "small: 2 of 2 trials done, 0 failed, 0 to run; 2 of 2 evaluations; 1 more have nothing"
        " to run"
    )
    assert rows(plan, ledger) == []
