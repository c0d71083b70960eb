"""What a user sees where the hub does not give an encoder, asked over HTTP on loopback."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from raxalign.encoders.base import EncoderInputs
from raxalign.encoders.models.hub import hub_call
from raxalign.encoders.transformer import Transformer
from raxalign.errors import DataError, TransientError

COMMIT = "c" * 40
_REFUSALS = {
    "gated": (403, "GatedRepo"),
    "missing": (404, "RepoNotFound"),
    "unknown": (401, "RepoNotFound"),
    "forbidden": (403, ""),
    "busy": (503, ""),
}


class _Hub(BaseHTTPRequestHandler):
    """The hub's protocol, as far as an encoder's revision and files are asked for: repositories
    ``some/NAME`` refuse by their names, and ``some/encoder`` has a config alone.
    """

    def do_GET(self) -> None:
        owner, name = self.path.removeprefix("/api/models").split("/")[1:3]
        code, error = _REFUSALS.get(name, (200, ""))
        if code == 200 and "/api/" in self.path:
            return self._answer(200, json.dumps({"id": f"{owner}/{name}", "sha": COMMIT}))
        if code == 200 and "/resolve/" in self.path:
            revision, file = self.path.split("/resolve/")[1].split("/", 1)
            if revision != COMMIT:
                code, error = 404, "RevisionNotFound"
            elif file == "config.json":
                config = {"num_hidden_layers": 7, "architectures": ["BertModel"]}
                config |= {"model_type": "bert"}
                return self._answer(200, json.dumps(config))
            else:
                code, error = 404, "EntryNotFound"
        return self._answer(code, "", error)

    do_HEAD = do_GET  # noqa: N815 (the name that the server looks for)

    def _answer(self, code: int, text: str, error: str = "") -> None:
        self.send_response(code)
        headers = {"Content-Type": "application/json", "Content-Length": str(len(text))}
        headers |= {"ETag": '"1"', "X-Repo-Commit": COMMIT}
        for key, value in (headers | ({"X-Error-Code": error} if error else {})).items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        """Nothing on stderr."""


def _use(endpoint: str, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    template = constants.HUGGINGFACE_CO_URL_TEMPLATE.removeprefix(constants.ENDPOINT)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", endpoint + template)
    monkeypatch.setattr(constants, "ENDPOINT", endpoint)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setenv("DISABLE_SAFETENSORS_CONVERSION", "1")  # asks another server for weights
    # The client waits between its tries.
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", lambda _: None)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The endpoint of a hub on loopback."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Hub)
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    endpoint = f"http://127.0.0.1:{server.server_port}"
    _use(endpoint, tmp_path / "cache", monkeypatch)
    yield endpoint
    server.shutdown()
    server.server_close()


@pytest.fixture
def no_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An endpoint at which nothing listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    _use(f"http://127.0.0.1:{port}", tmp_path / "cache", monkeypatch)


def kind(name: str, revision: str | None = None) -> Transformer:
    return Transformer(Transformer.Params(name=name, revision=revision))


def of_lock(name: str) -> str | None:
    """A lock that has the commit of every name, and nothing else."""
    return COMMIT if name.startswith("hub:") else None


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("some/gated", DataError, r"gated encoder.*Accept its terms.*`hf auth login` or set HF_"),
        ("some/missing", DataError, r"the hub has no such encoder\. Is it a folder\?.*\./name"),
        ("some/unknown", DataError, r"the hub has no such encoder\..*Is it private\? Then log in"),
        ("some/forbidden", DataError, r"the hub refuses access \(403\)\. Log in with `hf auth"),
        ("some/busy", TransientError, r"the hub fails to answer \(503\).*Try again later"),
    ],
)
@pytest.mark.usefixtures("hub")
def test_what_the_hub_refuses_is_one_sentence_with_the_name_and_the_remedy(name, error, message):
    encoder = kind(name)
    for call in (
        encoder.fetch,
        lambda: encoder.fetch_depth(of_lock),
        lambda: encoder.fetch_head(of_lock),
        lambda: encoder.load(EncoderInputs(), "cpu"),
    ):
        with pytest.raises(error, match=f"^{name}: .*{message}") as found:
            call()
        assert "\n" not in str(found.value)


@pytest.mark.usefixtures("hub")
def test_a_revision_and_weights_that_the_hub_does_not_have_are_named() -> None:
    with pytest.raises(DataError, match="some/encoder: the hub has no revision 'v9' of it"):
        kind("some/encoder", "v9").load(EncoderInputs(), "cpu")
    with pytest.raises(DataError, match=r"some/encoder: .*safetensors"):
        kind("some/encoder", COMMIT).load(EncoderInputs(), "cpu")


@pytest.mark.usefixtures("hub")
def test_the_config_on_the_hub_tells_layers_and_head_of_the_revision() -> None:
    encoder = kind("some/encoder")
    assert encoder.fetch() == {"hub:some/encoder": COMMIT}
    assert encoder.has_head(of_lock) is None
    assert encoder.fetch_depth(of_lock) == {f"depth:some/encoder@{COMMIT}": "7"}
    head = encoder.fetch_head(of_lock)
    assert head == {f"head:some/encoder@{COMMIT}": "none"}
    assert encoder.has_head({**head, "hub:some/encoder": COMMIT}.get) is False


@pytest.mark.usefixtures("no_hub")
def test_a_hub_out_of_reach_is_worth_a_retry_whatever_is_asked_of_it() -> None:
    encoder = kind("some/encoder")
    for call, purpose in (
        (encoder.fetch, "look up its revision"),
        (lambda: encoder.fetch_depth(of_lock), "look up how many layers it has"),
        (lambda: encoder.fetch_head(of_lock), "look up whether it has a masked-LM head"),
        (lambda: encoder.load(EncoderInputs(), "cpu"), "load it"),
    ):
        said = rf"^some/encoder: the hub cannot be reached to {purpose} \(.*\)\. Go online, .*"
        with pytest.raises(TransientError, match=said):
            call()


def test_another_error_is_not_taken_for_the_hubs() -> None:
    with pytest.raises(ValueError, match="a bug"), hub_call("some/encoder", "load it"):
        raise ValueError("a bug")
