"""How far trainings are, as the names of their checkpoints show it."""

from __future__ import annotations

from pathlib import Path


def kept_steps(folder: Path) -> int:
    """Return the step of the newest checkpoint, summed over the trainings of one stage (each has a
    folder of its own below `folder`); 0 where there are none.
    """
    newest: dict[Path, int] = {}
    for checkpoint in folder.glob("*/step-*"):
        step = checkpoint.name.removeprefix("step-")
        if step.isdigit():
            newest[checkpoint.parent] = max(int(step), newest.get(checkpoint.parent, 0))
    return sum(newest.values())
