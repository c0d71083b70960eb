"""The server of the MLflow UI ends with the command that started it."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from raxalign.errors import RaxalignError
from raxalign.store.storage import Storage
from raxalign.tracking.client import Client, Page
from raxalign.tracking.ui import serve
from tests.test_tracking import answers, free_port

PROGRAM = """
import os, sys
from raxalign.tracking.ui import attended
script = "sleep 600 & echo $$; exec sleep 600"
try:
    attended(["sh", "-c", script], os.environ)
except KeyboardInterrupt:
    sys.exit(7)
"""


def alive(mine: Callable[[psutil.Process], bool]) -> bool:
    """Whether a process of some lives."""
    for process in psutil.process_iter():
        with suppress(OSError, psutil.Error):
            if process.status() != psutil.STATUS_ZOMBIE and mine(process):
                return True
    return False


def test_a_command_that_is_told_to_end_leaves_no_server_behind() -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE) as command:
        assert command.stdout is not None
        leader = int(command.stdout.readline())
        assert alive(lambda process: os.getpgid(process.pid) == leader)
        os.kill(command.pid, signal.SIGTERM)
        assert command.wait(timeout=60) == 7
    assert not alive(lambda process: os.getpgid(process.pid) == leader)


def test_a_server_that_has_the_runs_is_named_and_not_started_again(tmp_path: Path) -> None:
    with pytest.raises(RaxalignError, match=r"open that address"):
        serve(Storage(str(tmp_path)), "127.0.0.1", free_port(), "http://127.0.0.1:5999")


def test_a_port_in_use_is_refused_with_another(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(RaxalignError, match=rf"in use.*--port {port + 1}"):
            serve(Storage(str(tmp_path)), "127.0.0.1", port)


@pytest.mark.slow
def test_the_ui_prints_the_address_of_each_grid_and_leaves_no_process_behind(tmp_path, no_runs):
    client = Client(f"sqlite:///{shutil.copy(no_runs, tmp_path)}")
    for number in range(11):
        experiment = client.create_experiment(f"grid{number}")
        client.set_experiment_tag(experiment, "mlflow.sharedViewState.cells", "{}")
    client.set_experiment_tag(experiment, "mlflow.sharedViewState.languages", "{}")
    client.create_experiment("not of raxalign")
    port = free_port()
    command = [sys.executable, "-m", "raxalign", "ui", "--storage", str(tmp_path)]
    environment = {key: text for key, text in os.environ.items() if key != "MLFLOW_TRACKING_URI"}
    said, uri = tmp_path / "said", f"sqlite:///{tmp_path}/mlflow.db"
    with said.open("w") as file:
        process = subprocess.Popen(
            [*command, "--port", str(port)], stderr=file, stdout=file, env=environment
        )
    try:
        while not answers(port):
            assert process.poll() is None, said.read_text()
            time.sleep(0.1)
        assert alive(lambda process: uri in process.environ().values())
        for name in ("127.0.0.1", "raxalign.localhost"):
            asked = urllib.request.Request(f"http://127.0.0.1:{port}/")
            asked.add_header("Host", f"{name}:{port}")
            assert b"MLflow" in urllib.request.urlopen(asked).read()
    finally:
        process.terminate()
        process.wait(timeout=60)
    assert not alive(lambda process: uri in process.environ().values())
    lines = said.read_text().splitlines()
    while "has not answered for" in lines[0]:  # on a busy machine
        del lines[0]
    server, plain = f"http://raxalign.localhost:{port}", f"http://127.0.0.1:{port}"
    view = "runs?viewStateShareKey={}&workflowType=machine_learning"
    same = f"{plain} is the same, for browsers that do not know the name"
    assert lines[0] == f"MLflow UI: {server} (Ctrl-C ends it; {same})"
    assert f"  grid10: {server}/#/experiments/11/{view.format('languages')}" in lines[1:12]
    old = f"  grid9: {server}/#/experiments/10/{view.format('cells')}"
    assert old in lines[1:12], "an older version has made it"
    assert lines[11] == f"  and 1 more: {server}/{Page.LIST}"
    assert "not of raxalign" not in said.read_text()
