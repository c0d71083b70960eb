"""What a result was made with: versions of the libraries that matter, and the state of the code."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from raxalign.version import VERSION

_LIBRARIES = (
    "torch",
    "transformers",
    "tokenizers",
    "numpy",
    "eflomal",
    "datasets",
    "ray",
    "mlflow",
)


@cache
def versions() -> dict[str, str]:
    """Library -> version, for those that are installed; raxalign's own with the commit where it
    runs from a repository.
    """
    found = {"raxalign": VERSION, **commit()}
    for library in _LIBRARIES:
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            continue
    return found


@cache
def commit() -> dict[str, str]:
    """``commit`` (and ``dirty``) of the repository that the package lies in. Where it is installed
    without one, as in a container, ``RAXALIGN_COMMIT`` names the commit as ``git describe --always
    --abbrev=40 --dirty`` does; empty without both.
    """
    root = Path(__file__).resolve().parent.parent
    if not (root / ".git").exists():
        return _named(os.environ.get("RAXALIGN_COMMIT", "").strip())
    try:
        head = _git(root, "rev-parse", "HEAD")
        dirty = _git(root, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.CalledProcessError):
        return _named(os.environ.get("RAXALIGN_COMMIT", "").strip())
    return {"commit": head, "dirty": str(bool(dirty)).lower()}


def _named(described: str) -> dict[str, str]:
    """Read a commit that a variable names, ``-dirty`` after it where the code was changed."""
    if not described:
        return {}
    head = described.removesuffix("-dirty")
    return {"commit": head, "dirty": str(head != described).lower()}


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True)
    return done.stdout.strip()
