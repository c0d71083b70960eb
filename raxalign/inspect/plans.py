"""A plan in words and as JSON, and what the storage has of it."""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass
from typing import Any, get_args

from raxalign.catalog import catalog
from raxalign.encoders.models.folder import Footprint
from raxalign.grid.estimates import Budget, Forecast, Times, duration, volume
from raxalign.grid.expansion.identity import Identity
from raxalign.grid.plan import Plan
from raxalign.grid.stage import Stage
from raxalign.grid.trial import Trial
from raxalign.options.run import Keep, RunConfig
from raxalign.printing import counted
from raxalign.search.words import SearchReport
from raxalign.store.storage import Storage, Tombstone
from raxalign.values.retention import below, made_again, weights_of


@dataclass(frozen=True)
class Stock:
    """What the storage has of a plan, by keys; `there` and `bytes` have evaluations too."""

    there: set[str]
    stored: frozenset[str]
    dropped: frozenset[str]
    bytes: Mapping[str, int]
    gpu_bytes: int  # the most that one of its trainings took on a GPU; 0 where that is not known
    records: Mapping[str, Tombstone]

    @classmethod
    def of(cls, plan: Plan, storage: Storage) -> Stock:
        """Read the sizes from the manifests, and of what was not kept from its records."""
        there, records = Times(plan, storage).stored(), storage.tombstones.all()
        wanted = [(stage.kind, key) for key, stage in plan.stages.items() if key in there]
        artifacts = [(kind, key) for kind, key in wanted if kind != "evaluation"]
        manifests = storage.artifacts.manifests(artifacts)
        gone = [key for key in records if key in plan.stages and key not in there]
        sizes = {key: manifest.size for key, manifest in manifests.items()}
        sizes |= {key: records[key].manifest.size for key in gone}
        sizes |= {key: size for key, size in storage.ledger.sizes().items() if key in there}
        found = (manifest.notes.get(storage.artifacts.GPU_BYTES) for manifest in manifests.values())
        took = max((size for size in found if isinstance(size, int)), default=0)
        return cls(there, frozenset(manifests), frozenset(gone), sizes, took, records)


@dataclass(frozen=True)
class PlanView:
    """A plan as `plan` shows it, with what the storage has of it and the options of its run."""

    plan: Plan
    storage: Storage
    run: RunConfig

    def json(self) -> str:
        """Return ``{"points", "trials", "stages", "cached", ...}``: `cached` counts finished ones,
        `dropped` of a stage is whether its weights were not kept, `bytes` what it has or had (null:
        not made), `time` the worker time and GPU hours of what is left, by what has run (null:
        nothing like it), and `disk` that of the whole grid, without totals where most is `missing`.
        """
        plan, storage, run = self.plan, self.storage, self.run
        stock = Stock.of(plan, storage)
        times = _time(plan, storage, stock)
        data = {
            "points": plan.points,
            "trials": [_trial(trial) for trial in plan.trials],
            "stages": [_stage(stage, stock, storage) for stage in _kept_stages(plan)],
            "cached": plan.cached(stock.there),
            "merged": plan.merged,
            "unresolved": plan.unresolved,
            "missing": plan.missing,
            "warnings": plan.warnings,
            "unknown_depths": plan.unknown_depths,
            "time": {
                "seconds": times.total if times.seconds or not times.unknown else None,
                "gpu_hours": _gpu_hours(plan, run, stock, times) if times.seconds else None,
                "kinds": times.kinds,
                "unknown": times.unlike,
                "workers": at_once(run),
            },
            "disk": {"keep": run.keep, **asdict(Disk.of(plan, stock.bytes, run.concurrency))},
            **({"studies": SearchReport(plan, storage).as_json()} if plan.studies else {}),
        }
        return json.dumps(data, ensure_ascii=False, indent=1)

    def text(self) -> str:
        """Return what a person needs to know before a grid runs."""
        plan, storage, run = self.plan, self.storage, self.run
        stock, methods = Stock.of(plan, storage), Counter(trial.method for trial in plan.trials)
        evaluations = {key for trial in plan.trials for key in trial.evaluations.values()}
        times = _time(plan, storage, stock)
        gpu_hours = _gpu_hours(plan, run, stock, times)
        uncounted = " (without the trials of searches)" if plan.studies else ""
        lines = [
            f"{plan.name}: {counted(plan.points, 'configuration')},"
            f" {counted(len(plan.trials), 'trial')} ({plan.cached(stock.there)} cached)",
            *(f"  {method}: {counted(count, 'trial')}" for method, count in methods.items()),
            *(f"  {note}" for note in plan.merged),
            f"stages: {', '.join(_by_kind(plan, stock)) or 'none'}",
            f"evaluations: {len(evaluations)} ({len(evaluations & stock.there)} done)",
            *SearchReport(plan, storage).plan_lines(),
            f"storage: {storage}",
            times.told(at_once(run), gpu_hours=gpu_hours, starts=not run.address) + uncounted,
            _quicker_links(plan, times),
            Disk.of(plan, stock.bytes, run.concurrency).told(run.keep) + uncounted,
            _gpu_memory(run, stock),
            made_again(plan, stock.there, stock.stored, stock.records) or "",
        ]
        if plan.unresolved:
            lines.append(
                f"unresolved until `raxalign grid` has fetched it: {', '.join(plan.unresolved)}"
            )
        lines += [f"note: {remark}" for remark in plan.remarks()]
        return "\n".join(line for line in lines if line)


