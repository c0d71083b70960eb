"""A hub on this machine that takes pushes: its protocol as far as a repository is made, filled,
listed and downloaded.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

TOKEN, COMMIT = "hf_of_a_test", "d" * 40


class LoopbackHub(ThreadingHTTPServer):
    """`repositories`: name -> path -> content; `private` are those that were made private, and
    `refusals` the status and the hub's word for it of those that are not given. Large files go by
    the protocol of git-lfs, as at the hub; `limit` is the size of a large one.
    """

    daemon_threads = True
    limit = 1000

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.repositories: dict[str, dict[str, bytes]] = {}
        self.private: set[str] = set()
        self.refusals: dict[str, tuple[int, str]] = {}
        self.large: dict[str, bytes] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


def use_hub(url: str, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the hub's client ask another endpoint, with a cache of its own."""
    from huggingface_hub import constants

    template = constants.HUGGINGFACE_CO_URL_TEMPLATE.removeprefix(constants.ENDPOINT)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", url + template)
    monkeypatch.setattr(constants, "ENDPOINT", url)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))


@contextmanager
def hub_in_use(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackHub]:
    """A hub that runs and is asked meanwhile."""
    with LoopbackHub() as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        use_hub(server.url, cache, monkeypatch)
        yield server
        server.shutdown()


class _Handler(BaseHTTPRequestHandler):
    server: LoopbackHub

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self._json({"error": "Invalid username or password."}, 401)
        if self.path == "/api/repos/create":
            return self._create(json.loads(body))
        if self.path == "/api/validate-yaml":  # the front matter of the model card
            assert json.loads(body)["content"].startswith("---\n")
            return self._json({"errors": [], "warnings": []})
        name = "/".join(self.path.split("/")[3:5])
        if "/preupload/" in self.path:
            files = json.loads(body)["files"]
            modes, same = {True: "lfs", False: "regular"}, {"shouldIgnore": False, "oid": None}
            large = {file["path"]: file["size"] > self.server.limit for file in files}
            answer = [{**same, "path": p, "uploadMode": modes[is_]} for p, is_ in large.items()]
            return self._json({"files": answer})
        if self.path.endswith("/info/lfs/objects/batch"):
            wanted, place = json.loads(body)["objects"], f"{self.server.url}/lfs/"
            links = [{**one, "actions": {"upload": {"href": place + one["oid"]}}} for one in wanted]
            return self._json({"transfer": "basic", "objects": links})
        if "/commit/" in self.path:
            self._commit(self.server.repositories[name], body)
            page = f"{self.server.url}/{name}/commit/{COMMIT}"
            return self._json({"success": True, "commitOid": COMMIT, "commitUrl": page})
        return self._json({"error": "not here"}, 404)

    def do_PUT(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        oid = self.path.rpartition("/")[2]
        assert hashlib.sha256(content).hexdigest() == oid
        self.server.large[oid] = content
        self._answer(200, b"")

    def do_GET(self) -> None:
        name = "/".join(self.path.removeprefix("/api/models").split("/")[1:3])
        files = self.server.repositories.get(name)
        if files is None:
            code, error = self.server.refusals.get(name, (404, "RepoNotFound"))
            return self._json({"error": "Repository not found"}, code, error)
        if "/tree/" in self.path:
            tree, same = files.items(), {"type": "file", "oid": "0" * 40}
            return self._json([{**same, "path": path, "size": len(data)} for path, data in tree])
        if "/resolve/" in self.path:
            revision, path = self.path.split("/resolve/")[1].split("/", 1)
            if revision in (COMMIT, "main") and path in files:
                return self._answer(200, files[path])
            missing = "Entry" if revision in (COMMIT, "main") else "Revision"
            return self._json({}, 404, f"{missing}NotFound")
        if (self.path.partition("/revision/")[2] or "main") not in (COMMIT, "main"):
            return self._json({}, 404, "RevisionNotFound")
        siblings = [{"rfilename": path} for path in files]
        return self._json({"id": name, "modelId": name, "sha": COMMIT, "siblings": siblings})

    do_HEAD = do_GET  # noqa: N815 (the name that the server looks for)

    def _create(self, asked: dict[str, Any]) -> None:
        owner = asked.get("organization") or "me"
        name = f"{owner}/{asked['name']}"
        there = name in self.server.repositories
        if not there:
            self.server.repositories[name] = {".gitattributes": b""}
            self.server.private |= {name} if asked.get("visibility") == "private" else set()
        url = f"{self.server.url}/{name}"
        self._json({"url": url, "name": name, "id": name}, 409 if there else 200)

    def _commit(self, files: dict[str, bytes], body: bytes) -> None:
        for line in body.splitlines():
            entry = json.loads(line)
            kind, value = entry["key"], entry["value"]
            if kind == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif kind == "lfsFile":
                files[value["path"]] = self.server.large[value["oid"]]
            elif kind == "deletedFile":
                del files[value["path"]]

    def _json(self, answer: Any, code: int = 200, error: str = "") -> None:
        self._answer(code, json.dumps(answer).encode(), error)

    def _answer(self, code: int, data: bytes, error: str = "") -> None:
        self.send_response(code)
        known = {"X-Repo-Commit": COMMIT} | ({"X-Error-Code": error} if error else {})
        tag = f'"{hashlib.sha256(data).hexdigest()}"'
        for key, value in {"Content-Length": str(len(data)), "ETag": tag, **known}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Nothing on stderr."""
