"""The commands as `main` runs them, in this process: what they print, where, and how they exit."""

from __future__ import annotations

import csv
import itertools
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from raxalign import api, cli
from raxalign.corpora.base import CorpusInputs
from raxalign.corpora.phrasebook import PhrasebookCorpus
from raxalign.errors import GridError
from raxalign.grid.load import Opened, open_grid
from raxalign.grid.plan import Plan
from raxalign.grid.trial import Trial
from raxalign.store.ledger import Ledger
from raxalign.store.storage import Storage
from tests.grids import write_grid
from tests.ledgers import fill, made_up
from tests.searches import run as answer_search
from tests.searches import search_grid, source_of
from tests.tiny import tiny_bert


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Done]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAXALIGN_STORAGE", str(tmp_path / "storage"))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.delenv("COLUMNS", raising=False)  # which some library sets
    # what killed drivers of other tests left in the machine's own folder is not of this test
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))

    def run_(*arguments: object) -> Done:
        """Run a command; a text may hold several arguments."""
        parts = (a.split() if isinstance(a, str) else [str(a)] for a in arguments)
        monkeypatch.setattr(sys, "argv", ["raxalign", *itertools.chain(*parts)])
        try:
            cli.main()
            code = 0
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        captured = capsys.readouterr()
        return Done(code, captured.out, captured.err)

    return run_


@pytest.fixture
def grid(tmp_path: Path) -> Path:
    methods = ("none: {}", "rotation: {center: [false, true]}")
    return write_grid(tmp_path, languages="{each: [de]}", sentences="100", methods=methods)


def write_result(plan: Plan, number: int, value: float) -> None:
    """An entry of the ledger for the retrieval of a trial."""
    key = plan.trials[number].evaluations["retrieval"]
    values = {"contextual_accuracy": value, "contextual_accuracy_pairs": 500.0}
    place = {"lang": "de-en", "split": "test"}
    scores = [{**place, "metric": metric, "value": found} for metric, found in values.items()]
    record: dict[str, Any] = {"key": key, "task": "retrieval", "kind": "retrieval", "seed": None}
    record |= {"params": {"k": 10}, "languages": ["de"], "scores": scores, "notes": {}}
    Ledger(os.environ["RAXALIGN_STORAGE"]).write(key, record, None)


def test_help_and_version_are_printed_and_wrong_usage_exits_2(run: Callable[..., Done]) -> None:
    done = run("--help")
    listed = re.findall(r"^  (\w+) ", done.out.partition("Commands:")[2], re.MULTILINE)
    commands = "grid plan fetch status results report search show diff bundle verify"
    single = "pairs aer align evaluate export power init list"
    assert listed == f"{commands} {single} ui sync doctor gc".split()
    assert run("--version").out.startswith("raxalign ")
    wrong = "plan|plan x.yaml --format csv|grid x.yaml --limit 0|nothing|results x --formt csv"
    for arguments in wrong.split("|"):
        done = run(arguments)
        assert (done.code, done.out) == (2, ""), arguments
        assert "Traceback" not in done.err


def test_all_faults_of_a_grid_are_told_at_once(run: Callable[..., Done], tmp_path: Path) -> None:
    methods = ("none: {}", "finetun: {}", "rotation: {centre: true}")
    path = write_grid(tmp_path, methods=methods, seeds="[a]")
    done = run("plan", path)
    assert (done.code, done.out) == (2, "")
    meant = ("did you mean finetune?", "did you mean center?", "'a' is not a whole number")
    for told in ("3 faults", *meant, "line "):
        assert told in done.err
    assert "Traceback" not in done.err
    with pytest.raises(GridError):
        run("plan", tmp_path / "absent.yaml", "--debug")


