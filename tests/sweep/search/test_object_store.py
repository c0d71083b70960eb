"""One study on an object store, searched from two machines."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from raxalign.plan.load import Opened, open_grid
from raxalign.plan.tried import read_record
from raxalign.store.drivers import SILENCE
from raxalign.store.files import files_of
from raxalign.sweep.search import journal
from tests.aws import BUCKET, Proxy
from tests.searches import measure, run_both, search_grid, source_of


@pytest.fixture
def opened(tmp_path: Path, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> Opened:
    monkeypatch.setattr(journal, "PAUSE", 0.0)
    monkeypatch.setenv("RAXALIGN_CACHE", str(tmp_path / "cache"))
    path = search_grid(tmp_path, "trials: 3, confirm: 1")
    return open_grid(path, storage=f"s3://{BUCKET}/{tmp_path.name}")


def test_drivers_on_two_machines_make_each_trial_once(opened: Opened, tmp_path: Path) -> None:
    ran = run_both([source_of(opened, tmp_path / name) for name in ("one", "other")])
    assert len(ran) == len(set(ran)) == 3 + 1
    record = read_record(opened.storage, opened.plan.studies[0])
    assert [entry.state for entry in record.tried] == ["done"] * 3
    assert len({str(entry.values) for entry in record.tried}) == 3


def test_a_machine_that_is_lost_loses_no_point(opened: Opened, tmp_path: Path) -> None:
    lost, heir = (source_of(opened, tmp_path / name) for name in ("one", "other"))
    lost.owner.name = "0badcafe-1-1"
    lost.owner.beat()
    left = lost.more({}, 1)
    assert left is not None
    own = heir.more({}, 1)
    assert own is not None
    assert own.trials[0].key != left.trials[0].key, "the other machine gives signs of life"
    measure(opened.storage.ledger, own, own.trials[0])
    grow_old(opened.root, lost.owner.token)
    taken = heir.more({own.trials[0].key: None}, 1)
    assert taken is not None
    assert taken.trials[0].key == left.trials[0].key


def grow_old(root: str, token: str) -> None:
    """Leave the sign of a driver as it is when its machine was silent for too long."""
    path = f"studies/drivers/{token}.json"
    sign = json.loads(files_of(root).read(path))
    old = {**sign, "at": sign["at"] - SILENCE - 1}
    files_of(root).write(path, json.dumps(old).encode())


def test_a_driver_whose_workers_are_busy_asks_the_store_nothing(opened, tmp_path, proxy) -> None:
    driver = source_of(opened, tmp_path / "one")
    assert driver.more({}, 1) is not None
    before = len(proxy.requests)
    assert driver.more({}, 0) is None
    assert len(proxy.requests) == before
    assert dataclasses.replace(driver).more({}, 0) is None, "a driver that has just begun looks"
    assert len(proxy.requests) > before
