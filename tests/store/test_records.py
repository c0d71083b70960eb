"""Records that are damaged, or of another form under a right checksum: no command fails for them
without a message, and none takes a changed value.
"""

# ruff: noqa: F811 - a fixture is imported

import hashlib
import json
import random
import shutil
import struct
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from raxalign.errors import DamagedArtifact, StorageError
from raxalign.grid.stored import StoredPlans
from raxalign.grid.study import StudyRecord
from raxalign.printing import printable
from raxalign.store import lease, spool
from raxalign.store import ledger as ledger_module
from raxalign.store import storage as storage_module
from raxalign.store.artifacts import FileEntry, Manifest
from raxalign.store.lease import Held
from raxalign.store.ledger import Ledger
from raxalign.store.sealed import seal, unseal
from raxalign.store.spool import Spool
from raxalign.store.storage import Storage
from tests.searches import finished, open_search, source_of
from tests.test_cli import run  # noqa: F401 - a fixture

AWAY = "cafecafe-1-1"  # a process of another machine
FORMS = {
    "ledger": ledger_module._Evaluation,
    "failures": ledger_module._Failure,
    "studies/": StudyRecord,
    "artifacts": Manifest,
    "dropped": storage_module._Stored,
    "locks": lease._Record,
    "looks": ledger_module._Looked,
    "spool": spool._Points,
}
ODD = (None, [], {}, -1, 10**400, 1e300, float("nan"), "", "x\x1b[2J", True, [[1]], {"a": [None]})


def body_of(data):
    """The text of a record without its checksum."""
    return b"{" + data[82:]


def resealed(value):
    """A record that anyone may have written, under a right checksum where it can have one."""
    text = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
    if not isinstance(value, dict) or not value:
        return text
    head = f'{{\n "sha256": "{hashlib.sha256(text).hexdigest()}",'
    return head.encode() + text[1:]


@pytest.fixture(scope="module")
def grid(tmp_path_factory):
    """A grid whose search has run, in a storage that has a record of every kind."""
    opened = finished(tmp_path_factory.mktemp("grid"), "trials: 3, confirm: 1")
    storage, plan = opened.storage, opened.again().plan
    StoredPlans(storage).write(plan)
    trial = plan.trials[0].key
    storage.ledger.fail(trial, {"message": "lost", "trace": "here"})
    curves = Spool(storage, trial, plan.trials[0].parts)
    curves.report({"loss": 1.0}, 1)
    curves.flush()
    for key in ("ab" * 32, "cd" * 32):
        storage.artifacts.make("pairs", key, lambda folder: {"n": (folder / "x").write_text("x")})
    storage.drop("pairs", "cd" * 32, "beaten")
    held = {"maker": AWAY, "host": "h", "pid": 1, "nonce": "x", "beat": 0, "done": True}
    storage.files.write("locks/making/x/1", seal(held))
    storage.ledger.looks.take({"xnli": ("ab" * 32, 3)})
    return opened.grid.path


def records(root):
    """The record files of a storage with their kinds."""
    for path in sorted(Path(root).rglob("*")):
        name = path.relative_to(root).as_posix()
        kinds = [kind for kind in FORMS if name.startswith(kind)]
        if (
            path.is_file()
            and kinds
            and path.suffix not in (".arrow", ".parquet", ".log", ".lock", "")
        ):
            yield max(kinds, key=len), path
        elif path.is_file() and "locks" in kinds:
            yield "locks", path


def test_every_record_has_a_checksum_and_a_changed_bit_is_never_another_value(grid):
    """Those of the same length: others are JSON no more."""
    rng, seen = random.Random(0), set()
    for kind, path in records(grid.parent / "storage"):
        data, form = path.read_bytes(), FORMS[kind]
        bare = kind in ("failures", "spool", "locks")
        whole = unseal(data, form)
        for _ in range(60):
            changed, place = bytearray(data), rng.randrange(len(data))
            changed[place] ^= 1 << rng.randrange(8)
            with suppress(ValueError):
                assert unseal(bytes(changed), form, bare=bare) == whole, "another value"
        seen.add(kind)
    assert seen == set(FORMS)


def spots(value, path=()):
    """The places of a JSON value."""
    yield path
    if isinstance(value, dict | list):
        for name, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from spots(part, (*path, name))


def mutated(value, rng):
    """A JSON value with another part, or without one."""
    value = json.loads(json.dumps(value))
    *path, last = rng.choice([place for place in spots(value) if place])
    part = value
    for name in path:
        part = part[name]
    if isinstance(part, dict) and rng.random() < 0.3:
        part[rng.choice(["renamed", *part])] = part.pop(last)
    else:
        part[last] = rng.choice(ODD)
    return value


