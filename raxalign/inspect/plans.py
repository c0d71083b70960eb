"""A plan in words and as JSON, and what the storage has of it."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from raxalign.options.run import RunConfig
from raxalign.plan.estimates.cost import seconds_by_key, stored_keys, to_make
from raxalign.plan.estimates.forecast import (
    RAY_SECONDS,
    WORKERS_SECONDS,
    Forecast,
    estimate_disk,
    forecast,
    quicker_links,
    worker_speed,
)
from raxalign.plan.load import Opened
from raxalign.plan.plan import Plan
from raxalign.plan.stage import Stage
from raxalign.plan.trial import Trial
from raxalign.plan.values.power import RUN_SD, assumed_lines
from raxalign.plan.values.predictions import MOST_EVALUATIONS
from raxalign.plan.values.retention import made_again
from raxalign.printing import counted
from raxalign.report import studies
from raxalign.stages import GPU_BYTES
from raxalign.store.storage import Storage, Tombstone


@dataclass(frozen=True)
class Stock:
    """What the storage has of a plan, by keys; `there` and `bytes` have evaluations too."""

    there: set[str]
    stored: frozenset[str]
    dropped: frozenset[str]
    bytes: Mapping[str, int]
    gpu_bytes: int  # the most that one of its trainings took on a card; 0 where that is not known
    records: Mapping[str, Tombstone]

    @classmethod
    def of(cls, plan: Plan, storage: Storage) -> Stock:
        """Read the sizes from the manifests, and of what was not kept from its records."""
        there, records = stored_keys(plan, storage), storage.tombstones.all()
        wanted = [(stage.kind, key) for key, stage in plan.stages.items() if key in there]
        artifacts = [(kind, key) for kind, key in wanted if kind != "evaluation"]
        manifests = storage.artifacts.manifests(artifacts)
        gone = [key for key in records if key in plan.stages and key not in there]
        sizes = {key: manifest.size for key, manifest in manifests.items()}
        sizes |= {key: records[key].manifest.size for key in gone}
        sizes |= {key: size for key, size in storage.ledger.sizes().items() if key in there}
        found = (manifest.notes.get(GPU_BYTES) for manifest in manifests.values())
        took = max((size for size in found if isinstance(size, int)), default=0)
        return cls(there, frozenset(manifests), frozenset(gone), sizes, took, records)


def as_json(plan: Plan, storage: Storage, run: RunConfig) -> str:
    """Return ``{"points", "trials", "stages", "cached", ...}``: `cached` counts the trials whose
    results are all there, `dropped` of a stage is whether its weights were not kept, `bytes` what
    it has or had (null: not made), `time` the estimate of worker time for what is left, and `disk`
    the estimate for the whole grid; neither has a total where most of it is `missing`.
    """
    stock = Stock.of(plan, storage)
    times = _time(plan, storage, stock, run)
    data = {
        "points": plan.points,
        "trials": [_trial(trial) for trial in plan.trials],
        "stages": [
            {
                "kind": stage.kind,
                "key": stage.key,
                "path": storage.artifacts.folder(stage.kind, stage.key),
                "done": stage.key in stock.stored,
                "dropped": stage.key in stock.dropped,
                "bytes": stock.bytes.get(stage.key),
            }
            for stage in _kept_stages(plan)
        ],
        "cached": plan.cached(stock.there),
        "merged": plan.merged,
        "unresolved": plan.unresolved,
        "missing": plan.missing,
        "warnings": plan.warnings,
        "unknown_depths": plan.unknown_depths,
        "time": {
            "seconds": None if times.missing else times.total,
            "missing": times.missing,
            "kinds": times.kinds,
            "unknown": times.unknown,
            "measured": times.measured,
            "workers": at_once(run),
        },
        "disk": {"keep": run.keep, **asdict(estimate_disk(plan, stock.bytes, run.concurrency))},
        **({"studies": studies.as_json(plan, storage)} if plan.studies else {}),
    }
    return json.dumps(data, ensure_ascii=False, indent=1)


def _trial(trial: Trial) -> dict[str, Any]:
    own = ("key", "method", "kind", "params", "encoder", "languages", "sentences", "seed")
    facts = {name: getattr(trial, name) for name in (*own, "evaluations")}
    return facts | {"untouched": {task: asdict(why) for task, why in trial.untouched.items()}}


def _kept_stages(plan: Plan) -> Iterator[Stage]:
    """The stages that have an artifact."""
    for stage in plan.stages.values():
        if not stage.inline and stage.kind != "evaluation":
            yield stage


def _by_kind(plan: Plan, stock: Stock) -> Iterator[str]:
    """Yield how many stages of each kind there are, and how many are done."""
    kinds, done, dropped = Counter[str](), Counter[str](), Counter[str]()
    for stage in _kept_stages(plan):
        kinds[stage.kind] += 1
        done[stage.kind] += stage.key in stock.stored
        dropped[stage.kind] += stage.key in stock.dropped
    for kind, count in kinds.items():
        gone = f", {dropped[kind]} not kept" if dropped[kind] else ""
        yield f"{count} {kind} ({done[kind]} done{gone})"


def as_text(plan: Plan, storage: Storage, run: RunConfig) -> str:
    """Return what a person needs to know before a grid runs."""
    stock, methods = Stock.of(plan, storage), Counter(trial.method for trial in plan.trials)
    evaluations = {key for trial in plan.trials for key in trial.evaluations.values()}
    times = _time(plan, storage, stock, run)
    start = 0.0 if run.address else WORKERS_SECONDS + RAY_SECONDS
    uncounted = " (without the trials of searches)" if plan.studies else ""
    lines = [
        f"{plan.name}: {counted(plan.points, 'point')}, {counted(len(plan.trials), 'trial')}"
        f" ({plan.cached(stock.there)} cached)",
        *(f"  {method}: {counted(count, 'trial')}" for method, count in methods.items()),
        *(f"  {note}" for note in plan.merged),
        f"stages: {', '.join(_by_kind(plan, stock)) or 'none'}",
        f"evaluations: {len(evaluations)} ({len(evaluations & stock.there)} done)",
        *studies.plan_lines(plan, storage),
        f"storage: {storage}",
        times.told(at_once(run), start) + uncounted,
        quicker_links(plan, times),
        estimate_disk(plan, stock.bytes, run.concurrency).told(run.keep) + uncounted,
        f"GPU memory: {stock.gpu_bytes / 2**30:.1f} GiB for the largest training so far"
        * (stock.gpu_bytes > 0),
        made_again(plan, stock.there, stock.stored, stock.records) or "",
    ]
    if plan.unresolved:
        lines.append(
            f"unresolved until `raxalign grid` has fetched it: {', '.join(plan.unresolved)}"
        )
    lines += [f"note: {remark}" for remark in plan.remarks()]
    return "\n".join(line for line in lines if line)


def power_text(opened: Opened, plan: Plan, effect: float | None, run_sd: float) -> str:
    """Return the minimum detectable effects of a plan's claims and comparisons: from assumptions
    before a first run, then from what is measured; nothing once all has run, but where an `effect`
    in points asks.
    Another `run_sd` than the usual one is computed with.
    """
    storage = opened.storage
    evaluations = {key for trial in plan.trials for key in trial.evaluations.values()}
    there = evaluations & storage.ledger.keys()
    if effect is None and not opened.grid.claims:
        if not there and run_sd == RUN_SD:
            return "\n".join(assumed_lines(plan))
        if there == evaluations:
            return ""
        if there and (storage.is_remote or len(there) > MOST_EVALUATIONS):
            return "minimum detectable effects, by the results that are there: --detect POINTS"
    from raxalign.analysis.power import Assumed
    from raxalign.plan.values.power import claim_power_lines, planned_comparisons, power_lines

    given = Assumed(run_sd=(run_sd,))
    lines = list(claim_power_lines(opened, given))
    if effect is not None or there != evaluations:
        found = planned_comparisons(plan, storage, given, timed=effect is not None)
        lines += power_lines(found, given, effect)
    return "\n".join(lines)


def at_once(run: RunConfig) -> int:
    """Return how many trials run at once on this machine; a cluster may have more room."""
    cores = max(1, (os.cpu_count() or 1) // (run.threads * run.workers))
    return min(cores, run.concurrency or cores)


def _time(plan: Plan, storage: Storage, stock: Stock, run: RunConfig) -> Forecast:
    """The time of what is left."""
    left = to_make(plan, stock.there, stock.there)
    if not left:
        return Forecast({}, {}, {}, 0)
    took = seconds_by_key(plan, storage, stock.there, stock.records)
    given = run.gpus_per_worker
    gpu = Path("/dev/nvidia0").exists() if given is None else given > 0
    return forecast(plan, took, left, worker_speed(run.threads * run.workers, gpu=gpu))
