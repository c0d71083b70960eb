"""Names of temporary files and folders, which hold the process that made them, and the removal of
those that a dead process left.
"""

from __future__ import annotations

import os
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from raxalign.store.alive import BEAT_SECONDS, DAY_SECONDS, beating, maker_name, process_of

PREFIX = ".tmp-"
_PLACES = (
    *(".", "ledger", "failures", "drivers/*", "plans"),
    *("studies", "studies/drivers", "studies/curves/*", "artifacts/*/*"),
    *("locks/*", "locks/making/*"),
)
"""The folders of a storage on a file system that temporaries are made in."""


def temporary_name(key: str) -> str:
    """``.tmp-<key>-<machine>-<pid>-<start of the process>-<random>``."""
    return f"{PREFIX}{key}-{maker_name()}-{uuid.uuid4().hex[:8]}"


def is_abandoned(path: Path) -> bool:
    """Return whether the process that made a temporary is dead: known on its own machine, elsewhere
    assumed after a day without a sign of life.
    """
    parts = path.name.rsplit("-", 4)
    lives = process_of("-".join(parts[1:4])) if len(parts) == 5 else None
    if lives is not None:
        return not lives
    try:
        return time.time() - path.stat().st_mtime > DAY_SECONDS
    except OSError:
        return False


def abandoned_below(root: Path) -> list[Path]:
    """Return the temporaries of a storage on a file system whose processes are dead."""
    patterns = (f"{PREFIX}*" if place == "." else f"{place}/{PREFIX}*" for place in _PLACES)
    return [path for pattern in patterns for path in root.glob(pattern) if is_abandoned(path)]


@contextmanager
def sign_of_life(folder: Path) -> Iterator[None]:
    """Touch a folder now and then: a training of days in one machine must not look abandoned to
    another.
    """
    with beating(lambda: os.utime(folder), every=BEAT_SECONDS, name="raxalign-store"):
        yield


def discard(path: Path) -> None:
    """Remove a temporary file or folder, as far as that is possible."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink(missing_ok=True)