def test_a_bug_is_one_line_and_an_interrupt_exits_130(run, grid, monkeypatch):
    def interrupt(*_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("raxalign.inspect.plans.PlanView.text", lambda *_: 1 / 0)
    bug = "error: ZeroDivisionError: division by zero (a bug in raxalign)"
    assert run("plan", grid) == Done(2, "", f"{bug}; --debug shows the traceback\n")
    monkeypatch.setattr("raxalign.inspect.plans.PlanView.text", interrupt)
    assert run("plan", grid).code == 130


@pytest.mark.parametrize("place", ["file", "file/report"])
def test_a_report_folder_that_cannot_be_written_is_named(run, grid, tmp_path, place):
    (tmp_path / "file").write_text("")
    done = run("report", grid, "--out", place)
    assert done.code == 2
    assert re.search(rf"^error: {place}\S*: the report cannot be written: ", done.err, re.MULTILINE)
    assert "(a bug in raxalign)" not in done.err


def test_a_report_folder_is_of_one_grid_and_has_no_file_of_its_former_report(run, grid, tmp_path):
    first, folder = grid.parent / "one" / "grid.yaml", grid.parent / "one" / "small-report"
    first.parent.mkdir()
    shutil.copy(grid, first)
    write_result(open_grid(first).plan, 0, 0.5)
    assert run("report", first).code == 0
    assert (folder / "tables" / "retrieval.md").exists()
    (folder / "notes.txt").write_text("my own")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    other = shutil.copy(first, first.with_name("other.yaml"))
    done = run("report", other)
    assert done.code == 2
    assert re.search(
        r"small-report has the report of \S+one/grid.yaml: .* another `name:`", done.err
    )
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert run("report", other, "--out", tmp_path / "elsewhere").code == 0
    first.write_text(first.read_text().replace("retrieval: {}", "sentence_retrieval: {}"))
    moved = first.parent.rename(grid.parent / "moved")
    assert run("report", moved / "grid.yaml").code == 0
    assert not (moved / "small-report" / "tables" / "retrieval.md").exists()
    assert (moved / "small-report" / "notes.txt").exists()


def test_a_plan_as_json_is_what_programs_rely_on(run, grid, tmp_path):
    plan = json.loads(run("plan", grid, "--format", "json").out)
    assert (plan["points"], plan["cached"], len(plan["trials"])) == (3, 0, 3)
    assert {"key", "method", "params"} <= set(plan["trials"][0])
    stages, keys = plan["stages"], {"kind", "key", "path", "done", "dropped", "bytes"}
    assert all(Path(stage["path"]).is_absolute() and stage["done"] is False for stage in stages)
    assert {"bitext", "pairs", "encoder", "aligned"} <= {stage["kind"] for stage in stages}
    assert all(set(stage) == keys for stage in stages)


def test_a_part_of_a_grid_is_planned_without_running(run: Callable[..., Done], grid: Path) -> None:
    part = json.loads(run("plan", grid, "--format", "json", "--only", "method=rotation").out)
    assert [trial["method"] for trial in part["trials"]] == ["rotation", "rotation"]
    assert "2 trials" in run("grid", grid, "--dry-run", "--only", "method=rotation").out
    assert "1 trial " in run("grid", grid, "--dry-run", "--limit", 1).out
    done = run("grid", grid, "--dry-run", "--only", "metod=rotation")
    assert done.code == 2
    assert "unknown name 'metod'" in done.err


def test_a_corpus_that_is_too_short_is_told_by_plan_and_refused_by_grid(run, tmp_path):
    parts = {"languages": "{each: [de]}", "sentences": "[100, 900]", "methods": ("rotation: {}",)}
    grid = write_grid(tmp_path, size=200, **parts)  # type: ignore[arg-type]
    told = "phrasebook: de-en: 900 training sentences were asked for, and there are 200 lines, of"
    told += " them 30 for dev and 30 for test"
    for command, *options in (("plan",), ("plan", "--format json"), ("grid", "--dry-run")):
        done = run(command, grid, *options)
        assert (done.code, f"error: {told}" in done.err) == (2, True)
    refused = run("grid", grid)
    assert (refused.code, f"error: {told}" in refused.err) == (2, True)
    assert not (tmp_path / "storage" / "artifacts").exists()


def test_a_segmenter_that_is_missing_is_told_by_plan_and_refused_by_grid_and_doctor(
    run, tmp_path, monkeypatch
):
    monkeypatch.setattr("raxalign.extras.find_spec", lambda name: None)
    for side in ("zh", "en"):
        (tmp_path / f"zh-en.{side}").write_text("x y\n" * 200, encoding="utf-8")
    corpus = "source: moses\n  path: '{lang}-{pivot}'\n  segmentation: words\n"
    corpus += "  split: {test: 10, dev: 10}"
    parts = {"languages": "{each: [zh]}", "sentences": "50", "methods": ("rotation: {}",)}
    grid = write_grid(tmp_path, corpus=corpus, **parts)  # type: ignore[arg-type]
    told = "corpus.segmentation: words, for zh: the library jieba is not installed."
    assert f"error: {told}" in run("plan", grid).err
    refused, examined = run("grid", grid), run("doctor", grid)
    assert (refused.code, f"error: {told}" in refused.err) == (2, True)
    assert (examined.code, f"broken   {told}" in examined.out) == (2, True)
    assert not (tmp_path / "storage" / "artifacts").exists()


def test_status_counts_what_the_ledger_has(run: Callable[..., Done], grid: Path) -> None:
    none = "small: 0 of 3 trials done, 0 failed, 3 to run; 0 of 3 evaluations\n"
    assert run("status", grid).out.startswith(none)
    plan = open_grid(grid).plan
    write_result(plan, 0, 0.5)
    Ledger(os.environ["RAXALIGN_STORAGE"]).fail(plan.trials[1].run, {"message": "no memory"})
    said = run("status", grid).out
    assert said.startswith("small: 1 of 3 trials done, 1 failed, 1 to run; 1 of 3 evaluations\n")
    assert "\nfailed: rotation center=False de 100 pairs (" in said
    assert "no memory" in said
    key = plan.trials[0].key[:12]
    assert f"\n{key}  1 of 1 evaluation  none de\n" in said
    assert run("results", grid, "--keys").out.startswith(f"{key}  1 of 1 evaluation  none de\n")


def test_results_come_as_a_table_as_json_and_as_csv(run: Callable[..., Done], grid: Path) -> None:
    plan = open_grid(grid).plan
    write_result(plan, 0, 0.25)
    rows = json.loads(run("results", grid, "--format", "json").out)
    trial = plan.trials[0]
    wanted = {"trial": trial.key, "method": "none", "params": {}, "encoder": trial.encoder}
    wanted |= {"languages": ["de"], "sentences": None, "seed": None}
    wanted |= {"task": "retrieval", "task_params": {"k": 10}, "lang": "de-en", "split": "test"}
    wanted |= {"metric": "contextual_accuracy", "value": 0.25}
    assert {name: rows[0][name] for name in wanted} == wanted
    assert run("results", grid, "--format", "csv").out.count("\n") == 1 + len(rows)
    table = run("results", grid).out
    assert "25.0" in table
    assert "contextual_accuracy_pairs" not in table
    assert "contextual_accuracy_pairs" in run("results", grid, "--all").out


def test_a_second_grid_file_is_refused_with_what_to_do_instead(run, grid):
    for command in ("results", "report", "plan"):
        done = run(command, grid, "other.yaml")
        assert done.code == 2
        assert "takes one grid file" in " ".join(done.err.replace("│", " ").split())


def test_an_unfinished_grid_says_over_its_results_what_is_missing(run, tmp_path):
    """Sentences on a grid ask its plan: a baseline that has not run is one."""

    def some(ledger: Ledger, opened: Opened, trial: Trial, key: str) -> None:
        if trial.method == "rotation" and trial.sentences == 100:
            fill(ledger, opened, trial, key)

    made_up(tmp_path, some, methods=("none: {}", "rotation: {}"), tasks=("retrieval: {}",))
    file = tmp_path / "grid.yaml"
    missing = "Unfinished: results of 2 of 3 trials are missing"
    told = f"{missing} (none; rotation with 200 pairs): `raxalign grid {file}` runs them."
    for options in ((), ("--compare",), ("--per-seed",), ("--transpose",)):
        done = run("results", file, *options)
        assert done.out.splitlines()[0] == told, options
    compared = run("results", file, "--compare").out
    assert "nothing is compared: the baseline none has no results yet" in compared
    assert "no baseline" not in compared
    for form in ("markdown", "latex", "json", "csv"):
        done = run("results", file, "--format", form)
        assert f"note: {told}" in done.err
        assert (missing in done.out) == (form in ("markdown", "latex"))


def test_results_are_compared_with_a_baseline(run, tmp_path, monkeypatch):
    parts = {"languages": "{together: [de]}", "sentences": "100", "seeds": "[0, 1, 2]"}
    made_up(tmp_path, **parts, tasks=("retrieval: {}",), more="")
    file = tmp_path / "grid.yaml"
    table = run("results", file, "--compare").out
    assert "retrieval: contextual_accuracy (test), %, against none" in table
    assert "p (Holm)" in table
    said = r"finetune .*(beats|differ) .*the unaligned encoder at word retrieval"
    assert re.match(said, table.splitlines()[-1])
    assert max(map(len, table.splitlines()[:-3])) > 80
    for width, options in ((80, ()), (40, ("--compare",)), (40, ("--transpose",))):
        monkeypatch.setenv("COLUMNS", str(width))
        shown = run("results", file, *options).out
        assert max(map(len, shown.splitlines())) <= width
        assert "…" not in shown
    found = json.loads(run("results", file, "--compare", "rotation", "--format", "json").out)
    assert {row["baseline"] for row in found} == {"rotation"}
    tuned = ["finetune lambda=0.1", "finetune lambda=1", "finetune lambda=10"]
    assert {row["cell"] for row in found} == {"none", *tuned}
    lines = run("results", file, "--compare", "--format", "csv").out
    assert lines.startswith("cell,method,params,")
    wrong = run("results", file, "--compare=finetune")
    assert wrong.code == 2
    assert f"{', '.join(tuned)}; name one of them" in wrong.err


def test_what_falls_far_below_the_baseline_or_is_outdated_is_named(run, tmp_path):
    parts = {"languages": "{together: [de]}", "sentences": "100", "seeds": "[0]"}
    methods, tasks = ("none: {}", "rotation: {}"), ("xnli: {data: phrasebook, readout: keep}",)
    opened, ledger = made_up(tmp_path, **parts, methods=methods, tasks=tasks)
    (trial,) = [trial for trial in opened.plan.trials if trial.method == "rotation"]
    key = trial.evaluations["xnli"]
    record, rows = ledger.read(key), ledger.predictions(key)
    for score in record["scores"]:
        score["value"] = 0.05 if score["lang"] == "de" else score["value"]
    shutil.rmtree(tmp_path / "storage" / "ledger" / key)
    ledger.write(key, record, rows)
    file = tmp_path / "grid.yaml"
    for more in ((), ("--compare",)):
        found = run("results", file, *more)
        assert "note: rotation with 100 pairs falls far below its baseline in xnli" in found.err
        assert "de 5.0 against" in found.err
        assert "the post-hoc maps of rotation (`readout`) were fitted before" in found.err
    lines = [line for line in found.out.splitlines() if line.startswith("rotation")]
    (de,), (en,) = ([line for line in lines if f" {lang} " in line] for lang in ("de", "en"))
    assert de.endswith("(falls far below) (stale maps)")
    assert "outdated" not in en
    told = json.loads(run("results", file, "--compare", "--format", "json").out)
    assert {row["lang"]: (row["falls_far"], row["outdated"]) for row in told} == {
        "en": (False, ""),
        "de": (True, "`readout: keep`"),
        "avg": (False, "`readout: keep`"),
        "avg_zero_shot": (True, "`readout: keep`"),
    }
    assert {(row["better"], row["unit"]) for row in told} == {("higher", "share")}
    for row in csv.DictReader(run("results", file, "--format", "csv").out.splitlines()):
        kept = row["method"] == "rotation" and row["lang"] != "en"
        assert row["outdated"] == ("`readout: keep`" if kept else "")


def test_results_are_chosen_by_options(run: Callable[..., Done], tmp_path: Path) -> None:
    methods = ("none: {}", "rotation: {}")
    made_up(tmp_path, languages="{together: [de, fr]}", sentences="100", methods=methods)
    file = tmp_path / "grid.yaml"
    dev = ("--task", "xnli", "--split", "dev", "--lang", "fr")
    rows = json.loads(run("results", file, *dev, "--format", "json").out)
    assert rows
    assert {(row["task"], row["split"], row["lang"]) for row in rows} == {("xnli", "dev", "fr")}
    table = run("results", file, *dev).out
    assert "xnli: accuracy (dev), %" in table
    assert "retrieval" not in table
    assert run("results", file, *dev, "--per-seed").out.count("rotation") == 2
    both = json.loads(run("results", file, *dev[:4], "--compare", "--format", "json").out)
    one = json.loads(run("results", file, *dev, "--compare", "--format", "json").out)
    assert one == [row for row in both if row["lang"] == "fr"]  # corrected over the whole table
    wrong = run("results", file, "--metric", "acuracy")
    assert (wrong.code, "did you mean accuracy?" in wrong.err) == (2, True)
    assert run("results", file, "--compare", "--transpose").code == 2


def test_diff_exits_as_diff_does(run: Callable[..., Done], grid: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(grid.read_text(encoding="utf-8").replace("[0]", "[1]"), encoding="utf-8")
    assert run("diff", grid, grid).code == 0
    text = other.read_text(encoding="utf-8").replace("center: [false, true]", "center: [true]")
    other.write_text(text, encoding="utf-8")
    done = run("diff", grid, other)
    assert (done.code, "only in" in done.out) == (1, True)
    assert run("diff", grid, tmp_path / "absent").code == 2


def test_show_prints_one_key_and_lists_several(run: Callable[..., Done], grid: Path) -> None:
    from raxalign.grid.stored import StoredPlans

    plan = open_grid(grid).plan
    StoredPlans(Storage(os.environ["RAXALIGN_STORAGE"])).write(plan)
    write_result(plan, 0, 0.25)
    done = run("show", plan.trials[0].key[:20])
    assert (done.code, "25.0" in done.out) == (0, True)
    assert json.loads(run("show", plan.trials[0].key, "--format", "json").out)["method"] == "none"
    assert run("show", "zz").code == 2


def test_no_results_are_an_empty_list_or_a_note(run: Callable[..., Done], grid: Path) -> None:
    assert json.loads(run("results", grid, "--format", "json").out) == []
    done = run("results", grid)
    assert (done.code, done.out) == (0, "")
    assert f"no results yet in the storage {grid.parent}" in done.err


def test_commands_that_are_printed_to_copy_name_the_storage_that_was_given(run, grid, tmp_path):
    elsewhere = tmp_path / "other storage"
    told = f"raxalign grid {grid} --storage '{elsewhere}'"
    assert told in run("results", grid, "--storage", elsewhere).err
    assert told in run("report", grid, "--storage", elsewhere).err
    done, _ = made_up(tmp_path, name="done.yaml")
    finished = run("grid", done.grid.path, "--storage", done.root)
    assert f"`raxalign results {done.grid.path} --storage {done.root}`" in finished.err


def test_list_knows_what_was_meant(run: Callable[..., Done]) -> None:
    assert "Weight of the regulariser" in run("list methods finetune").out
    assert run("list methods linear --format markdown").out.startswith("# linear\n")
    assert run("list method") == Done(2, "", "error: list method: did you mean methods?\n")


def test_the_end_of_a_searched_grid_answers_from_what_was_suggested(run, tmp_path, monkeypatch):
    path = search_grid(tmp_path, "trials: 3, confirm: 2")

    def searched(opened: Opened, **_: object) -> api.Finished:
        ran = answer_search(source_of(opened))
        return api.Finished(opened.plan, len(ran), 0, {})

    monkeypatch.setattr(api, "run", searched)
    done = run("grid", path)
    assert done.code == 0
    told = "Nothing is compared with a baseline: the grid has no baseline (a method of kind none)."
    assert done.err.splitlines() == [told]  # of the plan without suggestions there are no results


def test_doctor_names_missing_data(run: Callable[..., Done], grid: Path, tmp_path: Path) -> None:
    assert run("doctor", grid).code == 0
    of_files(grid, "data/")
    done = run("doctor", grid)
    assert done.code == 2
    for name in ("de-en.de", "de-en.en"):
        assert re.search(rf"^(broken   )?{tmp_path}/data/{name}", done.out, re.MULTILINE)


def test_all_that_a_grid_would_refuse_is_told_by_plan_and_doctor_and_last(run, grid, tmp_path):
    methods = {"methods": ("none: {}", "rotation: {}"), "sentences": "100"}
    grid = write_grid(tmp_path, languages="{each: [fr, ger]}", **methods)
    of_files(grid, "")
    for file, n_lines in (
        ("fr-en.fr", 300),
        ("fr-en.en", 290),
        ("de-en.de", 300),
        ("de-en.en", 300),
    ):
        (tmp_path / file).write_text("a word\n" * n_lines, encoding="utf-8")
    unequal = f"{tmp_path}/fr-en.en:291: {tmp_path}/fr-en.fr has 300 lines and"
    missing = f"{tmp_path}/ger-en.ger: there is no such file (there is de-en.de: German is de, not"
    done = run("plan", grid, "--format", "json")
    assert (done.code, len(json.loads(done.out)["missing"])) == (2, 2)
    for told in (done.err, run("plan", grid).err, run("grid", grid, "--dry-run").err):
        end = told[told.index("error: ") :].splitlines()
        assert len(end) == 3
        assert end[0].startswith(f"error: {missing}")
        assert end[-1].startswith(unequal)
    done = run("doctor", grid)
    assert (done.code, done.out.count("broken ")) == (2, 3)
    assert f"broken   {missing}" in done.out
    assert f"broken   {unequal}" in done.out
    assert "ok       storage" in done.out


def test_doctor_opens_the_encoders_on_this_machine(run, tmp_path):
    folder = tmp_path / "encoder"
    tiny_bert(folder, ["the"], layers=1)
    parts = {"languages": "{each: [de]}", "sentences": "100", "methods": ("none: {}",)}
    grid = write_grid(tmp_path, encoder=str(folder), **parts)
    assert "ok       encoder encoder\n" in run("doctor", grid).out
    config, weights = folder / "config.json", folder / "model.safetensors"
    whole, data = config.read_text(), weights.read_bytes()
    other = json.loads(whole)
    config.write_text(json.dumps({**other, "vocab_size": other["vocab_size"] + 1}))
    done = run("doctor", grid)
    assert (done.code, "its weights do not fit its config.json: bert." in done.out) == (2, True)
    config.write_text(whole)
    weights.write_bytes(data[:-4] + b"\xff" * 4)
    done = run("doctor", grid)
    assert (done.code, "NaN" in done.out) == (2, True)
    weights.write_text("version https://git-lfs.github.com/spec/v1\nsize 9\n")
    assert "lacks model.safetensors" in run("plan", grid).err
    shards = {"weight_map": {"bert.w": "model-1-of-1.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(shards))
    weights.rename(folder / "adapter.safetensors").write_bytes(data)
    assert "lacks model-1-of-1.safetensors" in run("plan", grid).err


def test_failures_of_one_cause_are_told_once_with_their_trials(run, grid, monkeypatch):
    plan, ledger = open_grid(grid).plan, Ledger(os.environ["RAXALIGN_STORAGE"])
    for trial in plan.trials:
        cause = "no memory" if trial.method == "rotation" else "no text"
        ledger.fail(trial.run, {"message": cause})
    failed = {
        trial.key: message["message"]
        for trial in plan.trials
        for message in ledger.failures([trial.run]).values()
    }
    monkeypatch.setattr(api, "run", lambda *_, **__: api.Finished(plan, 0, 0, failed))
    for told in (run("status", grid).out, run("grid", grid).err):
        assert told.count("no memory") == 1
        assert "failed: none de (" in told
        named = "".join(
            f"\n  rotation center={value} de 100 pairs ({trial.key[:12]})"
            for value, trial in zip((False, True), plan.trials[1:], strict=True)
        )
        assert f"failed: 2 trials, for one reason: no memory{named}\n" in told


def of_files(grid: Path, folder: str) -> None:
    """Have a grid read its text from two files per language."""
    text, own = grid.read_text(encoding="utf-8"), f"moses\n  path: '{folder}{{lang}}-{{pivot}}'"
    grid.write_text(text.replace("phrasebook\n  size: 400", own), encoding="utf-8")


def test_doctor_and_plan_remark_on_sides_that_seem_to_be_swapped(run, grid, tmp_path):
    corpus = PhrasebookCorpus(PhrasebookCorpus.Params(size=400))
    pairs = list(corpus.read("de", "en", CorpusInputs({}, tmp_path)))
    for code, side in (("en", "source"), ("de", "target")):  # English is in the file of German
        text = "".join(f"{getattr(pair, side)}\n" for pair in pairs)
        (tmp_path / f"de-en.{code}").write_text(text, encoding="utf-8")
    of_files(grid, "")
    told = f"{tmp_path}/de-en.de: the sides of de-en seem to be swapped: "
    done = run("doctor", grid)
    assert (done.code, f"note     {told}" in done.out) == (0, True)
    done = run("plan", grid)
    assert (done.code, f"warning: {told}" in done.err) == (0, True)


XNLI = "xnli: {data: {train: 'train.{pivot}.tsv', dev: 'dev.{lang}.tsv', test: 'test.{lang}.tsv'}}"


def write_xnli(folder: Path, **replaced: str) -> Path:
    """A grid on files of XNLI, of which some hold something else."""
    for name in ("train_en", "dev_en", "dev_de", "test_en", "test_de"):
        text = f"premise\thypothesis\tlabel\n{name}\tB\tneutral\n"
        file = folder / f"{name.replace('_', '.')}.tsv"
        file.write_text(replaced.get(name, text), encoding="utf-8")
    parts = {"languages": "{each: [de]}", "sentences": "100", "methods": ("none: {}",)}
    return write_grid(folder, tasks=(XNLI,), **parts)  # type: ignore[arg-type]


def test_a_grid_names_all_faults_of_its_data_files_before_anything_starts(
    run: Callable[..., Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "raxalign.sweep.running", None)  # what imports Ray
    path = write_xnli(tmp_path, dev_de="A\tB\tmaybe\nC\tD\t0\nE\tF\tperhaps\n", test_de="")
    done = run("grid", path)
    assert (done.code, done.out) == (2, "")
    assert f"error: {path}: 3 faults in its data files; nothing was started" in done.err
    assert not (tmp_path / "storage" / "plans").exists()
    tiny_bert(tmp_path / "encoder", ["the"], layers=1)
    done = run("evaluate", path, "--encoder", "encoder", "--device", "cpu")
    assert (done.code, done.out) == (2, "")
    assert "3 faults in its data files" in done.err


def test_doctor_reads_the_data_files(run: Callable[..., Done], tmp_path: Path) -> None:
    done = run("doctor", write_xnli(tmp_path))
    assert done.code == 0
    assert "ok       5 data files were read: 5 rows\n" in done.out
    done = run("doctor", write_xnli(tmp_path, test_de="premise\thypothesis\nA\tB\n"))
    assert done.code == 2
    assert f"broken   {tmp_path}/test.de.tsv:1: no labels" in done.out


def test_a_model_is_registered_with_sentence_transformers_alone(run, tmp_path, monkeypatch):
    monkeypatch.setattr("raxalign.extras.find_spec", lambda name: None)
    done = run("export", "abcd", "exported", "--register", "mine")
    lacks = "--register: the library sentence_transformers is not installed. Run: pip install"
    assert (done.code, f"{lacks} 'raxalign[sentences]'" in done.err) == (2, True)


def test_aer_prints_a_line_per_score(run: Callable[..., Done], tmp_path: Path) -> None:
    (tmp_path / "links").write_text("0-0 1-1\n0-0 5-5\n", encoding="utf-8")
    gold = "1 1 1 S\n1 3 3 S\n1 2 2 P\n2 1 1 S\n2 1 2 P\n"
    (tmp_path / "gold").write_text(gold, encoding="utf-8")
    done = run("aer", "links", "gold", "--format", "naacl")
    shown = "precision 0.7500 recall 0.6667 f1 0.7059 aer 0.2857 sentences 2 "
    assert (done.code, " ".join(done.out.split()).startswith(shown)) == (0, True)
    assert "Read it as `naacl`" in run("aer", "links", "gold").err


@pytest.mark.slow
def test_single_runs_from_pairs_to_scores(run: Callable[..., Done], tmp_path: Path) -> None:
    tiny_bert(tmp_path / "encoder", ["the", "der", "das", "."], layers=1, hidden=8)
    data = "--source phrasebook -o size=120 --lang de --sentences 40 --heldout 60"
    links = "--aligner fast_align --no-one-to-one --symmetrization grow-diag"
    done = run("pairs --out pairs --export-links links.txt", data, links)
    assert (done.code, done.out) == (0, "pairs\n")
    assert "40 sentence pairs, 0 of them without a link, " in done.err
    # Sentences 20 to 59 of the corpus: the last 60 are held out.
    written = (tmp_path / "links.txt").read_text(encoding="utf-8").splitlines()
    assert [bool(line) for line in written] == [False] * 20 + [True] * 40
    given = "--encoder encoder --device cpu --pairs de=pairs -o center=true --out out"
    done = run("align rotation", given)
    assert (done.code, done.out) == (0, "out\n")
    (tmp_path / "d.txt").write_text("der the\ndas the\nxyz xyz\n", encoding="utf-8")
    given = given.replace("--out out", "--out other -o supervision=dictionary -o dictionary=d.txt")
    done = run("align rotation", given)
    assert (
        "note: rotation de: 2 of 3 entries of the dictionary are in the text; of the word"
        in done.err
    )
    parts = {"languages": "{each: [de]}", "sentences": "40", "methods": ("none: {}",)}
    grid = write_grid(tmp_path, size=120, **parts)  # type: ignore[arg-type]
    options = "--encoder out --device cpu --task retrieval --format json"
    rows = json.loads(run("evaluate", grid, options).out)
    assert {row["lang"] for row in rows} == {"de-en"}
    assert all(0 <= row["value"] <= 1 for row in rows if row["metric"] == "contextual_accuracy")
