"""Which weights of an encoder a training changes: parts can be left as they are, blocks and
embeddings, or low-rank adapters be trained in place of all (LoRA; Hu et al. 2022): linear layers of
the blocks by the product of two narrow matrices, which is then added to their weights.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field

from raxalign.encoders.models.blocks import Blocks
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.encoders.models.vectors import parse_layers
from raxalign.errors import RaxalignError
from raxalign.extras import require
from raxalign.lazy import torch
from raxalign.options.params import BaseParams, Removed

_BLOCKS = re.compile(r"none|lower|upper|last|[1-9]\d*(-[1-9]\d*)?")


def _named(blocks: str) -> str:
    if not _BLOCKS.fullmatch(blocks):
        forms = "lower, upper, none, last, a number from 1 on, or a range such as 1-6"
        raise ValueError(f"{blocks!r} names no blocks: write {forms}")
    return blocks


class FrozenParts(BaseParams):
    """The parts of an encoder that are not trained. Blocks are counted from 1; the middle block of
    an odd number belongs to the upper half.
    """

    blocks: Annotated[str, AfterValidator(_named)]
    """Blocks that are not trained: `lower` or `upper` (a half), `last`, one number, a range such as
    `1-6`, or `none`.
    """
    embeddings: bool = False
    """Whether all that lies outside the blocks is not trained either."""


def _in_a_word(freeze: str | FrozenParts) -> str | FrozenParts:
    """A mapping that freezes what a word freezes, as that word, so that both have one identity."""
    if not isinstance(freeze, FrozenParts):
        return freeze
    words = {("none", False): "none", ("lower", True): "lower", ("upper", False): "upper"}
    return words.get((freeze.blocks, freeze.embeddings), freeze)


Freeze = Annotated[
    Literal["none", "lower", "upper"] | FrozenParts,
    AfterValidator(_in_a_word),
    Field(
        description=(
            "Parts that are not trained: the lower half of the blocks and the embeddings (`lower`),"
            " the upper half of the blocks (`upper`), what a mapping names, or `none`."
        )
    ),
]


def frozen_parts(freeze: Freeze, n_blocks: int) -> tuple[frozenset[int], bool]:
    """The held blocks, counted from 1, and whether the embeddings are held."""
    parts = freeze
    if not isinstance(parts, FrozenParts):
        parts = FrozenParts(blocks=parts, embeddings=parts == "lower")
    half = n_blocks // 2
    halves = {"none": range(0), "lower": range(1, half + 1), "upper": range(half + 1, n_blocks + 1)}
    if parts.blocks in halves:
        return frozenset(halves[parts.blocks]), parts.embeddings
    try:
        return frozenset(parse_layers(parts.blocks, n_blocks)), parts.embeddings
    except RaxalignError:
        raise RaxalignError(
            f"freeze.blocks: {parts.blocks}: this encoder has the blocks 1 to {n_blocks}"
        ) from None


def lowest_trained(freeze: Freeze, n_blocks: int, *, embeddings_held: bool = False) -> int:
    """The lowest layer that training can change: that of the lowest block that is not held, or 0
    where the embeddings are trained (not with `embeddings_held`, whatever `freeze` names).
    """
    held, embeddings = frozen_parts(freeze, n_blocks)
    if not (embeddings or embeddings_held):
        return 0
    return next(block for block in range(1, n_blocks + 2) if block not in held)


@contextmanager
def frozen(encoder: TransformerEncoder, freeze: Freeze) -> Iterator[None]:
    """Hold what `freeze` names as it is until the block ends (AlignFreeze; Bakos et al. 2025)."""
    if freeze == "none":
        yield
        return
    blocks = Blocks.of(encoder.model.base_model).parts
    if len(blocks) != encoder.n_layers:
        raise RaxalignError(
            f"freeze: the {encoder.n_layers} blocks of {type(encoder.model).__name__} share their"
            " weights, so that none can be frozen alone; set `freeze: none`"
        )
    numbers, embeddings = frozen_parts(freeze, len(blocks))
    block_of = {
        id(p): number for number, block in enumerate(blocks, start=1) for p in block.parameters()
    }
    base = [p for p in encoder.model.base_model.parameters() if p.requires_grad]
    held = [p for p in base if (block_of[id(p)] in numbers if id(p) in block_of else embeddings)]
    for parameter in held:
        parameter.requires_grad_(requires_grad=False)
    try:
        yield
    finally:
        for parameter in held:
            parameter.requires_grad_(requires_grad=True)


HELD = (
    "run.base_precision: bf16 holds weights that are frozen in bfloat16, and here all are trained:"
    " set `lora`, or leave run.base_precision at fp32"
)
_ADAPTER = "default"
_ATTENTION = re.compile(r"(^|\.)(self_?)?att(entio)?n(\.|$)")


class Lora(BaseParams):
    """The adapters of a training, at the linear layers of the attention that PEFT has for the
    architecture, or else at all of them. What an adapter adds to a weight is alpha / rank * B A,
    where B (out, rank) begins at zero and A (rank, in) at random.
    """

    rank: int = Field(8, ge=1)
    """Width of the adapters, r in the paper."""
    alpha: float = Field(16.0, gt=0, allow_inf_nan=False)
    """Scale `alpha` / `rank` of what adapters add."""
    removed: ClassVar = {
        "targets": Removed("leave it out: the attention has the adapters", "auto"),
        "dropout": Removed("leave it out: adapters have no dropout of their own", 0.0),
    }


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
    included. After an exception the adapters are removed and the weights are as they were. The
    weights that adapters were merged into are float32 afterwards, also in a base that is held in
    bfloat16. Raises `DependencyError` without PEFT, and `RaxalignError` as `target_layers`, and
    for such a base without adapters.
    """
    if lora == "none":
        if encoder.base_precision != "fp32":
            raise RaxalignError(HELD)
        yield
        return
    require("peft", "lora")
    from peft import LoraConfig
    from peft.tuners.lora import LoraModel

    sizes: dict[str, Any] = {"r": lora.rank, "lora_alpha": lora.alpha}
    layers = target_layers(encoder.model)
    config = LoraConfig(**sizes, target_modules=layers, bias="none")
    trained = [parameter for parameter in encoder.model.parameters() if parameter.requires_grad]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        tuner = LoraModel(encoder.model, config, _ADAPTER)
    # PEFT makes them in the type of the weights
    _widen(parameter for parameter in encoder.model.parameters() if parameter.requires_grad)
    try:
        yield
    except BaseException:
        tuner.unload()
        raise
    else:
        _widen(part.weight for part in _adapted_parts(encoder.model))  # a sum would be rounded
        tuner.merge_and_unload()
    finally:
        for parameter in trained:
            parameter.requires_grad_(requires_grad=True)


