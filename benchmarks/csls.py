"""CSLS in both directions against one bare matrix product, and against the plain way of the common
evaluators.

usage: python -m benchmarks.csls [--n 12000] [--dim 768] [--k 10] [--threads 2] [--repeats 3]
[--alike 100] [--memory]

Budgets: at most 1.6 times one product of 12,000 x 12,000 or of 50,000 x 50,000, 1.62 times where
many vectors at a time are nearly equal (`--alike`), at most 0.4 of the plain way's time; memory
beyond the inputs under 512 MiB at 50,000 x 50,000 (`--memory` measures that with `--n`, 50,000
where it is not given: a minute per repetition on two cores). The bare product writes
into memory that it has used before, as ours does. The plain way runs where the environment variable
RAXALIGN_BENCH_REFERENCES names the folder of `csls_reference.py`. The product and ours run in turn,
and the plain way after them; the best round of each counts, and only ratios mean something. The
seconds are those of the wall, since the waits of threads for each other count; with one thread they
are those of its core.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

import torch

from benchmarks.references import plain_way
from benchmarks.table import Row, at_most, clock_of, in_turn, named, show, spread
from raxalign.similarity.neighbors import nearest_neighbors

PRODUCTS, ALIKE, PLAIN, MEMORY = 1.6, 1.62, 0.4, 512


def clouds(n: int, dim: int, alike: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    """Two clouds of unit vectors (n, dim): row i of one belongs to row i of the other. Groups of
    `alike` rows, which are scattered over each side, are nearly equal.
    """
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n, dim, generator=generator)
    y = torch.randn(n, dim, generator=generator).mul_(1.5).add_(x)
    if alike > 1:
        middles = x[: -(-n // alike)].repeat(alike, 1)[:n]
        x, y = (middles + 1e-3 * side for side in (x, y))
    for side in (x, y):
        side.div_(side.norm(dim=1, keepdim=True))
    return x, y


def product(x: torch.Tensor, y: torch.Tensor) -> None:
    """One bare matrix product, a block of rows at a time, into the same memory."""
    space = x.new_empty(2048, len(y))
    for start in range(0, len(x), 2048):
        rows = x[start : start + 2048]
        torch.mm(rows, y.T, out=space[: len(rows)])


def memory_mib(name: str) -> float:
    """A line of this process's status."""
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text("ascii"))
    assert found is not None, "this needs Linux"
    return int(found[1]) / 1024


def measure_memory(options: argparse.Namespace) -> dict[str, object]:
    """Peak memory beyond the inputs; libraries are warmed up before."""
    x, y = clouds(options.n, options.dim)
    small = x[:2000].clone()
    nearest_neighbors(small, small, k=options.k)
    peaks = []
    for _ in range(options.repeats):
        Path("/proc/self/clear_refs").write_text("5", "ascii")  # the peak begins anew
        before = memory_mib("VmRSS")
        nearest_neighbors(x, y, k=options.k)
        peaks.append(memory_mib("VmHWM") - before)
    what = f"CSLS of {options.n:,} x {options.n:,}: memory beyond the inputs"
    limit = at_most(MEMORY) if options.n >= 50_000 else None
    show(Row(what, max(peaks), limit, spread(peaks), "the inputs", "MiB"))
    return {"n": options.n, "memory_mib": peaks, "memory_budget_mib": MEMORY}


def measure_time(options: argparse.Namespace) -> dict[str, object]:
    """The best time of each side, and the ratios."""
    x, y = clouds(options.n, options.dim, options.alike)
    product(x[:2048], y)
    sizes = [f"--{name}={getattr(options, name)}" for name in ("n", "dim", "k")]
    bare, own = in_turn(
        options.repeats,
        clock_of(options.threads),
        lambda: product(x, y),
        lambda: nearest_neighbors(x, y, k=options.k),
    )
    times = {"product": bare, "csls": own, "reference": list[float]()}
    # The plain way is another process. Between two rounds it made ours take 1.4 products instead of
    # 1.2: probably the virtual machine gave its memory back, and the next round got it by pages.
    for _ in range(options.repeats if options.alike == 1 else 0):
        plain = plain_way("csls_reference.py", *sizes, threads=options.threads)
        if plain is not None:
            times["reference"].append(plain["seconds"])
    shown = {name: getattr(options, name) for name in ("n", "dim", "k", "threads", "alike")}
    what = f"CSLS of {options.n:,} x {options.n:,} x {options.dim}, {named(options.threads)}"
    if options.alike > 1:
        what += f", {options.alike} nearly equal at a time"
    limit = ALIKE if options.alike > 1 else PRODUCTS
    limits = {"product": (limit, "one bare product"), "reference": (PLAIN, "plain way")}
    ratios = {}
    for side, (limit, bare_side) in limits.items():
        if times[side]:
            ratios[f"ratio_to_{side}"] = ratio = min(times["csls"]) / min(times[side])
            noise = spread(times["csls"], times[side])
            show(Row(f"{what}: time", ratio, at_most(limit), noise, bare_side))
    best = {name: min(values) for name, values in times.items() if values}
    return {**shown, "seconds": best, **ratios}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, value in (("dim", 768), ("k", 10), ("threads", 2), ("repeats", 3), ("alike", 1)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--n", type=int)
    parser.add_argument("--memory", action="store_true")
    chosen = parser.parse_args()
    chosen.n = chosen.n or (50_000 if chosen.memory else 12_000)
    torch.set_num_threads(chosen.threads)
    print(json.dumps(measure_memory(chosen) if chosen.memory else measure_time(chosen), indent=1))
