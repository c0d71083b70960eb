"""What alignment adds to an encoder beside its weights: transforms of languages and layers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from raxalign.errors import RaxalignError
from raxalign.lazy import torch


@dataclass(frozen=True)
class Unit:
    """Each vector divided by its Euclidean length; zero stays zero."""

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Divides vectors (..., hidden) by their lengths."""
        return torch.nn.functional.normalize(x, dim=-1)

    def to(self, _: str) -> Unit:
        """Itself: it holds no tensor."""
        return self


@dataclass(frozen=True, eq=False)
class Affine:
    """x -> (x - center) @ weight + shift, on rows; a part that is None is left out. center (H,),
    weight (H, H), shift (H,).
    """

    PARTS: ClassVar = ("center", "weight", "shift")

    center: torch.Tensor | None = None
    weight: torch.Tensor | None = None
    shift: torch.Tensor | None = None

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Maps vectors (..., hidden)."""
        x = x if self.center is None else x - self.center
        x = x if self.weight is None else x @ self.weight
        return x if self.shift is None else x + self.shift

    def inverse(self) -> Affine:
        """The map back; by the pseudo-inverse where the weight has no inverse: what it sends to
        zero does not come back.
        """
        if self.weight is None:
            return Affine(self.shift, None, self.center)
        # its zeros are only as near to zero as float32 rounds them
        rounding = max(self.weight.shape) * torch.finfo(torch.float32).eps
        weight = torch.linalg.pinv(self.weight.double(), rtol=rounding).float()
        return Affine(self.shift, weight, self.center)

    def to(self, device: str) -> Affine:
        """The same map with float32 tensors of its own on a device, outside any gradient.

        They are laid out row by row: the product with a transposed view, as decompositions return,
        is not bit-equal to that with what is read back from a file.
        """

        def own(part: torch.Tensor | None) -> torch.Tensor | None:
            if part is None:
                return None
            moved = part.detach().to(device, torch.float32)
            return moved.clone(memory_format=torch.contiguous_format)

        return Affine(*(own(getattr(self, name)) for name in Affine.PARTS))


@dataclass(frozen=True)
class Transform:
    """Steps applied to the vectors of one language at one layer.

    ``readout``: applied to what is read from the layer; nothing above it changes. ``inside``:
    replaces the stream after the block and flows on. `toward` marks a transform of the pivot's
    vectors that holds for one other language only (direction to-other).
    """

    lang: str
    layer: int
    sort: Literal["readout", "inside"] = "readout"
    steps: tuple[Unit | Affine, ...] = ()
    toward: str | None = None

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """The transformed vectors, (..., H)."""
        for step in self.steps:
            x = step(x)
        return x

    def inverse(self, lang: str) -> Transform:
        """The transform back, for the vectors of another language. Raises `RaxalignError` where a
        step has none.
        """
        if not all(isinstance(step, Affine) for step in self.steps):
            told = (
                f"the transform of {self.lang} at layer {self.layer} scales each vector to length 1"
            )
            raise RaxalignError(f"{told}, which nothing undoes: take {self.lang} out of `train_on`")
        steps = tuple(step.inverse() for step in self.steps[::-1] if isinstance(step, Affine))
        return replace(self, lang=lang, steps=steps)

    def to(self, device: str) -> Transform:
        """The same transform with its tensors on a device."""
        return replace(self, steps=tuple(step.to(device) for step in self.steps))
