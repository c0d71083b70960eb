"""A stage's inputs, as methods and tasks get them."""

from __future__ import annotations

from pathlib import Path

from raxalign.plan.stage import Stage
from raxalign.stages.bench import Bench
from raxalign.tasks.base import TaskInputs


def languages_of(stage: Stage) -> tuple[str, ...]:
    """Return the languages of a stage."""
    return tuple(str(lang) for lang in stage.params["languages"])  # type: ignore[union-attr]


def files_of(stage: Stage) -> dict[str, dict[str, Path]]:
    """Return the local files of a stage: name -> language -> path."""
    files: dict[str, dict[str, Path]] = {}
    for entry, place in stage.locations.items():
        name, _, lang = entry.rpartition("/")
        if Path(place).is_absolute():
            files.setdefault(name, {})[lang] = Path(place)
    return files


def task_inputs(bench: Bench, stage: Stage) -> TaskInputs:
    """Return what the training or the evaluation of a task reads; it is made first."""
    return TaskInputs(
        pivot=str(stage.params["pivot"]),
        heldout=bench.inputs(stage, "heldout"),
        seen=bench.inputs(stage, "seen"),
        text=bench.datasets(stage, "text"),
        bitext=bench.inputs(stage, "bitext"),
        files=files_of(stage),
        digests=stage.digests,
        downloads=bench.downloads,
    )
