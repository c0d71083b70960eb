"""What alignment adds to an encoder beside its weights: transforms of languages and layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from raxalign.lazy import torch

_PARTS = ("center", "weight", "shift")


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

    center: torch.Tensor | None = None
    weight: torch.Tensor | None = None
    shift: torch.Tensor | None = None

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Maps vectors (..., hidden)."""
        x = x if self.center is None else x - self.center
        x = x if self.weight is None else x @ self.weight
        return x if self.shift is None else x + self.shift

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

        return Affine(*(own(getattr(self, name)) for name in _PARTS))


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

    def to(self, device: str) -> Transform:
        """The same transform with its tensors on a device."""
        return replace(self, steps=tuple(step.to(device) for step in self.steps))


def pack(transforms: tuple[Transform, ...]) -> tuple[list[dict[str, Any]], dict[str, torch.Tensor]]:
    """(one JSON record per transform, tensors by name); `unpack` is the inverse."""
    records: list[dict[str, Any]] = []
    tensors: dict[str, torch.Tensor] = {}
    for i, transform in enumerate(transforms):
        steps: list[dict[str, Any]] = []
        for k, step in enumerate(transform.steps):
            steps.append({"step": "unit" if isinstance(step, Unit) else "affine"})
            for part in _PARTS:
                value = getattr(step, part, None)
                if value is not None:
                    steps[-1][part] = name = f"{i}.{k}.{part}"
                    tensors[name] = value.detach().to("cpu", torch.float32).contiguous().clone()
        plain = ("lang", "layer", "sort", "toward")
        records.append({**{name: getattr(transform, name) for name in plain}, "steps": steps})
    return records, tensors


def unpack(
    records: list[dict[str, Any]], tensors: Mapping[str, torch.Tensor]
) -> tuple[Transform, ...]:
    """The transforms of `pack`."""

    def step(record: dict[str, Any]) -> Unit | Affine:
        if record["step"] == "unit":
            return Unit()
        return Affine(*(tensors[record[part]] if part in record else None for part in _PARTS))

    return tuple(
        Transform(r["lang"], r["layer"], r["sort"], tuple(map(step, r["steps"])), r["toward"])
        for r in records
    )
