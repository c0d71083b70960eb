"""A storage on S3: what is asked of the store, and what its failures become."""

import pytest

from raxalign.errors import StorageError
from raxalign.store.artifacts import ArtifactStore
from raxalign.store.files import files_of
from raxalign.store.ledger import Ledger
from raxalign.store.storage import Storage
from tests.aws import BUCKET, SETTINGS


@pytest.fixture
def root(proxy, tmp_path):
    return f"s3://{BUCKET}/{tmp_path.name}"


def build(folder):
    (folder / "words.txt").write_text("whole")
    return {}


def key(number):
    return f"{number:064x}"


def test_an_artifact_and_a_result_are_kept(root, monkeypatch, tmp_path):
    folder = ArtifactStore(root).make("pairs", key(1), build)
    Ledger(root).write(key(2), {"scores": []}, None)
    monkeypatch.setenv("RAXALIGN_CACHE", str(tmp_path / "another machine"))
    again = ArtifactStore(root).open("pairs", key(1))
    assert (again / "words.txt").read_text() == "whole"
    assert again != folder
    assert Ledger(root).read(key(2)) == {"key": key(2), "scores": []}


@pytest.mark.parametrize("status", [500, 503, 429, 0])
def test_a_blip_is_repeated(root, proxy, status):
    files = files_of(root)
    proxy.fail(3, status)
    files.write("one", b"1")
    proxy.fail(3, status)
    assert files.read("one") == b"1"
    proxy.fail(3, status)
    assert files.names("") == {"one": 1}
    assert proxy.requests[-1][0] == "GET"


def test_a_store_that_is_gone_is_one_message(root, proxy):
    files = files_of(root)
    proxy.fail(100, 503)
    with pytest.raises(StorageError, match=r"cannot write: the store does not answer.*AWS_END"):
        files.write("one", b"1")
    assert len(proxy.requests) == 5, "the first request, and one after each wait"


def test_a_body_that_comes_byte_by_byte_is_given_up_and_a_slow_one_is_not(
    root, proxy, monkeypatch, tmp_path
):
    files = files_of(root)
    files.write("one", b"1" * 1_500_000)
    monkeypatch.setattr("raxalign.store.files._STALL", 1.0)
    monkeypatch.setattr("raxalign.store.files.WAITS", ())
    proxy.pace = 100_000
    assert len(files.read("one")) == 1_500_000
    proxy.pace = 1
    with pytest.raises(StorageError, match=r"one: cannot read: the store does not answer"):
        files.read("one")
    with pytest.raises(StorageError, match=r"one: cannot copy.*the store does not answer"):
        files.download("one", tmp_path / "copy")


def test_who_created_a_file_is_known_although_the_answer_was_lost(root, proxy):
    files = files_of(root)
    proxy.fail(1, -1, "PUT")
    assert files.create("one", b"mine")
    assert not files.create("one", b"another's")
    assert files.read("one") == b"mine"


def test_what_is_refused_is_not_repeated(root, proxy):
    files = files_of(root)
    proxy.fail(100, 403)
    with pytest.raises(StorageError, match=r"the store refused it.*[Cc]heck the credentials"):
        files.write("one", b"1")
    assert len(proxy.requests) == 1


def test_without_credentials_the_message_names_them(root, monkeypatch, tmp_path):
    for name in SETTINGS:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(StorageError, match=r"no credentials were found.*AWS_ACCESS_KEY_ID"):
        Storage(root).check_writable()


@pytest.mark.parametrize("act", ["check", "make", "write", "list", "read"])
def test_a_bucket_is_never_made(proxy, act):
    root = "s3://no-such-bucket/raxalign"
    files = files_of(root)
    acts = {
        "check": lambda: Storage(root).check_writable(),
        "make": lambda: ArtifactStore(root).make("pairs", key(1), build),
        "write": lambda: files.write("one", b"1"),
        "list": lambda: Ledger(root).keys(),
        "read": lambda: files.read("one"),
    }
    with pytest.raises(StorageError, match=r"no bucket s3://no-such-bucket.*aws s3 mb"):
        acts[act]()
    assert not [path for method, path in proxy.requests if (method, path) == ("PUT", "/no-such")]
    with pytest.raises(StorageError, match="no bucket"):
        Storage(root).check_writable()


def test_listings_are_not_remembered(root):
    import fsspec

    files = files_of(root)
    files.write("folder/one", b"1")
    assert list(files.names("folder")) == ["one"]
    other, base = fsspec.url_to_fs(root, use_listings_cache=False, skip_instance_cache=True)
    other.pipe_file(f"{base}/folder/two", b"22")
    assert files.names("folder") == {"one": 1, "two": 2}


def test_many_files_are_looked_for_by_one_listing(root, proxy):
    files = files_of(root)
    for number in range(12):
        files.write(f"artifacts/{number}/marker", b"1")
    proxy.requests.clear()
    wanted = [f"artifacts/{number}/marker" for number in range(100)]
    assert files.existing(wanted) == set(wanted[:12])
    assert len(proxy.requests) == 1
    assert files.read(wanted[0]) == b"1"
    assert len(proxy.requests) == 2, "a read is one request"
