"""Running a trial: the evaluations that the ledger does not have, and what each leaves there."""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Container, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from raxalign.analysis.cells import MEANS
from raxalign.catalog import Catalog, PluginFault
from raxalign.caveats import Caveats
from raxalign.corpora.text.words import ESCAPES
from raxalign.languages import labels_with
from raxalign.measured import Measured
from raxalign.plan.plan import Plan
from raxalign.plan.stage import Stage
from raxalign.provenance import machine, versions
from raxalign.search.watch import Watched
from raxalign.stages.workshop import FITTED, TRAINED, Workshop
from raxalign.store.artifacts import ArtifactStore
from raxalign.store.ledger import Ledger
from raxalign.tasks.base import Outcome
from raxalign.train.group import share_value


def run_trial(workshop: Workshop, key: str) -> list[dict[str, Any]]:
    """Run the evaluations of a trial that the ledger does not have, on one worker; return the
    records of all of them, in the order of the tasks. One that another process makes now, for a
    trial that shares it, is waited for.

    Where the trial may be pruned, what decides on that runs first, and `Pruned` is raised where it
    is. Its checkpoint stays.
    """
    trial, ledger = workshop.plan.by_key[key], workshop.ledger
    workshop, ordered = _in_order(workshop, key)
    for task, evaluation in ordered:
        with workshop.turn("evaluation", evaluation, partial(ledger.has, evaluation)) as held:
            if held is not None:
                evaluate(workshop, evaluation, task, trial.encoder)
    return [ledger.read(evaluation) for evaluation in trial.evaluations.values()]


def train_trial(workshop: Workshop, key: str) -> None:
    """Make what the evaluations of a trial read that the ledger does not have, in a group of
    workers. One worker evaluates afterwards (`run_trial`), so that the others are free.

    Raises `Pruned` as `run_trial` does.
    """
    workshop, ordered = _in_order(workshop, key)
    for _, evaluation in ordered:
        if not share_value(workshop.runtime.rank == 0 and workshop.ledger.has(evaluation)):
            _ensure_inputs(workshop, workshop.plan.stages[evaluation])


def is_trained(plan: Plan, key: str, store: ArtifactStore, ledger: Ledger) -> bool:
    """Return whether the storage has what `train_trial` makes."""
    missing = [entry for entry in plan.by_key[key].evaluations.values() if not ledger.has(entry)]
    stages = [plan.stages[entry] for entry in plan.closure(missing)]
    return all(s.inline or store.has(s.kind, s.key) for s in stages if s.kind in TRAINED)


def _in_order(workshop: Workshop, key: str) -> tuple[Workshop, list[tuple[str, str]]]:
    """Return the tasks and evaluations of a trial, first what decides on its pruning, and the
    workshop that watches that.
    """
    watched = Watched.of(workshop.plan, key)
    workshop = replace(workshop, watched=watched) if watched is not None else workshop
    first = watched.evaluation.key if watched is not None else ""
    evaluations = workshop.plan.by_key[key].evaluations.items()
    return workshop, sorted(evaluations, key=lambda entry: entry[1] != first)


def _ensure_inputs(workshop: Workshop, stage: Stage) -> Path | None:
    """Make what an evaluation reads; return the folder of the task's own training, if it has
    one.
    """
    trained = workshop.ensure(stage.inputs["trained"]) if "trained" in stage.inputs else None
    workshop.ensure(stage.inputs["aligned"])
    if trained is None or workshop.plan.stages[stage.inputs["trained"]].task is None:
        return trained
    return trained / Stage.TASK


def evaluate(workshop: Workshop, key: str, task: str, encoder: str) -> None:
    """Make one entry of the ledger, and before it the stages that it depends on, for a task and an
    encoder by the names that the grid gives them.
    """
    stage = workshop.plan.stages[key]
    trained = _ensure_inputs(workshop, stage)
    start = time.monotonic()
    plugin, runtime = stage.plugin(), workshop.runtime_for(stage)
    with workshop.reading(stage):
        aligned, inputs = workshop.aligned(stage.inputs["aligned"]), workshop.task_inputs(stage)
        with Caveats.collecting() as found:
            result = plugin.evaluate(aligned, stage.languages, inputs, runtime, trained)
    outcome = PluginFault.returned(plugin, "evaluate", result, Outcome)
    _refuse_impossible(stage, outcome)
    record = {
        **_identity(stage, task, encoder),
        "scores": [vars(score) for score in outcome.scores],
        **_unseen(stage, outcome),
        "notes": {
            **outcome.notes,
            **_joined(
                _training_caveats(workshop, stage, Caveats.thin_support(task, outcome.notes)),
                found.notes(f"{task}: "),
            ),
            **_left_out(workshop, stage),
            "links": _links_digests(workshop, stage),
        },
        "seconds": time.monotonic() - start,
        "device": workshop.runtime.device,
        "machine": machine(workshop.runtime.device),
        "threads": workshop.runtime.threads,
        "precision": stage.precision,
        **({"base_precision": base} if (base := stage.base_precision) != "fp32" else {}),
        **({"compiled": True} if stage.compiled else {}),
        "versions": versions(),
        "created": time.time(),
    }
    workshop.ledger.write(key, record, outcome.predictions)


def _unseen(stage: Stage, outcome: Outcome) -> dict[str, list[str]]:
    """Return the names in scores that are of languages which no method has aligned: of one, or of
    a pair that it is in.
    """
    names = labels_with(stage.unseen, (*stage.languages, str(stage.params["pivot"])))
    found = [
        lang for lang in dict.fromkeys(score.lang for score in outcome.scores) if lang in names
    ]
    return {"unseen": found} if found else {}


