"""Objectives whose work on the host is apart from that on the device, so that a thread can do the
former for the next step while the device computes.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Generic, TypeVar

from raxalign.train.objective import Objective, Prepared, Step

if TYPE_CHECKING:
    import numpy as np
    import torch

BatchT = TypeVar("BatchT")
PartT = TypeVar("PartT")


class HostSided(Objective, Generic[BatchT, PartT]):
    """An objective in two halves. `host_batch` and `host_part` make arrays on the host: pieces,
    their layout, indices, weights. `device_loss` computes the loss of them.

    The first half depends on the step alone. It reads nothing that training changes, changes
    nothing, draws from generators of its own (`train.chance`) and gives the device no work, so
    that its result is the same in whichever thread and before whichever step it runs.
    """

    host: BatchT
    """What `host_batch` returned for the step that has begun."""

    @abstractmethod
    def host_batch(self, step: Step) -> BatchT:
        """Return what the micro-batches of a step share: draws, weights, normalisers."""

    @abstractmethod
    def host_part(self, step: Step, batch: BatchT, positions: np.ndarray) -> PartT:
        """Return what the device is given for one micro-batch.

        Args:
            step: The step.
            batch: What `host_batch` returned for it.
            positions: The rows of the micro-batch, as positions in ``step.rows``.
        """

    @abstractmethod
    def device_loss(self, step: Step, part: PartT) -> torch.Tensor:
        """Return the contribution of a micro-batch, as `Objective.loss` does."""

    def prepare(self, step: Step) -> Prepared | None:
        """Return the first half of a step, for all micro-batches of this worker."""
        batch = self.host_batch(step)
        parts = {
            int(positions[0]): self.host_part(step, batch, positions)
            for positions in step.micro_batches()
        }
        return Prepared(batch, parts)

    def begin(self, step: Step) -> None:
        """Take what was prepared for the global batch, or make it now."""
        self.host = self.host_batch(step) if step.prepared is None else step.prepared.batch

    def loss(self, step: Step, positions: np.ndarray) -> torch.Tensor:
        """Return the contribution of a micro-batch, from what was prepared for it or is made
        now.
        """
        if step.prepared is None:
            return self.device_loss(step, self.host_part(step, self.host, positions))
        return self.device_loss(step, step.prepared.parts[int(positions[0])])
