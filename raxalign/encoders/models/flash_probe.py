"""Whether an encoder computes the same by flash kernels as under a mask: a small forward and
backward pass in its precision, compared with float32.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from raxalign import lazy
from raxalign.encoders.models.flash import NAME, implementation, install
from raxalign.encoders.models.packing_probe import LOCAL, Sample, at_rest, keeps_positions

if TYPE_CHECKING:
    import torch

    from raxalign.encoders.models.transformer import TransformerEncoder
else:
    torch = lazy.load("torch")

_MASKED = "sdpa"
_LENGTHS = (5, 8)
_BEYOND = 9  # the pieces of the longest sentence that a window of attention leaves out
_NOISE = 3  # how many times the rounding of a padded batch is rounding, not a difference
_SLACK = 1e-4  # of the norm


def probe_runs(encoder: TransformerEncoder) -> bool:
    """Whether sentences in one row that attend by runs have states, at all layers, and gradients as
    near to those in float32 as a padded batch in the precision of the encoder has. Where this
    holds, the encoder attends so from now on.

    A difference or an error is False, and a warning names it. Neither random state nor the model's
    mode is changed.
    """
    if not keeps_positions(encoder):
        return False
    before, problem = implementation(encoder.model), ""
    with at_rest(encoder), torch.enable_grad():
        try:
            if not _as_near(encoder):
                problem = "its states are not those that it has under a mask"
        except Exception as error:  # noqa: BLE001 (whatever stops it, a mask does without)
            problem = str(error).partition("\n")[0] or type(error).__name__
    if problem:
        encoder.model.set_attn_implementation(before)
        warnings.warn(
            "flash attention is not used for packed rows, which is slower:"
            f" {type(encoder.model).__name__}: {problem}",
            stacklevel=2,
        )
    return not problem


def _as_near(encoder: TransformerEncoder) -> bool:
    """Compare both ways; afterwards the encoder attends by runs."""
    sample, precision = Sample.of(encoder, _lengths(encoder)), encoder.precision
    own = implementation(encoder.model)
    encoder.model.set_attn_implementation(_MASKED)
    with _learning(encoder) as weight:
        encoder.precision = "fp32"
        exact = _found(encoder, sample.apart(encoder), weight)
        encoder.precision = precision
        rounded = _found(encoder, sample.apart(encoder), weight)
        if own not in (_MASKED, NAME):
            encoder.model.set_attn_implementation(own)
        install(encoder.model)
        with encoder.arithmetic():
            states = sample.together(encoder, by_runs=True)
        found = _found(encoder, states, weight)
    return all(map(_near, found, rounded, exact))


def _lengths(encoder: TransformerEncoder) -> tuple[int, ...]:
    """The lengths of the sentences; one of them is longer than the widest window of attention."""
    found = [getattr(encoder.model.config, name, None) for name in LOCAL]
    windows = [window for window in found if isinstance(window, int)]
    longest = min(max(windows, default=0) + _BEYOND, encoder.max_positions)
    return (*_LENGTHS, longest)


@contextmanager
def _learning(encoder: TransformerEncoder) -> Iterator[Any]:
    """A weight of the first block, which learns meanwhile; every block's attention is above it."""
    from raxalign.encoders.models.blocks import find_blocks

    weight = next(find_blocks(encoder.model.base_model).parts[0].parameters())
    before = weight.requires_grad
    weight.requires_grad_(True)
    try:
        yield weight
    finally:
        weight.requires_grad_(before)


def _found(
    encoder: TransformerEncoder, states: list[torch.Tensor], weight: torch.Tensor
) -> list[torch.Tensor]:
    """The states (F, H) of all layers, and the gradient of a weight by those of the last one."""
    widened = [encoder.widened(state) for state in states]
    generator = torch.Generator().manual_seed(0)
    direction_FH = torch.randn(widened[-1].shape, generator=generator).to(widened[-1])
    (gradient,) = torch.autograd.grad((widened[-1] * direction_FH).sum(), weight)
    return [*(state.detach() for state in widened), gradient]


def _near(found: torch.Tensor, rounded: torch.Tensor, exact: torch.Tensor) -> bool:
    """Whether what was found differs from the exact values only as much as rounding does."""
    rounding = _NOISE * (rounded - exact).norm() + _SLACK * exact.norm()
    return bool((found - exact).norm() <= rounding)
