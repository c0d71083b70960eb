"""Running a trial: the evaluations that the ledger does not have, and what each leaves there."""

from __future__ import annotations

import time
from collections.abc import Container, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raxalign.caveats import collecting, thin_support
from raxalign.plan.stage import Stage
from raxalign.plugin_files import returned
from raxalign.provenance import versions
from raxalign.stages.inputs import languages_of, task_inputs
from raxalign.stages.watching import Watched
from raxalign.stages.workshop import FITTED, Workshop
from raxalign.store.tombstones import manifest_of
from raxalign.tasks.base import Outcome, TaskInputs

if TYPE_CHECKING:
    from raxalign.encoders.models.aligned import AlignedEncoder
    from raxalign.train.runtime import Runtime


def run_trial(workshop: Workshop, key: str) -> list[dict[str, Any]]:
    """Run the evaluations of a trial that the ledger does not have; return the records of all of
    them, in the order of the tasks.

    Where the trial may be pruned, what decides on that runs first, and `Pruned` is raised where it
    is. Its checkpoint stays.
    """
    trial, ledger, rank = workshop.plan.by_key[key], workshop.ledger, workshop.runtime.rank
    watched = Watched.of(workshop.plan, key)
    workshop = replace(workshop, watched=watched) if watched is not None else workshop
    first = watched.evaluation.key if watched is not None else ""
    for task, evaluation in sorted(trial.evaluations.items(), key=lambda entry: entry[1] != first):
        done = ledger.has(evaluation)
        if workshop.runtime.world_size > 1:
            from raxalign.train.group import agree

            done = agree(rank == 0 and done)
        if not done:
            evaluate(workshop, evaluation, task, trial.encoder)
    return (
        [ledger.read(evaluation) for evaluation in trial.evaluations.values()] if rank == 0 else []
    )


def evaluate(workshop: Workshop, key: str, task: str, encoder: str) -> None:
    """Make one entry of the ledger, and before it the stages that it depends on. In a group of
    workers only the first one evaluates.

    Args:
        workshop: Makes the stages.
        key: The key of the evaluation.
        task: The name that the grid gives the task.
        encoder: The label of the encoder.
    """
    stage = workshop.plan.stages[key]
    trained = workshop.ensure(stage.inputs["trained"]) if "trained" in stage.inputs else None
    workshop.ensure(stage.inputs["aligned"])
    if workshop.runtime.rank != 0:
        return
    if workshop.runtime.world_size > 1:  # nobody else takes part: nothing may wait for others
        workshop = replace(workshop, runtime=replace(workshop.runtime, world_size=1), _aligned={})
    start = time.monotonic()
    aligned, inputs = workshop.aligned(stage.inputs["aligned"]), task_inputs(workshop, stage)
    with collecting() as found:
        outcome = _outcome(stage, aligned, inputs, workshop.runtime_for(stage), trained)
    record = {
        **_identity(stage, task, encoder),
        "scores": [vars(score) for score in outcome.scores],
        "notes": {
            **outcome.notes,
            **_training_caveats(workshop, stage, thin_support(task, outcome.notes)),
            **found.notes(),
            "links": _links_digests(workshop, stage),
        },
        "seconds": time.monotonic() - start,
        "device": workshop.runtime.device,
        "threads": workshop.runtime.threads,
        "precision": stage.precision,
        "versions": versions(),
        "created": time.time(),
    }
    workshop.ledger.write(key, record, outcome.predictions)


def _outcome(
    stage: Stage,
    aligned: AlignedEncoder,
    inputs: TaskInputs,
    runtime: Runtime,
    trained: Path | None,
) -> Outcome:
    """Return what the task of an evaluation finds. Raises `PluginFault` for a task from outside
    that returns something else.
    """
    task = stage.plugin()
    found = task.evaluate(aligned, languages_of(stage), inputs, runtime, trained)
    return returned(task, "evaluate", found, Outcome)


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
            manifest = manifest_of(workshop.store, entry.kind, key)
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
    language -> share), `loss_not_lowered`, `fitted_on` (maker -> language -> what a map over pairs
    rests on), and `thin_support`, with what the evaluation itself found thin.
    """
    thin: dict[str, str] = {**evaluated_on}
    fitted: dict[str, Any] = {}
    unknown: dict[str, Any] = {}
    flat: dict[str, Any] = {}
    for entry, notes in _behind(workshop, stage, FITTED):
        unknown |= {entry.maker: notes["unknown"]} if "unknown" in notes else {}
        flat |= notes.get("loss_not_lowered", {})
        if entry.kind == "aligned":
            thin |= thin_support(entry.maker, notes)
            rests = {lang: facts for lang, facts in notes.items() if _is_support(facts)}
            fitted |= {entry.maker: rests} if rests else {}
    found = {
        "unknown_in_training": unknown,
        "loss_not_lowered": flat,
        "fitted_on": fitted,
        "thin_support": thin,
    }
    return {name: value for name, value in found.items() if value}


def _is_support(facts: object) -> bool:
    """Whether a note is what a map of one language rests on."""
    return isinstance(facts, Mapping) and "rank" in facts
