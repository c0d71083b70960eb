import hashlib
import random
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from raxalign.corpora import opus as module
from raxalign.corpora.opus import download
from raxalign.errors import DataError, TransientError

CONTENT = random.Random(0).randbytes(700_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def url(server):
    server.files["/file.zip"] = CONTENT
    return f"{server.url}/file.zip"


def test_a_whole_download_is_not_fetched_again(server, url, tmp_path):
    target = tmp_path / "deep" / "file.zip"
    assert download(url, target) == SHA256
    assert target.read_bytes() == CONTENT
    assert leftovers(target.parent) == ["file.zip"]
    assert download(url, target, sha256=SHA256) == SHA256
    assert len(server.requests) == 1


def leftovers(folder):
    return sorted(path.name for path in folder.iterdir() if not path.name.endswith(".lock"))


@pytest.mark.parametrize(
    ("tag", "asked"), [('"one"', [None, "bytes=300000-", "bytes=600000-"]), (None, [None] * 2)]
)
def test_cut_connections_are_resumed_unless_the_server_knows_no_ranges(
    server, url, tmp_path, tag, asked
):
    server.tag, server.cuts = tag, [300_000] * (len(asked) - 1)
    assert download(url, tmp_path / "file.zip", sha256=SHA256) == SHA256
    assert [wanted for _, wanted in server.requests] == asked


def stopped_halfway(server, url, tmp_path):
    """The first answer is cut and the second is a failure: with one try a download stops here, as a
    killed process does.
    """
    server.cuts, server.statuses = [300_000], [None, 503]
    with pytest.raises(TransientError, match="What has arrived is kept"):
        download(url, tmp_path / "file.zip", attempts=1, pause=0)
    assert (tmp_path / "file.zip.%22one%22.part").stat().st_size == 300_000
    assert not (tmp_path / "file.zip").exists()


def test_a_later_call_goes_on_where_one_was_stopped(server, url, tmp_path):
    stopped_halfway(server, url, tmp_path)
    assert download(url, tmp_path / "file.zip", sha256=SHA256) == SHA256
    assert server.requests[-1] == ("/file.zip", "bytes=300000-")


@pytest.mark.parametrize("tag", ['"two"', None])
def test_a_file_that_has_changed_is_fetched_anew(server, url, tmp_path, tag):
    stopped_halfway(server, url, tmp_path)
    server.files["/file.zip"], server.tag = CONTENT[::-1], tag
    assert download(url, tmp_path / "file.zip") == hashlib.sha256(CONTENT[::-1]).hexdigest()


@pytest.mark.parametrize("written", ["%22one%22", "%22two%22", "", "whole"])
def test_a_part_is_not_used_where_it_is_damaged_and_is_where_it_is_whole(
    server, url, tmp_path, written
):
    name, content = (written, b"x" * 1000) if written != "whole" else ("%22one%22", CONTENT)
    (tmp_path / f"file.zip.{name}.part").write_bytes(content)
    assert download(url, tmp_path / "file.zip", sha256=SHA256) == SHA256
    assert leftovers(tmp_path) == ["file.zip"]


def test_a_wrong_digest_is_refused_and_nothing_stays(server, url, tmp_path):
    with pytest.raises(DataError, match=rf"file\.zip: the SHA-256 is {SHA256}, not 0000"):
        download(url, tmp_path / "file.zip", sha256="0" * 64)
    assert leftovers(tmp_path) == []
    (tmp_path / "file.zip").write_bytes(b"old")
    with pytest.raises(DataError, match="the SHA-256 is"):
        download(url, tmp_path / "file.zip", sha256=SHA256)


def test_what_does_not_exist_is_told_with_its_url(server, tmp_path):
    with pytest.raises(DataError, match=rf"{server.url}/no\.zip: the server answers 404"):
        download(f"{server.url}/no.zip", tmp_path / "file.zip")
    assert len(server.requests) == 1


def test_failures_are_tried_again_and_lasting_ones_are_transient_errors(
    server, url, tmp_path, capsys
):
    server.statuses = [503, 429]
    assert download(url, tmp_path / "passing.zip", pause=0) == SHA256
    assert capsys.readouterr().err.splitlines() == [
        f"{url}: the server answers {problem}; asked again in 0 s (try {number} of 5)"
        for number, problem in ((2, "503 Service Unavailable"), (3, "429 Too Many Requests"))
    ]
    server.statuses = [503] * 9
    with pytest.raises(TransientError, match=r"503.*3 tries.*run again"):
        download(url, tmp_path / "file.zip", attempts=3, pause=0)
    assert len(server.requests) == 6


def test_a_server_that_is_not_there_is_a_transient_error(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(TransientError, match=r"refused"):
        download(f"http://127.0.0.1:{port}/x", tmp_path / "x", attempts=2, pause=0)


def test_downloads_of_one_file_take_turns(server, url, tmp_path):
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(download, [url] * 4, [tmp_path / "file.zip"] * 4))
    assert found == [SHA256] * 4
    assert len(server.requests) == 1


def test_a_server_that_dribbles_is_given_up_and_reported(
    server, url, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(module, "_TIMEOUT", 0.3)
    server.pause = 0.02
    with pytest.raises(TransientError, match=r"no whole answer within 0\.3 s \(2 tries\)"):
        download(url, tmp_path / "file.zip", attempts=2, pause=0)
    assert f"{url}: no whole answer within 0.3 s; asked again" in capsys.readouterr().err
    server.pause = 0.0
    assert download(url, tmp_path / "file.zip") == SHA256
