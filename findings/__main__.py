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
from findings.page import render

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "explanation" / "findings.md"


def main() -> int:
    """Return 1 where a trial failed, else 0."""
    parser = argparse.ArgumentParser(prog="findings", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the real data")
    parser.add_argument("--encoder", type=Path, required=True, help="folder of the encoder")
    parser.add_argument("--storage", type=Path, required=True, help="where results are kept")
    parser.add_argument("--run", action="store_true", help="run what is missing first")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page to write")
    given = parser.parse_args()
    work = _workplace(given.storage, given.data, given.encoder)
    names = dict.fromkeys(claim.grid for claim in CLAIMS)
    opened = {
        name: rx.plan(work / f"{name}.yaml", storage=str(given.storage / "results"))
        for name in names
    }
    failed: dict[str, str] = {}
    if given.run:
        for grid in opened.values():
            failed |= rx.run(grid).failed
    given.page.write_text(render(answer(opened), opened), encoding="utf-8")
    sys.stderr.write(f"{given.page}\n")
    return 1 if failed else 0


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