def _refuse_impossible(stage: Stage, outcome: Outcome) -> None:
    """Raise `PluginFault` for a score that its metric cannot have, by what the task declares."""
    task = type(stage.plugin())
    for score in outcome.scores:
        declared = Measured.find(task.metrics, score.metric)
        fault = declared.fault(score.value, mean=score.lang in MEANS) if declared else ""
        if inspect.getsourcefile(task) in Catalog.outside() and not math.isfinite(score.value):
            fault = f"is {score.value}, which is not a result"  # the ledger refuses others'
        if fault:
            raise PluginFault(
                inspect.getsourcefile(task) or task.__module__,
                f"task {Catalog.name_of(stage.maker)}: {score.metric} of {score.lang}"
                f" ({score.split}) {fault}",
                line=inspect.getsourcelines(task)[1],
                remedy="Correct the score, or its unit or range in the task's `metrics`",
            )


def _identity(stage: Stage, task: str, encoder: str) -> dict[str, Any]:
    """Return what was evaluated, as the record names it."""
    return {
        "key": stage.key,
        "task": task,
        "kind": stage.maker,
        "params": stage.params["task"],
        "aligned": stage.inputs["aligned"],
        "encoder": encoder,
        "languages": stage.params["languages"],
        "seed": stage.params.get("seed"),
    }


def _behind(
    workshop: Workshop, stage: Stage, kinds: Container[str]
) -> Iterator[tuple[Stage, Mapping[str, Any]]]:
    """Yield the stages of some kinds that a result depends on, each with its notes, where the
    storage has them or had them before their weights were dropped.
    """
    for key in workshop.plan.closure(list(stage.inputs.values())):
        entry = workshop.plan.stages[key]
        if entry.kind in kinds and not entry.inline:
            manifest = workshop.storage.manifest_of(entry.kind, key)
            if manifest is not None:
                yield entry, manifest.notes


def _links_digests(workshop: Workshop, stage: Stage) -> dict[str, Any]:
    """Return the digests of all links that a result depends on: a word aligner without a seed makes
    other links another time.
    """
    return {
        f"{entry.params['lang']}/{entry.params['part']}/{entry.key[:12]}": (
            notes.get("links_digest")
        )
        for entry, notes in _behind(workshop, stage, {"pairs"})
    }


def _training_caveats(
    workshop: Workshop, stage: Stage, evaluated_on: Mapping[str, str]
) -> dict[str, Any]:
    """Return the caveats of the trainings that a result depends on: `unknown_in_training` (maker ->
    language -> share), `loss_not_lowered`, `loss_still_falling`, `cut_batches`, `fitted_on` (maker
    -> language -> what a map over pairs rests on), `thin_support`, with what the evaluation
    itself found thin, and `partial`, of word pairs too.
    """
    thin, cut = dict(evaluated_on), set[str]()
    fitted, unknown, flat, falling, partial = (dict[str, Any]() for _ in range(5))
    for entry, notes in _behind(workshop, stage, FITTED | {"pairs"}):
        partial |= {f"{entry.maker}: {k}": said for k, said in notes.get("partial", {}).items()}
        if entry.kind == "pairs":
            continue
        unknown |= {entry.maker: notes["unknown"]} if "unknown" in notes else {}
        flat |= notes.get("loss_not_lowered", {})
        falling |= notes.get("loss_still_falling", {})
        cut |= set(notes.get("cut_batches", ()))
        if entry.kind in TRAINED:
            thin |= Caveats.thin_support(entry.maker, notes)
        if entry.kind == "aligned":
            rests = {
                lang: facts
                for lang, facts in notes.items()
                if isinstance(facts, Mapping) and "rank" in facts
            }
            fitted |= {entry.maker: rests} if rests else {}
    found = {
        "unknown_in_training": unknown,
        "loss_not_lowered": flat,
        "loss_still_falling": falling,
        "cut_batches": sorted(cut),
        "fitted_on": fitted,
        "thin_support": thin,
        "partial": partial,
    }
    return {name: value for name, value in found.items() if value}


def _joined(of_trainings: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the caveats of trainings and those of the evaluation, which may train further."""
    found = {**of_trainings, **own}
    for name in of_trainings.keys() & own.keys():
        if isinstance(own[name], Mapping):
            found[name] = {**of_trainings[name], **own[name]}
    return found


def _left_out(workshop: Workshop, stage: Stage) -> dict[str, Any]:
    """Return how many held-out lines of the text that an evaluation reads were left out, and how
    many lines of any part have escaped marks, each with the number of lines: `left_out` and
    `escaped` (language -> part -> the two numbers), where there are any.
    """
    found: dict[str, dict[str, Any]] = {}
    for entry, notes in _behind(workshop, stage, {"bitext"}):
        parts = {part: n for part, n in notes["counts"].items() if isinstance(n, Mapping)}
        for part, counts in parts.items():
            lines, escaped = counts.get("lines", counts["kept"]), counts.get("escaped", 0)
            some = {"left_out": lines - counts["kept"]}
            some["escaped"] = escaped if escaped > ESCAPES * lines else 0
            for kind in filter(some.get, some):
                of_lang = found.setdefault(kind, {}).setdefault(str(entry.params["lang"]), {})
                of_lang[part] = [some[kind], lines]
    return found