def _stage(stage: Stage, stock: Stock, storage: Storage) -> dict[str, object]:
    return {
        "kind": stage.kind,
        "key": stage.key,
        "path": storage.artifacts.folder(stage.kind, stage.key),
        "done": stage.key in stock.stored,
        "dropped": stage.key in stock.dropped,
        "bytes": stock.bytes.get(stage.key),
    }


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


def at_once(run: RunConfig) -> int:
    """Return how many trials run at once on this machine; a cluster may have more room."""
    cores = max(1, (os.cpu_count() or 1) // (run.threads * run.workers))
    return min(cores, run.concurrency or cores)


def _gpu_hours(plan: Plan, run: RunConfig, stock: Stock, times: Forecast) -> float:
    """Return the hours of GPUs, counted as a budget counts them. Where the grid does not say how
    many a worker has, that is one where a training run of this storage was on a GPU, and none
    elsewhere: GPUs are not looked for.
    """
    each = float(stock.gpu_bytes > 0) if run.gpus_per_worker is None else run.gpus_per_worker
    run = run.model_copy(update={"gpus_per_worker": each})
    return Budget(0.0, "GPU-hours", run).hours(plan, times.seconds)


def _gpu_memory(run: RunConfig, stock: Stock) -> str:
    """Return a line that says what the largest training took and, where a worker has a whole GPU,
    with which part several trials fit one of a usual size; empty where that is not known.
    """
    took = stock.gpu_bytes / 2**30
    if not took:
        return ""
    found = f"GPU memory: {took:.1f} GiB for the largest training so far"
    fitting = {size: int(size / (1.25 * took + 1)) for size in _GPU_SIZES}  # with room
    parts = [f"{100 // n / 100:g} ({size} GiB)" for size, n in fitting.items() if n > 1]
    if not parts or run.gpus_per_worker not in (None, 1):
        return found
    return f"{found}; trials share a GPU with run.gpus_per_worker: {', '.join(parts)}"


_GPU_SIZES = (24, 40, 80)  # GiB


def _time(plan: Plan, storage: Storage, stock: Stock) -> Forecast:
    """The time of what is left."""
    left = plan.to_make(stock.there, stock.there)
    took = Times(plan, storage).by_key(stock.there, stock.records) if left else {}
    return Forecast.of(plan, took, left)


def _quicker_links(plan: Plan, times: Forecast) -> str:
    """Return a line that names a quicker word aligner, where word alignment takes more than half of
    the time that is left; empty elsewhere.
    """
    took = defaultdict[str, float](float)
    for key, seconds in times.seconds.items():
        took[plan.stages[key].maker] += seconds * (plan.stages[key].kind == "pairs")
    for maker, seconds in took.items():
        if seconds > times.total / 2 and (quicker := catalog("aligners")[maker].QUICKER):
            return (
                f"  most of it is {maker}, about {duration(seconds)}: `pairs: {{aligner:"
                f" {quicker}}}` is much quicker, and makes other links"
            )
    return ""


_PAIR = {"bitext": 140, "text": 85, "pairs": 190, "seen": 25, "pieces": 480}
"""Bytes per sentence pair, by kind of stage."""
_EVALUATION = 200_000  # bytes of one with its predictions
_TAGGER = 28_000_000  # bytes of one on a frozen encoder
_FLOAT, _HELD = 4, 2.2  # bytes of a weight; of one that is held in bfloat16, with merged adapters
_COPIES = 3  # a checkpoint holds the weights and two moments of each


@dataclass(frozen=True)
class Disk:
    """Bytes of a grid's artifacts, and of its evaluations in the ledger."""

    kinds: Mapping[str, int]  # kind of stage -> bytes of all its stages, none of them dropped
    after: Mapping[str, int]  # value of `run.keep` -> bytes when the grid is done
    peak: Mapping[str, int]  # value of `run.keep` -> most bytes while it runs, with checkpoints
    unknown: Mapping[str, int]  # kind of stage -> how many of its stages have no known size
    measured: int  # how many sizes come from what was made
    missing: str = ""  # what is not known, where that is most of it: there are then no totals

    @classmethod
    def of(cls, plan: Plan, measured: Mapping[str, int], at_once: int | None = None) -> Disk:
        """Estimate the bytes of a plan's artifacts and evaluations by those that were `measured`,
        by key, also of what was dropped since; of others by their kind and their encoder's config.
        So many trials run `at_once` (None: one).
        """
        weights = weights_of(plan)
        stored = [key for key, stage in plan.stages.items() if not stage.inline]
        like = Forecast.by_like(plan, measured, stored, lambda key: _pairs(plan, key) or 1.0)
        found = {
            key: measured.get(key, like[key] if key in like else _size(plan, key, weights))
            for key in stored
        }
        sizes, kinds = {key: round(size or 0) for key, size in found.items()}, Counter[str]()
        for key, size in sizes.items():
            kinds[plan.stages[key].kind] += size
        unknown = [key for key, size in found.items() if size is None]
        counts = dict(Counter(plan.stages[key].kind for key in unknown))
        lacking, trained = weights.intersection(unknown), weights.intersection(stored)
        if 2 * len(lacking) > len(trained):
            told = f"{counted(len(lacking), 'training run')} of an encoder whose size is not known"
            missing = f"{told} yet (`raxalign fetch` looks it up)"
            return cls(dict(kinds), {}, {}, counts, len(measured.keys() & sizes), missing)
        after, peak = _policies(plan, sizes, weights, at_once or 1)
        return cls(dict(kinds), after, peak, counts, len(measured.keys() & sizes))

    def told(self, keep: Keep) -> str:
        """Return the line of `plan`."""
        if self.missing:
            return f"disk, not known yet: {self.missing}"
        policies = "; ".join(
            f"run.keep: {name} {volume(self.after[name])} (peak {volume(self.peak[name])})"
            for name in sorted(self.after, key=lambda name: name != keep)
        )
        counts = ", ".join(f"{count} {kind}" for kind, count in self.unknown.items())
        unknown = f"; not known yet: {counts}" if counts else ""
        ranked = sorted(self.kinds.items(), key=lambda entry: -entry[1])
        kinds = ", ".join(f"{kind} {volume(size)}" for kind, size in ranked if size) or "nothing"
        return f"disk, about: {policies}; all of it: {kinds}{unknown}"


def _pairs(plan: Plan, key: str) -> float | None:
    """The sentence pairs of a stage of data; 1 of others, whose size does not depend on them."""
    return plan.sentences_of(key) if plan.stages[key].kind in _PAIR else 1.0


def _size(plan: Plan, key: str, weights: AbstractSet[str]) -> float | None:
    """Return the bytes of a stage, which may be trained weights or maps of an encoder's vectors, or
    a record with predictions; None where they are not known.
    """
    stage, pairs = plan.stages[key], _pairs(plan, key)
    if stage.kind in _PAIR:
        return None if pairs is None else pairs * _PAIR[stage.kind]
    if stage.kind == "evaluation":
        return _EVALUATION
    if stage.kind == "tuned":
        task = stage.plugin()
        if not task.reads(task.DEEP).tunes:
            return _TAGGER
    found = _footprint(plan, key)
    if found is None:
        return None
    if stage.kind == "aligned" and key not in weights:
        return (len(stage.languages) + 1) * found.width * (found.width + 1) * _FLOAT
    return found.parameters * (_FLOAT if stage.base_precision == "fp32" else _HELD)


def _footprint(plan: Plan, key: str) -> Footprint | None:
    """Return the sizes of the encoder that a stage reads or starts from."""
    start = plan.start_of(key)
    if start is None:
        return None
    found = start.digests.get("encoder", Identity.UNRESOLVED)
    revision = None if found.startswith(Identity.UNRESOLVED) else found
    sizes: Footprint | None = start.plugin().footprint(
        lambda name: revision if name.startswith("hub:") else None
    )
    return sizes


def _policies(
    plan: Plan, sizes: Mapping[str, int], weights: AbstractSet[str], at_once: int
) -> tuple[dict[str, int], dict[str, int]]:
    """Return for each value of `run.keep` the bytes at the end and the most bytes."""

    def size(keys: Collection[str]) -> int:
        return sum(sizes[key] for key in keys)

    behind, users = below(plan, weights), Counter[str]()
    own: list[frozenset[str]] = []
    for trial in plan.trials:
        used = frozenset().union(*(behind[key] for key in trial.evaluations.values()))
        own.append(used)
        users.update(used)
    shared = {key for key, count in users.items() if count > 1}
    kept: dict[str, AbstractSet[str]] = {"all": weights, "none": frozenset()}
    running = at_once * max((size(used - shared) for used in own), default=0)
    largest = max((sizes[key] for key in weights if _trains_all(plan.stages[key])), default=0)
    total, training = size(sizes), min(at_once, len(weights)) * _COPIES * largest
    after = {name: total - size(weights - kept[name]) for name in get_args(Keep)}
    peak = {
        name: min(total, left + size(shared - kept[name]) + running) + training
        for name, left in after.items()
    }
    return after, peak


def _trains_all(stage: Stage) -> bool:
    """Whether a checkpoint holds all weights; one of adapters is small."""
    method: Any = stage.params.get("method", {})
    return "lora" not in method
