"""Collections of small objects: what a machine asks for at its first look, and that a collection is
never more than a help.
"""

import functools
from collections.abc import Callable

import pytest

from raxalign.store.artifacts import ArtifactStore
from raxalign.store.files import files_of
from raxalign.store.ledger import Ledger
from raxalign.store.storage import Storage
from tests.aws import BUCKET
from tests.fake_bucket import Bucket

N = 10


class Requests(list[tuple[str, str]]):
    """What is asked of a bucket, in order. `fault(method, path)` may raise instead."""

    fault: Callable[[str, str], None] = staticmethod(lambda method, path: None)


@pytest.fixture
def requests(monkeypatch):
    found = Requests()

    def counted(method, act):
        @functools.wraps(act)
        def ask(files, path, *args, **options):
            found.append((method, path))
            found.fault(method, path)
            return act(files, path, *args, **options)

        return ask

    names = {"find": "LIST", "cat_file": "GET", "pipe_file": "PUT", "rm_file": "DELETE"}
    for name, method in names.items():
        monkeypatch.setattr(Bucket, name, counted(method, getattr(Bucket, name)))
    return found


def fill(place):
    """Write results."""
    for number in range(N):
        Ledger(place).write(key(number), {"scores": [], "number": number}, None)


@pytest.fixture
def root(requests, tmp_path):
    place = f"bucket://{tmp_path}/root"
    fill(place)
    for number in range(N):
        ArtifactStore(place).make("pairs", key(number), lambda _: {"number": number})  # noqa: B023
    requests.clear()
    return place


@pytest.fixture
def elsewhere(tmp_path, monkeypatch, requests):
    """Go to another machine, which has read nothing."""

    def go(name):
        monkeypatch.setenv("RAXALIGN_CACHE", str(tmp_path / name))
        requests.clear()

    return go


def key(number):
    return f"{number:064x}"


KEYS = [key(number) for number in range(N)]
PAIRS = [("pairs", key) for key in KEYS]


def numbers(root):
    return [record["number"] for record in Ledger(root).read_many(KEYS).values()]


def notes(root):
    return [manifest.notes["number"] for manifest in ArtifactStore(root).manifests(PAIRS).values()]


def collected(root):
    return files_of(root).names("collected").get("all")


def test_a_machine_that_has_read_nothing_reads_a_collection(root, elsewhere, requests):
    Storage(root).collect(PAIRS, KEYS)
    elsewhere("second")
    assert numbers(root) == list(range(N))
    assert len(requests) == 3, "two listings, and the collection"
    assert notes(root) == list(range(N))
    requests.clear()
    assert numbers(root) == list(range(N)) == notes(root)
    assert len(requests) == 2, "a listing each"


def test_what_came_after_a_collection_is_read_alone(root, elsewhere, requests):
    Storage(root).collect([], KEYS[:8])
    elsewhere("second")
    assert numbers(root) == list(range(N))
    assert len(requests) == 3 + 2


def test_an_entry_is_not_used_when_its_original_has_changed(root, elsewhere, requests):
    Storage(root).collect([], KEYS)
    files_of(root).delete(f"ledger/{key(3)}/evaluation.json")
    Ledger(root).write(key(3), {"scores": [], "number": 333}, None)
    files_of(root).delete(f"ledger/{key(5)}/evaluation.json")
    elsewhere("second")
    assert numbers(root) == [0, 1, 2, 333, 4, *range(6, N)]
    assert len(requests) == 3 + 1


def test_a_damaged_collection_is_not_used_and_is_replaced(root, elsewhere, requests):
    Storage(root).collect(PAIRS, KEYS)
    files, name = files_of(root), "collected/all"
    whole = files.read(name)
    for damaged in (b"", b"{}", whole[:-1], whole.replace(whole[9:10], b"?")):
        files.write(name, damaged)
        elsewhere(f"for {len(damaged)} {damaged[:9]!r}")
        assert numbers(root) == list(range(N))
        assert len(requests) == 3 + N
    Storage(root).collect(PAIRS, KEYS)
    assert files.read(name) == whole


def test_a_damaged_result_is_set_aside_whether_it_was_collected_or_not(root, elsewhere):
    place = f"ledger/{key(3)}/evaluation.json"
    files_of(root).write(place, b"{}")
    Storage(root).collect([], KEYS)
    elsewhere("second")
    with pytest.warns(UserWarning, match="set aside as .*damaged"):
        assert numbers(root) == [0, 1, 2, *range(4, N)]
    assert not files_of(root).exists(place)


def test_the_next_writer_keeps_what_was_collected_before(root, elsewhere, requests):
    Storage(root).collect([], KEYS[:6])
    Storage(root).collect([], KEYS[6:])
    Storage(root).collect(PAIRS, [])
    elsewhere("second")
    assert (numbers(root), notes(root)) == (list(range(N)), list(range(N)))


@pytest.mark.parametrize(
    ("only", "error"), [({"GET"}, FileNotFoundError), ({"GET", "LIST"}, PermissionError)]
)
def test_a_collection_that_goes_while_it_is_read_or_is_refused_does_no_harm(
    root, elsewhere, requests, only, error
):
    Storage(root).collect([], KEYS)
    elsewhere("second")

    def fault(method, path):
        if method in only and "collected" in path:
            raise error(path)

    requests.fault = fault
    assert numbers(root) == list(range(N))


def test_entries_of_what_was_removed_go_with_the_next_collection(root):
    Storage(root).collect(PAIRS, KEYS[:8])
    for pair in PAIRS:
        ArtifactStore(root).remove(*pair)
    whole = collected(root)
    Storage(root).collect(PAIRS, KEYS)
    assert whole
    assert (collected(root) or whole) < whole
    assert numbers(root) == list(range(N))


def test_where_all_is_collected_nothing_is_written(root, requests):
    Storage(root).collect(PAIRS, KEYS)
    requests.clear()
    Storage(root).collect(PAIRS[:5], KEYS[3:])
    assert [method for method, _ in requests] == ["LIST", "GET"]
    requests.clear()
    Storage(root).collect([*PAIRS, ("pairs", key(99))], KEYS)
    assert [method for method, _ in requests] == ["LIST", "GET", "LIST", "LIST"]


def test_more_than_what_is_asked_for_is_not_copied(root, elsewhere, requests, monkeypatch):
    Storage(root).collect(PAIRS, KEYS)
    monkeypatch.setattr("raxalign.store._objects._WORTH", 1)
    elsewhere("second")
    assert numbers(root) == list(range(N))
    assert len(requests) == 2 + N


def test_a_folder_has_no_collections(tmp_path):
    Ledger(str(tmp_path)).write(key(0), {"scores": []}, None)
    Storage(str(tmp_path)).collect([], KEYS)
    assert not (tmp_path / "collected").exists()


def test_a_store_that_shows_no_stamps_has_no_collections(tmp_path):
    root = f"memory://{tmp_path}/root"
    fill(root)
    Storage(root).collect([], KEYS)
    assert collected(root) is None
    assert numbers(root) == list(range(N))


def test_the_first_look_at_s3_is_three_requests(proxy, tmp_path, monkeypatch):
    root = f"s3://{BUCKET}/{tmp_path.name}"
    fill(root)
    Storage(root).collect([], KEYS)
    monkeypatch.setenv("RAXALIGN_CACHE", str(tmp_path / "second"))
    proxy.requests.clear()
    assert numbers(root) == list(range(N))
    assert [method for method, _ in proxy.requests] == ["GET", "GET", "GET"]
