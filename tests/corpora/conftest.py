from __future__ import annotations

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from raxalign.corpora.moses import Moses
from tests.corpora.places import placed


@pytest.fixture
def moses(tmp_path):
    """Makes a Moses corpus de-en of two files with the given bytes or lines; returns it with its
    inputs.
    """

    def make(source, target, prefix="corpus"):
        for code, content in (("de", source), ("en", target)):
            if not isinstance(content, bytes):
                content = "".join(f"{line}\n" for line in content).encode()
            (tmp_path / f"{prefix}.{code}").write_bytes(content)
        return placed(Moses(Moses.Params(path=str(tmp_path / prefix))), tmp_path / "downloads")

    return make


class FileServer(ThreadingHTTPServer):
    """`files` by path. `cuts`: after how many bytes the next answers break off; `statuses`: what
    the next answers are instead (None: as usual); `pause`: seconds before each byte.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, bytes] = {}
        self.tag: str | None = '"one"'
        self.cuts: list[int] = []
        self.statuses: list[int | None] = []
        self.pause = 0.0
        self.requests: list[tuple[str, str | None]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: FileServer

    def do_GET(self):
        wanted = self.headers.get("Range")
        self.server.requests.append((self.path, wanted))
        content = self.server.files.get(self.path)
        if self.server.statuses and (status := self.server.statuses.pop(0)):
            self.send_error(status)
            return
        if content is None:
            self.send_error(404)
            return
        start = (
            int(wanted.removeprefix("bytes=").partition("-")[0])
            if wanted and self.headers.get("If-Range") == self.server.tag
            else 0
        )
        if start and start >= len(content):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(content)}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        if self.server.tag:
            self.send_header("ETag", self.server.tag)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        body = content[start:]
        if self.server.cuts:
            body = body[: self.server.cuts.pop(0)]
            self.close_connection = True
        while self.server.pause:
            time.sleep(self.server.pause)
            self.wfile.write(body[:1])
            body = body[1:]
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server():
    """An HTTP server on loopback that knows ranges, and can be told to fail in real ways."""
    with FileServer() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
