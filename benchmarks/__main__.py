"""Run all benchmarks, or those that are named: ``python -m benchmarks [NAME...]``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent


def main() -> int:
    """Each in a process of its own, in turn; returns how many failed."""
    names = sys.argv[1:] or sorted(
        path.stem for path in ROOT.glob("*.py") if not path.stem.startswith("_")
    )
    failed = 0
    for name in names:
        print(f"== {name}", flush=True)
        failed += (
            subprocess.run(
                [sys.executable, "-m", f"benchmarks.{name}"], cwd=ROOT.parent, check=False
            ).returncode
            != 0
        )
    return failed


if __name__ == "__main__":
    sys.exit(main())