@pytest.mark.parametrize("kind", ["plans", *FORMS])
def test_no_command_ends_with_a_bug_whatever_a_record_holds(grid, tmp_path, run, kind):
    rng, found = random.Random(kind), []
    for number in range(3):
        root = tmp_path / f"{number}"
        shutil.copytree(grid.parent / "storage", root)
        if kind == "plans":
            (path,) = (root / "plans").iterdir()
            text = json.dumps(mutated(json.loads(path.read_bytes()), rng))
            path.unlink()
            (root / StoredPlans.path(text)).write_text(text)
        else:
            path = rng.choice([path for name, path in records(root) if name == kind])
            value = json.loads(body_of(path.read_bytes()))
            path.write_bytes(resealed(mutated(value, rng) if number else []))
        key = rng.choice(sorted((root / "ledger").iterdir())).name
        at = ("--storage", root)
        commands = (f"results {grid} --best", f"status {grid}", f"plan {grid}", f"show {key}")
        commands = (*commands, f"diff {root} {root}", f"gc {grid} --delete")
        found += [run(command, *at) for command in commands]
    assert [done.err for done in found if "a bug in raxalign" in done.err] == []
    assert {done.code for done in found} <= {0, 1, 2}


def test_the_best_score_is_the_ledger_s_whatever_the_record_of_a_study_says(grid, tmp_path, run):
    root = tmp_path / "storage"
    shutil.copytree(grid.parent / "storage", root)
    best = run("results", grid, "--best", "--storage", root).out
    (path,) = (root / "studies").glob("*.json")
    record = json.loads(body_of(path.read_bytes()))
    for entry in record["tried"]:
        entry["score"] = 0.912
    path.write_bytes(seal(record))
    assert run("results", grid, "--best", "--storage", root).out == best
    path.write_text(json.dumps(record))
    told = run("results", grid, "--best", "--storage", root)
    assert (told.code, told.out) == (2, "")
    assert f"{path.name}: is not a record of a study (has no checksum); delete it" in told.err


def test_a_changed_value_in_the_journal_of_searches_is_refused(tmp_path):
    opened = finished(tmp_path, "trials: 3, confirm: 0")
    lines = sorted((Path(opened.root) / "studies").glob("finetune-*/*.log"))
    path = next(line for line in lines if '"values": [0.' in line.read_text())
    path.write_text(path.read_text().replace('"values": [0.', '"values": [0.9'))
    with pytest.raises(StorageError, match=rf"{path.name}: the journal .* was changed"):
        source_of(open_search(tmp_path / "grid.yaml")).more({}, 1)


def test_gc_goes_on_after_a_plan_of_another_form_and_damaged_manifests(grid, tmp_path, run):
    root = tmp_path / "storage"
    shutil.copytree(grid.parent / "storage", root)
    storage = Storage(str(root))
    for number in range(3):
        key = f"{number}" * 64
        folder = storage.artifacts.make("pairs", key, lambda place: {"n": 1})
        (folder / "manifest.json").write_bytes(resealed({"kind": "pairs", "key": key}))
    storage.files.write(StoredPlans.path('{"studies": 1}'), b'{"studies": 1}')
    done = run("gc", grid, "--storage", root)
    assert done.code == 0
    assert "is passed over, since it is not a plan of this version" in done.err
    assert done.err.count("was set aside") == 3
    assert "would remove pairs abababababab" in done.out


@pytest.mark.parametrize("name", ["007", "²", "x", "-1"])
def test_a_lock_is_taken_beside_a_file_with_an_odd_name(tmp_path, name):
    storage = Storage(str(tmp_path))
    storage.files.write(f"locks/x/{name}", b"")
    assert storage.locks.living() == {}
    Held(storage.files, "x").take(lambda holder: None, lambda holder: 0.0)
    assert storage.locks.living().keys() == {"x"}


def arrow_that_leads_out() -> bytes:
    """Positions in a file of an earlier version, far behind its text."""
    sink, table = pa.BufferOutputStream(), pa.table({"id": ["a", "b", "c"]})
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    before, after = (struct.pack("<4i", 0, 1, *ends) for ends in ((2, 3), (2**30, 2**30 + 1)))
    return sink.getvalue().to_pybytes().replace(before, after)


def parquet_with(text: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": pa.array([text]).view(pa.string())}), sink, compression="zstd")
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize(
    ("field", "suffix", "data"),
    [
        pytest.param("predictions", "arrow", arrow_that_leads_out(), id="positions"),
        pytest.param("parquet", "parquet", parquet_with(b"\xff\xfe"), id="no text"),
        pytest.param("parquet", "parquet", parquet_with(b"x")[:-30] + bytes(30), id="no footer"),
    ],
)
def test_predictions_that_are_no_whole_table_under_their_own_digest_are_damage(
    tmp_path, field, suffix, data
):
    ledger, key = Ledger(str(tmp_path)), "12" * 32
    ledger.write(key, {"scores": []}, None)
    file = tmp_path / "ledger" / key / f"predictions.{suffix}"
    file.write_bytes(data)
    record = {"key": key, "scores": [], "predictions": None, field: vars(FileEntry.of(data))}
    (file.parent / "evaluation.json").write_bytes(seal(record))
    with pytest.raises(DamagedArtifact, match=rf"predictions\.{suffix} is not a whole table"):
        ledger.predictions(key)


@pytest.mark.parametrize("part", ["://", "://a:", "a@", "://a@", "://1:1/", "://a:b/", "x"])
@pytest.mark.parametrize("end", ["", "@", "/@x"])
def test_a_text_of_a_megabyte_is_shown_without_going_over_it_again_and_again(part, end):
    text = part * (2**20 // len(part)) + end
    assert printable(f" {text}").count("@") == text.count("@")
