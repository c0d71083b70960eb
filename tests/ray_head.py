"""One Ray on this machine for all tests of a run that neither end it nor lose what it runs:
``python -m tests.ray_head PID`` is that Ray, prints its address, and ends with the process PID.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path

import pytest
import ray

from raxalign.store.storage import Storage
from raxalign.sweep.cluster import connect, disconnect, remove_scratch, scratch_folder
from raxalign.sweep.job import Job
from raxalign.trust import TRUST
from tests.once import once


def head_address(factory: pytest.TempPathFactory) -> str:
    """Return the address of the Ray of this test run, which the first call starts."""
    return (once(factory, "ray-head", _start) / "address").read_text()


def importable() -> str:
    """Return the PYTHONPATH by which workers import functions of tests, as they do not look into
    the working directory.
    """
    root = str(Path(__file__).parent.parent)
    return os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))


def _start(folder: Path) -> None:
    run = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()
    # its start makes the token, where there is none
    environment = {name: value for name, value in os.environ.items() if name != "RAY_AUTH_MODE"}
    head = subprocess.Popen(
        [sys.executable, "-m", "tests.ray_head", str(run)],
        env={**environment, TRUST: "1", "PYTHONPATH": importable()},
        stdout=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    assert head.stdout is not None
    (folder / "address").write_text(head.stdout.readline().strip())


def main(run: int) -> None:
    """Be the Ray of a test run until its process has ended."""
    scratch = scratch_folder("", None)
    connect(None, Job(Storage(""), "", threads=1, scratch=scratch))
    sys.stdout.write(f"{ray.get_runtime_context().gcs_address}\n")
    sys.stdout.flush()
    select.select([os.pidfd_open(run)], [], [])
    disconnect()
    remove_scratch(scratch)


if __name__ == "__main__":
    main(int(sys.argv[1]))
