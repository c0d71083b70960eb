"""Real faults: killed processes, races, full and read-only disks."""

import errno
import gc
import os
import subprocess
import sys
import tempfile
import textwrap
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from raxalign.errors import StorageError
from raxalign.store.alive import discard
from raxalign.store.artifacts import ArtifactStore
from raxalign.store.files import files_of
from raxalign.store.ledger import Ledger
from raxalign.store.storage import Storage
from tests.fake_bucket import Bucket

KEY = "ab" * 32


def start(program, *arguments):
    """Another process, with the tests' file systems."""
    imports = "import os, sys, time\nfrom pathlib import Path\nimport tests.fake_bucket\n"
    imports += "from raxalign.store.artifacts import ArtifactStore\n"
    path = os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])
    command = [sys.executable, "-c", imports + textwrap.dedent(program), *map(str, arguments)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path}, **pipes)


def build(folder):
    (folder / "words.txt").write_text("whole")
    return {}


def swept(root):
    """Remove what dead processes left; returns how much that was."""
    found = Storage(root).abandoned()
    for path in found:
        discard(path)
    return len(found)


def temporaries(*folders):
    return [path for folder in folders for path in folder.rglob(".tmp-*")]


def test_a_process_killed_while_it_builds_leaves_nothing_usable(shared, tmp_path):
    program = """
    def build(folder):
        (folder / "words.txt").write_text("half")
        print("building", flush=True)
        time.sleep(100)
    ArtifactStore(sys.argv[1]).make("pairs", sys.argv[2], build)
    """
    store = ArtifactStore(shared)
    with start(program, shared, KEY) as process:
        assert process.stdout.readline() == "building\n"
        assert Storage(store.root).abandoned() == [], "a living process keeps its temporaries"
        process.kill()
    assert not store.has("pairs", KEY)
    assert list(store.keys()) == []
    assert len(temporaries(tmp_path)) == 1
    assert (store.make("pairs", KEY, build) / "words.txt").read_text() == "whole"
    assert swept(store.root) == 1
    assert temporaries(tmp_path) == []
    assert store.verify("pairs", KEY)


def test_who_searches_a_folder_of_the_storage_finds_no_half_written_file(tmp_path):
    def seen(folder):
        return sorted(path.name for path in folder.rglob("words.txt"))

    def build_and_look(folder):
        (folder / "words.txt").write_text("half")
        assert seen(tmp_path) == ["words.txt"]
        assert seen(tmp_path / "artifacts") == []
        return {}

    ArtifactStore(str(tmp_path)).make("pairs", KEY, build_and_look)
    assert seen(tmp_path / "artifacts") == ["words.txt"]


def test_a_folder_of_the_storage_may_be_a_link_to_another_file_system(tmp_path):
    shared_memory = Path("/dev/shm")
    if not shared_memory.is_dir() or shared_memory.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("all folders are on one file system")
    with tempfile.TemporaryDirectory(dir=shared_memory) as large:
        (tmp_path / "artifacts").symlink_to(large)
        store = ArtifactStore(str(tmp_path))
        assert (store.make("pairs", KEY, build) / "words.txt").read_text() == "whole"
        assert store.verify("pairs", KEY)
        assert temporaries(tmp_path, Path(large)) == []


def test_a_process_killed_while_it_publishes_leaves_nothing_or_all(tmp_path):
    program = """
    real = Path.rename
    def rename(self, target):
        print("renaming", flush=True)
        sys.stdin.readline()
        return real(self, target)
    Path.rename = rename
    def write(folder):
        (folder / "words.txt").write_text("half")
        return {}

    ArtifactStore(sys.argv[1]).make("pairs", sys.argv[2], write)
    """
    store = ArtifactStore(str(tmp_path))
    with start(program, tmp_path, KEY) as process:
        assert process.stdout.readline() == "renaming\n"
        assert not store.has("pairs", KEY)
        process.kill()
    assert (store.make("pairs", KEY, build) / "words.txt").read_text() == "whole"
    assert swept(store.root) == 1


