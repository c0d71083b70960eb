"""What is wrong with methods that are to be trained with a task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING

from raxalign.config.yaml_file import line_of
from raxalign.errors import Fault

if TYPE_CHECKING:
    from raxalign.config.specs import Grid
    from raxalign.tasks.base import Task


def joint_faults(grid: Grid, tasks: Mapping[str, Task]) -> Iterator[Fault]:
    """Yield a fault per method whose `with_task` names several tasks, one that the grid does not
    have, or one whose training cannot be part of another.
    """
    for spec in grid.methods:
        asked = (getattr(point, "with_task", "none") for point in spec.points)
        named = list(dict.fromkeys(one.task for one in asked if not isinstance(one, str)))
        if not named:
            continue
        path = ("methods", spec.name, "with_task", "task")
        lines = (line_of(grid.text_of_file, *path[:n]) for n in (4, 3, 2))
        line, key = next((n for n in lines if n is not None), None), ".".join(path)
        task, why = tasks.get(named[0]), None
        if len(named) > 1:
            told = f"several tasks: {', '.join(named)}; a training is one with one task"
            remedy = (
                f"write a method for each, such as `{spec.name}-{named[1]}: {{kind: {spec.kind}"
            )
            yield Fault(line, key, told, remedy + ", ...}`")
        elif task is None:
            near = get_close_matches(named[0], tasks, n=1)
            remedy = f"did you mean {near[0]}?" if near else f"it has {', '.join(tasks)}"
            yield Fault(line, key, f"the grid has no task {named[0]!r}", remedy)
        elif (why := task.not_joint()) is not None:
            yield Fault(line, key, f"{named[0]} cannot be trained with a method: {why[0]}", why[1])
