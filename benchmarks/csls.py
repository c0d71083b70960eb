"""CSLS in both directions against one bare matrix product, and against the plain way of the common
evaluators.

usage: python benchmarks/csls.py [--n 12000] [--dim 768] [--k 10] [--threads 2] [--repeats 3]
[--memory]

Budgets: at most 1.3 times one product of 12,000 x 12,000 and 1.6 times one of 50,000 x 50,000, at
most 0.4 of the plain way's time; memory beyond the inputs under 512 MiB at 50,000 x 50,000
(`--memory` measures that: a minute or so on two cores). The bare product writes into memory that it
has used before, as ours does. The plain way runs where the environment variable
RAXALIGN_BENCH_REFERENCES names the folder of `csls_reference.py`. All sides run in turn, the best
of each counts; only ratios mean something.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from raxalign.similarity import nearest_neighbors


def clouds(n: int, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Two clouds of unit vectors (n, dim): row i of one belongs to row i of the other."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n, dim, generator=generator)
    y = torch.randn(n, dim, generator=generator).mul_(1.5).add_(x)
    for side in (x, y):
        side.div_(side.norm(dim=1, keepdim=True))
    return x, y


def product(x: torch.Tensor, y: torch.Tensor) -> None:
    """One bare matrix product, a block of rows at a time, into the same memory."""
    space = x.new_empty(2048, len(y))
    for start in range(0, len(x), 2048):
        rows = x[start : start + 2048]
        torch.mm(rows, y.T, out=space[: len(rows)])


def seconds(work: Callable[[], object]) -> float:
    """Wall-clock time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def reference(options: argparse.Namespace) -> float | None:
    """The plain way's own time, in a process of its own."""
    folder = os.environ.get("RAXALIGN_BENCH_REFERENCES")
    if not folder:
        return None
    sizes = [f"--{name}={getattr(options, name)}" for name in ("n", "dim", "k", "threads")]
    done = subprocess.run(
        [sys.executable, Path(folder) / "csls_reference.py", *sizes],
        check=True,
        capture_output=True,
        text=True,
    )
    return float(json.loads(done.stdout)["seconds"])


def peak_mib() -> float:
    """The process's largest resident memory so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure_memory(options: argparse.Namespace) -> dict[str, object]:
    """Peak memory beyond the inputs at 50,000 x 50,000; libraries are warmed up before."""
    x, y = clouds(50_000, options.dim)
    small = x[:2000].clone()
    nearest_neighbors(small, small, k=options.k)
    before = peak_mib()
    took = seconds(lambda: nearest_neighbors(x, y, k=options.k))
    return {
        "n": 50_000,
        "seconds": took,
        "memory_mib": peak_mib() - before,
        "memory_budget_mib": 512,
    }


def budget(n: int) -> float:
    """The bare products that CSLS may take."""
    return 1.3 if n <= 12_000 else 1.6


def measure_time(options: argparse.Namespace) -> dict[str, object]:
    """The best time of each side, and the ratios."""
    x, y = clouds(options.n, options.dim)
    product(x[:2048], y)
    times: dict[str, list[float]] = {"product": [], "csls": [], "reference": []}
    for _ in range(options.repeats):
        times["product"].append(seconds(lambda: product(x, y)))
        times["csls"].append(seconds(lambda: nearest_neighbors(x, y, k=options.k)))
        plain = reference(options)
        if plain is not None:
            times["reference"].append(plain)
    best = {name: min(values) for name, values in times.items() if values}
    result: dict[str, object] = {
        "n": options.n,
        "dim": options.dim,
        "k": options.k,
        "threads": options.threads,
        "seconds": best,
    }
    result |= {
        "ratio_to_product": best["csls"] / best["product"],
        "budget_to_product": budget(options.n),
    }
    if "reference" in best:
        result |= {
            "ratio_to_reference": best["csls"] / best["reference"],
            "budget_to_reference": 0.4,
        }
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, value in (("n", 12_000), ("dim", 768), ("k", 10), ("threads", 2), ("repeats", 3)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--memory", action="store_true")
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    print(json.dumps(measure_memory(chosen) if chosen.memory else measure_time(chosen), indent=1))
