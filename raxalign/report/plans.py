"""A plan in words and as JSON."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raxalign.plan.estimates.cost import seconds_by_key, stored_keys, to_make
from raxalign.plan.estimates.disk import estimate_disk
from raxalign.plan.estimates.forecast import Forecast, forecast, quicker_links
from raxalign.plan.estimates.speed import Speed, crowd, has_card, start_seconds, worker_speed
from raxalign.plan.expansion.identity import near
from raxalign.plan.values.retention import made_again
from raxalign.printing import counted
from raxalign.report import studies
from raxalign.report.sizes import measured_sizes
from raxalign.report.studies import plan_lines
from raxalign.store.storage import Storage
from raxalign.store.tombstones import Tombstone

if TYPE_CHECKING:
    from raxalign.config.run import RunConfig
    from raxalign.plan.plan import Plan
    from raxalign.plan.trial import Trial


def as_json(plan: Plan, storage: Storage, run: RunConfig) -> str:
    """Return ``{"points", "trials", "stages", "cached", ...}``: `cached` counts the trials whose
    results are all there, `dropped` of a stage is whether its weights were not kept, `bytes` what
    it has or had (null: not made), `time` the estimate of worker time for what is left, and `disk`
    the estimate for the whole grid.
    """
    store, there, records = storage.artifacts, stored_keys(plan, storage), storage.tombstones.all()
    sizes = measured_sizes(plan, storage, there, records)
    disk = estimate_disk(plan, sizes.bytes, run.concurrency)
    stages = [
        {
            "kind": stage.kind,
            "key": key,
            "path": store.folder(stage.kind, key),
            "done": key in sizes.stored,
            "dropped": key in sizes.dropped,
            "bytes": sizes.bytes.get(key),
        }
        for key, stage in plan.stages.items()
        if not stage.inline and stage.kind != "evaluation"
    ]
    data = {
        "points": plan.points,
        "trials": [_trial(trial) for trial in plan.trials],
        "stages": stages,
        "cached": plan.cached(there),
        "merged": plan.merged,
        "unresolved": plan.unresolved,
        "missing": plan.missing,
        "warnings": plan.warnings,
        "unknown_depths": plan.unknown_depths,
        "time": {
            **_as_json(_time(plan, storage, there, records, _speed(run))),
            "workers": at_once(run),
        },
        "disk": {"keep": run.keep, **asdict(disk)},
        **({"studies": studies.as_json(plan, storage)} if plan.studies else {}),
    }
    return json.dumps(data, ensure_ascii=False, indent=1)


def _as_json(times: Forecast) -> dict[str, Any]:
    facts = {"kinds": times.kinds, "unknown": times.unknown, "measured": times.measured}
    return {"seconds": times.total, **facts}


def _trial(trial: Trial) -> dict[str, Any]:
    return {
        "key": trial.key,
        "method": trial.method,
        "kind": trial.kind,
        "params": trial.params,
        "encoder": trial.encoder,
        "languages": trial.languages,
        "sentences": trial.sentences,
        "seed": trial.seed,
        "evaluations": trial.evaluations,
        "untouched": {task: asdict(why) for task, why in trial.untouched.items()},
    }


def as_text(plan: Plan, storage: Storage, run: RunConfig) -> str:
    """Return what a person needs to know before a grid runs."""
    there, records = stored_keys(plan, storage), storage.tombstones.all()
    sizes = measured_sizes(plan, storage, there, records)
    methods = Counter(trial.method for trial in plan.trials)
    kinds: Counter[str] = Counter()
    done: Counter[str] = Counter()
    dropped: Counter[str] = Counter()
    for key, stage in plan.stages.items():
        if not stage.inline and stage.kind != "evaluation":
            kinds[stage.kind] += 1
            done[stage.kind] += key in sizes.stored
            dropped[stage.kind] += key in sizes.dropped
    evaluations = {key for trial in plan.trials for key in trial.evaluations.values()}
    speed = _speed(run)
    times = _time(plan, storage, there, records, speed)
    uncounted = " (without the trials of searches)" if plan.studies else ""
    lines = [
        (
            f"{plan.name}: {counted(plan.points, 'point')}, {counted(len(plan.trials), 'trial')}"
            f" ({plan.cached(there)} cached)"
        ),
        *(f"  {method}: {counted(count, 'trial')}" for method, count in methods.items()),
        *(f"  {note}" for note in plan.merged),
        "stages: "
        + ", ".join(
            f"{count} {kind} ({done[kind]} done{_not_kept(dropped[kind])})"
            for kind, count in kinds.items()
        ),
        f"evaluations: {len(evaluations)} ({len(evaluations & there)} done)",
        *plan_lines(plan, storage),
        f"storage: {storage}",
        *_time_lines(times, speed.core, run, uncounted),
        quicker_links(plan, times),
        estimate_disk(plan, sizes.bytes, run.concurrency).told(run.keep) + uncounted,
        made_again(plan, there, sizes.stored, records) or "",
    ]
    return "\n".join(line for line in (*lines, *_open(plan)) if line)


def _open(plan: Plan) -> Iterator[str]:
    """Yield what is not known or not there, and the plan's remarks."""
    if plan.unresolved:
        yield "unresolved until `raxalign grid` has fetched it: " + ", ".join(plan.unresolved)
    for path in plan.missing:
        yield f"missing: {path}{near(Path(path))} (`raxalign grid` needs it)"
    yield from (f"note: {remark}" for remark in plan.remarks())


def at_once(run: RunConfig) -> int:
    """Return how many trials run at once on this machine; a cluster may have more room."""
    cores = max(1, (os.cpu_count() or 1) // (run.threads * run.workers))
    return min(cores, run.concurrency or cores)


def _time_lines(times: Forecast, core: float, run: RunConfig, uncounted: str) -> Iterator[str]:
    """Yield the line on the time of what is left, and a note where this machine is busy."""
    workers = at_once(run)
    start = 0.0 if run.address else start_seconds(core, ray=True)
    yield times.told(workers, start) + uncounted
    if times.seconds and not run.address and (note := crowd().note(workers)):
        yield f"note: {note}"


def _speed(run: RunConfig) -> Speed:
    """Return the speed of a worker on this machine."""
    given = run.gpus_per_worker
    gpu = has_card() if given == "auto" else given > 0
    return worker_speed(run.threads * run.workers, gpu=gpu)


def _time(
    plan: Plan,
    storage: Storage,
    there: AbstractSet[str],
    records: Mapping[str, Tombstone],
    speed: Speed,
) -> Forecast:
    """Return the time of what is left. The speed of this machine counts until something has run."""
    left = to_make(plan, there, there)
    if not left:
        return Forecast({}, {}, {}, 0)
    return forecast(plan, seconds_by_key(plan, storage, there, records), left, speed)


def _not_kept(count: int) -> str:
    return f", {count} not kept" if count else ""
