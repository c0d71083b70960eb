"""The server of the MLflow UI ends with the command that started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import os, sys
from raxalign.tracking.ui import attended
script = "sleep 600 & echo $$; exec sleep 600"
try:
    attended(["sh", "-c", script], os.environ)
except KeyboardInterrupt:
    sys.exit(7)
"""


def group(leader: int) -> list[int]:
    """The living processes of a process group."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == leader and fields[0] not in "ZX":
            found.append(int(path.parent.name))
    return found


def test_a_command_that_is_told_to_end_leaves_no_server_behind() -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE) as command:
        assert command.stdout is not None
        leader = int(command.stdout.readline())
        assert leader in group(leader)
        os.kill(command.pid, signal.SIGTERM)
        assert command.wait(timeout=60) == 7
    assert group(leader) == []
