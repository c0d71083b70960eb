"""The answer of a grid as this machine has found it before, so that `grid` on a finished grid
compares nothing again and loads no library for it.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from raxalign.store.key import digest
from raxalign.version import VERSION

if TYPE_CHECKING:
    from raxalign.plan.plan import Plan
    from raxalign.store.ledger import Ledger

_FORM = 2  # raised where the same results get another answer
_MOST = 1_000  # trials, whose records are compared more quickly than the answer is found


def remembered_answer(plan: Plan, ledger: Ledger, folder: Path) -> str:
    """Return the answer of the results in a ledger, as `stored_answer` does.

    Args:
        plan: The plan.
        ledger: The ledger.
        folder: A folder of this machine with one file per grid: its last answer, and a digest of
            the version, form, plan and records that the answer is of. It can be deleted at any
            time.
    """
    file, mark = folder / f"{digest(plan.name)[:32]}.json", ""
    if len(plan.trials) <= _MOST:
        mark = _mark(plan, ledger)
        with suppress(OSError, ValueError, KeyError, TypeError):
            known = json.loads(file.read_text(encoding="utf-8"))
            if known["of"] == mark:
                return str(known["answer"])
    from raxalign.report.answer import stored_answer

    answer = stored_answer(plan, ledger)
    if mark and mark == _mark(plan, ledger):  # else results have come, or were set aside
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps({"of": mark, "answer": answer}), encoding="utf-8")
    return answer


def _mark(plan: Plan, ledger: Ledger) -> str:
    """Return a digest of all that an answer is made of."""
    wanted = {key for trial in plan.trials for key in trial.evaluations.values()}
    records = ledger.read_many(sorted(wanted & ledger.keys()))
    text = json.dumps([VERSION, _FORM, plan.to_json(), records])
    return hashlib.sha256(text.encode()).hexdigest()
