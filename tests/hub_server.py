"""A server on this machine that speaks as the Hugging Face Hub does where one reads from it, and as
OPUS does; real clients talk to it.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from tests.single.loopback_hub import use_hub

LARGE = 100_000  # bytes from which a file is an object of git-lfs, which lies elsewhere
_COMPANY = {"": "model", "datasets": "dataset"}


def commit_of(files: Mapping[str, bytes]) -> str:
    """Return the commit of some content: the same content has the same one."""
    digest = hashlib.sha1()
    for path, content in sorted(files.items()):
        digest.update(f"{path} {len(content)}\n".encode() + content)
    return digest.hexdigest()


@dataclass
class Repo:
    """The files of each commit, and the commit of each branch. A client without a token does not
    get the files of a `gated` one, and does not see a `private` one.
    """

    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    gated: bool = False
    private: bool = False

    def push(self, files: Mapping[str, bytes], branch: str = "main") -> str:
        """Move a branch to a commit with these files; return the commit."""
        commit = commit_of(files)
        self.commits[commit] = dict(files)
        self.branches[branch] = commit
        return commit


@dataclass
class Fault:
    """What the next `times` requests whose path holds `path` get: a status with headers, or (status
    0) an answer that ends after `cut` bytes of its content (None: whole), of which `pace` bytes
    come each tenth of a second (0: all at once).
    """

    path: str
    status: int = 0
    times: int = 1
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: int | None = 0
    method: str = ""
    pace: int = 0


class HubServer(ThreadingHTTPServer):
    """`repos`: (model or dataset, name) -> repository. `moved`: old name -> name now. `opus`: path
    -> zip file, and `changed` when they were (None: the server does not say it). `requests`:
    (method, path, status) of each one that was answered. `naps`: seconds that clients waited,
    where a test notes them.
    """

    daemon_threads = True
    token = "hf_of_a_test"

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.repos: dict[tuple[str, str], Repo] = {}
        self.moved: dict[str, str] = {}
        self.opus: dict[str, bytes] = {}
        self.changed: float | None = time.time()
        self.faults: list[Fault] = []
        self.requests: list[tuple[str, str, int]] = []
        self.naps: list[float] = []
        self.lock = Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def environment(self) -> dict[str, str]:
        """What sends the clients of a process here."""
        return {"HF_ENDPOINT": self.url, "RAXALIGN_OPUS_URL": f"{self.url}/opus"}

    def ask(self, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Have the clients of this process ask here, without a token, with a cache of their own."""
        use_hub(self.url, cache, monkeypatch)
        for name in ("hf_api", "file_download", "hf_file_system"):
            monkeypatch.setattr(f"huggingface_hub.{name}.constants.ENDPOINT", self.url)
        monkeypatch.setenv("RAXALIGN_OPUS_URL", f"{self.url}/opus")
        monkeypatch.setenv("HF_TOKEN", "")

    def repo(self, name: str, kind: str = "model") -> Repo:
        """Return the repository of a name, made where there is none."""
        return self.repos.setdefault((kind, name), Repo())

    def taken(self) -> list[tuple[str, str, int]]:
        """Return the requests since the last call."""
        with self.lock:
            found, self.requests = self.requests, []
        return found

    def fault(self, method: str, path: str) -> Fault | None:
        """Return the fault of a request, counted down."""
        with self.lock:
            for fault in self.faults:
                if fault.path in path and fault.method in ("", method) and fault.times > 0:
                    fault.times -= 1
                    return fault
        return None


@contextmanager
def serving() -> Iterator[HubServer]:
    """A server that answers meanwhile."""
    with HubServer() as server:
        thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class _Refused(Exception):
    def __init__(self, status: int, error: str, said: str) -> None:
        super().__init__(said)
        self.status, self.error = status, error


