"""Low-rank adapters (LoRA; Hu et al. 2022): the linear layers of an encoder's blocks are trained by
the product of two narrow matrices, which is then added to their weights.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, Field

from raxalign.config.params import BaseParams
from raxalign.errors import RaxalignError
from raxalign.extras import require
from raxalign.lazy import torch

if TYPE_CHECKING:
    from raxalign.encoders.models.transformer import TransformerEncoder

AUTO = "auto"
_ADAPTER = "default"
_ATTENTION = re.compile(r"(^|\.)(self_?)?att(entio)?n(\.|$)")


def _listed(targets: str) -> str:
    """The names in one form. Raises `ValueError` where there is none, or one cannot be a name."""
    names = sorted({name.strip() for name in targets.split(",")})
    if not all(re.fullmatch(r"\w+(\.\w+)*", name, re.ASCII) for name in names):
        raise ValueError(
            f"targets {targets!r}: write `{AUTO}`, or names of linear layers with commas between"
            " them, such as query,value"
        )
    if len(names) > 1 and AUTO in names:
        raise ValueError(f"targets {targets!r}: `{AUTO}` stands alone")
    return ",".join(names)


class Lora(BaseParams):
    """The adapters of a training. What an adapter adds to a weight is alpha / rank * B A, where B
    (out, rank) begins at zero and A (rank, in) at random.
    """

    rank: int = Field(8, ge=1, description="Width of the adapters, r in the paper.")
    alpha: float = Field(
        16.0,
        gt=0,
        allow_inf_nan=False,
        description="What adapters add counts `alpha` / `rank`-fold.",
    )
    targets: Annotated[str, AfterValidator(_listed)] = Field(
        AUTO,
        description=(
            "Linear layers of the blocks that get an adapter, by the ends of their names, with"
            " commas between them (`query,value`); `auto` stands for those of the attention that"
            " PEFT has for the architecture, or else for all linear layers of the attention."
        ),
    )
    dropout: float = Field(
        0.0, ge=0, lt=1, description="Share of an adapter's inputs that training drops."
    )


AdapterOption = Annotated[
    Literal["none"] | Lora,
    Field(
        description=(
            "Low-rank adapters (LoRA) that are trained in place of the encoder's own weights and"
            " then merged into them; a mapping, `{}` for its defaults, or `none`."
        )
    ),
]


@contextmanager
def adapted(encoder: TransformerEncoder, lora: AdapterOption, seed: int) -> Iterator[None]:
    """Train adapters alone until the block ends, then merge them into the encoder's weights. `seed`
    is that of the matrices that begin at random.

    All other weights of the model lose their gradients meanwhile, embeddings and the masked-LM head
    included. After an exception the adapters are removed and the weights are as they were. Raises
    `DependencyError` without PEFT, and `RaxalignError` as `target_layers`.
    """
    if lora == "none":
        yield
        return
    require("peft", "lora")
    from peft import LoraConfig
    from peft.tuners.lora import LoraModel

    config = LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        target_modules=target_layers(encoder.model, lora.targets),
        lora_dropout=lora.dropout,
        bias="none",
    )
    trained = [parameter for parameter in encoder.model.parameters() if parameter.requires_grad]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        tuner = LoraModel(encoder.model, config, _ADAPTER)
    try:
        yield
    except BaseException:
        tuner.unload()
        raise
    else:
        tuner.merge_and_unload()
    finally:
        for parameter in trained:
            parameter.requires_grad_(requires_grad=True)


def target_layers(model: Any, targets: str) -> list[str]:
    """Return the whole names of the linear layers that get an adapter, all within the blocks.

    Raises `RaxalignError` where a name of `targets` is that of no linear layer.
    """
    from peft.utils.constants import TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING as KNOWN

    from raxalign.encoders.models.blocks import find_blocks

    modules = (module for part in find_blocks(model.base_model).parts for module in part.modules())
    inside = {id(module) for module in modules if isinstance(module, torch.nn.Linear)}
    layers = [name for name, module in model.named_modules() if id(module) in inside]
    there = ", ".join(sorted({layer.rpartition(".")[2] for layer in layers})) or "none"
    if targets == AUTO:
        known = KNOWN.get(model.config.model_type, [])
        found = [] if isinstance(known, str) else _ending(layers, known)
        found = found or [name for name in layers if _ATTENTION.search(name.rpartition(".")[0])]
        if found:
            return found
        raise RaxalignError(
            f"lora: {type(model).__name__} has no linear layers that are known as its attention's."
            f" Name some in `targets`: {there}"
        )
    names = targets.split(",")
    missing = [name for name in names if not _ending(layers, [name])]
    if missing:
        raise RaxalignError(
            f"lora: targets {', '.join(missing)}: {type(model).__name__} has no such linear layer"
            f" in its blocks; it has {there}"
        )
    return _ending(layers, names)


def _ending(layers: Sequence[str], names: Collection[str]) -> list[str]:
    """The layers whose names are, or end in, one of some names."""
    return [a for a in layers if any(a == name or a.endswith(f".{name}") for name in names)]


def weight_changes(model: Any) -> list[torch.Tensor]:
    """Return what a model's adapters add to each of their weights, (out, in) with gradient."""
    return [
        module.get_delta_weight(_ADAPTER)
        for module in model.modules()
        if hasattr(module, "get_delta_weight")
    ]
