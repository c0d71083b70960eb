"""Notes when each evaluation begins. Python imports this by its name, in the driver and in each of
Ray's workers, before anything else.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import json
import os
import socket
import sys
import time
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_WATCHED = "raxalign.stages.workshop"


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the one module that is watched, and has its function note its calls."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != _WATCHED:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        load = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            load(module)
            _watch(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _watch(module: Any) -> None:
    evaluate = module.Workshop.evaluate

    def noted(workshop: Any, key: str, *rest: object) -> None:
        where = {"pid": os.getpid(), "host": socket.gethostname()}
        line = json.dumps({"key": key, "begun": time.time(), **where})
        with open(os.environ["RAXALIGN_SOAK_LOG"], "a", encoding="utf-8") as log:  # noqa: PTH123
            log.write(f"{line}\n")
        evaluate(workshop, key, *rest)

    module.Workshop.evaluate = noted


if "RAXALIGN_SOAK_LOG" in os.environ:
    sys.meta_path.insert(0, _Finder())
