"""Attention over packed rows by the places where sentences begin, in the place of a mask.

A mask of all pairs of pieces costs time and memory by the square of a row's width, and no flash
kernel takes one. The kernels that take cumulative lengths compute each sentence alone (Dao 2023,
"FlashAttention-2"). They are PyTorch's own; the CPU has no such kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from raxalign.config.run import Precision
from raxalign.encoders.models.model_inputs import is_decoder
from raxalign.errors import RaxalignError
from raxalign.lazy import np, torch
from raxalign.train.devices import on_device

NAME = "raxalign_packed"  # the attention of this file among those of transformers
_PLAIN = "sdpa"
_AMPERE = (8, 0)  # the first compute capability with these kernels
_UNREAD = ("position_bias", "softcap", "s_aux")  # what changes scores, and the kernels do not take


@dataclass(frozen=True)
class SentenceRuns:
    """Runs of adjacent places, of rows laid end to end, that see each other and nothing else: run n
    is the places ``edges_N[n]`` to ``edges_N[n + 1]``, of which there are at most `longest`.
    """

    edges_N: torch.Tensor
    longest: int

    @classmethod
    def of(cls, sentences_BT: np.ndarray, device: str) -> SentenceRuns:
        """Return the runs of packed rows by the sentence of each piece (-1: padding). No run goes
        from one row to the next; the padding at the end of a row is a run, as under the mask.
        """
        begins_BT = np.ones(sentences_BT.shape, bool)
        begins_BT[:, 1:] = sentences_BT[:, 1:] != sentences_BT[:, :-1]
        begins = np.flatnonzero(begins_BT.reshape(-1))
        edges_N = np.append(begins, sentences_BT.size).astype(np.int32)
        return cls(on_device(edges_N, device), int(np.diff(edges_N).max(initial=0)))


@dataclass(frozen=True)
class Scoring:
    """How scores become weights: the probability of `dropout`, their factor `scale` (None: by the
    head size), and the largest distance of pieces that see each other, `window` (None: any).
    """

    dropout: float = 0.0
    scale: float | None = None
    window: int | None = None


def attend(
    query_FAD: torch.Tensor,
    key_FAD: torch.Tensor,
    value_FAD: torch.Tensor,
    runs: SentenceRuns,
    scoring: Scoring,
) -> torch.Tensor:
    """Return what each place reads from its run (F, A, D), by one kernel on a card: from queries of
    the places of all rows, by heads A, and keys and values of as many heads or of a divisor of
    their number. Gradient flows.
    """
    window = -1 if scoring.window is None else scoring.window
    # The operation under torch.nn.attention.varlen, which has no dropout.
    found: torch.Tensor = torch.ops.aten._flash_attention_forward(
        *(query_FAD, key_FAD, value_FAD, runs.edges_N, runs.edges_N),
        *(runs.longest, runs.longest, scoring.dropout),
        False,  # causal
        False,  # return the mask of dropout
        scale=scoring.scale,
        window_size_left=window,
        window_size_right=window,
    )[0]
    return found


def inputs_of(runs: SentenceRuns) -> dict[str, Any]:
    """The runs by the names that the attention functions of transformers have for them."""
    edges = dict.fromkeys(("cu_seq_lens_q", "cu_seq_lens_k"), runs.edges_N)
    return {**edges, **dict.fromkeys(("max_length_q", "max_length_k"), runs.longest)}


def _attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """An attention function of transformers: `attend` where runs are among the options, else
    PyTorch's attention under the mask. It takes (B, A, T, D) and returns (B, T, A, D).
    """
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    if options.get("cu_seq_lens_q") is None:
        made: tuple[torch.Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, **options
        )
        return made
    if getattr(module, "is_causal", True) or any(options.get(name) is not None for name in _UNREAD):
        raise RaxalignError(f"{type(module).__name__}: its attention has no form by lengths")
    n_rows, _, width, _ = query.shape
    window = options.get("sliding_window")  # it counts the piece itself
    window = None if window is None else window - 1
    scoring = Scoring(options.get("dropout", 0.0), options.get("scaling"), window)
    runs = SentenceRuns(options["cu_seq_lens_q"], options["max_length_q"])
    found = attend(_flat(query), _flat(key), _flat(value), runs, scoring)
    return found.reshape(n_rows, width, *found.shape[1:]), None


def _flat(part_BATD: torch.Tensor) -> torch.Tensor:
    """The places of all rows (F, A, D), in the type of autocast, which no kernel gets by itself."""
    kind = part_BATD.device.type
    # `is_autocast_available`, asked first, would cut a compiled block in PyTorch 2.11 and older.
    rounds = torch.is_autocast_enabled(kind)
    dtype = torch.get_autocast_dtype(kind) if rounds else part_BATD.dtype
    return part_BATD.transpose(1, 2).flatten(0, 1).to(dtype)


def _mask(**options: Any) -> torch.Tensor | None:
    """A mask function of transformers: none where no mask was given, as runs take its place."""
    from transformers.masking_utils import sdpa_mask

    if options.get("attention_mask") is None:
        return None
    mask: torch.Tensor | None = sdpa_mask(**options)
    return mask


def install(model: Any) -> None:
    """Let a model attend by runs where it is given them."""
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface

    AttentionInterface.register(NAME, _attention)
    AttentionMaskInterface.register(NAME, _mask)
    model.set_attn_implementation(NAME)


def implementation(model: Any) -> str | None:
    """The attention of a model by its name in transformers."""
    name: str | None = getattr(model.config, "_attn_implementation", None)
    return name


def has_kernels(model: Any, precision: Precision, device: str) -> bool:
    """Whether a device has kernels for the attention of a model in a precision: those of a card of
    compute capability 8.0 or higher, for bfloat16, where the attention is fused and not causal.
    """
    return (
        torch.device(device).type == "cuda"
        and precision == "bf16"
        and implementation(model) in (_PLAIN, NAME)
        and not is_decoder(model.config)
        and torch.backends.cuda.is_flash_attention_available()
        and torch.backends.cuda.flash_sdp_enabled()  # type: ignore[no-untyped-call]
        and torch.cuda.get_device_capability(device) >= _AMPERE
    )
