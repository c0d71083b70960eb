"""Kill grids again and again and print what was lost: ``python -m tests.soak --kills 200``.

Options: ``--kills N`` (200), ``--seed N`` (0), ``--minutes M`` (no limit), ``--most N`` blows per
grid (8), ``--pause S`` the longest time between two blows (12), ``--folder DIR`` (a temporary one).
Every third round has its storage in a bucket of a local S3 server.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.aws import BUCKET, SETTINGS, fake_aws
from tests.e2e.runs import Site
from tests.grids import write_grid
from tests.soak.rounds import FAULTS, Place, Round, judge, play

METHODS = (
    "none: {}",
    "rotation: {}",
    "finetune: {lambda: 1.0, batch_size: 1, epochs: 3}",
    "tlm: {epochs: 2, batch_size: 4}",
)
TASKS = ("retrieval: {}", "xnli: {data: phrasebook, epochs: 2, batch_size: 8}")
LABELS = {"repeated": "evaluations made twice", "wrong": "wrong values", "runs": "untidy runs"}


def main(arguments: list[str]) -> int:
    """Play rounds until there were enough blows; returns 1 where anything was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--most", type=int, default=8)
    parser.add_argument("--pause", type=float, default=12.0)
    parser.add_argument("--folder")
    options = parser.parse_args(arguments)
    folder = Path(options.folder or tempfile.mkdtemp(prefix="soak-"))
    folder.mkdir(parents=True, exist_ok=True)
    dice, begun = random.Random(options.seed), time.monotonic()
    rounds: list[Round] = []
    with fake_aws() as endpoint:
        expected = _undisturbed(folder)
        while (left := options.kills - sum(one.blows.total() for one in rounds)) > 0:
            if time.monotonic() - begun > 60 * options.minutes:
                break
            place = _place(folder, len(rounds) + 1, endpoint)
            found = Round(len(rounds) + 1, "s3" if place.bucket else "folder")
            play(place, found, dice, min(options.most, left), options.pause)
            judge(place, found, expected)
            rounds.append(found)
            _write(_line(found))
            with (folder / "rounds.jsonl").open("a", encoding="utf-8") as log:
                log.write(json.dumps(vars(found)) + "\n")
    _write(_summary(rounds, time.monotonic() - begun))
    return int(any(one.faults for one in rounds))


def _undisturbed(folder: Path) -> list[dict[str, Any]]:
    """Return the results of the same grid, run without a disturbance."""
    place, begun = _place(folder, 0, None), time.monotonic()
    (place.folder / "tmp").mkdir(parents=True)
    place.site.run(**place.variables)
    _write(f"undisturbed: {time.monotonic() - begun:.0f} s")
    return place.results()


def _place(folder: Path, number: int, endpoint: str | None) -> Place:
    """Return a new place: in a bucket every third time."""
    here = folder / str(number)
    here.mkdir(parents=True)
    grid = write_grid(
        here,
        size=300,
        sentences="[100]",
        seeds="[0, 1]",
        methods=METHODS,
        tasks=TASKS,
        # the blows are many on purpose: a trial that is struck often has not failed
        run="max_failures: 100, checkpoint_minutes: 0.01",
    )
    if endpoint is None or number % 3:
        return Place(Site(grid, here / "storage"), here, None, {})
    environment = {**SETTINGS, "AWS_ENDPOINT_URL": endpoint}
    os.environ.update(environment)
    return Place(Site(grid, here / "storage"), here, f"s3://{BUCKET}/{number}", environment)


def _counted(blows: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(blows.items())) or "none"


def _line(found: Round) -> str:
    return (
        f"round {found.number} ({found.storage}): {_counted(found.blows)}; {found.starts} starts,"
        f" {found.seconds:.0f} s; {json.dumps(found.faults) if found.faults else 'nothing lost'}"
    )


def _summary(rounds: list[Round], seconds: float) -> str:
    blows: Counter[str] = sum((one.blows for one in rounds), Counter())
    in_buckets = sum(one.blows.total() for one in rounds if one.storage == "s3")
    counts = (
        f"{LABELS.get(name, name)} {sum(len(getattr(one, name)) for one in rounds)}"
        for name in FAULTS
    )
    return (
        f"{blows.total()} blows ({_counted(blows)}; {in_buckets} on s3) in {len(rounds)} rounds,"
        f" {seconds / 60:.0f} min: {', '.join(counts)}"
    )


def _write(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
