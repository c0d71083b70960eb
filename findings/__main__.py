"""Run the grids of the findings, and write the page of what was found."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import raxalign as rx
from findings.page import render
from findings.papers import GRIDS, HERE, Papers, grid_digest
from findings.record import Ran, Record
from raxalign.grid.lock import Lock

PAGE = HERE.parent / "docs" / "explanation" / "findings.md"
RECORD = HERE / "record.json"
ENCODER = "multilingual-e5-small"
HUB = f"intfloat/{ENCODER}"


def main() -> int:
    """Return 1 where a trial failed, 130 where a sitting was ended before all was done, else 0."""
    parser = argparse.ArgumentParser(prog="findings", description=__doc__)
    parser.add_argument("--data", type=Path, help="folder of the real data")
    parser.add_argument("--encoder", type=Path, help=f"folder of {ENCODER}")
    parser.add_argument("--storage", type=Path, help="where results are kept")
    parser.add_argument("--run", action="store_true", help="run what is missing first")
    parser.add_argument(
        "--grid", choices=GRIDS, action="append", help="this grid alone (default: all)"
    )
    parser.add_argument("--page", type=Path, default=PAGE, help="the page to write")
    parser.add_argument("--record", type=Path, default=RECORD, help="what is kept of results")
    given = parser.parse_args()
    record, ended = Record.read(given.record), 0
    if given.run and given.storage is None:
        parser.error("--run requires --storage")
    if given.storage is not None:
        if given.data is None or given.encoder is None:
            parser.error("--storage requires --data and --encoder")
        work = _workplace(given.storage, given.data, given.encoder)
        names = given.grid or list(GRIDS)
        ended = _run(work, names, given.storage) if given.run else 0
        asked = [(claim.grid, claim.claims) for claim in Papers.read().claims]
        opened = {name: rx.plan(work / f"{name}.yaml", storage=_results(given)) for name in names}
        made = (
            (name, Ran.of(one, grid_digest(name), [texts for grid, texts in asked if grid == name]))
            for name, one in opened.items()
        )
        ran = {name: found for name, found in made if found is not None}
        record = Record({**record.grids, **ran})
        record.write(given.record)
    given.page.write_text(render(record, Papers.read()), encoding="utf-8")
    sys.stderr.write(f"{given.page}\n")
    return ended


def _run(work: Path, names: list[str], storage: Path) -> int:
    """Run what grids lack, one after the other, until it is done or the sitting is ended."""
    failed = False
    try:
        for name in names:
            opened = rx.plan(work / f"{name}.yaml", storage=str(storage / "results"))
            failed |= bool(rx.run(opened).failed)
    except KeyboardInterrupt:
        return 130
    finally:
        for name in names:
            _keep_lock(work / f"{name}.yaml", GRIDS[name])
    return int(failed)


def _keep_lock(of: Path, grid: Path) -> None:
    """Add what one lock has to that of a copy of its grid, and leave what is in it already: claims
    are written down once.
    """
    kept = Lock.load(grid)
    new = {name: at for name, at in Lock.load(of).entries.items() if kept.get(name) is None}
    if new:
        Lock(kept.path, new).save()


def _results(given: argparse.Namespace) -> str:
    return str(given.storage / "results")


def _workplace(storage: Path, data: Path, encoder: Path) -> Path:
    """Copy the grids and their locks next to what their paths begin with: links to the data and to
    the encoder, whose folder they name in place of its name on the hub.
    """
    work = storage.absolute() / "grids"
    work.mkdir(parents=True, exist_ok=True)
    for name, target in (("data", data), (ENCODER, encoder)):
        link = work / name
        if not link.is_symlink():
            link.symlink_to(target.absolute())
        if link.resolve() != target.resolve():
            raise SystemExit(
                f"{link} is {link.resolve()}, and not {target}: name another --storage"
            )
    for path in GRIDS.values():
        text = path.read_text(encoding="utf-8").replace(HUB, f"./{ENCODER}")
        file = work / path.name
        if not file.is_file() or file.read_text(encoding="utf-8") != text:
            file.with_suffix(".new").write_text(text, encoding="utf-8")
            file.with_suffix(".new").replace(file)
        _keep_lock(path, file)
    return work


if __name__ == "__main__":
    sys.exit(main())
