"""The weights of a training divided among its workers (`run.shard_weights`): with them gradients
and Adam's moments, by PyTorch's FSDP2 (Rajbhandari et al. 2020, ZeRO, stage 3; Zhao et al. 2023).

Each worker holds a part of every tensor along its first dimension. A block is whole on a worker
only while it runs, in either direction, and what lies outside the blocks while a micro-batch is
computed. As the gradients leave a block they are summed over the workers, and each worker keeps its
part of the sums.

What reads weights outside of the steps of a training reads whole ones: before it, after it, and
where a selection scores them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from raxalign.lazy import np
from raxalign.train.group import gather_values, gathered, share_state
from raxalign.train.objective import Objective, Step
from raxalign.train.runtime import Runtime


class _Block(nn.Module):
    """A block, which FSDP makes whole around each call of this module. The block itself stays as it
    is, with hooks and all; only its weights are replaced.
    """

    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.block, self.compute = block, block.forward

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the block's own forward pass returns."""
        return self.compute(*args, **kwargs)


class _Whole(nn.Module):
    """All that a training reads: FSDP makes what is in no block whole around each call."""

    def __init__(self, trees: Iterable[nn.Module], blocks: Iterable[_Block]) -> None:
        super().__init__()
        self.blocks, self.trees = nn.ModuleList(blocks), nn.ModuleList(trees)

    def forward(self, compute: Callable[[], torch.Tensor]) -> torch.Tensor:
        """Return what a function returns."""
        return compute()


@dataclass(frozen=True)
class _Place:
    """Where a parameter is, the `whole` one and its `shard`. One that several modules share, or an
    encoder and its frozen twin, has several places.
    """

    module: nn.Module
    name: str
    whole: nn.Parameter
    shard: Any = None


class Sharded:
    """The module of an objective, and encoders that are read beside it, in parts: the parameters of
    these are this worker's parts from now on. `blocks` is what a backward pass can run again.
    """

    def __init__(self, objective: Objective, runtime: Runtime) -> None:
        """Divide the weights that the first worker has. Every worker calls it, for an objective
        that `shards`.
        """
        self._objective, own = objective, set(objective.module.modules())
        encoders = objective.encoders()
        beside = [encoder.model for encoder in encoders if encoder.model not in own]
        trees = [objective.module, *beside]
        share_state([*objective.module.parameters(), *objective.module.buffers()])
        places = _places(trees)
        parts = dict.fromkeys(block for encoder in encoders for block in encoder.blocks())
        self._parts = {block: _Block(block) for block in parts}
        self.blocks: Sequence[nn.Module] = tuple(self._parts.values())
        self._whole = _Whole(trees, self._parts.values())
        mesh = init_device_mesh(torch.device(runtime.device).type, (runtime.world_size,))
        inside: set[nn.Parameter] = set()
        for part in (*self._parts.values(), self._whole):
            made = fully_shard(part, mesh=mesh, ignored_params=inside)
            made.set_gradient_divide_factor(1.0)  # losses are shares of a sum, not means
            made.set_force_sum_reduction_for_comms(enable=True)
            inside |= set(part.parameters())
        shards: dict[nn.Parameter, Any] = {}
        for at in places:  # a twin has the same part of what it shares
            shards.setdefault(at.whole, getattr(at.module, at.name))
        self._places = [replace(at, shard=shards[at.whole]) for at in places]
        self._put_shards()

    def run(self, compute: Callable[[], torch.Tensor]) -> torch.Tensor:
        """Return a loss. What it reads of the weights is whole meanwhile, and for its backward
        pass. Every worker calls it, and then the backward pass, equally often.
        """
        before = torch.is_autocast_cache_enabled()
        torch.set_autocast_cache_enabled(False)  # it would keep all blocks in bfloat16, whole
        try:
            loss: torch.Tensor = self._whole(compute)
        finally:
            torch.set_autocast_cache_enabled(before)
        return loss

    def passes(self, step: Step) -> list[tuple[Step, np.ndarray, bool]]:
        """Return the micro-batches of this worker, each with its step and with whether it counts.
        All workers have the same number of them: rows that another worker counts stand in for those
        that this one lacks. The step has begun.
        """
        reads = self._objective.reads
        found = [(step, own, True) for own in step.micro_batches() if reads(step, own)]
        lacking = max(gather_values(len(found), step.world_size)) - len(found)
        if not lacking:
            return found
        rows = (np.array([place]) for place in range(len(step.rows)))
        stand_in = next(row for row in rows if reads(step, row))
        return found + [(replace(step, prepared=None), stand_in, False)] * lacking

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Let the block read whole weights; what it changes of them is lost. Every worker enters
        it.
        """
        self.restore()
        try:
            yield
        finally:
            self._put_shards()

    def restore(self) -> list[nn.Parameter]:
        """Put the whole weights back, on every worker; return the trained ones, in their order."""
        for block in self._parts:
            del block.forward
        for at in self._places:
            if at.whole.shape != at.shard.shape:
                at.whole.data = gathered(at.shard.detach())
            setattr(at.module, at.name, at.whole)
        return [p for p in self._objective.module.parameters() if p.requires_grad]

    def _put_shards(self) -> None:
        """Put the parts in place of the whole weights, and free the memory of these."""
        for at in self._places:
            setattr(at.module, at.name, at.shard)
            at.whole.data = at.whole.data.new_empty(0)
        for block, part in self._parts.items():
            block.forward = part.__call__


def _places(trees: Sequence[nn.Module]) -> list[_Place]:
    """Return the places of all parameters. Those that a tree has from another one before it, which
    nothing trains, become parameters of its own meanwhile: FSDP divides each of them once.
    """
    places, before = list[_Place](), set[nn.Parameter]()
    for tree in trees:
        own: dict[nn.Parameter, nn.Parameter] = {}
        for module in tree.modules():
            for name, whole in [*module.named_parameters(recurse=False, remove_duplicate=False)]:
                places.append(_Place(module, name, whole))
                if whole in before:
                    alias = nn.Parameter(whole.data, requires_grad=False)
                    setattr(module, name, own.setdefault(whole, alias))
        before |= {at.whole for at in places}
    return places
