"""Which trained weights of a grid stay in the storage once its evaluations are done (`run.keep`).

Weights are the trainings of tasks, and the aligned encoders of methods that change weights. Data,
encoders that a grid starts from, and transforms without weights always stay.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cache
from typing import Any

from raxalign.analysis.cells import MEANS
from raxalign.catalog import catalog
from raxalign.config.run import Keep
from raxalign.plan.estimates.cost import duration, to_make
from raxalign.plan.plan import Plan
from raxalign.plan.trial import Trial
from raxalign.plan.values.results import trial_rows
from raxalign.store.key import digest
from raxalign.store.tombstones import Tombstone

_Score = tuple[float, int]


def weights_of(plan: Plan) -> frozenset[str]:
    """Return the keys of the stages of a plan that hold trained weights."""

    @cache
    def changes(catalogue: str | None, maker: str, options: str) -> bool:
        if catalogue is None:  # no plug-in makes it: it comes from outside
            return False
        kind = catalog(catalogue)[maker]
        return bool(kind(kind.Params.model_validate_json(options)).effect().weights)

    return frozenset(
        key
        for key, stage in plan.stages.items()
        if stage.kind == "tuned"
        or (stage.kind == "aligned" and changes(stage.catalogue, stage.maker, stage.options))
    )


def below(plan: Plan, chosen: AbstractSet[str]) -> dict[str, frozenset[str]]:
    """Return for each stage those of the chosen ones that it depends on, itself included."""
    found: dict[str, frozenset[str]] = {}
    for key, stage in plan.stages.items():
        parts = [found[entry] for entry in stage.inputs.values()]
        own = frozenset({key}) if key in chosen else frozenset()
        found[key] = own.union(*parts)
    return found


class Keeping:
    """Decides which weights of a plan may go, as its evaluations are done one by one.

    With `best`, each cell (everything of a trial but its seed) keeps the weights of the run with
    the best value on dev, by `dev_score`; without such values those of its first seed.
    """

    def __init__(self, plan: Plan, keep: Keep, done: AbstractSet[str]) -> None:
        self.weights: AbstractSet[str] = weights_of(plan) if keep != "all" else frozenset()
        self._plan, self._keep = plan, keep
        behind = below(plan, self.weights)
        self._of = {
            evaluation: behind[evaluation]
            for trial in plan.trials
            for evaluation in trial.evaluations.values()
        }
        self._pending = set(self._of) - done
        self._waiting = Counter(key for entry in self._pending for key in self._of[entry])
        self._order = {trial.key: number for number, trial in enumerate(plan.trials)}
        self._running: set[str] = set()
        self._users: dict[str, set[str]] = defaultdict(set)
        self._best: dict[str, tuple[_Score, str]] = {}
        for trial in plan.trials:
            for key in self._weights(trial):
                self._users[key].add(trial.key)

    def start(self, trial: Trial) -> None:
        """Note that a trial runs: it may read any of its weights."""
        self._running.add(trial.key)

    def judge(self, records: Mapping[str, Mapping[str, Any]]) -> None:
        """Compare the trials that are done already, by the records of the ledger."""
        for trial in self._plan.trials:
            own = trial.evaluations.values()
            self._judge(trial, {key: records[key] for key in own if key in records})

    def finish(
        self, trial: Trial, records: Mapping[str, Mapping[str, Any]]
    ) -> Iterator[tuple[str, str]]:
        """Note that a trial ended; yield the weights that may go now, each with the reason.
        `records` are those of its evaluations that are in the ledger, by their keys.
        """
        self._running.discard(trial.key)
        for entry in self._pending & records.keys() & self._of.keys():
            self._pending.discard(entry)
            self._waiting.subtract(self._of[entry])
        beaten = self._judge(trial, records)
        yield from self.free(self._weights(trial) | beaten)

    def free(self, among: AbstractSet[str] | None = None) -> Iterator[tuple[str, str]]:
        """Yield the weights (`among` some) that may go now, each with the reason."""
        for key in sorted(self.weights if among is None else among):
            if (why := self.reason(key)) is not None:
                yield key, why

    def reason(self, key: str) -> str | None:
        """Return why some weights may go; None where they stay."""
        users = self._users[key]
        if self._waiting[key] or users & self._running or not users:
            return None
        if self._keep == "none":
            return "run.keep: none"
        best = {self._best[cell][1] for user in users if (cell := self._cell(user)) in self._best}
        if users & best or not best or any(map(self._lacks, users)):
            return None
        names = ", ".join(sorted(entry[:12] for entry in best))
        return f"run.keep: best: the weights of trial {names} are kept for this cell"

    def _lacks(self, key: str) -> bool:
        """Whether a trial still has something to run: it may become the best of its cell."""
        return not self._pending.isdisjoint(self._plan.by_key[key].evaluations.values())

    def _judge(self, trial: Trial, records: Mapping[str, Mapping[str, Any]]) -> frozenset[str]:
        """Compare a whole trial with the best of its cell; return the weights of what is beaten."""
        whole = trial.evaluations and records.keys() >= set(trial.evaluations.values())
        if self._keep != "best" or trial.key not in self._order or not whole:
            return frozenset()
        value = dev_score(self._plan, trial, records)
        score = (-math.inf if value is None else value, -self._order[trial.key])
        cell = self._cell(trial.key)
        known = self._best.get(cell)
        if known is not None and known[0] >= score:
            return frozenset()
        self._best[cell] = (score, trial.key)
        return frozenset() if known is None else self._weights(self._plan.by_key[known[1]])

    def _weights(self, trial: Trial) -> frozenset[str]:
        return frozenset().union(*(self._of.get(e, ()) for e in trial.evaluations.values()))

    def _cell(self, key: str) -> str:
        return run_cell(self._plan.by_key[key])


def run_cell(trial: Trial) -> str:
    """Return what trials have in common that differ in their seed alone."""
    return digest([trial.method, trial.params, trial.encoder, trial.languages, trial.sentences])


def dev_score(plan: Plan, trial: Trial, records: Mapping[str, Mapping[str, Any]]) -> float | None:
    """Return the value on dev that chooses among the runs of a cell, larger is better; None where
    no task of the trial has one.

    It is the main metric of the first task of the grid that has dev values of which some are
    better, as the mean over the aligned languages, turned round where lower ones are.
    """
    by_task: dict[str, dict[str, dict[str, float]]] = {}
    for row in trial_rows(trial, records, plan.pivot):
        measured = plan.measured(row["task"], row["metric"])
        chooses = row["split"] == "dev" and measured.role == "score" and measured.sign
        if chooses and row["lang"] not in MEANS and not row.get("unseen"):
            metrics = by_task.setdefault(row["task"], {})
            metrics.setdefault(row["metric"], {})[row["lang"]] = row["value"]
    if not by_task:
        return None
    task, metrics = next(iter(by_task.items()))
    main = plan.main_metric(task)
    name = main if main in metrics else next(iter(metrics))
    values = metrics[name]
    others = [value for lang, value in values.items() if lang != plan.pivot] or [*values.values()]
    return plan.measured(task, name).sign * math.fsum(others) / len(others)


def made_again(
    plan: Plan, done: AbstractSet[str], stored: AbstractSet[str], records: Mapping[str, Tombstone]
) -> str | None:
    """Return a sentence on the weights that pending evaluations need and that were not kept; None
    where there are none. `records` is what is left of those that were not kept, by key; see
    `to_make` for the others.
    """
    return again([records[key] for key in to_make(plan, done, stored) if key in records])


def again(found: Sequence[Tombstone]) -> str | None:
    """Return a sentence on weights that were not kept and have to be made again, with the time
    that they took; None where there are none.
    """
    if not found:
        return None
    seconds = math.fsum(entry.manifest.seconds for entry in found)
    policies = sorted({entry.why.removeprefix("run.keep: ").partition(":")[0] for entry in found})
    what = "the weights of this trial" if len(found) == 1 else f"the weights of {len(found)} stages"
    return (
        f"{what} were not kept (run.keep: {', '.join(policies)}); they are made again, about"
        f" {duration(seconds)}"
    )
