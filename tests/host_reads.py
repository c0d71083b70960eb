"""What a step of a training reads from the device, found on a CPU: every operation for which a host
waits where tensors are on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from raxalign.train import loop

_CALLS = {
    *("item", "tolist", "cpu", "numpy", "nonzero", "masked_select", "unique", "bincount", "equal"),
    *("__bool__", "__float__", "__int__", "__index__", "__array__", "__contains__"),
}
_OPERATIONS = {
    *("_local_scalar_dense", "nonzero", "masked_select", "_unique2", "bincount", "equal"),
    *("is_nonzero", "item"),
}


class _Calls(TorchFunctionMode):
    found: list[str]

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        name = getattr(func, "__name__", "")
        if name in _CALLS or (name in {"__getitem__", "__setitem__"} and _is_mask(args[1])):
            self.found.append(name)
        return func(*args, **(kwargs or {}))


class _Operations(TorchDispatchMode):
    found: list[str]

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        if func.overloadpacket.__name__ in _OPERATIONS:
            self.found.append(str(func))
        return func(*args, **(kwargs or {}))


def _is_mask(index: object) -> bool:
    parts = index if isinstance(index, tuple) else (index,)
    return any(isinstance(part, torch.Tensor) and part.dtype == torch.bool for part in parts)


@contextmanager
def host_reads() -> Iterator[list[list[str]]]:
    """Yields what each step of the trainings within the block reads, a list per step. The reading
    of losses after a step is not part of it.
    """
    steps: list[list[str]] = []
    advance: Callable[[loop._Loop], None] = loop._Loop.advance

    def counted(self: loop._Loop) -> None:
        operations, calls = _Operations(), _Calls()
        steps.append([])
        operations.found = calls.found = steps[-1]
        with operations, calls:
            advance(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop._Loop, "advance", counted)
        yield steps
