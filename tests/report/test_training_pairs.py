"""The sentence pairs that trainings used, from the storage: a table of what corpora lacked, and Pan
et al.'s Table 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from raxalign.analysis.cells import Value
from raxalign.plan.load import open_grid
from raxalign.plan.values.results import rows
from raxalign.report.cells.judge import Judge
from raxalign.report.cells.results import Results
from raxalign.report.sections.base import Measure
from raxalign.store.artifacts import ArtifactStore
from raxalign.store.ledger import Ledger
from tests.grids import write_grid
from tests.report.material import published, section, share

PPA = "ppa: {queue_size: 16, batch_size: 16}"
READ = {(lang, size): size for lang in ("de", "fr") for size in (50, 100, 200)}
READ |= {("fr", 100): 90, ("fr", 200): 150}
"""(language, asked for) -> the pairs that its training text has."""


Grid = tuple[Ledger, Results]


def grid(folder: Path, **left_out: int) -> Grid:
    """A grid of `none` and `ppa` on 50, 100 and 200 pairs, all of its training text stored; ppa
    records to have left out `left_out` pairs of each language.
    """
    sizes, parts = "[50, 100, 200]", {"methods": ("none: {}", PPA), "tasks": ("retrieval: {}",)}
    languages = "{together: [de, fr]}"
    file = write_grid(folder, languages=languages, sentences=sizes, **parts)  # type: ignore[arg-type]
    opened = open_grid(file, storage=str(folder / "storage"))
    store, ledger = opened.storage.artifacts, opened.storage.ledger
    for key, stage in opened.plan.stages.items():
        if stage.kind == "bitext" and stage.params["part"] == "training":
            place: Any = (stage.params["lang"], stage.params["sentences"])
            make(store, "bitext", key, {"counts": {"training": {"kept": READ[place]}}})
    score = {"lang": "de-en", "metric": "contextual_accuracy", "split": "test", "value": 0.5}
    for trial in opened.plan.trials:
        if trial.kind == "ppa" and left_out:
            counts: dict[str, Any] = {"losses": []}
            for lang, short in left_out.items():
                read = READ[lang, trial.sentences or 0]
                counts[lang] = {"read": read, "sentences": read - short}
            make(store, "aligned", trial.aligned, counts)
        for task, key in trial.evaluations.items():
            ledger.write(key, {"scores": [score], "params": {}, "task": task}, None)
    return ledger, Results.of(rows(opened.plan, ledger), opened.plan)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Grid:
    return grid(tmp_path_factory.mktemp("whole"))


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Grid:
    """7 pairs of German are too long for ppa."""
    return grid(tmp_path_factory.mktemp("short"), de=7, fr=0)


def measures(made: Grid) -> Mapping[str, Measure]:
    ledger, found = made
    return section("training_pairs", found, ledger=ledger).measures()


def make(store: ArtifactStore, kind: str, key: str, notes: Mapping[str, Any]) -> None:
    def build(folder: Path) -> Mapping[str, Any]:
        (folder / "file").write_text("", encoding="utf-8")
        return notes

    store.make(kind, key, build)


def test_a_corpus_that_is_too_short_is_shown_with_what_it_has(whole: Grid) -> None:
    ledger, found = whole
    (part,) = share("training_pairs", found, ledger=ledger).parts
    (table,) = part.tables
    assert table.columns == ("de", "fr", "total")
    assert [(line.label, [entry.text for entry in line.entries]) for line in table.lines] == [
        ("50", ["50", "50", "100"]),
        ("100", ["100", "90", "190"]),
        ("200", ["200", "150", "350"]),
    ]


def test_corpora_that_have_all_that_was_asked_for_have_no_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(READ, ("fr", 100), 100)
    monkeypatch.setitem(READ, ("fr", 200), 200)
    ledger, found = grid(tmp_path)
    assert share("training_pairs", found, ledger=ledger).parts == ()
    assert share("training_pairs", found).parts == (), "without a storage nothing is known"


def test_pairs_that_a_method_leaves_out_are_not_counted(short: Grid) -> None:
    (cell,) = [c for c in short[1].cells if (c.method, c.sentences) == ("ppa", 100)]
    fill = measures(short)["training_pairs"](cell)
    assert fill is not None
    counts = {"de": 93, "fr": 90, "total": 183}
    assert fill.values == {lang: Value(n, None, 1) for lang, n in counts.items()}
    assert fill.remark == "The total is over de, fr."


def test_where_a_method_s_own_counts_are_not_stored_its_training_text_is_counted(
    whole: Grid,
) -> None:
    measure = measures(whole)["training_pairs"]
    counts = {50: 50, 100: 90, 200: 150}
    for cell in whole[1].cells:
        fill = measure(cell)
        if cell.method == "none":
            assert fill is None, "it reads no sentence pairs"
        else:
            assert fill is not None
            assert fill.values["fr"] == Value(counts[cell.sentences or 0], None, 1)


def test_table_1_of_pan_et_al_shows_the_pairs_of_each_size(short: Grid) -> None:
    parts, _ = published(short[1], Judge(), ["pan2021"], measures(short))
    (table,) = [table for table in parts[0].tables if table.anchor == "pan2021-parallel_data"]
    lines = {line.label: line for line in table.lines}
    de, fr, es = (table.columns.index(lang) for lang in ("de", "fr", "es"))
    entry = lines["ppa/600k"].entries[de]
    assert (entry.text, entry.below, entry.worse) == ("93", "600,000", None)
    assert lines["ppa/2m"].entries[fr].text == "150"
    assert lines["ppa/2m"].entries[es].text == "not run"
    assert lines["ppa/250k"].entries[fr].text == "50"
    assert lines["cao-2020"].entries[fr].state == "published"
    assert "test set" not in table.caption


def test_pairs_are_counted_where_a_map_is_fitted_after_a_task_s_training_alone(
    tmp_path: Path,
) -> None:
    """The plan then has no aligned encoder of the trial itself."""
    file = write_grid(
        tmp_path,
        languages="{together: [de]}",
        sentences="[100]",
        methods=("none: {}", "rotation: {}", "sentence_rotation: {}"),
        tasks=("pos: {data: phrasebook}",),
    )
    opened = open_grid(file, storage=str(tmp_path / "storage"))
    store, ledger = opened.storage.artifacts, opened.storage.ledger
    for trial in opened.plan.trials:
        (key,) = trial.evaluations.values()
        score = {"lang": "de", "metric": "accuracy", "split": "test", "value": 0.5}
        ledger.write(key, {"scores": [score], "params": {}, "task": "pos"}, None)
        assert (trial.aligned in opened.plan.stages) == (trial.method == "none")
        if trial.method == "sentence_rotation":
            fitted = opened.plan.stages[key].inputs["aligned"]
            make(store, "aligned", fitted, {"de": {"sentences": 93}})
    for key, stage in opened.plan.stages.items():
        if stage.kind == "bitext" and stage.params["part"] == "training":
            make(store, "bitext", key, {"counts": {"training": {"kept": 100}}})
    found = Results.of(rows(opened.plan, ledger), opened.plan)
    measure = section("training_pairs", found, ledger=ledger).measures()["training_pairs"]
    counted = {cell.method: fill.values["de"] for cell in found.cells if (fill := measure(cell))}
    assert counted == {"rotation": Value(100, None, 1), "sentence_rotation": Value(93, None, 1)}