class _Handler(BaseHTTPRequestHandler):
    server: HubServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        split = urlsplit(self.path)
        self.cut, self.pace = None, 0
        fault = self.server.fault(self.command, self.path)
        if fault and fault.status:
            return self._json({"error": "of a test"}, fault.status, fault.headers)
        self.cut, self.pace = (fault.cut, fault.pace) if fault else (None, 0)
        parts = [unquote(part) for part in split.path.strip("/").split("/")]
        query = parse_qs(split.query)
        query |= parse_qs(body.decode()) if self.command == "POST" else {}
        try:
            self._route(parts, query)
        except _Refused as refused:
            named = {"X-Error-Code": refused.error, "X-Error-Message": str(refused)}
            self._json({"error": str(refused)}, refused.status, named)

    do_HEAD = do_POST = do_GET  # noqa: N815 (the names that the server looks for)

    def _route(self, parts: list[str], query: dict[str, list[str]]) -> None:
        if parts == ["api", "agent-harnesses"]:  # what the client asks for its own statistics
            self._json({"standardEnvVars": [], "harnesses": {}})
        elif parts[0] == "opus":
            changed = self.server.changed
            dated = {} if changed is None else {"Last-Modified": formatdate(changed, usegmt=True)}
            self._file(self.server.opus.get("/".join(parts[1:])), dated)
        elif parts[0] == "lfs":
            self._file(next((c for c in self._contents() if _sha256(c) == parts[1]), None))
        elif parts[0] == "api" and parts[1] in ("models", "datasets"):
            self._api(parts[1].removesuffix("s"), parts[2:], query)
        elif "resolve" in parts:
            kind = _COMPANY["datasets" if parts[0] == "datasets" else ""]
            place = parts.index("resolve")
            name = "/".join(parts[:place]).removeprefix("datasets/")
            self._resolve(kind, name, parts[place + 1], "/".join(parts[place + 2 :]))
        else:
            raise _Refused(404, "", "Sorry, we can't find the page you are looking for.")

    def _contents(self) -> Iterator[bytes]:
        for repo in self.server.repos.values():
            for files in repo.commits.values():
                yield from files.values()

    def _api(self, kind: str, parts: list[str], query: dict[str, list[str]]) -> None:
        verbs = ("tree", "revision", "paths-info", "auth-check")
        place = next((i for i, part in enumerate(parts) if part in verbs), len(parts))
        name, verb = "/".join(parts[:place]), parts[place] if place < len(parts) else "revision"
        repo = self._repo(kind, name, describes=verb in ("revision", "tree"))
        if repo is None:
            return None
        if verb == "auth-check":
            return self._json({})
        commit = self._commit(repo, parts[place + 1] if place + 1 < len(parts) else "main")
        files = repo.commits[commit]
        if verb == "revision":
            siblings = [{"rfilename": path} for path in sorted(files)]
            gated: Any = "auto" if repo.gated else False
            told = {"id": name, "sha": commit, "siblings": siblings, "gated": gated, "tags": []}
            return self._json({**told, "private": repo.private, "usedStorage": 0})
        if verb == "paths-info":
            wanted = [path for path in query.get("paths", []) if path]
            return self._json([_entry(p, files[p]) for p in wanted if p in files])
        start = "/".join(parts[place + 2 :])
        whole = query.get("recursive", [""])[0].lower() == "true"
        return self._json(_tree(files, start, recursive=whole))

    def _repo(self, kind: str, name: str, *, describes: bool = False) -> Repo | None:
        """The repository; an old name is answered by where it is now."""
        if name in self.server.moved:
            path = self.path.replace(f"/{name}", f"/{self.server.moved[name]}", 1)
            self._answer(307, b"", {"Location": path})
            return None
        repo = self.server.repos.get((kind, name))
        known = self.headers.get("Authorization") == f"Bearer {self.server.token}"
        if repo is None or (repo.private and not known):
            raise _Refused(404 if known else 401, "RepoNotFound", "Repository not found")
        if repo.gated and not known and not describes:
            told = f"Access to {kind} {name} is restricted. You must have access to it."
            raise _Refused(401, "GatedRepo", told)
        return repo

    def _commit(self, repo: Repo, revision: str) -> str:
        commit = repo.branches.get(revision, revision)
        if commit not in repo.commits:
            raise _Refused(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        return commit

    def _resolve(self, kind: str, name: str, revision: str, path: str) -> None:
        repo = self._repo(kind, name)
        if repo is None:
            return None
        commit = self._commit(repo, revision)
        headers = {"X-Repo-Commit": commit}
        content = repo.commits[commit].get(path)
        if content is None:
            named = {**headers, "X-Error-Code": "EntryNotFound", "X-Error-Message": "no entry"}
            return self._json({"error": "Entry not found"}, 404, named)
        if len(content) >= LARGE:
            sha256 = _sha256(content)
            linked = {"X-Linked-Size": str(len(content)), "X-Linked-ETag": f'"{sha256}"'}
            there = f"http://localhost:{self.server.server_port}/lfs/{sha256}"  # another host
            return self._answer(302, b"", {**headers, **linked, "Location": there})
        return self._file(content, headers, _oid(content))

    def _file(
        self, content: bytes | None, headers: Mapping[str, str] | None = None, tag: str = ""
    ) -> None:
        """A file, or the range of it that is asked for."""
        if content is None:
            raise _Refused(404, "", "Not Found")
        tag = f'"{tag or _sha256(content)}"'
        more = {**(headers or {}), "ETag": tag, "Accept-Ranges": "bytes"}
        wanted = self.headers.get("Range", "")
        if not wanted or self.headers.get("If-Range", tag) != tag:
            return self._answer(200, content, more)
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        start, end = int(first), min(int(last or len(content)), len(content) - 1)
        if start >= len(content):
            return self._answer(416, b"", {"Content-Range": f"bytes */{len(content)}"})
        more["Content-Range"] = f"bytes {start}-{end}/{len(content)}"
        return self._answer(206, content[start : end + 1], more)

    def _json(self, answer: Any, code: int = 200, headers: Mapping[str, str] | None = None) -> None:
        named = {"Content-Type": "application/json", **(headers or {})}
        self._answer(code, json.dumps(answer).encode(), named)

    def _answer(self, code: int, data: bytes, headers: Mapping[str, str]) -> None:
        with self.server.lock:
            self.server.requests.append((self.command, self.path, code))
        self.send_response(code)
        for key, value in {"Content-Length": str(len(data)), **headers}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            if self.cut is not None:
                data = data[: self.cut]
                self.close_connection = True
            while self.pace and data:
                part, data = data[: self.pace], data[self.pace :]
                with suppress(OSError):  # the client has gone
                    self.wfile.write(part)
                Event().wait(0.1)
            self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Nothing on stderr."""


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _oid(content: bytes) -> str:
    """The name that git gives to a content."""
    return hashlib.sha1(f"blob {len(content)}\0".encode() + content).hexdigest()


def _entry(path: str, content: bytes) -> dict[str, Any]:
    """A file as the hub lists it."""
    told = {"type": "file", "path": path, "size": len(content), "oid": _oid(content)}
    if len(content) < LARGE:
        return told
    return {**told, "lfs": {"oid": _sha256(content), "size": len(content), "pointerSize": 130}}


def _tree(files: Mapping[str, bytes], start: str, *, recursive: bool) -> list[dict[str, Any]]:
    """The entries below a folder: all, or its own. Raises `_Refused` where there are none."""
    found, folders = list[dict[str, Any]](), dict[str, None]()
    prefix = f"{start}/" if start else ""
    for path, content in sorted(files.items()):
        if not path.startswith(prefix):
            continue
        inner = path.removeprefix(prefix)
        for end in [i for i, sign in enumerate(inner) if sign == "/"]:
            folders[prefix + inner[:end]] = None
        if recursive or "/" not in inner:
            found.append(_entry(path, content))
    if start and not found and not folders:
        raise _Refused(404, "EntryNotFound", f"{start} does not exist")
    kept = [p for p in folders if recursive or "/" not in p.removeprefix(prefix)]
    return [*({"type": "directory", "path": p, "oid": "0" * 40, "size": 0} for p in kept), *found]
