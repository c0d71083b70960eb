"""Locks of a storage under many processes.

    python -m tests.locks [--acquisitions N] [--processes N]

Each process takes locks of a few names again and again, and holds each for a moment. The table says
how many of the acquisitions failed, and in how many another process was inside. It has a row for a
folder, for a folder on which each link is made twice, as on NFS where the answer to the first
request was lost, and for a bucket. In its last row the processes make the stages of one plan in one
storage.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from raxalign.errors import RaxalignError
from raxalign.plan.load import open_grid
from raxalign.stages import Workshop
from raxalign.store import lease as module
from raxalign.store.storage import Storage
from raxalign.train.runtime import Runtime
from tests.aws import BUCKET, SETTINGS, fake_aws
from tests.grids import write_grid

NAMES = 3
MADE = ("bitext", "text", "pairs", "seen")


@dataclass(frozen=True)
class Found:
    """What processes found: acquisitions, those that failed, by message, and those in which another
    process was inside.
    """

    n: int
    errors: Counter[str]
    overlaps: int = 0
    seconds: float = 0.0


def send_twice() -> None:
    """Make this process send each link twice: the second one fails, since the first one has
    succeeded.
    """
    link = os.link

    def twice(source: Path, target: Path) -> None:
        link(source, target)
        link(source, target)

    os.link = twice  # type: ignore[assignment]


def acquire(root: str, inside: Path, n: int, again: bool, seed: int) -> Found:
    """Take and give back locks `n` times (`again`: on a storage that sends links again)."""
    if again:
        send_twice()
    module.LOOK, errors, overlaps = 0.001, Counter[str](), 0
    chance = random.Random(seed)
    for _ in range(n):
        name = f"making/{chance.randrange(NAMES)}"
        mark = inside / name.replace("/", "-")
        try:
            with module.lease(Storage(root), name):
                try:
                    mark.touch(exist_ok=False)
                except FileExistsError:
                    overlaps += 1
                mark.unlink(missing_ok=True)
        except RaxalignError as error:
            errors[str(error)] += 1
    return Found(n, errors, overlaps)


def make(grid: Path, root: str, seed: int) -> Found:
    """Make the data of a grid, in another order than other processes do."""
    module.LOOK, errors = 0.001, Counter[str]()
    plan = open_grid(grid, storage=root).plan
    keys = [key for key, stage in plan.stages.items() if stage.kind in MADE and not stage.inline]
    random.Random(seed).shuffle(keys)
    for key in keys:
        workshop = Workshop(plan, Storage(root), Runtime())
        workshop.tell = lambda text: None
        try:
            workshop.ensure(key)
        except RaxalignError as error:
            errors[str(error)] += 1
    return Found(len(keys), errors)


def together(work: Callable[[int], Found], processes: int) -> Found:
    """Do something in several processes at once; returns what all of them found."""
    begun = time.monotonic()
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        found = list(pool.map(work, range(processes)))
    return Found(
        sum(one.n for one in found),
        sum((one.errors for one in found), Counter()),
        sum(one.overlaps for one in found),
        time.monotonic() - begun,
    )


def main() -> int:
    """Print the table; returns 1 where something failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.locks")
    parser.add_argument("--acquisitions", type=int, default=10_000)
    parser.add_argument("--processes", type=int, default=8)
    asked = parser.parse_args()
    failed, each = 0, asked.acquisitions // asked.processes
    with tempfile.TemporaryDirectory() as folder, fake_aws() as endpoint:
        os.environ.update({**SETTINGS, "AWS_ENDPOINT_URL": endpoint})
        os.environ["RAXALIGN_CACHE"] = f"{folder}/cache"
        inside = Path(folder, "inside")
        inside.mkdir()
        grid = write_grid(Path(folder), languages="{each: [de, fr, es, bg]}")
        rows: dict[str, Callable[[int], Found]] = {
            "folder": partial(acquire, f"{folder}/root", inside, each, False),
            "folder, links sent twice": partial(acquire, f"{folder}/nfs", inside, each, True),
            "bucket": partial(acquire, f"s3://{BUCKET}/locks", inside, each // 20, False),
            "stages of one plan": partial(make, grid, f"{folder}/stages"),
        }
        print(f"{asked.processes} processes{'':14} acquisitions  failed  overlaps  seconds")
        for name, work in rows.items():
            found = together(work, asked.processes)
            bad = sum(found.errors.values())
            print(f"{name:26} {found.n:12,} {bad:7} {found.overlaps:9} {found.seconds:8.0f}")
            for message, count in found.errors.most_common(3):
                print(f"    {count} x {message.replace(folder, '...')[:150]}")
            failed += bad + found.overlaps
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
