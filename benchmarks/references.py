"""The plain ways that others do it: programs in the folder that the environment variable
RAXALIGN_BENCH_REFERENCES names, each in a process of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

_CORES = (  # on one thread, seconds are those of its core; the programs read the time of the wall
    "import runpy, sys, time; time.perf_counter = time.process_time; sys.argv = sys.argv[1:];"
    " runpy.run_path(sys.argv[0], run_name='__main__')"
)


def plain_way(name: str, *arguments: object, threads: int) -> dict[str, Any] | None:
    """Run a program and return what it prints, which is one JSON object; None where it is not
    there.
    """
    program = Path(os.environ.get("RAXALIGN_BENCH_REFERENCES", ""), name)
    if not program.is_file():
        return None
    start = [sys.executable, *(["-c", _CORES] if threads == 1 else [])]
    done = subprocess.run(
        [*start, str(program), *map(str, arguments), f"--threads={threads}"],
        check=True,
        capture_output=True,
        text=True,
    )
    return dict(json.loads(done.stdout))
