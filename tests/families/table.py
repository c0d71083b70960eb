"""The table of families: which promises hold for which of them."""

from __future__ import annotations

import tempfile
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from raxalign.catalog import catalog
from tests.families.checks import (
    TASKS,
    Subject,
    check_export,
    check_loads,
    check_method,
    check_pieces,
    check_states,
    check_task,
    check_words,
)
from tests.methods.contract import TRANSFORMER_METHODS
from tests.methods.toy import toy_inputs

PROMISES: dict[str, Callable[[Subject], None]] = {
    "loads": check_loads,
    "pieces": check_pieces,
    "states": check_states,
    "words": check_words,
}
INPUTS = ("de", "fr")


@dataclass
class Row:
    """What was found on one family: check -> the error, None where it passed."""

    family: str
    found: dict[str, str | None] = field(default_factory=dict)

    def cell(self, check: str) -> str:
        """``yes`` or ``no``, or ``-`` for what was not tried."""
        return "-" if check not in self.found else "no" if self.found[check] else "yes"

    def share(self, prefix: str, total: int) -> str:
        """How many checks of a kind passed, and which did not."""
        results = {
            name.removeprefix(prefix): error
            for name, error in self.found.items()
            if name.startswith(prefix)
        }
        if not results:
            return "-"
        failed = [name for name, error in results.items() if error]
        return f"{total - len(failed)} of {total}" + (
            f" (not {', '.join(failed)})" if 0 < len(failed) <= 6 else ""
        )


def examine(name: str, root: Path, *, quick: bool = False) -> Row:
    """Try every promise on one family.

    Args:
        name: the family.
        root: a folder to work in.
        quick: leave out methods and tasks.
    """
    row, subject = Row(name), Subject.of(name, root / "families")
    for check, function in PROMISES.items():
        _attempt(row, check, lambda function=function: function(subject))  # type: ignore[misc]
    if row.found["loads"]:
        return row
    with tempfile.TemporaryDirectory(dir=root) as work:
        _attempt(row, "export", lambda: check_export(subject, Path(work) / "export"))
        if quick:
            return row
        inputs = method_inputs(root)
        for kind in TRANSFORMER_METHODS:
            saved = Path(work) / kind
            _attempt(
                row,
                f"method {kind}",
                lambda kind=kind, saved=saved: check_method(subject, kind, inputs, saved),  # type: ignore[misc]
            )
        for task in TASKS:
            _attempt(
                row,
                f"task {task}",
                lambda task=task: check_task(subject, task, root / "tasks"),  # type: ignore[misc]
            )
    return row


def method_inputs(root: Path) -> Path:
    """The folder of what methods read, written where it is not there."""
    folder = root / "inputs"
    if not folder.is_dir():
        toy_inputs(folder, 16, INPUTS)
    return folder


def _attempt(row: Row, check: str, function: Callable[[], None]) -> None:
    """Record whether a check passes: whatever it raises is what the table is about."""
    try:
        function()
        row.found[check] = None
    except Exception as error:  # noqa: BLE001
        last = traceback.extract_tb(error.__traceback__)[-1]
        text = (str(error).strip().splitlines() or [""])[0]
        row.found[check] = (
            f"{type(error).__name__}: {text[:200]} ({Path(last.filename).name}:{last.lineno})"
        )


def heading() -> str:
    """The table's first two lines."""
    return (
        "| family | loads | pieces | states | words | export opens | methods | tasks |\n"
        "| --- | --- | --- | --- | --- | --- | --- | --- |"
    )


def line(row: Row) -> str:
    """A family's line of the table."""
    cells = [row.cell(check) for check in (*PROMISES, "export")]
    cells += [row.share("method ", len(TRANSFORMER_METHODS)), row.share("task ", len(TASKS))]
    return f"| {row.family} | {' | '.join(cells)} |"


def errors(rows: Sequence[Row]) -> str:
    """Every error with the families and checks that it was raised in; where an encoder does not
    load, that alone.
    """
    found: dict[str, list[str]] = {}
    for row in rows:
        for check, error in row.found.items():
            if error and (check == "loads" or not row.found["loads"]):
                found.setdefault(error, []).append(f"{row.family} ({check})")
    return "\n".join(f"* {', '.join(places[:8])}: {error}" for error, places in found.items())


def missing_tasks() -> set[str]:
    """The tasks of the catalogue that `TASKS` has no options for."""
    return set(catalog("tasks")) - set(TASKS)
