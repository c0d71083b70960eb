"""What commands ask of an object store: requests and seconds, next to a local folder.

usage: python -m benchmarks.object_store [TRIALS]

The store is moto's server behind a proxy that counts. Budgets: ten requests, and 3 s more than on a
local folder, for `plan` of 1,000 trials on an empty storage, and for `plan`, `status` and `results`
on one where all of them are done and the machine has read them before. The first `plan` and
`results` of a machine read a small object per stage and result: their budget is a request for each
of these, and ten. Listings have pages of 1,000 objects, and each page is a request.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.plan_speed import GRID
from benchmarks.table import ROUNDS, Row, at_most, in_turn, show, spread
from raxalign.grid.load import open_grid
from raxalign.grid.plan import Plan
from raxalign.store.artifacts import ArtifactStore
from raxalign.store.ledger import Ledger
from tests.aws import BUCKET, SETTINGS, Proxy, fake_aws

MOST, BUDGET = 10, 3.0


def run(command: str, grid: Path, storage: str) -> None:
    """Run a command."""
    done = subprocess.run(
        [sys.executable, "-m", "raxalign", command, str(grid), "--storage", storage],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(done.stderr)


def fill(plan: Plan, root: str) -> None:
    """All stages and results, as far as listings and tables show them."""
    store, ledger = ArtifactStore(root), Ledger(root)
    for key, stage in plan.stages.items():
        if stage.kind == "evaluation":
            score = {"lang": "de-en", "metric": "accuracy", "split": "test", "value": 0.5}
            record = {"params": {}, "scores": [score], "seconds": 1.0, "notes": {}}
            ledger.write(key, record, None)
        elif not stage.inline:
            store.make(
                stage.kind,
                key,
                lambda folder: {},  # noqa: ARG005
            )


def compare(
    what: str, command: str, grid: Path, places: tuple[str, str], proxy: Proxy, first: int = 0
) -> None:
    """Run a command on both storages in turn, and show its requests and its seconds.

    Args:
        what: the command and the state of the grid.
        command: the command.
        grid: the file of the grid.
        places: the local storage and the one in the bucket.
        proxy: counts the requests.
        first: how many small objects the first command of a machine, whose cache is empty, may
            read (0: it is not the first one).
    """
    asked: list[float] = []

    def on(storage: str) -> None:
        if first:
            os.environ["RAXALIGN_CACHE"] = tempfile.mkdtemp(dir=grid.parent)
        proxy.requests.clear()
        run(command, grid, storage)
        asked.append(len(proxy.requests))

    local, remote = in_turn(ROUNDS, time.perf_counter, *(lambda s=s: on(s) for s in places))
    requests = asked[1::2]
    most = at_most(MOST + first)
    show(Row(f"{what}: requests", max(requests), most, spread(requests), "a server of moto"))
    more = min(remote) - min(local)
    beside = f"{min(local):.1f} s on a local folder"
    later = None if first else at_most(BUDGET)
    show(Row(f"{what}: more time", more, later, spread(local, remote), beside, "s"))


def main() -> None:
    """Show two rows per command."""
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
    seeds = ", ".join(map(str, range(max(1, trials // 100))))
    with fake_aws() as endpoint, tempfile.TemporaryDirectory() as folder:
        proxy = Proxy(endpoint)
        os.environ.update({**SETTINGS, "AWS_ENDPOINT_URL": proxy.endpoint})
        os.environ["RAXALIGN_CACHE"] = f"{folder}/cache"
        grid = Path(folder, "grid.yaml")
        lambdas = ", ".join(str(value / 100) for value in range(1, 11))
        grid.write_text(GRID.format(seeds=seeds, lambdas=lambdas), encoding="utf-8")
        places = (f"{folder}/storage", f"s3://{BUCKET}/storage")
        plan = open_grid(grid, storage=places[0]).plan
        many = f"{len(plan.trials):,} trials in a bucket"
        print(f"{many}, {len(plan.stages)} stages", flush=True)
        compare(f"`plan`, nothing done, {many}", "plan", grid, places, proxy)
        for place in places:
            fill(plan, place)
        small = sum(not stage.inline for stage in plan.stages.values())
        for command in ("plan", "results"):
            what = f"first `{command}` of a machine, {many}"
            compare(what, command, grid, places, proxy, small)
        for command in ("plan", "results"):  # this cache has not read them yet
            os.environ["RAXALIGN_CACHE"] = f"{folder}/cache"
            run(command, grid, places[1])
        for command in ("plan", "status", "results"):
            compare(f"`{command}`, all done, {many}", command, grid, places, proxy)
        proxy.close()


if __name__ == "__main__":
    main()
