"""Modules that are imported when one of their names is first used, since `raxalign --help` does
without numpy and torch: ``from raxalign.lazy import np, pa, pc, pq, special, torch``.

`importlib.util.LazyLoader` puts its stub into ``sys.modules``, where other libraries find it half
loaded: on Python 3.13, torch cannot be imported by it at all.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

__all__ = ["load", "np", "pa", "pc", "pq", "special", "torch"]


class _Later(ModuleType):
    """A stub of a module, under its name."""

    def __getattr__(self, name: str) -> Any:
        module = self.__dict__.get("_module")
        if module is None:
            module = self.__dict__["_module"] = import_module(self.__name__)
        return getattr(module, name)


def load(name: str) -> Any:
    """Return a stub of a module, which imports it with the first use of one of its names."""
    return _Later(name)


if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
    import torch
    from scipy import special
else:
    np, pa, pc = map(load, ("numpy", "pyarrow", "pyarrow.compute"))
    pq = load("pyarrow.parquet")
    special, torch = map(load, ("scipy.special", "torch"))
