"""Signs of life of the drivers of a storage."""

from __future__ import annotations

import json
import subprocess
import sys
import time

from raxalign.store.drivers import remove_sign, signed_on, signs


def test_a_driver_is_seen_while_it_works_and_gone_after(tmp_path) -> None:
    root = str(tmp_path)
    with signed_on(root, "plans/x.json"):
        (sign,) = signs(root)
        assert (sign.plan, sign.lives, sign.own) == ("plans/x.json", True, True)
    assert signs(root) == []


def test_a_killed_driver_of_this_machine_is_dead_at_once(tmp_path) -> None:
    code = (
        "import os; from raxalign.store.drivers import signed_on\n"
        f"with signed_on({str(tmp_path)!r}, 'p'): os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", code], check=False)
    (sign,) = signs(str(tmp_path))
    assert (sign.lives, sign.own) == (False, False)
    remove_sign(str(tmp_path), sign.name)
    assert signs(str(tmp_path)) == []


def test_one_of_another_machine_lives_for_a_day_after_its_last_sign(tmp_path) -> None:
    for name, age in (("cafecafe-1-1", 3600.0), ("beefbeef-1-1", 90_000.0)):
        record = {"host": "h", "pid": 1, "plan": "p", "at": time.time() - age}
        place = tmp_path / "drivers" / name
        place.mkdir(parents=True)
        (place / "driver.json").write_text(json.dumps(record))
    assert {sign.name: sign.lives for sign in signs(str(tmp_path))} == {
        "cafecafe-1-1": True,
        "beefbeef-1-1": False,
    }
