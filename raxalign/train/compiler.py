"""What torch.compile needs on a machine: the option `run.compile`."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec

from raxalign.errors import DependencyError

_REMEDY = "install it on every machine, or leave run.compile at false"


def check_compiler(device: str) -> None:
    """Raise `DependencyError` where torch.compile has no compiler for a torch device."""
    if device.startswith("cuda") and find_spec("triton") is None:
        raise DependencyError(f"run.compile requires the package triton on a card: {_REMEDY}")
    name = os.environ.get("CXX") or "g++"
    if shutil.which(name) is None:
        raise DependencyError(f"run.compile requires a C++ compiler ({name}): {_REMEDY}")
