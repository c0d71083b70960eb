"""`bundle` packs what results were made from; `verify` finds every change in it."""

from __future__ import annotations

import io
import json
import shutil
import zipfile
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from raxalign.errors import RaxalignError
from raxalign.grid.load import Opened, open_grid
from raxalign.grid.plan import Plan
from raxalign.grid.trial import Trial
from raxalign.inspect.bundle import pack, verify
from raxalign.report.compose import write_report
from raxalign.store.key import file_digest
from raxalign.store.ledger import Ledger
from raxalign.store.sealed import seal
from raxalign.trust import TRUST
from tests.grids import TINY, write_grid
from tests.ledgers import fill, fill_all, made_up
from tests.ran import ran
from tests.report.material import leave_undrawn
from tests.toys.pages import blocks

HUB = "bert-base-multilingual-cased"
LOCK = {
    f"hub:{HUB}": "a" * 40,
    f"depth:{HUB}@{'a' * 40}": "12",
    f"head:{HUB}@{'a' * 40}": "masked-lm",
}


class Named(Ledger):
    """A ledger whose records name their trials, as those of a run do."""

    stage: Any
    encoder: str

    def write(self, key: str, record: Mapping[str, Any], predictions: pa.Table | None) -> None:
        of = self.stage.evaluated(record["task"], self.encoder)
        means = [
            {"lang": "avg", "metric": metric, "split": split, "value": sum(values) / len(values)}
            for (metric, split), values in by_metric(record["scores"]).items()
        ]
        super().write(key, {**of, **record, "scores": [*record["scores"], *means]}, predictions)


def by_metric(scores):
    found: dict[tuple[str, str], list[float]] = {}
    for score in scores:
        found.setdefault((score["metric"], score["split"]), []).append(score["value"])
    return found