def _widen(parameters: Iterable[torch.nn.Parameter]) -> None:
    for parameter in parameters:
        parameter.data = parameter.data.float()


def target_layers(model: Any) -> list[str]:
    """Return the whole names of the linear layers of the attention that get an adapter. Raises
    `RaxalignError` where none is known.
    """
    from peft.utils.constants import TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING as KNOWN

    modules = (module for part in Blocks.of(model.base_model).parts for module in part.modules())
    inside = {id(module) for module in modules if isinstance(module, torch.nn.Linear)}
    layers = [name for name, module in model.named_modules() if id(module) in inside]
    known = KNOWN.get(model.config.model_type, [])
    ends = () if isinstance(known, str) else tuple(f".{name}" for name in known)
    found = [name for name in layers if f".{name}".endswith(ends)]
    found = found or [name for name in layers if _ATTENTION.search(name.rpartition(".")[0])]
    if not found:
        raise RaxalignError(
            f"lora: {type(model).__name__} has no linear layers that are known as its attention's;"
            " set `lora: none`"
        )
    return found


def frozen_copy(model: Any, *, rounded: bool = False) -> Any:
    """Return a copy of a model in eval mode, which stays as the model is now. It shares the
    parameters that are not trained, so that it takes memory for the trained ones alone. Of these it
    holds linear layers `rounded` to bfloat16, as autocast to it would round them in each pass.
    """
    held = {id(p): p for p in model.parameters() if not p.requires_grad}
    copied = copy.deepcopy(model, held).eval().requires_grad_(requires_grad=False)
    for part in copied.base_model.modules() if rounded else ():
        if isinstance(part, torch.nn.Linear):
            for name, weight in list(part.named_parameters(recurse=False)):
                if id(weight) not in held:
                    narrow = weight.to(torch.bfloat16)
                    setattr(part, name, torch.nn.Parameter(narrow, requires_grad=False))
    return copied


def weight_changes(model: Any) -> list[torch.Tensor]:
    """Return what a model's adapters add to each of their weights, (out, in) with gradient."""
    return [part.get_delta_weight(_ADAPTER) for part in _adapted_parts(model)]


def _adapted_parts(model: Any) -> list[Any]:
    return [part for part in model.modules() if hasattr(part, "get_delta_weight")]
