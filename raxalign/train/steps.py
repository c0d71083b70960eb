"""How far trainings are, as the names of their checkpoints show it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path, PurePath


def kept_steps(folder: Path) -> int:
    """Return the step of the newest checkpoint, summed over the trainings of one stage (each has a
    folder of its own below `folder`); 0 where there are none.
    """
    return newest_steps(path.relative_to(folder).as_posix() for path in folder.glob("*/step-*"))


def newest_steps(names: Iterable[str]) -> int:
    """Return the same from the names of what is below the folder.

    >>> newest_steps(["train/step-00000200", "train/step-00000400/a", "warm/step-00000100"])
    500
    """
    newest: dict[str, int] = {}
    for training, checkpoint in (PurePath(name).parts[:2] for name in names if "/" in name):
        step = checkpoint.removeprefix("step-")
        if step.isdigit():
            newest[training] = max(int(step), newest.get(training, 0))
    return sum(newest.values())
