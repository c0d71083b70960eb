"""What attention by the package flash-attn requires of a grid and of its machines, as far as it is
known before an encoder is opened.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from raxalign.config.run import Precision

PACKAGE = "flash_attention_2"
"""The attention of the package flash-attn by its name in transformers."""
REMEDY = "or leave `attention` at `auto`, which uses PyTorch's own kernels"
_LIBRARY = "flash_attn"
_CARD = Path("/dev/nvidia0")


def precision_problem(precision: Precision) -> str | None:
    """Return why flash-attn cannot compute in a precision; None where it can."""
    if precision == "bf16":
        return None
    return (
        f"`attention: {PACKAGE}` computes in bfloat16 alone, but run.precision is {precision}. Set"
        f" run.precision to bf16, {REMEDY}"
    )


def machine_problem() -> str | None:
    """Return what this machine lacks for flash-attn, by its files; None where it lacks nothing."""
    lacks = [] if _CARD.exists() else ["an NVIDIA card"]
    lacks += [] if find_spec(_LIBRARY) else ["the package flash-attn (`pip install flash-attn`)"]
    if not lacks:
        return None
    return (
        f"`attention: {PACKAGE}`: this machine does not have {' and '.join(lacks)}. The machines"
        f" that run the grid's workers require both; make sure that they have them, {REMEDY}"
    )
