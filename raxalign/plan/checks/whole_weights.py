"""What stands against dividing the weights of trainings among workers (`run.shard_weights`)."""

from __future__ import annotations

from collections.abc import Iterator

from raxalign.catalog import catalog
from raxalign.config.specs import Grid
from raxalign.config.yaml_file import line_of
from raxalign.errors import Fault
from raxalign.plan.expansion.encoders import DEEP

_OFF = "leave run.shard_weights at false"


def sharding_faults(grid: Grid) -> Iterator[Fault]:
    """Yield why a grid cannot be run so: a single worker, blocks that are compiled, and the methods
    and tasks whose training needs all weights at once.
    """
    run = grid.run
    if not run.shard_weights:
        return
    line, key = line_of(grid.text_of_file, "run", "shard_weights"), "run.shard_weights"
    if run.workers == 1:
        told = "the workers of a trial divide its weights, and it has one"
        yield Fault(line, key, told, f"set run.workers to 2 or more, or {_OFF}")
    if run.compile:
        told = "a block that run.compile compiles has all of its weights"
        yield Fault(line, key, told, f"leave run.compile at false, or {_OFF}")
    for spec in grid.methods:
        points = [catalog("methods")[spec.kind](params) for params in spec.points]
        trained = [method for method in points if method.effect().weights]
        told = ""
        if any(not method.shards for method in trained):
            told = f"{spec.kind} needs all weights of the encoder at once"
        elif any(method.joint() is not None for method in trained):
            told = "with_task needs all weights of the encoder at once"
        if told:
            line = line_of(grid.text_of_file, "methods", spec.name)
            yield Fault(line, f"methods.{spec.name}", f"run.shard_weights: {told}", _OFF)
    for asked in grid.tasks:
        task = catalog("tasks")[asked.kind](asked.params)
        if not task.training() or not task.reads(DEEP).tunes:
            continue
        if (told := task.not_sharded()) is not None:
            key = f"tasks.{asked.name}"
            yield Fault(asked.line_of(""), key, f"run.shard_weights: {told}", _OFF)
