"""Losses with negatives from the whole batch, exact in micro-batches (Gao et al. 2021)."""

from __future__ import annotations

from abc import abstractmethod

from raxalign.arrays import offsets_of, ranges
from raxalign.lazy import np, torch
from raxalign.train.devices import on_device
from raxalign.train.group import add_up
from raxalign.train.objective import Objective, Step


class WholeBatch(Objective):
    """A loss over the vectors of all items of the global batch at once; an item is whatever rows
    have some of (a sentence pair, a word pair).

    On one worker with one micro-batch it is a plain forward. Otherwise `begin` computes all vectors
    without gradients (each worker its share, summed into one buffer that all see), then the loss
    and its gradient in the vectors; `loss` runs a micro-batch again with gradients, and returns a
    stand-in whose gradient is the chain rule's, and whose value is the whole loss times the
    micro-batch's share of the rows. Dropout is the same in both passes. After memory ran out on one
    of several workers, that worker keeps the vectors that it had exchanged (the others do not ask
    again), so that for this one step its dropout differs between the passes.
    """

    shape: tuple[int, ...]
    """The shape of an item's vectors."""

    _begun: tuple[int, torch.Tensor] | None = None
    _offsets: np.ndarray
    _value: torch.Tensor
    _gradient: torch.Tensor | None = None

    @abstractmethod
    def counts(self, rows: np.ndarray) -> np.ndarray:
        """Return how many items each of some rows has."""

    @abstractmethod
    def vectors(self, rows: np.ndarray) -> torch.Tensor:
        """Return the vectors (items, *shape) of some rows, in their order, with gradient."""

    @abstractmethod
    def batch_loss(self, rows: np.ndarray, vectors: torch.Tensor) -> torch.Tensor:
        """Return the loss of a global batch from all vectors; it has no parameters of its own."""

    def extra(self) -> torch.Tensor | None:
        """Return a term of the loss that no row has a part in; it is counted once."""
        return None

    def begin(self, step: Step) -> None:
        """The vectors of the whole batch and its gradient, where one forward does not give it."""
        self._gradient = None
        if _is_direct(step):
            return
        counts_N = self.counts(step.rows)
        self._offsets = offsets_of(counts_N)
        if self._begun is None or self._begun[0] != step.number or step.world_size == 1:
            self._begun = (step.number, self._gathered(step))
        vectors = self._begun[1].clone().requires_grad_()
        with torch.enable_grad():
            value = self.batch_loss(step.rows, vectors)
        (self._gradient,) = torch.autograd.grad(value, vectors)
        self._value = value.detach()

    def loss(self, step: Step, positions: np.ndarray) -> torch.Tensor:
        """Return the contribution of some rows of the global batch."""
        if _is_direct(step):
            loss = self.batch_loss(step.rows, self.vectors(step.rows[positions]))
        else:
            assert self._gradient is not None, "begin comes first"
            _reseed(step, positions)
            vectors = self.vectors(step.rows[positions])
            stand_in = (vectors * self._gradient[self._items(positions, vectors.device)]).sum()
            loss = stand_in - stand_in.detach() + self._value * (len(positions) / len(step.rows))
        extra = self.extra() if positions[0] == 0 else None
        return loss if extra is None else loss + extra

    def end(self, step: Step) -> None:  # noqa: ARG002
        """Forget the batch."""
        self._begun = self._gradient = None

    def _gathered(self, step: Step) -> torch.Tensor:
        """The vectors of all items of the global batch, without gradient, on every worker."""
        parameter = next(self.module.parameters())
        vectors = torch.zeros(
            int(self._offsets[-1]), *self.shape, dtype=parameter.dtype, device=parameter.device
        )
        with torch.no_grad():
            for positions in step.micro_batches():
                _reseed(step, positions)
                vectors[self._items(positions, vectors.device)] = self.vectors(step.rows[positions])
            if step.world_size > 1 and step.n_shares > 1:
                add_up(vectors)
        return vectors

    def _items(self, positions: np.ndarray, device: torch.device) -> torch.Tensor:
        """The places of the items of some rows of the batch."""
        return on_device(ranges(self._offsets, positions)[0], device)


def sharing(*types: torch.Tensor) -> torch.Tensor:
    """Return which of P pairs share a type (P, P), given the type numbers (P,) of one side or of
    several: either of them is enough.
    """
    shared_PP = types[0][:, None] == types[0][None, :]
    for types_P in types[1:]:
        shared_PP = shared_PP | (types_P[:, None] == types_P[None, :])
    return shared_PP


def _is_direct(step: Step) -> bool:
    """Whether one forward with gradients reads the whole batch. It does not depend on the workers,
    since dropout draws by other seeds then.
    """
    return step.n_shares == 1 and len(step.rows) <= step.micro


def _reseed(step: Step, positions: np.ndarray) -> None:
    """The same dropout for the same micro-batch in both passes."""
    place = int(positions[0])
    step.seed_dropout(step.share_of(positions), place)