def named(ledger: Ledger, opened: Opened, trial: Trial, key: str) -> None:
    other = Named(ledger.root)
    other.stage, other.encoder = opened.plan.stages[key], trial.encoder
    fill(other, opened, trial, key)


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished grid on local text and an encoder of the hub, with a plug-in: nothing is run."""
    folder = tmp_path_factory.mktemp("grid")
    (folder / "methods").mkdir()
    for lang in ("de", "fr", "en"):
        (folder / f"own.{lang}").write_text("x\n" * 9, encoding="utf-8")
    (folder / "methods" / "my_method.py").write_text(blocks()["my_method.py"], encoding="utf-8")
    (folder / "grid.lock").write_text(json.dumps(LOCK), encoding="utf-8")
    file = write_grid(
        folder,
        encoder=HUB,
        languages="{together: [de, fr]}",
        corpus="source: moses\n  path: own\n  split: {test: 2, dev: 2}",
        sentences="3",
        seeds="[0, 1]",
        methods=("none: {}", "finetune: {lambda: 1.0}", "mine: {kind: my_method, strength: 0.5}"),
        tasks=("retrieval: {}", "xnli: {setting: zero-shot, data: phrasebook}"),
        more="plugins: [methods/my_method.py]\n",
    )
    opened = open_grid(file, storage=str(folder / "storage"))
    fill_all(opened.storage.ledger, opened, named)
    return file


@pytest.fixture(scope="module")
def whole(grid: Path) -> Path:
    """Its bundle, without figures."""
    opened = open_grid(grid, storage=str(grid.parent / "storage"))
    with pytest.MonkeyPatch.context() as patch:
        leave_undrawn(patch)
        pack(opened, grid.parent / "whole.zip")
    return grid.parent / "whole.zip"


def found(archive: Path, *asked: str) -> tuple[set[int], str]:
    """The exit codes and the text of all checks."""
    with pytest.MonkeyPatch.context() as patch:
        leave_undrawn(patch)
        checks = list(verify(archive, *asked))
    return {code for code, _ in checks}, "\n".join(line for _, lines in checks for line in lines)


def test_what_is_packed_verifies_and_says_what_it_does_not_hold(whole, grid):
    codes, text = found(whole)
    assert codes == {0}, text
    assert "report: equal" in text
    with zipfile.ZipFile(whole) as archive:
        names = {name.removeprefix("small/") for name in archive.namelist()}
        manifest = json.loads(archive.read("small/MANIFEST.json"))
    assert names == {"MANIFEST.json", *manifest["files"]}
    assert {"grid/grid.yaml", "grid/grid.lock", "grid/my_method.py", "report/report.html"} <= names
    assert manifest["data"].keys() == {"own.de", "own.fr", "own.en"}
    assert manifest["remote"] == {f"hub:{HUB}": "a" * 40}
    assert str(grid.parent).encode() not in b"".join(map(bytes, contents(whole).values()))


Change = Callable[[Path], object]


def contents(archive: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(archive) as file:
        return {name: file.read(name) for name in file.namelist()}


def planted(whole: Path, folder: Path, change: Change, *, forged: bool = True) -> Path:
    """The bundle with a change by somebody who makes its manifest fit (`forged`), or does not."""
    with zipfile.ZipFile(whole) as file:
        file.extractall(folder)
    root = folder / "small"
    change(root)
    place = root / "MANIFEST.json"
    if forged:
        manifest = json.loads(place.read_text(encoding="utf-8"))
        paths = [path for path in root.rglob("*") if path.is_file() and path != place]
        manifest["files"] = {
            path.relative_to(root).as_posix(): {
                "size": path.stat().st_size,
                "sha256": file_digest(path),
            }
            for path in paths
        }
        place.write_text(json.dumps(manifest), encoding="utf-8")
    with zipfile.ZipFile(folder / "changed.zip", "w") as file:
        for path in root.rglob("*"):
            file.write(path, path.relative_to(folder))
    return folder / "changed.zip"


def record_of(root: Path, task: str, number: int = 0) -> Path:
    """The folder of a result."""
    every = (path.parent for path in sorted((root / "ledger").rglob("evaluation.json")))
    return [path for path in every if read(path)["task"] == task][number]


def read(folder: Path) -> dict[str, Any]:
    found = json.loads((folder / "evaluation.json").read_text(encoding="utf-8"))
    return {name: value for name, value in found.items() if name != "sha256"}


def write(folder: Path, record: Mapping[str, Any], table: pa.Table | None = None) -> None:
    """Put a record in place of another one, whose checksums fit again."""
    record = dict(record)
    if table is not None:
        pq.write_table(table, folder / "predictions.parquet")
        data = (folder / "predictions.parquet").read_bytes()
        record["parquet"] = {"size": len(data), "sha256": sha256(data).hexdigest()}
    (folder / "evaluation.json").write_bytes(seal(record))


def predictions(folder: Path) -> pa.Table:
    return pq.read_table(folder / "predictions.parquet")


def change_score(task: str, lang: str = "de", metric: str = "accuracy") -> Change:
    def change(root: Path) -> None:
        record = read(folder := record_of(root, task))
        named = (s for s in record["scores"] if s["metric"].endswith(metric))
        score = next(s for s in named if s["lang"].startswith(lang))
        score["value"] += 0.01
        write(folder, record)

    return change


def change_prediction(root: Path) -> None:
    table = predictions(folder := record_of(root, "xnli"))
    labels = table["predicted"].to_pylist()
    labels[70] = next(name for name in labels if name != labels[70])
    place = table.column_names.index("predicted")
    write(folder, read(folder), table.set_column(place, "predicted", pa.array(labels)))


def drop_predictions(root: Path) -> None:
    folder = record_of(root, "retrieval")
    write(folder, read(folder), predictions(folder).slice(2))


def swap_predictions(root: Path) -> None:
    first, second = (record_of(root, "retrieval", number) for number in (0, 1))
    one, two = predictions(first), predictions(second)
    write(first, read(first), two)
    write(second, read(second), one)


def swap_results(root: Path) -> None:
    """Two results under each other's keys."""
    first, second = (record_of(root, "retrieval", number) for number in (0, 1))
    (one, a), (two, b) = ((read(folder), predictions(folder)) for folder in (first, second))
    write(first, {**two, "key": one["key"]}, b)
    write(second, {**one, "key": two["key"]}, a)


