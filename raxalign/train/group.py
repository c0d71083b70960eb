"""Messages between the workers of one training, besides gradients. The code that starts the workers
starts the process group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader as lazy

if TYPE_CHECKING:
    import torch
else:
    torch = lazy.load("torch")


def agree(value: bool) -> bool:
    """Return the first worker's value, on every worker."""
    values: list[bool] = [value]
    torch.distributed.broadcast_object_list(values, src=0)
    return values[0]


def barrier() -> None:
    """Wait until every worker is here."""
    torch.distributed.barrier()