@pytest.mark.parametrize("name", ["digests.json", "ledger/one", "spool/trial/one", "looks/a/b/one"])
def test_a_process_killed_while_it_writes_a_file_leaves_nothing_wherever_the_file_is(
    tmp_path, name
):
    program = """
    from raxalign.store.files import files_of
    Path.rename = lambda *given: print("renaming", flush=True) or sys.stdin.readline()
    files_of(sys.argv[1]).write(sys.argv[2], b"half")
    """
    with start(program, tmp_path, name) as process:
        assert process.stdout.readline() == "renaming\n"
        process.kill()
    assert len(temporaries(tmp_path)) == swept(str(tmp_path)) == 1
    assert temporaries(tmp_path) == []


def test_two_processes_that_make_one_key_use_the_winners(shared):
    program = """
    def build(folder):
        (folder / "words.txt").write_text(sys.argv[3])
        print("built", flush=True)
        sys.stdin.readline()
        return {"by": sys.argv[3]}
    print((ArtifactStore(sys.argv[1]).make("pairs", sys.argv[2], build) / "words.txt").read_text())
    """
    with start(program, shared, KEY, "one") as one, start(program, shared, KEY, "two") as two:
        for process in (one, two):
            assert process.stdout.readline() == "built\n"
        answers = {process.communicate("go\n")[0].strip() for process in (one, two)}
    assert len(answers) == 1
    store = ArtifactStore(shared)
    assert store.manifest("pairs", KEY).notes["by"] in answers
    assert store.verify("pairs", KEY)
    assert temporaries(Path(shared.removeprefix("bucket://"))) == []


@pytest.mark.parametrize("moment", ["before", "after"])
def test_who_is_overtaken_while_uploading_uses_the_winners(tmp_path, monkeypatch, moment):
    root, put = f"bucket://{tmp_path}/root", Bucket.put_file
    others = [ArtifactStore(root)]

    def put_file(self, *arguments, **options):
        if moment == "after":
            put(self, *arguments, **options)
        if others:
            others.pop().make("pairs", KEY, build)
        put(self, *arguments, **options)

    def slow(folder):
        return {"size": (folder / "words.txt").write_text("other")}

    monkeypatch.setattr(Bucket, "put_file", put_file)
    store = ArtifactStore(root)
    assert (store.make("pairs", KEY, slow) / "words.txt").read_text() == "whole"
    monkeypatch.setenv("RAXALIGN_CACHE", str(tmp_path / "another"))
    assert (ArtifactStore(root).open("pairs", KEY) / "words.txt").read_text() == "whole"


def test_a_flipped_byte_is_seen_though_size_and_time_of_change_are_the_same(tmp_path):
    folder = ArtifactStore(str(tmp_path)).make("pairs", KEY, build)
    file = folder / "words.txt"
    before = file.stat()
    file.write_bytes(b"whqle")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    with start('ArtifactStore(sys.argv[1]).open("pairs", sys.argv[2])', tmp_path, KEY) as process:
        process.communicate()
    assert process.returncode != 0, "another process compares bytes"
    assert not ArtifactStore(str(tmp_path)).has("pairs", KEY)
    assert (tmp_path / "damaged" / f"pairs-{KEY}-1" / "words.txt").read_bytes() == b"whqle"


def test_old_temporaries_of_other_machines_are_swept_and_fresh_ones_kept(tmp_path):
    store = ArtifactStore(str(tmp_path))
    store.make("pairs", KEY, build)
    parent = Path(store.folder("pairs", KEY)).parent
    fresh, old = (parent / f".tmp-{KEY}-0badcafe-1-1-{name}" for name in ("11111111", "22222222"))
    for folder in (fresh, old):
        folder.mkdir()
    os.utime(old, (1_000_000_000, 1_000_000_000))
    assert swept(store.root) == 1
    assert temporaries(tmp_path) == [fresh]


def large(folder):
    return {"size": (folder / "words.txt").write_bytes(b"x" * 4_000_000)}


def large_tensors(folder):
    """A library that wraps the error."""
    import numpy as np
    from safetensors.numpy import save_file

    save_file({"weight": np.ones(1_000_000, np.float32)}, str(folder / "model.safetensors"))
    return {}


