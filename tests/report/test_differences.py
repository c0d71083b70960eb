"""What `diff` finds between storages and grid files, and what it calls equal."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from raxalign.errors import RaxalignError
from raxalign.report.terminal.differences import as_json, as_text, differences, read_side
from raxalign.store.ledger import Ledger
from raxalign.sweep.job import write_plan
from tests.grids import write_grid
from tests.ledgers import made_up

SMALL: dict[str, Any] = {
    "languages": "{together: [de]}",
    "sentences": "100",
    "methods": ("none: {}", "rotation: {}"),
    "tasks": ("retrieval: {}",),
}


@pytest.fixture
def storage(tmp_path: Path) -> str:
    """A storage in which a small grid has run."""
    folder = tmp_path / "one"
    folder.mkdir()
    opened, _ = made_up(folder, **SMALL)
    write_plan(opened.plan, opened.storage)
    return opened.root


def copy(root: str, folder: Path) -> str:
    return str(shutil.copytree(root, folder / "copy"))


def change(root: str, by: float) -> str:
    """Change the first score of one evaluation; returns its key."""
    ledger = Ledger(root)
    key = min(ledger.keys())
    record = ledger.read(key)
    table = ledger.predictions(key)
    shutil.rmtree(Path(root) / "ledger" / key)
    first, *rest = record["scores"]
    record["scores"] = [{**first, "value": first["value"] + by}, *rest]
    ledger.write(key, record, table)
    return key


def compared(one: str, other: str) -> tuple[Any, str]:
    sides = read_side(one), read_side(other)
    found = differences(*sides)
    return found, as_text(found, *sides, width=None)


def test_a_storage_equals_its_copy(storage: str, tmp_path: Path) -> None:
    found, text = compared(storage, copy(storage, tmp_path))
    assert not found.any
    assert text == f"equal: {found.trials} trials with the same keys, and {found.same} values"
    assert found.same > 0


@pytest.mark.parametrize(("by", "near", "apart"), [(5e-7, 1, 0), (0.01, 0, 1)])
def test_values_are_equal_near_or_apart(
    storage: str, tmp_path: Path, by: float, near: int, apart: int
) -> None:
    other = copy(storage, tmp_path)
    change(other, by)
    found, text = compared(storage, other)
    assert (found.near, len(found.apart), found.any) == (near, apart, apart == 1)
    assert f"{found.same} equal, {near} within 1e-06, {apart} further apart" in text
    assert ("(+0.010000)" in text) == (apart == 1)


def test_what_only_one_has_is_named(tmp_path: Path) -> None:
    one = str(write_grid(tmp_path, **SMALL))
    more = {**SMALL, "methods": ("none: {}", "rotation: {}", "znorm: {}")}
    other = str(write_grid(tmp_path, **more, name="other.yaml"))
    found, text = compared(one, other)
    assert list(map(len, found.only)) == [0, 1]
    assert f"only in {other}: znorm" in text
    data = json.loads(as_json(found))
    assert data["only_second"][0][1] == "znorm"
    assert data["causes"] == {}


def test_the_first_cause_of_other_keys_is_named_and_not_what_follows_from_it(
    tmp_path: Path,
) -> None:
    one = str(write_grid(tmp_path, **SMALL))
    other = str(write_grid(tmp_path, **SMALL, name="other.yaml"))
    text = Path(other).read_text(encoding="utf-8")
    changed = text.replace("aligner: fast_align", "aligner: fast_align, one_to_one: false")
    Path(other).write_text(changed.replace("name: small", "name: another"), encoding="utf-8")
    found, shown = compared(one, other)
    assert all("one_to_one" in cause for cause in found.causes)
    assert "one_to_one true or false" in shown
    assert found.any
    assert found.only == ([], [])


def test_a_raised_version_is_a_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from raxalign.methods.rotation import Rotation

    path = str(write_grid(tmp_path, **SMALL))
    before = read_side(path)
    monkeypatch.setattr(Rotation, "VERSION", Rotation.VERSION + 1)
    found = differences(before, read_side(path))
    version = Rotation.VERSION
    assert dict(found.causes) == {f"aligned rotation: VERSION {version - 1} or {version}": 1}


def test_what_is_not_there_cannot_be_compared(tmp_path: Path) -> None:
    with pytest.raises(RaxalignError, match="no such grid file or storage"):
        read_side(str(tmp_path / "absent"))
    with pytest.raises(RaxalignError, match="no grid has run in it"):
        read_side(str(tmp_path))
