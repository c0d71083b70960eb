"""What the stages of a plan took where they have run, and which are left."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet

from raxalign.plan.plan import Plan
from raxalign.plan.trial import Trial
from raxalign.store.storage import Storage, Tombstone

_SAMPLE = 8  # timings of one kind of stage that are read for a mean


def stored_keys(plan: Plan, storage: Storage) -> set[str]:
    """Return the keys of a plan's stages and evaluations that are stored, by two listings."""
    stages = [(stage.kind, key) for key, stage in plan.stages.items()]
    artifacts = [(kind, key) for kind, key in stages if kind != "evaluation"]
    evaluations = {key for kind, key in stages if kind == "evaluation"}
    return storage.artifacts.present(artifacts) | (evaluations & storage.ledger.keys())


def seconds_by_key(
    plan: Plan,
    storage: Storage,
    stored: AbstractSet[str] | None = None,
    records: Mapping[str, Tombstone] | None = None,
) -> dict[str, float]:
    """Return the seconds that making each stored stage and evaluation of a plan took, by key, also
    of stages that were not kept. Stages that are made within others have none of their own. Where
    they are known, `stored` is what `stored_keys` returns, and `records` what is left of the stages
    that were not kept, by key.
    """
    stored = stored_keys(plan, storage) if stored is None else stored
    there = [stage for key, stage in plan.stages.items() if key in stored and not stage.inline]
    took = _seconds(storage, sorted((stage.kind, stage.key) for stage in there))
    records = storage.tombstones.all() if records is None else records
    dropped = {key: entry.manifest.seconds for key, entry in records.items()}
    return {key: seconds for key, seconds in dropped.items() if key in plan.stages} | took


def to_make(plan: Plan, done: AbstractSet[str], stored: AbstractSet[str]) -> list[str]:
    """Return the keys of the evaluations that are not `done` and of the stages that they need and
    that are not `stored`.
    """
    pending = [key for trial in plan.trials for key in trial.evaluations.values()]
    stack = [key for key in dict.fromkeys(pending) if key not in done]
    found: dict[str, None] = {}
    while stack:
        key = stack.pop()
        if key not in found and key not in stored:
            found[key] = None
            stage = plan.stages[key]
            stack += [*stage.inputs.values(), *stage.prepared.values()]
    return [key for key in found if not plan.stages[key].inline]


def trial_seconds(plan: Plan, trial: Trial, storage: Storage) -> float:
    """Return the seconds that the evaluations of a trial took, with the alignment and the trainings
    behind them. Data and encoders, which trials share, are not counted.
    """
    keys = [key for key in trial.evaluations.values() if storage.ledger.has(key)]
    stages = [plan.stages[key] for key in plan.closure(keys)]
    own = {"aligned", "tuned", "evaluation"}
    made = [(stage.kind, stage.key) for stage in stages if stage.kind in own and not stage.inline]
    return math.fsum(_seconds(storage, made).values())


def aligned_seconds(plan: Plan, trial: Trial, storage: Storage) -> float:
    """Return the seconds that the alignment of a trial took; 0 where they are not stored."""
    stage = plan.stages[trial.aligned]
    made = [] if stage.inline else [(stage.kind, stage.key)]
    return math.fsum(_seconds(storage, made).values())


def sampled_seconds(plan: Plan, storage: Storage, done: Collection[str]) -> dict[str, float]:
    """Return the seconds that some of the stages and evaluations of a plan took which this storage
    has, by key: a few of each stage kind and maker are read, so that a large grid starts at once.
    `done` are the evaluations that are in the ledger.
    """
    tried = defaultdict[tuple[str, str], list[str]](list)
    for key, stage in plan.stages.items():
        known = key in done if stage.kind == "evaluation" else not stage.inline
        if known and len(tried[stage.kind, stage.maker]) < _SAMPLE:
            tried[stage.kind, stage.maker].append(key)
    return _seconds(storage, [(kind, key) for (kind, _), keys in tried.items() for key in keys])


def _seconds(storage: Storage, made: Iterable[tuple[str, str]]) -> dict[str, float]:
    """Return the seconds that evaluations and artifacts (kind, key) took."""
    made = list(made)
    records = storage.ledger.read_many([key for kind, key in made if kind == "evaluation"])
    manifests = storage.artifacts.manifests([one for one in made if one[0] != "evaluation"])
    took = {key: float(record.get("seconds", 0.0)) for key, record in records.items()}
    return took | {key: manifest.seconds for key, manifest in manifests.items()}


def duration(seconds: float) -> str:
    """Return a time in words: `40 s`, `12 min` or `1.5 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def roughly(seconds: float) -> str:
    """Return an estimated time in words, rounded so that it does not look more exact than it is.

    >>> [roughly(seconds) for seconds in (1, 13, 57, 100, 400, 2_000, 9_000)]
    ['5 s', '15 s', '60 s', '2 min', '7 min', '35 min', '2.5 h']
    """
    if seconds < 27.5:
        return f"{max(5 * round(seconds / 5), 5)} s"
    if seconds < 90:
        return f"{10 * round(seconds / 10)} s"
    if seconds < 600:
        return f"{round(seconds / 60)} min"
    return (
        f"{5 * round(seconds / 300)} min" if seconds < 5400 else f"{round(seconds / 1800) / 2:g} h"
    )


def volume(size: float) -> str:
    """Return a number of bytes in words.

    >>> volume(712_000_000), volume(4_300), volume(7.2e12)
    ('712 MB', '4.3 kB', '7.2 TB')
    """
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 999.5:
            return f"{size:.1f} {unit}" if size < 9.95 and unit != "bytes" else f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
