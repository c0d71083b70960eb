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

from tests.e2e.runs import Site
from tests.grids import write_grid
from tests.soak.bucket import BUCKET, s3_server
from tests.soak.rounds import WATCH, Place, Round, judge, play

METHODS = (
    "none: {}",
    "rotation: {}",
    "finetune: {lambda: 1.0, batch_size: 1, epochs: 3}",
    "tlm: {epochs: 2, batch_size: 4}",
)
TASKS = ("retrieval: {}", "xnli: {data: phrasebook, epochs: 2, batch_size: 8}")


def main(arguments: list[str]) -> int:
    """Play rounds until there were enough blows; returns 1 where anything was found."""
    options = _parser().parse_args(arguments)
    folder = Path(options.folder or tempfile.mkdtemp(prefix="soak-"))
    folder.mkdir(parents=True, exist_ok=True)
    dice, begun = random.Random(options.seed), time.monotonic()
    rounds: list[Round] = []
    with s3_server(folder) as endpoint:
        expected = _undisturbed(folder)
        while sum(one.blows.total() for one in rounds) < options.kills:
            if options.minutes and time.monotonic() - begun > 60 * options.minutes:
                break
            place = _place(folder, len(rounds) + 1, endpoint)
            left = options.kills - sum(one.blows.total() for one in rounds)
            found = play(place, len(rounds) + 1, dice, min(options.most, left), options.pause)
            judge(place, found, expected)
            rounds.append(found)
            _write(_line(found))
            with (folder / "rounds.jsonl").open("a", encoding="utf-8") as log:
                log.write(json.dumps(vars(found)) + "\n")
    _write(_summary(rounds, time.monotonic() - begun))
    return 0 if all(one.good for one in rounds) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--most", type=int, default=8)
    parser.add_argument("--pause", type=float, default=12.0)
    parser.add_argument("--folder")
    return parser


def _undisturbed(folder: Path) -> list[dict[str, Any]]:
    """Return the results of the same grid, run without a disturbance."""
    place = _place(folder, 0, None)
    begun = time.monotonic()
    (place.folder / "tmp").mkdir(parents=True)
    done = place.site.run(**place.variables)
    if done.returncode:
        raise SystemExit(f"the undisturbed grid ended with {done.returncode}: {done.stderr}")
    _write(f"undisturbed: {time.monotonic() - begun:.0f} s")
    return place.site.results(**place.variables)


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
    in_bucket = endpoint is not None and number % 3 == 0
    paths = [str(WATCH), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {"PYTHONPATH": os.pathsep.join(paths)}
    if in_bucket and endpoint:
        environment |= {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ACCESS_KEY_ID": "soak",
            "AWS_SECRET_ACCESS_KEY": "soak",
            "AWS_DEFAULT_REGION": "eu-central-1",
        }
        os.environ.update(environment)
    bucket = f"s3://{BUCKET}/{number}" if in_bucket else None
    return Place(Site(grid, here / "storage"), here, bucket, environment)


def _line(found: Round) -> str:
    blows = ", ".join(f"{count} {name}" for name, count in sorted(found.blows.items())) or "none"
    faults = {
        name: getattr(found, name)
        for name in ("repeated", "wrong", "runs", "orphans", "leftovers", "other")
        if getattr(found, name)
    }
    return (
        f"round {found.number} ({found.storage}): {blows}; {found.starts} starts,"
        f" {found.seconds:.0f} s; {json.dumps(faults) if faults else 'nothing lost'}"
    )


def _summary(rounds: list[Round], seconds: float) -> str:
    blows: Counter[str] = sum((one.blows for one in rounds), Counter())
    in_buckets = sum(one.blows.total() for one in rounds if one.storage == "s3")
    counts = {
        name: sum(len(getattr(one, name)) for one in rounds)
        for name in ("repeated", "wrong", "runs", "orphans", "leftovers", "other")
    }
    return (
        f"{blows.total()} blows ({', '.join(f'{n} {k}' for k, n in sorted(blows.items()))};"
        f" {in_buckets} on s3) in {len(rounds)} rounds, {seconds / 60:.0f} min:"
        f" evaluations made twice {counts['repeated']}, wrong values {counts['wrong']},"
        f" orphans {counts['orphans']}, untidy runs {counts['runs']},"
        f" leftovers {counts['leftovers']}, other {counts['other']}"
    )


def _write(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