def rename_result(root: Path) -> None:
    folder = record_of(root, "retrieval")
    write(folder, {**read(folder), "key": "0" * 64})
    folder.rename(folder.with_name("0" * 64))


def add_result(root: Path) -> None:
    folder = record_of(root, "xnli")
    shutil.copytree(folder, other := folder.with_name("1" * 64))
    write(other, {**read(other), "key": "1" * 64})


def replaced(name: str, before: str, after: str) -> Change:
    def change(root: Path) -> None:
        text = (root / name).read_text(encoding="utf-8")
        assert before in text
        (root / name).write_text(text.replace(before, after, 1), encoding="utf-8")

    return change


def change_number(name: str) -> Change:
    """A digit after a point in the middle of a file."""

    def change(root: Path) -> None:
        text = (root / name).read_text(encoding="utf-8")
        at = next(
            i
            for i in range(len(text) // 2, len(text))
            if text[i].isdecimal() and text[i - 1] == "." and text[i - 2].isdecimal()
        )
        digit = str((int(text[at]) + 1) % 10)
        (root / name).write_text(text[:at] + digit + text[at + 1 :], encoding="utf-8")

    return change


def change_digest(root: Path) -> None:
    manifest = json.loads((root / "MANIFEST.json").read_text(encoding="utf-8"))
    manifest["data"]["own.de"] = "b" * 64
    (root / "MANIFEST.json").write_text(json.dumps(manifest), encoding="utf-8")


def call_finished(root: Path) -> None:
    """A result less, and a manifest that says so."""
    folder = record_of(root, "retrieval")
    manifest = json.loads((root / "MANIFEST.json").read_text(encoding="utf-8"))
    manifest["lacking"] = [folder.name]
    (root / "MANIFEST.json").write_text(json.dumps(manifest), encoding="utf-8")
    shutil.rmtree(folder)


def add_row(root: Path) -> None:
    lines = (root / "report" / "results.csv").read_text(encoding="utf-8").splitlines()
    text = "\n".join([*lines, lines[-1], ""])
    (root / "report" / "results.csv").write_text(text, encoding="utf-8")


def of_record(**parts: object) -> Change:
    def change(root: Path) -> None:
        folder = record_of(root, "retrieval")
        write(folder, {**read(folder), **parts})

    return change


CHANGES: dict[str, tuple[str, Change]] = {
    "score": ("scores: different", change_score("retrieval")),
    "score of another task": ("scores: different", change_score("xnli")),
    "mean": ("scores: different", change_score("xnli", "avg")),
    "count": ("report/results.csv: line", change_score("retrieval", "fr", "_pairs")),
    "prediction": ("scores: different", change_prediction),
    "predictions left out": ("scores: different", drop_predictions),
    "predictions of two results swapped": ("scores: different", swap_predictions),
    "results of two trials swapped": ("its aligned is not that of", swap_results),
    "key": ("a result that the grid does not plan, is there", rename_result),
    "added result": ("a result that the grid does not plan, is there", add_result),
    "missing result": ("is missing", lambda root: shutil.rmtree(record_of(root, "xnli"))),
    "missing result, owned up to": ("report: different", call_finished),
    "seed of a record": ("its seed is not that of", of_record(seed=7)),
    "options of a record": ("its params is not that of", of_record(params={"k": 1})),
    "seed": ("is missing", replaced("grid/grid.yaml", "seeds: [0, 1]", "seeds: [0, 2]")),
    "option": ("is missing", replaced("grid/grid.yaml", "lambda: 1.0", "lambda: 2.0")),
    "task option": ("is missing", replaced("grid/grid.yaml", "retrieval: {}", "retrieval: {k: 5}")),
    "size": ("is missing", replaced("grid/grid.yaml", "sentences: 3", "sentences: 2")),
    "method left out": (
        "a result that the grid does not plan",
        replaced("grid/grid.yaml", "  finetune: {lambda: 1.0}\n", ""),
    ),
    "plug-in": ("is missing", replaced("grid/my_method.py", "strength", "strength ")),
    "lock": (
        "is missing",
        replaced("grid/grid.lock", f'"hub:{HUB}": "{"a" * 40}"', f'"hub:{HUB}": "{"c" * 40}"'),
    ),
    "size of an encoder in the lock": (
        "report/report.html: line",
        replaced("grid/grid.lock", '"12"', '"13"'),
    ),
    "digest of data": ("is missing", change_digest),
    "table of values": ("report/results.csv: line", change_number("report/results.csv")),
    "row of a table": ("report/results.csv: line", add_row),
    "table of tests": ("report/comparisons.csv: line", change_number("report/comparisons.csv")),
    "JSON of tests": ("report/comparisons.json: line", change_number("report/comparisons.json")),
    "page": ("report/report.html: line", change_number("report/report.html")),
    "page in LaTeX": ("report/report.tex: line", change_number("report/report.tex")),
    "page left out": (
        "report/report.md: is there on one side only",
        lambda root: (root / "report" / "report.md").unlink(),
    ),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_is_found_though_all_checksums_fit(what, whole, tmp_path):
    told, change = CHANGES[what]
    codes, text = found(planted(whole, tmp_path, change))
    assert 1 in codes
    assert told in text


def test_a_byte_that_was_changed_is_found_by_its_checksum(whole, tmp_path):
    archive = planted(whole, tmp_path, change_score("xnli"), forged=False)
    codes, text = found(archive)
    assert codes == {1}
    assert text.startswith("files: different")
    assert "evaluation.json: was changed: its bytes have another SHA-256" in text


def test_a_file_more_or_less_is_found(whole, tmp_path):
    def change(root: Path) -> None:
        (root / "report" / "report.md").unlink()
        (root / "report" / "more.md").write_text("more", encoding="utf-8")

    _, text = found(planted(whole, tmp_path, change, forged=False))
    assert "report/report.md: is missing" in text
    assert "report/more.md: is not one of its files" in text


@pytest.mark.parametrize("what", ["cut", "none", "not packed", "led outside", "large"])
def test_what_is_not_a_whole_bundle_is_refused_and_nothing_is_left(
    what, whole, tmp_path, monkeypatch
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    archive = tmp_path / "bundle.zip"
    data = whole.read_bytes()
    archive.write_bytes({"cut": data[: len(data) // 2], "not packed": b"x"}.get(what, data))
    if what == "none":
        archive.unlink()
    if what == "large":
        monkeypatch.setattr("raxalign.inspect.bundle._LARGEST", 1000)
    if what == "led outside":
        with zipfile.ZipFile(archive, "w") as file:
            for name, text in contents(whole).items():
                file.writestr(name, text.replace(b'"README.txt"', b'"../../README.txt"'))
    with pytest.raises(RaxalignError, match=r"bundle.zip: is not a whole bundle \(.*\); get it"):
        list(verify(archive))
    assert [path.name for path in tmp_path.iterdir() if path != archive] == ["tmp"]
    assert list((tmp_path / "tmp").iterdir()) == []


def test_names_that_lead_outside_and_links_write_nothing_there(whole, tmp_path):
    archive, inner = tmp_path / "bundle.zip", "../" * 9 + str(tmp_path)[1:] + "/outside"
    with zipfile.ZipFile(archive, "w") as file:
        for name, data in {**contents(whole), inner: b"x", "small/link": b"/etc"}.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = (0o120777 if name == "small/link" else 0o100644) << 16
            file.writestr(info, data)
    with pytest.raises(RaxalignError, match="is not a whole bundle"):
        list(verify(archive))
    assert list(tmp_path.iterdir()) == [archive]


def test_no_plug_in_of_a_bundle_runs_unasked(whole, monkeypatch, tmp_path):
    monkeypatch.delenv(TRUST)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    checks = verify(whole)
    assert next(checks)[0] == 0
    with pytest.raises(RaxalignError, match=r"my_method\.py. A plug-in is a program.*add --trust"):
        next(checks)


def test_a_sample_names_what_is_not_here_and_how_it_is_asked_for(whole, tmp_path):
    archive = shutil.copy(whole, tmp_path / "elsewhere.zip")
    codes, text = found(Path(archive), "5%@7")
    assert codes == {0, 2}
    digest = file_digest(whole.parent / "own.de")
    assert f"put own.de at {tmp_path}/own.de (SHA-256 {digest})" in text
    for wrong in ("0%", "101%", "5", "a few", "5%@-1"):
        with pytest.raises(RaxalignError, match="write a share such as 5%, or 5%@17 with its seed"):
            next(verify(whole, wrong))
    opened = open_grid(whole.parent / "grid.yaml", storage=str(whole.parent / "storage"))
    with pytest.raises(RaxalignError, match=r"has results of the sample.*name an empty one"):
        found(whole, "50%", opened.root)


def test_the_same_content_is_the_same_file_and_another_one_is_not_overwritten(
    grid, whole, tmp_path, undrawn
):
    opened = open_grid(grid, storage=str(grid.parent / "storage"))
    pack(opened, tmp_path / "again.zip")
    assert (tmp_path / "again.zip").read_bytes() == whole.read_bytes()
    pack(opened, tmp_path / "again.zip")
    (tmp_path / "again.zip").write_bytes(b"mine")
    with pytest.raises(RaxalignError, match=r"again.zip: is there already, with other content"):
        pack(opened, tmp_path / "again.zip")
    assert [path.name for path in tmp_path.iterdir()] == ["again.zip"]


def test_an_unfinished_grid_says_so_and_an_empty_one_is_refused(tmp_path, undrawn):
    opened, ledger = made_up(tmp_path, lambda *_: None, languages="{together: [de]}")
    with pytest.raises(RaxalignError, match="has no results yet in"):
        pack(opened, tmp_path / "bundle.zip")
    assert not (tmp_path / "bundle.zip").exists()
    trial = opened.plan.trials[0]
    named(ledger, opened, trial, trial.evaluations["retrieval"])
    lines = pack(opened, tmp_path / "bundle.zip")
    assert "unfinished, as its MANIFEST.json says" in lines[0]
    codes, text = found(tmp_path / "bundle.zip")
    assert codes == {0}, text
    assert "; unfinished: " in text


def test_trials_that_failed_are_told_from_missing_ones_in_the_bundle_too(
    tmp_path, undrawn, monkeypatch
):
    monkeypatch.setenv("HOME", "/home/me")
    opened, ledger = made_up(tmp_path, lambda *_: None, languages="{together: [de]}")
    first, second, *_ = opened.plan.trials
    named(ledger, opened, first, first.evaluations["retrieval"])
    ledger.fail(
        second.run, {"message": "/home/me/x diverged, https://me:secret@host/x", "trace": ""}
    )
    lines = pack(opened, tmp_path / "bundle.zip")
    assert "1 result with predictions, and the report" in lines[1]
    packed = contents(tmp_path / "bundle.zip")
    (told,) = [text for name, text in packed.items() if f"failures/{second.run}" in name]
    assert b"~/x diverged, https://***@host/x" in told
    (page,) = [text for name, text in packed.items() if name.endswith("report.html")]
    assert f"1 of {len(opened.plan.trials)} trials failed".encode() in page
    codes, text = found(tmp_path / "bundle.zip")
    assert codes == {0}, text


def test_a_result_that_comes_while_a_bundle_is_packed_counts_as_missing_from_it(
    tmp_path, undrawn, monkeypatch
):
    opened, ledger = made_up(tmp_path, lambda *_: None, languages="{together: [de]}")
    first, *_, second = opened.plan.trials
    named(ledger, opened, first, first.evaluations["retrieval"])

    def reported(*asked, **more):
        named(ledger, opened, second, second.evaluations["retrieval"])
        return write_report(*asked, **more)

    with monkeypatch.context() as patch:
        patch.setattr("raxalign.inspect.bundle.write_report", reported)
        pack(opened, tmp_path / "bundle.zip")
    codes, text = found(tmp_path / "bundle.zip")
    assert codes == {0}, text


def test_no_credentials_and_no_home_are_packed(grid, tmp_path, undrawn, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = Path(shutil.copytree(grid.parent, tmp_path / "project"))
    text = (folder / "grid.yaml").read_text(encoding="utf-8")
    text = text.replace("path: own", f"path: {folder}/own")
    text = text.replace("run: {", "run: {tracking_uri: 'https://me:secret@host/path', ")
    (folder / "grid.yaml").write_text(text, encoding="utf-8")
    opened = open_grid(folder / "grid.yaml", storage=str(folder / "storage"))
    pack(opened, tmp_path / "bundle.zip")
    everything = b"".join(contents(tmp_path / "bundle.zip").values())
    assert b"https://***@host/path" in everything
    assert b"secret" not in everything
    assert str(tmp_path).encode() not in everything
    codes, text = found(tmp_path / "bundle.zip")
    assert codes == {0}, text


def test_results_of_another_run_are_compared_value_by_value(whole, monkeypatch):
    """What the other run found is in its storage: the same, but for one result."""

    def run(opened: Opened, plan: Plan, _: object) -> SimpleNamespace:
        assert (opened.run.address, opened.run.tracking_uri) == (None, None)
        source = Ledger(str(opened.grid.path.parent.parent))
        for trial in plan.trials:
            for task, key in trial.evaluations.items():
                record, table = source.read(key), source.predictions(key)
                if (trial.kind, trial.seed, task) == ("finetune", 1, "xnli"):
                    record["scores"][0]["value"] += 0.01
                    table = table.slice(1)
                opened.storage.ledger.write(key, record, table)
        return SimpleNamespace(failed={})

    monkeypatch.setattr("raxalign.sweep.grid.run_whole", run)
    codes, text = found(whole, "100%@3")
    assert codes == {0, 1}
    told, *lines = text[text.index("sample: ") :].split("\n")
    assert told.startswith("sample: different; 6 of 6 trials run again (--sample 100%@3), with ")
    assert "and 1 unlike predictions" in told
    values = [line for line in lines if line.startswith("  xnli/")]
    assert len(values) == 1
    assert "finetune" in values[0]


@pytest.mark.slow
def test_trials_that_run_again_are_equal_but_for_a_result_that_was_made_up(tmp_path, undrawn):
    """The result of another seed, under every checksum, key and table that there are."""
    opened = ran(
        write_grid(
            tmp_path,
            encoder=TINY,
            languages="{each: [de]}",
            size=160,
            sentences="100",
            seeds="[0, 1]",
            methods=("none: {}", "finetune: {lambda: 1.0, batch_size: 16, learning_rate: 0.01}"),
        )
    )
    ledger = opened.storage.ledger
    first, second = (t for t in opened.plan.trials if t.kind != "none")
    (key, other) = (trial.evaluations["retrieval"] for trial in (first, second))
    own, record, table = ledger.read(key), ledger.read(other), ledger.predictions(other)
    shutil.rmtree(tmp_path / "storage" / "ledger" / key)
    same = {name: own[name] for name in ("key", "aligned", "seed")}
    ledger.write(key, {**record, **same}, table)
    pack(opened, tmp_path / "bundle.zip")
    codes, text = found(tmp_path / "bundle.zip", "100%")
    assert codes == {0, 1}, text
    (told,) = [line for line in text.split("\n") if line.startswith("sample: different; 3 of 3")]
    lines = text.split("\n")[text.split("\n").index(told) + 1 :]
    values = [line for line in lines if line.startswith("  retrieval/")]
    assert values
    assert all("finetune de seed 0" in line for line in values)
