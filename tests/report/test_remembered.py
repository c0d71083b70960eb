"""The remembered answer of a grid."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from raxalign.plan.load import Opened, open_grid
from raxalign.report import answer
from raxalign.report.terminal.cached_answer import remembered_answer
from tests.grids import write_grid


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    """A grid of three trials, of which nothing is done."""
    path = write_grid(tmp_path, languages="{each: [de]}", sentences="[100]", seeds="[0, 1, 2]")
    return open_grid(path, storage=str(tmp_path / "storage"))


def write(opened: Opened, number: int) -> None:
    """The result of one trial."""
    score = {"lang": "de", "metric": "accuracy", "split": "test", "value": 0.5}
    for key in opened.plan.trials[number].evaluations.values():
        opened.storage.ledger.write(key, {"params": {}, "scores": [score], "seconds": 1.0}, None)


def test_an_answer_is_found_again_only_where_the_results_have_changed(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = iter(("one", "two", "three"))
    monkeypatch.setattr(answer, "stored_answer", lambda plan, ledger: next(found))

    def ask() -> str:
        return remembered_answer(opened.plan, opened.storage.ledger, tmp_path / "answers")

    write(opened, 0)
    assert [ask(), ask()] == ["one", "one"]
    write(opened, 1)
    assert [ask(), ask()] == ["two", "two"]
    (file,) = (tmp_path / "answers").iterdir()
    file.write_text("{")
    assert [ask(), ask()] == ["three", "three"]
    assert json.loads(file.read_text())["answer"] == "three"


def test_the_answer_is_that_of_the_results(opened: Opened, tmp_path: Path) -> None:
    ledger, folder = opened.storage.ledger, tmp_path / "answers"
    for number in range(3):
        write(opened, number)
        expected = answer.stored_answer(opened.plan, ledger)
        assert expected
        assert [remembered_answer(opened.plan, ledger, folder) for _ in range(2)] == [expected] * 2


def test_what_is_remembered_loads_no_library(opened: Opened, tmp_path: Path) -> None:
    write(opened, 0)
    remembered_answer(opened.plan, opened.storage.ledger, tmp_path / "answers")
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from raxalign.plan.load import open_grid\n"
        "from raxalign.report.terminal.cached_answer import remembered_answer\n"
        "from raxalign.store.ledger import Ledger\n"
        "import raxalign.sweep.grid\n"
        f"opened = open_grid({str(opened.grid.path)!r}, storage={opened.root!r})\n"
        f"folder = Path({str(tmp_path / 'answers')!r})\n"
        "assert remembered_answer(opened.plan, Ledger(opened.root), folder)\n"
        "heavy = {'numpy._core', 'scipy._lib', 'pandas._libs', 'pyarrow.lib', 'torch._C', 'ray',"
        " 'mlflow'}\n"  # others are only names until something reads them
        "print(sorted(heavy & sys.modules.keys()))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")
