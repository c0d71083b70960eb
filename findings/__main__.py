"""Run the grids of this folder, and write the page of what was found."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path

import raxalign as rx
from findings.answers import answer
from findings.claims import CLAIMS
from findings.entries import write_entries
from findings.page import render
from findings.record import Ran, Record
from raxalign.grid.load import Opened

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "explanation" / "findings.md"
RECORD = HERE / "record.json"
GRIDS = tuple(dict.fromkeys(claim.grid for claim in CLAIMS))
SMALLEST = "entries"
"""The grid that has to run before those with dictionaries: it finds the entries that all encoders
have.
"""


def main() -> int:
    """Return 1 where a trial failed, else 0."""
    parser = argparse.ArgumentParser(prog="findings", description=__doc__)
    parser.add_argument("--data", type=Path, help="folder of the real data")
    parser.add_argument("--encoder", type=Path, help="folder of the encoder")
    parser.add_argument("--storage", type=Path, help="where results are kept")
    parser.add_argument("--run", action="store_true", help="run what is missing first")
    parser.add_argument(
        "--grid",
        choices=GRIDS,
        action="append",
        help="this grid alone, also with a part of its results (default: all that are whole)",
    )
    parser.add_argument("--page", type=Path, default=PAGE, help="the page to write")
    parser.add_argument("--record", type=Path, default=RECORD, help="the answers that are kept")
    given = parser.parse_args()
    record, failed = Record.read(given.record), False
    if given.storage is not None:
        if given.data is None or given.encoder is None:
            parser.error("--storage requires --data and --encoder")
        opened, failed = _opened(given)
        seen = {n: Ran.of(grid, partly=given.grid is not None) for n, grid in opened.items()}
        ran = {name: found for name, found in seen.items() if found is not None}
        done = {name: opened[name] for name in ran}
        record = Record(answer(done, record.answered), {**record.grids, **ran})
        record.write(given.record)
    texts = {name: (HERE / f"{name}.yaml").read_text(encoding="utf-8") for name in GRIDS}
    given.page.write_text(render(record, texts), encoding="utf-8")
    sys.stderr.write(f"{given.page}\n")
    return int(failed)


def _opened(given: argparse.Namespace) -> tuple[dict[str, Opened], bool]:
    """Open the grids that are asked for, and run what they lack with `--run`; return whether trials
    failed, too.
    """
    work = _workplace(given.storage, given.data, given.encoder)
    storage, failed = str(given.storage / "results"), False
    opened: dict[str, Opened] = {}
    for name in (SMALLEST, *(given.grid or GRIDS)):
        opened[name] = rx.plan(work / f"{name}.yaml", storage=storage)
        failed |= bool(given.run and rx.run(opened[name]).failed)
        if name == SMALLEST and not write_entries(opened.pop(name), work / "entries"):
            raise SystemExit(f"findings: the grid {name} has to run first (--run)")
    return opened, failed


def _workplace(storage: Path, data: Path, encoder: Path) -> Path:
    """Copy the grids next to what their paths begin with: links named `data` and `encoder`, and
    the encoder's pieces in `vocab.txt`.
    """
    work = storage.absolute() / "grids"
    work.mkdir(parents=True, exist_ok=True)
    for name, target in (("data", data), ("encoder", encoder)):
        link = work / name
        link.unlink(missing_ok=True)
        link.symlink_to(target.absolute())
    for grid in HERE.glob("*.yaml"):
        shutil.copy(grid, work / grid.name)
    (work / "vocab.txt").write_text("\n".join(_pieces(encoder)) + "\n", encoding="utf-8")
    return work


def _pieces(encoder: Path) -> list[str]:
    """Return the encoder's pieces in the order of their numbers."""
    tokenizer = json.loads((encoder / "tokenizer.json").read_text(encoding="utf-8"))
    numbers: dict[str, int] = tokenizer["model"]["vocab"]
    return sorted(numbers, key=numbers.__getitem__)


if __name__ == "__main__":
    sys.exit(main())
