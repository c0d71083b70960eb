"""Signs of life of the drivers of a storage."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from raxalign.store.drivers import remove_sign, signed_on, signs
from raxalign.store.storage import Storage


def test_a_driver_is_seen_while_it_works_and_gone_after(tmp_path) -> None:
    root = str(tmp_path)
    with signed_on(Storage(root), "plans/x.json"):
        (sign,) = signs(Storage(root))
        assert (sign.plan, sign.lives, sign.own) == (f"{root}/plans/x.json", True, True)
    assert signs(Storage(root)) == []


def test_a_killed_driver_of_this_machine_is_dead_at_once(tmp_path) -> None:
    code = (
        "import os; from raxalign.store.drivers import signed_on\n"
        "from raxalign.store.storage import Storage\n"
        f"with signed_on(Storage({str(tmp_path)!r}), 'p'): os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", code], check=False)
    (sign,) = signs(Storage(str(tmp_path)))
    assert (sign.lives, sign.own) == (False, False)
    remove_sign(Storage(str(tmp_path)), sign.name)
    assert signs(Storage(str(tmp_path))) == []


def test_one_of_another_machine_lives_for_a_day_after_its_last_sign(tmp_path) -> None:
    for name, age in (("cafecafe-1-1", 3600.0), ("beefbeef-1-1", 90_000.0)):
        sign_of(tmp_path, name, at=time.time() - age)
    assert {sign.name: sign.lives for sign in signs(Storage(str(tmp_path)))} == {
        "cafecafe-1-1": True,
        "beefbeef-1-1": False,
    }


def test_a_sign_from_the_far_future_is_a_dead_drivers(tmp_path) -> None:
    sign_of(tmp_path, at=time.time() + 1e9)
    (sign,) = signs(Storage(str(tmp_path)))
    assert not sign.lives


def test_a_plan_is_looked_for_in_the_storage_whatever_place_a_sign_names(tmp_path) -> None:
    sign_of(tmp_path, plan="https://example.org/plans/abc.json")
    (sign,) = signs(Storage(str(tmp_path)))
    assert sign.plan == f"{tmp_path}/plans/abc.json"


def sign_of(root: Path, name: str = "cafecafe-1-1", **changes: object) -> None:
    """The sign of a driver on another machine."""
    record = {"host": "h", "pid": 1, "plan": "p", "at": time.time(), **changes}
    place = root / "drivers" / name
    place.mkdir(parents=True)
    (place / "driver.json").write_text(json.dumps(record))
