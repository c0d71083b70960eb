"""A fake AWS in this process, and a proxy before it that can fail as networks and stores do."""

from __future__ import annotations

import http.client
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

BUCKET = "test-bucket"
SETTINGS = {
    "AWS_ACCESS_KEY_ID": "key",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_DEFAULT_REGION": "us-east-1",
}


@contextmanager
def fake_aws() -> Iterator[str]:
    """moto's server on a free port of this machine, with one bucket; yields its endpoint."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    connection = http.client.HTTPConnection(host, port)
    connection.request("PUT", f"/{BUCKET}", headers={"Authorization": _SIGNED})
    assert connection.getresponse().status == 200
    try:
        yield f"http://{host}:{port}"
    finally:
        server.stop()


# moto reads the service and the region from it, and does not check the signature
_SIGNED = (
    "AWS4-HMAC-SHA256 Credential=key/20260101/us-east-1/s3/aws4_request, SignedHeaders=host,"
    " Signature=none"
)
_OWN = ("transfer-encoding", "connection", "date", "server")
_LENGTH = "content-length"
Fault = Callable[[str, str], int | None]


def _cut(handler: BaseHTTPRequestHandler) -> None:
    handler.close_connection = True
    handler.connection.shutdown(socket.SHUT_RDWR)


class Proxy:
    """Passes requests on to an endpoint, counts them, and fails as it is asked to.

    `fault(method, path)` returns None to pass a request on, an HTTP status to answer at once, 0 to
    cut the connection before the request is passed on, or -1 to cut it afterwards: the request is
    then carried out and its answer lost. Of an answer `pace` bytes come each tenth of a second (0:
    all at once).
    """

    def __init__(self, endpoint: str) -> None:
        self.target = endpoint.removeprefix("http://")
        self.requests: list[tuple[str, str]] = []
        self.pace = 0
        self.fault: Fault = lambda method, path: None
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # else each body waits for the receipt of its headers

            def answer(self) -> None:
                proxy.serve(self)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                """Say nothing."""

        for method in ("GET", "PUT", "POST", "HEAD", "DELETE"):
            setattr(Handler, f"do_{method}", Handler.answer)
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        # closing waits for one interval
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def fail(self, times: int, status: int, method: str | None = None) -> None:
        """Fail the next requests (of a method)."""
        left = [status] * times

        def fault(asked: str, path: str) -> int | None:
            return left.pop() if left and method in (None, asked) else None

        self.fault = fault

    def serve(self, handler: BaseHTTPRequestHandler) -> None:
        method, path = handler.command, handler.path
        self.requests.append((method, path))
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        fault = self.fault(method, path)
        if fault == 0:
            _cut(handler)
            return
        if fault is not None and fault > 0:
            handler.send_response(fault)
            handler.send_header("Content-Length", "0")
            handler.end_headers()
            return
        connection = http.client.HTTPConnection(self.target)
        connection.request(method, path, body, dict(handler.headers.items()))
        answer = connection.getresponse()
        data = answer.read()
        if fault == -1:
            _cut(handler)
            return
        handler.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in _OWN and (name.lower() != _LENGTH or method == "HEAD"):
                handler.send_header(name, value)
        if method != "HEAD":
            handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        while self.pace and data:
            handler.wfile.write(data[: self.pace])
            data = data[self.pace :]
            threading.Event().wait(0.1)
        if method != "HEAD":
            handler.wfile.write(data)
