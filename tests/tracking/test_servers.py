"""What a tracking store at an address may be instead: in time, each is called what it is, with what
to do.
"""

import shutil
import socketserver
import sqlite3
import threading

import pytest

from raxalign import waits
from raxalign.store.storage import Storage
from raxalign.tracking import client
from raxalign.tracking.client import Target, TrackingError

PAGE = b"HTTP/1.1 200 OK\r\nContent-Length: 19\r\n\r\n<html>Log in</html>"
CIRCLE = b"HTTP/1.1 302 Found\r\nLocation: /again\r\nContent-Length: 0\r\n\r\n"
LOCKED = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 14\r\n\r\nInvalid Host ."
LATER = b"HTTP/1.1 503 Busy\r\nRetry-After: 3600\r\nContent-Length: 0\r\n\r\n"
DRIBBLE = b"HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\n"


class Server(socketserver.ThreadingTCPServer):
    """One that gives the same answer to every request, and counts them. Of `DRIBBLE` a byte comes
    now and then, as long as somebody reads.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(self, answer):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer, self.asked, self.closed = answer, 0, threading.Event()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(socketserver.BaseRequestHandler):
    server: Server

    def handle(self):
        while self.request.recv(65_536):
            self.server.asked += 1
            self.request.sendall(self.server.answer)
            while self.server.answer is DRIBBLE and not self.server.closed.wait(0.02):
                self.request.sendall(b" ")


@pytest.fixture
def serve():
    made = []

    def start(answer):
        made.append(Server(answer))
        threading.Thread(target=made[-1].serve_forever, args=(0.01,), daemon=True).start()
        return made[-1]

    yield start
    for server in made:
        server.closed.set()
        server.shutdown()
        server.server_close()


def told(uri):
    """What is reported of the store at an address."""
    target = Target(uri, Storage("here"))
    with pytest.raises(TrackingError) as caught, target.reported():
        target.connect().get_experiment_by_name("small")
    assert "every result is in the ledger" in str(caught.value)
    return str(caught.value)


def test_who_is_told_to_come_later_says_so_at_once_and_asks_once(serve):
    server = serve(LATER)
    assert "does not answer (MlflowException: ResponseError('too many 503" in told(server.url)
    assert server.asked == 1


def test_a_call_has_one_limit_of_time_and_a_wait_is_reported(serve, monkeypatch, capsys):
    monkeypatch.setattr(client, "_STEPS", 0.05)
    monkeypatch.setattr(waits, "SOON", 0.1)
    url = serve(DRIBBLE).url
    assert "does not answer (TimeoutError: no whole answer within 0.5 s)" in told(url)
    waited = "has not answered for 0.1 s; waiting for at most 0.5 s"
    assert f"the tracking store at {url} {waited}" in capsys.readouterr().err


def test_a_steady_call_goes_on_where_the_system_does_not_count_its_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(waits, "_OPEN_FILES", tmp_path / "absent")
    slow = threading.Event()
    threading.Timer(0.3, slow.set).start()
    assert waits.within(0.05, "a slow call", lambda: slow.wait(60), steady=True)


@pytest.mark.parametrize(
    ("answer", "state", "remedy"),
    [
        (PAGE, "does not answer as MLflow does", "see what is at that address (a login page"),
        (CIRCLE, "does not answer as MLflow does", "see what is at that address (a login page"),
        (b"SSH-2.0-x\r\n", "does not answer as MLflow does", "see what is at that address"),
        (LOCKED, "refuses access", "set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"),
    ],
)
def test_what_is_no_open_mlflow_server_is_called_what_it_is(serve, answer, state, remedy):
    url = serve(answer).url
    said = told(url)
    assert said.startswith(f"the tracking store at {url} {state} (")
    assert f"{remedy}" in said.partition("every result is in the ledger: ")[2]
    assert said.endswith(", then run `raxalign sync`")


@pytest.mark.parametrize(
    ("damage", "state", "remedy"),
    [
        ("cut", "is a damaged database", "move its file away"),
        ("newer", "is a database of another version of MLflow", "install that version"),
    ],
)
def test_a_database_that_cannot_be_read_is_called_so(
    tmp_path, no_runs, monkeypatch, damage, state, remedy
):
    # as outside of tests, where nothing is asked of a database before MLflow asks
    monkeypatch.setattr(sqlite3.dbapi2, "connect", sqlite3.connect)
    shutil.copy(no_runs, file := tmp_path / "mlflow.db")
    if damage == "cut":
        file.write_bytes(file.read_bytes()[:4096])
    else:
        with sqlite3.connect(file) as database:
            database.execute("UPDATE alembic_version SET version_num = 'ffffffffffff'")
    said = told(f"sqlite:///{file}")
    assert f"/mlflow.db {state}" in said
    assert f"ledger: {remedy}" in said


def test_a_folder_is_refused_with_what_to_name_instead(tmp_path):
    assert "is a folder, which MLflow no longer writes" in (said := told(str(tmp_path)))
    assert "name a database (sqlite:////PATH/mlflow.db) or a server" in said
