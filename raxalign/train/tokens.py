"""How many tokens a training reads in a second, for who watches it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from raxalign import lazy

if TYPE_CHECKING:
    import torch
else:
    torch = lazy.load("torch")


class TokenRate:
    """Counts the tokens that pass the word embeddings of a module, until it is closed. It never
    waits for the device.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        self._count, self._since = 0, time.monotonic()
        self._hooks = [
            embedding.register_forward_pre_hook(self._add) for embedding in _of_words(module)
        ]

    def take(self) -> float | None:
        """Return the tokens per second since this was last called; None where none were read."""
        now, count = time.monotonic(), self._count
        seconds, self._since, self._count = now - self._since, now, 0
        return count / seconds if count and seconds > 0 else None

    def close(self) -> None:
        """Take the counters off the module."""
        for hook in self._hooks:
            hook.remove()

    def _add(self, _: torch.nn.Module, given: tuple[Any, ...]) -> None:
        if given and isinstance(given[0], torch.Tensor):
            self._count += given[0].numel()


def _of_words(module: torch.nn.Module) -> list[torch.nn.Embedding]:
    """Return the word embeddings: of the embeddings next to each other, the largest."""
    found: dict[str, torch.nn.Embedding] = {}
    for name, part in module.named_modules():
        parent = name.rpartition(".")[0]
        known = found.get(parent)
        if isinstance(part, torch.nn.Embedding) and (
            known is None or part.num_embeddings > known.num_embeddings
        ):
            found[parent] = part
    return list(found.values())