def large_pickle(folder):
    """A library that leaves out that it was the disk."""
    import torch

    torch.save(torch.ones(1_000_000), folder / "model.pt")
    return {}


def large_array(folder):
    """One that leaves out why it failed."""
    import numpy as np

    np.save(folder / "values.npy", np.ones(1_000_000))
    return {}


def large_set(folder):
    """One whose own error comes from the disk's, and that removes what it wrote."""
    import datasets

    rows = [{"text": "x" * 100_000}] * 40
    datasets.disable_progress_bars()
    made = datasets.Dataset.from_generator(lambda: iter(rows), cache_dir=str(folder / "cache"))
    made.save_to_disk(str(folder / "data"))
    return {}


@pytest.mark.parametrize("bucket", ["", "bucket://"])
@pytest.mark.parametrize("fill", [large, large_tensors, large_pickle, large_array, large_set])
def test_a_full_disk_while_building_is_told_and_leaves_nothing(small_disk, bucket, fill):
    store = ArtifactStore(f"{bucket}{small_disk}/root")
    with pytest.raises(StorageError, match=r"disk is full.*Free some space") as caught:
        store.make("pairs", KEY, fill)
    assert bucket or str(small_disk) in str(caught.value)
    del caught  # whose frames keep the file of `torch.save` open
    gc.collect()
    assert not store.has("pairs", KEY)
    assert list(store.keys()) == temporaries(small_disk) == []
    if not bucket:  # what was written was given back
        assert (store.make("pairs", KEY, build) / "words.txt").read_text() == "whole"


@pytest.mark.parametrize("number", [errno.EIO, errno.EDQUOT, errno.ESTALE])
def test_what_a_disk_or_its_server_refuses_is_told_with_place_and_remedy(tmp_path, number):
    def fail(folder):
        raise ValueError from OSError(number, os.strerror(number))

    with pytest.raises(StorageError, match=rf"^{tmp_path}/.*or give another storage"):
        ArtifactStore(str(tmp_path)).make("pairs", KEY, fail)


def test_a_bug_or_a_fault_of_an_input_stays_what_it_is(tmp_path):
    for fault in (ValueError("bug"), OSError(errno.EIO, "lost", "/elsewhere/corpus.txt")):

        def fail(folder, fault=fault):
            raise fault

        with pytest.raises(type(fault)) as caught:
            ArtifactStore(str(tmp_path)).make("pairs", KEY, fail)
        assert caught.value is fault


def test_a_disk_that_fills_up_under_the_ledger_keeps_it_whole(small_disk):
    ledger = Ledger(str(small_disk))
    ledger.write("first", {"scores": []}, None)
    table = pa.table({"prediction": np.random.default_rng(0).random(800_000)})  # not packed
    with pytest.raises(StorageError, match="disk is full"):
        ledger.write("second", {"scores": []}, table)
    assert ledger.keys() == {"first"}
    assert ledger.read("first") == {"key": "first", "scores": []}
    assert temporaries(small_disk) == []


def test_a_read_only_storage_can_be_read_and_says_that_it_cannot_be_written(small_disk, tmp_path):
    store, ledger = ArtifactStore(str(small_disk)), Ledger(str(small_disk))
    store.make("pairs", KEY, build)
    ledger.write("first", {"scores": []}, None)
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    assert (store.open("pairs", KEY) / "words.txt").read_text() == "whole"
    assert store.verify("pairs", KEY)
    assert ledger.keys() == {"first"}
    for write in (
        lambda: Storage(str(small_disk)).check_writable(),
        lambda: store.make("pairs", "cd" * 32, build),
        lambda: ledger.write("second", {"scores": []}, None),
        lambda: ledger.fail("trial", {"message": "x"}),
        lambda: store.remove("pairs", KEY),
    ):
        with pytest.raises(StorageError, match=r"read-only.*--storage"):
            write()
    data = tmp_path / "corpus.txt"
    data.write_text("Haus")
    os.utime(data, (1_000_000_000, 1_000_000_000))
    assert len(Storage(str(small_disk)).digests.of(data)) == 64


