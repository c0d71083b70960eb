"""Tasks that are trained on several languages in turn (`train_on`): keys, values and faults."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from raxalign.catalog import catalog
from raxalign.errors import GridError, RaxalignError
from raxalign.grid.expansion.expand import expand
from raxalign.grid.file import load
from raxalign.grid.load import Opened
from raxalign.report.sections.base import Material
from raxalign.report.sections.sources import Sources
from raxalign.report.tables import Selection
from raxalign.single.evaluate import EvaluateRequest
from raxalign.values.comparisons import comparisons
from raxalign.values.results import rows
from raxalign.values.scoreboard import Scoreboard
from raxalign.values.sources import SourceMatrix
from tests.grids import TINY, of_kind, small_plan, write_grid
from tests.ran import ran
from tests.report.test_answer import EMPTY, row

PARTS = {"encoder": TINY, "languages": "{together: [de, es, fr]}", "size": 200, "sentences": "[60]"}
SIZES = "data: phrasebook, phrasebook: {train: 30, dev: 15, test: 20}, epochs: 1"
PHRASEBOOK = {"xnli", "mlqa", "pos", "ner", "slots"}
METHODS = ("none: {}", "rotation: {}", "centering: {}")


def pos(train_on: str = "") -> str:
    return f"pos: {{{f'train_on: {train_on}, ' if train_on else ''}{SIZES}}}"


def values(opened: Opened, method: str, task: str) -> dict[str, float]:
    """The test accuracy of a method on a task, by language."""
    asked = (method, task, "accuracy", "test")
    return {
        row["lang"]: row["value"]
        for row in rows(opened.plan, opened.storage.ledger)
        if (row["method"], row["task"], row["metric"], row["split"]) == asked
    }


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    folder = tmp_path_factory.mktemp("sources")
    tasks = ("retrieval: {}", pos("[en, de]"))
    return ran(write_grid(folder, **PARTS, methods=METHODS, tasks=tasks, seeds="[0, 1]"))  # type: ignore[arg-type]


def test_the_pivot_as_the_only_source_is_the_grid_without_the_key(tmp_path: Path) -> None:
    with_it, without = (
        small_plan(tmp_path, **PARTS, methods=METHODS, tasks=(pos(asked),))
        for asked in ("[en]", "")
    )
    assert replace(with_it, warnings=without.warnings) == without


def test_the_pivot_among_several_sources_has_the_keys_of_the_grid_without_the_key(
    tmp_path: Path,
) -> None:
    several, alone = (
        small_plan(tmp_path, **PARTS, methods=METHODS, tasks=(pos(asked),))
        for asked in ("[de, en]", "")
    )
    for trial, other in zip(several.trials, alone.trials, strict=True):
        assert trial.key == other.key
        assert trial.evaluations["pos.en"] == other.evaluations["pos"]
        assert trial.evaluations["pos.de"] not in alone.stages


@pytest.mark.parametrize(
    ("train_on", "name", "note"),
    [
        ("[de]", "pos.de", "tasks.pos: trained on de alone, it is called pos.de in results"),
        ("[en]", "pos", "tasks.pos: trained on en alone, it keeps its name in results"),
        ("[en, de]", "pos.en", ""),
        ("", "pos", ""),
    ],
)
def test_plan_says_what_a_task_with_one_source_is_called(
    tmp_path: Path, train_on: str, name: str, note: str
) -> None:
    plan = small_plan(tmp_path, **PARTS, tasks=(pos(train_on),))
    assert next(iter(plan.evaluated)) == name
    assert [remark.startswith(note) for remark in plan.remarks() if "trained on" in remark] == (
        [True] if note else []
    )


def test_plan_says_what_source_in_a_path_is_without_sources(tmp_path: Path) -> None:
    for part in ("train", "dev"):
        for lang in ("en", "de", "es", "fr"):
            (tmp_path / f"{part}.{lang}.conll").write_text("the\tDET\n")
    files = "data: {train: '%s.conll', dev: 'dev.{lang}.conll'}"
    noted = []
    for path, train_on in (("train.{source}", ""), ("train.en", ""), ("train.{source}", "[de]")):
        own = f"pos: {{{f'train_on: {train_on}, ' if train_on else ''}{files % path}}}"
        plan = small_plan(tmp_path, **PARTS, tasks=(own,))
        noted.append([remark for remark in plan.remarks() if "{source}" in remark])
    note = "tasks.pos: without `train_on`, {source} in a path is en, the pivot"
    assert noted == [[note], [], []]


def test_the_other_name_of_a_task_is_answered_with_the_right_one(sources: Opened) -> None:
    found = rows(sources.plan, sources.storage.ledger)
    for asked, told in {
        "pos": "did you mean pos.en? there are: retrieval, pos.en (trained on en), pos.de (trained",
        "pos.fr": "there are: retrieval, pos.en (trained on en), pos.de (trained on de)",
    }.items():
        with pytest.raises(RaxalignError) as error:
            Selection(tasks=(asked,)).refuse_unknown(found, sources.plan)
        assert told in str(error.value)


def test_methods_that_leave_weights_alone_share_one_training_run_per_source(tmp_path: Path) -> None:
    parts = {**PARTS, "methods": ("none: {}", "rotation: {}", "linear: {}"), "seeds": "[0, 1]"}
    plan = small_plan(tmp_path, **parts, tasks=(pos("[en, de, fr]"),))
    trained = [(stage.params["pivot"], stage.params["seed"]) for stage in of_kind(plan, "tuned")]
    assert sorted(trained) == [(lang, seed) for lang in ("de", "en", "fr") for seed in (0, 1)]


def test_a_training_run_on_a_source_is_that_of_a_grid_with_it_as_the_pivot(tmp_path: Path) -> None:
    parts = {**PARTS, "encoder": "phrasebook", "methods": ("none: {}",)}
    source = small_plan(tmp_path, **parts, tasks=(pos("[de]"),))
    languages = {"languages": "{together: [en, es, fr]}"}
    text = write_grid(tmp_path, **{**parts, **languages}, tasks=(pos(),)).read_text()  # type: ignore[arg-type]
    path = tmp_path / "pivot.yaml"
    path.write_text(text.replace("pivot: en", "pivot: de"))
    pivot = expand(load(path))
    ((own,), (other,)) = (of_kind(plan, "tuned") for plan in (source, pivot))
    assert own.key == other.key
    assert source.evaluated["pos.de"].languages == pivot.evaluated["pos"].languages


@pytest.mark.parametrize("kind", sorted(catalog("tasks")))
def test_every_trained_task_reads_the_source_s_data_or_is_refused(
    kind: str, tmp_path: Path
) -> None:
    data = "data: phrasebook, " if kind in PHRASEBOOK else ""
    try:
        plan = small_plan(tmp_path, **PARTS, tasks=(f"{kind}: {{{data}train_on: [de]}}",))
    except GridError:
        if kind in PHRASEBOOK:
            raise
        return
    task, stage = f"{kind}.de", plan.evaluated[f"{kind}.de"]
    (trained,) = {plan.stages[t.evaluations[task]].inputs["trained"] for t in plan.trials[:1]}
    assert plan.stages[trained].languages == ("de",)
    assert (stage.languages[0], {*stage.languages}) == ("de", {"en", "de", "es", "fr"})
    assert plan.home_of(task) == "de"
    sources = plan.stages[trained].plugin().sources
    read, other = (sources(lang, lang).get("hub") for lang in ("de", "en"))
    assert read is None or read != other


def test_means_leave_out_the_language_that_was_trained_on(sources: Opened) -> None:
    board = Scoreboard.of(rows(sources.plan, sources.storage.ledger), sources.plan)
    for task, others in (("pos.en", "de es fr"), ("pos.de", "en es fr")):
        found = values(sources, "none", task)
        assert found.keys() == {"en", "de", "es", "fr", "avg", "avg_zero_shot"}
        name = (task, "avg_zero_shot", "accuracy", "test")
        for cell in board.cells:
            mean = sum(cell.values[task, lang, *name[2:]].mean for lang in others.split()) / 3
            assert cell.values[name].mean == pytest.approx(mean)
            assert cell.languages_of(name, "en") == others.split()


def test_a_source_reads_its_own_vectors_as_they_are_and_no_other_language_does(
    sources: Opened,
) -> None:
    none, rotation = (values(sources, method, "pos.de") for method in ("none", "rotation"))
    assert none["de"] == rotation["de"]
    assert any(none[lang] != rotation[lang] for lang in ("en", "es", "fr"))


def test_any_encoder_is_evaluated_from_a_source(sources: Opened) -> None:
    request = EvaluateRequest("phrasebook", ("pos.de",), ("es",), seed=0, device="cpu")
    found, _ = request.evaluate(sources)
    test = {row["lang"]: row["value"] for row in found if row["split"] == "test"}
    assert test.keys() == {"de", "en", "es", "avg", "avg_zero_shot"}
    assert test["avg_zero_shot"] == pytest.approx((test["en"] + test["es"]) / 2)


def test_a_matrix_knows_the_best_source_and_what_another_one_costs(sources: Opened) -> None:
    ledger = sources.storage.ledger
    board = Scoreboard.of(rows(sources.plan, ledger), sources.plan)
    matrices = list(SourceMatrix.of(board, ledger))
    assert [found.cell.method for found in matrices] == ["none", "rotation", "centering"]
    for found in matrices:
        assert (found.best["en"], found.best["de"], found.chosen_by) == ("de", "en", "dev")
        regrets = list[float]()
        for target in ("es", "fr"):
            best, values = (
                found.best[target],
                {s: found.value(s, target) or 0 for s in ("en", "de")},
            )
            regrets.append(values[best] - values["en"])
        test = found.regret("en")
        assert test is not None
        assert test.value == pytest.approx((sum(regrets) + 0) / 3)  # of de it is the only source


def test_measures_without_labels_are_set_beside_transfer_without_each_language() -> None:
    near = {"de": 0.9, "fr": 0.7, "es": 0.5, "tr": 0.3}
    found = [
        row("none", f"{lang}-en", value, "retrieval", metric="contextual_accuracy")  # type: ignore[no-untyped-call]
        for lang, value in near.items()
    ]
    for source, other in (("en", "de"), ("de", "en")):  # of es and de the measure is that of es
        for lang, value in {other: 0.8, "fr": 0.7, "es": 0.6, "tr": 0.5}.items():
            found.append(row("none", lang, value, f"xnli.{source}"))  # type: ignore[no-untyped-call]
    board = Scoreboard.of(found, EMPTY)
    tasks = {"en": "xnli.en", "de": "xnli.de"}
    measure = ("retrieval", "contextual_accuracy", "test")
    matrix = SourceMatrix(board, None, "xnli", tasks, board.cells[0])
    assert matrix.predicted(measure) == (1.0, (1.0, 1.0), 8)
    assert matrix.predicted(("retrieval", "noncontextual_accuracy", "test")) is None


def test_the_report_has_the_matrix(sources: Opened, tmp_path: Path) -> None:
    plan, ledger = sources.plan, sources.storage.ledger
    board = Scoreboard.of(rows(plan, ledger), plan)
    board = board.tested(comparisons(board.cells, plan, ledger))
    share = Sources(Material(board, tmp_path, ledger)).share()
    assert share is not None
    first = share.parts[0].tables[0]
    assert first.columns == ("en", "de", "es", "fr", "mean, zero-shot", "regret")
    labels = [line.label for line in first.lines]
    assert labels == ["en", "de", "best source", "regret of always en"]
    assert all("[" in entry.spread for entry in first.lines[1].entries[:5])


def test_sources_without_a_language_twice_or_data_are_faults_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "train.en.conll").write_text("the\tDET\n")
    files = "data: {train: 'train.%s.conll', dev: 'dev.{lang}.conll'}, epochs: 1"
    for asked, told in {
        "[en, en]": "line 18: tasks.pos.train_on[1]: 'en' is given twice (keep one)",
        "[en, xx-yy-zz]": "unknown language 'xx-yy-zz'",
        "[en, it]": "'it' is not one of the grid's languages (add it to `languages`",
        "[]": "tasks.pos.train_on: no language is named (for example",
    }.items():
        with pytest.raises(GridError) as error:
            small_plan(tmp_path, **PARTS, tasks=(pos(asked),))
        assert told in str(error.value)
        assert "1 fault\n" in str(error.value)
    own = f"pos: {{train_on: [en, de], {files}}}"
    for task, told in {
        own % "{pivot}": "tasks.pos.data: holds {pivot}, which may not be what is trained on (",
        own % "{source}": "tasks.pos.train_on: de has no training data: ",
        own % "en": "tasks.pos.train_on: the training data is the same for de as for en",
        "retrieval: {train_on: [de]}": "retrieval.train_on: this task has no training run",
        "belebele: {train_on: [de]}": "the training data is the same for de as for en (name",
    }.items():
        with pytest.raises(GridError) as error:
            small_plan(tmp_path, **PARTS, tasks=(task,))
        assert told in str(error.value)
        assert "1 fault\n" in str(error.value)
    other: dict[str, dict[str, object]] = {
        "each": {"languages": "{each: [de, es]}"},
        "sets": {"languages": "{sets: {one: [de], two: [es, fr]}}"},
        "turned": {"methods": ("none: {}", "rotation: {direction: to-other}")},
    }
    for name, told in {
        "each": "with `languages: each` no model aligns de with another language (write",
        "sets": "the set two leaves de unaligned (add de to it",
        "turned": "`direction: to-other` of rotation moves en alone: de meets no other",
    }.items():
        with pytest.raises(GridError) as error:
            small_plan(tmp_path, **{**PARTS, **other[name]}, tasks=(pos("[en, de]"),))
        assert told in str(error.value)
