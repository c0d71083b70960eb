"""Permissions of what libraries write: some make files that only their owner can read."""

from __future__ import annotations

import os
from pathlib import Path


def as_umask_says(folder: Path) -> None:
    """Give every file and folder below `folder` the permissions that the umask gives new ones;
    permissions beyond these stay. `folder` was made by `mkdir`, and so shows the umask.
    """
    of_folders = folder.stat().st_mode & 0o777
    for parent, folders, files in os.walk(folder):
        for names, wanted in ((folders, of_folders), (files, of_folders & 0o666)):
            for path in (Path(parent, name) for name in names):
                mode = path.lstat().st_mode & 0o7777
                if not path.is_symlink() and mode & wanted != wanted:
                    path.chmod(mode | wanted)
