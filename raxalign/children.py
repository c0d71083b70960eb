"""What the processes that raxalign starts are given."""

from __future__ import annotations

import os
from collections.abc import Mapping


def child_environment(more: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a child process: this one's, with `more`. Whatever Python runs
    there does not look for modules in the working directory, whose files nobody has chosen.
    """
    return {**os.environ, "PYTHONSAFEPATH": "1", **more}
