"""Grid -> Plan: all trials, stages and evaluations as a pure value. Called, the package opens a
grid file: ``raxalign.plan("grid.yaml")``.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from raxalign.plan.load import Opened


class _CallablePackage(ModuleType):
    """The package as a function: ``raxalign.plan`` is both, and the import of any submodule sets
    that name to the package.
    """

    def __call__(
        self,
        path: Path | str,
        *,
        storage: str | None = None,
        address: str | None = None,
        workers: int | None = None,
        keep: str | None = None,
        allow_missing: bool = False,
    ) -> Opened:
        """Read a grid file and expand it (see `raxalign.plan.load.open_grid`)."""
        from raxalign.plan.load import open_grid

        return open_grid(
            path,
            storage=storage,
            address=address,
            workers=workers,
            keep=keep,
            allow_missing=allow_missing,
        )


sys.modules[__name__].__class__ = _CallablePackage
