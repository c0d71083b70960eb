"""The page that keeps the table of the benchmarks: what it says of the machine, and the place of
the table between two markers.
"""

from __future__ import annotations

import os
import platform
from datetime import date
from importlib.metadata import version
from pathlib import Path

PAGE = "docs/reference/benchmarks.md"
BEGIN = "<!-- made by: python -m benchmarks --write -->"
END = "<!-- end of what is made -->"


def written(page: str, text: str) -> str:
    """Return a page with a text in the place of what is between its two markers. Raises
    `SystemExit` where the page does not have each marker once, in order.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end or BEGIN in rest or END in after:
        raise SystemExit(f"{PAGE}: put one line {BEGIN} and, below it, one line {END}")
    return f"{before}{BEGIN}\n\n{text}\n\n{END}{after}"


def described(seconds: float, lowest: float, highest: float) -> str:
    """Return one paragraph about a run: the day, the machine, the libraries and the data.

    Args:
        seconds: how long all benchmarks took together.
        lowest: the smallest load of the machine at the start of a benchmark.
        highest: the largest one.
    """
    libraries = ", ".join(f"{name} {version(name)}" for name in ("torch", "transformers", "ray"))
    real = "with" if os.environ.get("RAXALIGN_TEST_DATA") else "without"
    return (
        f"Measured on {date.today():%Y-%m-%d} in {seconds / 60:.0f} minutes: {processor()},"
        f" {os.cpu_count()} cores, {memory():.0f} GiB, {platform.system()}, Python"
        f" {platform.python_version()}, {libraries}; {real} real data. Load of the machine at the"
        f" start of a benchmark: {lowest:.1f} to {highest:.1f}."
    )


def processor() -> str:
    """Return the name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:  # not Linux
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def memory() -> float:
    """Return the memory of the machine in GiB."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
