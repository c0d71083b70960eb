"""The blocks of a transformer: where they are, their states while the model runs, and their outputs
kept from one forward pass, so that others over the same batch begin above them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

from raxalign.encoders.models.vectors import Batch
from raxalign.errors import RaxalignError
from raxalign.lazy import torch
from raxalign.train.devices import forward_as

Edit: TypeAlias = "Callable[[torch.Tensor, Batch], torch.Tensor]"
"""A change of the stream after a block: (B, T, H) and its batch to (B, T, H)."""


@dataclass(frozen=True)
class Blocks:
    """The blocks of a base model: `parts` are the modules that hold the parameters of each. The
    outputs of the `leaves` are the stream after the blocks, in their order; one that several blocks
    share is there once. The output of `embeds` is the stream before the first block (None: the
    input of the first leaf is). `place` is the owner and the name of the attribute that says which
    blocks run (None: it cannot be changed).
    """

    parts: tuple[torch.nn.Module, ...]
    leaves: tuple[torch.nn.Module, ...]
    embeds: torch.nn.Module | None
    place: tuple[Any, str] | None
    n_layers: int

    @classmethod
    def of(cls, base: torch.nn.Module) -> Blocks:
        """Return the blocks of a base model: of most, its outermost list of as many modules as its
        config counts layers. Raises `RaxalignError` where there is none.
        """
        n_layers = int(base.config.num_hidden_layers)  # type: ignore[union-attr, arg-type]
        lists = list(_lists(base))
        by_name = {name: found for _, name, found in lists}
        if "albert_layer_groups" in by_name:  # ALBERT runs few blocks many times
            groups = tuple(by_name["albert_layer_groups"])
            return cls(groups, groups, None, None, n_layers)
        whole = [(owner, name, found) for owner, name, found in lists if len(found) == n_layers]
        if len(whole) == 1:
            owner, name, found = whole[0]
            return cls(tuple(found), tuple(found), None, (owner, name), n_layers)
        if {"attentions", "layer_norm1", "ffns", "layer_norm2"} <= by_name.keys():  # XLM
            parts = zip(*(by_name[n] for n in sorted(by_name)), strict=True)
            leaves = tuple(by_name["layer_norm2"])
            embeds: Any = base.layer_norm_emb
            whole_blocks = tuple(map(torch.nn.ModuleList, parts))
            return cls(whole_blocks, leaves, embeds, (base, "n_layers"), n_layers)
        raise RaxalignError(
            f"{type(base).__name__}: its {n_layers} blocks are not found. Use an architecture with"
            " one list of blocks, as BERT, XLM-R, DeBERTa, ModernBERT and T5 have it"
        )

    @property
    def replayable(self) -> bool:
        """Whether each block is one module that runs once: not those of ALBERT, which
        run many times, nor those of XLM, whose parts are in several lists.
        """
        return self.parts == self.leaves and len(self.parts) == self.n_layers

    @contextmanager
    def watched(
        self,
        top: int,
        states: list[torch.Tensor],
        edits: Mapping[int, Edit],
        batch: Batch | None,
    ) -> Iterator[None]:
        """Collect into `states` what enters the first block and what leaves each, after the edits
        of a batch by the number of the block; blocks above `top` are left out, where that is
        possible.
        """

        def edited(states_BTH: torch.Tensor) -> torch.Tensor:
            edit = edits.get(len(states))
            states.append(edit(states_BTH, batch) if edit and batch else states_BTH)
            return states[-1]

        def enter(
            _: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
        ) -> tuple[tuple[Any, ...], dict[str, Any]]:
            if states:  # a block that runs again, as in ALBERT
                return args, kwargs
            if args:
                return (edited(args[0]), *args[1:]), kwargs
            return args, {**kwargs, "hidden_states": edited(kwargs["hidden_states"])}

        def leave(_: torch.nn.Module, __: Any, output: Any) -> Any:
            if len(states) > top:
                return output
            whole = isinstance(output, tuple)
            return (edited(output[0]), *output[1:]) if whole else edited(output)

        with ExitStack() as stack, self._cut(top):
            if self.embeds is None:
                before = self.leaves[0].register_forward_pre_hook(enter, with_kwargs=True)
                stack.callback(before.remove)
            for part in self.leaves if self.embeds is None else (self.embeds, *self.leaves):
                stack.callback(part.register_forward_hook(leave).remove)
            yield

    @contextmanager
    def recorded(self, top: int) -> Iterator[list[Any]]:
        """Yield a list that collects the outputs of the first `top` blocks, before any edit."""
        outputs: list[Any] = []
        with ExitStack() as stack:
            for block in self.leaves[:top]:
                hook = block.register_forward_hook(lambda *made: outputs.append(made[-1]))
                stack.callback(hook.remove)
            yield outputs

    @contextmanager
    def replayed(self, outputs: Sequence[Any]) -> Iterator[None]:
        """Let the first blocks return what `recorded` collected; hooks and edits still apply."""
        with ExitStack() as stack:
            for block, output in zip(self.leaves, outputs, strict=False):
                stack.enter_context(forward_as(block, lambda *_, output=output, **__: output))
            yield

    @contextmanager
    def _cut(self, top: int) -> Iterator[None]:
        """Leave the blocks above `top` out, until the end."""
        if self.place is None or top >= len(self.parts):
            yield
            return
        value = getattr(*self.place)
        setattr(*self.place, top if isinstance(value, int) else value[:top])
        try:
            yield
        finally:
            setattr(*self.place, value)


def _lists(owner: torch.nn.Module) -> Iterator[tuple[torch.nn.Module, str, torch.nn.ModuleList]]:
    """(owner, attribute, list) of the lists of modules that are in no other list."""
    for name, child in owner.named_children():
        if isinstance(child, torch.nn.ModuleList):
            yield owner, name, child
        else:
            yield from _lists(child)
