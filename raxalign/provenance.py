"""What a result was made with: versions of the libraries that matter, and the state of the code."""

from __future__ import annotations

import os
import platform
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from raxalign.children import child_environment
from raxalign.version import VERSION

_LIBRARIES = (
    *("torch", "transformers", "tokenizers", "numpy"),
    *("eflomal", "sil-thot", "datasets", "ray", "mlflow"),
)


@cache
def versions() -> dict[str, str]:
    """Library -> version, for those that are installed, and that of Python; raxalign's own with the
    commit where it runs from a repository.
    """
    found = {"raxalign": VERSION, **commit(), "python": platform.python_version()}
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


@cache
def machine(device: str) -> str:
    """Return what computes on a torch device: the name of the GPU, or that of the processor with
    the number of cores that this process may use.
    """
    if device.startswith("cuda"):
        import torch

        return str(torch.cuda.get_device_name(device))
    described = Path("/proc/cpuinfo")
    text = described.read_text(encoding="utf-8") if described.is_file() else ""
    names = (line.partition(":")[2] for line in text.splitlines() if line.startswith("model name"))
    name = next(names, "").strip() or platform.processor() or platform.machine()
    affinity = getattr(os, "sched_getaffinity", None)  # which macOS does not have
    cores = len(affinity(0)) if affinity is not None else os.cpu_count()
    return f"{name}, {cores} cores"


def _named(described: str) -> dict[str, str]:
    """Read a commit that a variable names, ``-dirty`` after it where the code was changed."""
    if not described:
        return {}
    head = described.removesuffix("-dirty")
    return {"commit": head, "dirty": str(head != described).lower()}


def _git(root: Path, *arguments: str) -> str:
    command, environment = ["git", *arguments], child_environment({})
    done = subprocess.run(
        command, cwd=root, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()