def test_a_root_that_is_a_file_says_so(tmp_path):
    root = str(tmp_path / "root")
    Path(root).write_text("not a folder")
    store, ledger = ArtifactStore(root), Ledger(root)
    assert not store.has("pairs", KEY)
    assert ledger.keys() == set()
    for write in (
        lambda: Storage(root).check_writable(),
        lambda: store.make("pairs", KEY, build),
        lambda: ledger.write("first", {"scores": []}, None),
    ):
        with pytest.raises(StorageError, match="is a file, not a folder"):
            write()


def test_a_writable_storage_is_made_and_left_empty(root, tmp_path):
    Storage(root).check_writable()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_link_that_is_sent_again_finds_its_own_file(tmp_path, monkeypatch):
    """NFS sends a request again whose answer was lost: the link is then there already."""
    link = os.link

    def twice(source, target):
        link(source, target)
        link(source, target)

    monkeypatch.setattr(os, "link", twice)
    files = files_of(str(tmp_path))
    assert files.create("one", b"mine")
    assert not files.create("one", b"mine"), "equal bytes of another process are not its own"
    assert not files.create("one", b"another's")
    assert files.read("one") == b"mine"


def test_a_folder_without_a_manifest_gives_way(tmp_path):
    store = ArtifactStore(str(tmp_path))
    folder = Path(store.folder("pairs", KEY))
    folder.mkdir(parents=True)
    (folder / "words.txt").write_text("copied by hand, half")
    assert not store.has("pairs", KEY)
    assert (store.make("pairs", KEY, build) / "words.txt").read_text() == "whole"


def test_what_another_process_has_repaired_is_not_set_aside(tmp_path):
    store, files = ArtifactStore(str(tmp_path)), files_of(str(tmp_path))
    store.make("pairs", KEY, build)
    path, before = f"artifacts/pairs/ab/{KEY}", b"the damaged manifest of before"
    said = str(files.damaged(f"{path}/manifest.json", "pairs", "is damaged", before))
    assert said.endswith("Another process has set it aside.")
    assert store.verify("pairs", KEY)


def test_a_root_that_cannot_be_made_is_named_without_the_file_of_the_test():
    remedy = r"give another storage \(--storage or RAXALIGN_STORAGE\)"
    with pytest.raises(StorageError, match=rf"^/proc/raxalign: cannot write: .*{remedy}"):
        Storage("/proc/raxalign").check_writable()


def test_a_download_that_was_given_up_and_goes_on_disturbs_no_other(monkeypatch, tmp_path):
    """Its bytes would be half of the file that the next request has made."""
    files, gone = files_of("memory://bucket/given-up"), threading.Event()
    files.write("one", b"whole")
    get_file, paths, begun = files._files.get_file, [], threading.Event()

    def stalls_once(name, place):
        paths.append(Path(place))
        if len(paths) == 1:
            begun.wait()
            Path(place).write_bytes(b"ha")
            gone.set()
        else:
            get_file(name, place)
            begun.set()
            gone.wait()

    monkeypatch.setattr(files._files, "get_file", stalls_once)
    monkeypatch.setattr("raxalign.store.files._STALL", 0.1)
    monkeypatch.setattr("raxalign.store.files.WAITS", (0.0,))
    files.download("one", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == b"whole"
    assert len(set(paths)) == 2


def test_what_was_read_together_is_not_changed_by_a_request_that_was_given_up(monkeypatch):
    files, read = files_of("memory://bucket/read-together"), threading.Event()
    paths = {"one": b"1", "two": b"2"}
    for path in paths:
        files.write(path, b"before")
    cat, calls = files._files.cat, []

    def stalls_once(names, **options):
        calls.append(threading.current_thread())
        if len(calls) == 1:
            found = cat(names, **options)
            read.wait()
            return found
        for path, data in paths.items():
            files.write(path, data)
        return cat(names, **options)

    monkeypatch.setattr(files._files, "cat", stalls_once)
    monkeypatch.setattr("raxalign.store.files._STALL", 0.1)
    monkeypatch.setattr("raxalign.store.files.WAITS", (0.0,))
    found = files.read_many([*paths])
    read.set()
    calls[0].join()
    assert found == paths
