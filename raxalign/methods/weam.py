"""A masked word is also predicted from the state of its translation (Yang et al. 2021)."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, final

from pydantic import Field

from raxalign.arrays import offsets_of, ranges
from raxalign.encoders.models.masking import MaskRule, Masks
from raxalign.encoders.models.rows import Rows, Sentences
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.errors import RaxalignError
from raxalign.lazy import np, torch
from raxalign.methods.base import MethodInputs
from raxalign.methods.families import wording
from raxalign.methods.families.rows import Bitexts
from raxalign.methods.families.trained import MaskedLMMethod, TrainedMethod
from raxalign.pairing.build import WordPairs
from raxalign.pairing.links import Links
from raxalign.train.chance import Stream
from raxalign.train.devices import on_device
from raxalign.train.objective import Objective, Step
from raxalign.train.options import Epochs, LearningRate

_CHUNK = 8192  # sentence pairs whose links are looked up at once


@final
class Weam(TrainedMethod[Bitexts]):
    """Train the encoder to predict the masked words of a sentence and its translation, read
    together, twice: from their own states, and from the states of the words that they are linked
    with.

    Formula: L_mp + λ L_cp over X = [CLS] S [SEP] T [SEP], where S is in the pivot. L_mp = mean over
    masked tokens of -log p(token | h), by the masked-LM head. L_cp = the same over those with a
    link, from h' = A h, by a head δ(W3 (W2 h' + b2) + b3) with the same output embedding. A joins
    linked subword tokens, symmetrically; its rows sum to 1, so that a one-to-one link swaps two
    vectors.

    Data: linked words of all languages together, in random order. A link of words is one of their
    subword tokens, the i-th with the i-th, what is left with the last one. Masked tokens without a
    link have no part in L_cp, nor in its mean; a linked subword token may itself be masked.

    W2 starts as the identity, b2 as zero, and W3, b3 (with the norm) as a copy of the masked-LM
    head's, so the encoder has to have one of a known shape (BERT, RoBERTa, XLM-R, DistilBERT,
    ModernBERT). This second head is dropped after training. Positions run on through both sentences
    and there are no language embeddings. `profile: paper` sums over masked tokens, as printed;
    `sane` takes means.

    Reference: Yang et al. (2021, Eq. 1-11).

    Relations: `tlm` reads the same sentence pairs without links; `finetune` compares linked words
    and needs no masked-LM head.

    Example:
        methods:
          none: {}
          weam: {profile: paper, lambda: [0.1, 1, 10], epochs: 2}
    """

    VERSION = 1
    name = "weam"
    reads = "links"
    predicts = True
    reference = "Yang et al. 2021"
    papers = ("weam2021",)
    profiles: ClassVar = {"paper": {"reduction": "sum"}, "sane": {"reduction": "mean"}}

    class Params(MaskedLMMethod.Params):
        """Training is by AdamW."""

        profile: Literal["paper", "sane"] = Field("sane", description=wording.PROFILE)
        reg_weight: float = Field(1.0, alias="lambda", ge=0, allow_inf_nan=False)
        """Weight of L_cp, λ in the formula."""
        learning_rate: LearningRate[float] = 5e-5
        batch_size: int = Field(32, ge=1, description=wording.BATCH_OF_PAIRS)
        epochs: Epochs = 2
        mask_share: float = Field(0.3, gt=0, lt=1)
        reduction: Literal["sum", "mean"] | None = None
        """Whether L_mp and L_cp are sums or means over the masked tokens of a batch."""
        min_pieces: int = Field(1, ge=1, description=wording.MIN_PIECES_OF_PAIR)
        max_pieces: int = Field(0, ge=0, description=wording.MAX_PIECES_OF_PAIR)
        max_length: int = Field(128, ge=8, description=wording.PAIR_LENGTH)

    params: Params

    def read(
        self, encoder: TransformerEncoder, inputs: MethodInputs, folders: Mapping[str, Path]
    ) -> Bitexts:
        """Return the sentence pairs of all languages, with the links of their pieces."""
        bitexts = self.read_pairs(encoder, folders, inputs.pivot)
        return with_piece_links(bitexts, folders)

    def objective(self, encoder: TransformerEncoder, rows: Bitexts, seed: int) -> WordExchange:  # noqa: ARG002
        """Return the two predictions. Raises `RaxalignError` where the head cannot be copied."""
        return WordExchange(encoder, rows, self.resolved())

    def counts(self, rows: Bitexts) -> dict[str, object]:
        """Return the number of sentence pairs of each language, and of linked pieces."""
        return {**rows.counts, "piece_links": len(rows.links.src)}


def exchange(
    states_FH: torch.Tensor, partners_E: torch.Tensor, owners_E: torch.Tensor, n: int
) -> torch.Tensor:
    """H' = A H with the rows of A summing to 1, at N of the pieces: (N, H), the mean of the states
    of each one's partners.

    Partner e is at row `partners_E[e]` of the states, for the piece `owners_E[e]`. A one-to-one
    link just swaps two vectors, as the paper's A^T H does (Eq. 5); the vector of a piece without a
    partner is zero.
    """
    sums_NH = states_FH.new_zeros(n, states_FH.shape[-1]).index_add(
        0, owners_E, states_FH[partners_E]
    )
    counts_N = owners_E.new_zeros(n).index_add(0, owners_E, torch.ones_like(owners_E)).clamp(min=1)
    return sums_NH / counts_N[:, None].to(sums_NH)


def prediction_loss(
    logits_MV: torch.Tensor,
    targets_M: torch.Tensor,
    cross_logits_NV: torch.Tensor,
    cross_targets_N: torch.Tensor,
    *,
    weight: float,
    cross_weight: float,
) -> torch.Tensor:
    """Return `weight` Σ_m -log p(w_m | context) + cross_weight Σ_n -log p(w_n | translation): with
    1/M and λ/N a mean each, L_mp + λ L_cp (Eq. 9-11).
    """
    multilingual = torch.nn.functional.cross_entropy(logits_MV, targets_M, reduction="sum")
    cross_lingual = torch.nn.functional.cross_entropy(
        cross_logits_NV, cross_targets_N, reduction="sum"
    )
    return weight * multilingual + cross_weight * cross_lingual


def cross_head(transform: torch.nn.Module, hidden: int) -> torch.nn.Module:
    """Return δ(W3 (W2 h + b2) + b3), (N, H) to (N, width of the output embedding): W2 starts as the
    identity, and W3 with its activation and norm as a copy of the masked-LM head's transform.

    The output embedding is the masked-LM head's own, shared; it is not in here.
    """
    exchange = torch.nn.Linear(hidden, hidden)
    torch.nn.init.eye_(exchange.weight)
    torch.nn.init.zeros_(exchange.bias)
    return torch.nn.Sequential(OrderedDict(exchange=exchange, transform=transform))


def split_head(model: Any) -> tuple[torch.nn.Module, torch.nn.Module]:
    """Return a copy of a masked-LM head up to its output embedding, and that embedding itself,
    (..., width) to logits (..., V). Raises `RaxalignError` for heads that are not of a known shape.
    """
    head: Any = getattr(model, "lm_head", None)
    if hasattr(model, "cls") and hasattr(getattr(model.cls, "predictions", None), "transform"):
        parts, decoder = [model.cls.predictions.transform], model.cls.predictions.decoder
    elif hasattr(head, "dense") and hasattr(head, "layer_norm"):
        parts, decoder = [head.dense, torch.nn.GELU(), head.layer_norm], head.decoder
    elif hasattr(model, "vocab_transform"):
        parts = [model.vocab_transform, model.activation, model.vocab_layer_norm]
        decoder = model.vocab_projector
    elif hasattr(model, "head") and hasattr(model, "decoder"):
        parts, decoder = [model.head], model.decoder
    else:
        raise RaxalignError(
            f"weam: {type(model).__name__} has no masked-LM head with a transform that can be"
            " copied (BERT, RoBERTa, XLM-R, DistilBERT and ModernBERT have one). Use an encoder of"
            " these"
        )
    # Trained even where the head that it is copied from is not, and so in float32.
    copied = (
        torch.nn.Sequential(*map(copy.deepcopy, parts)).float().requires_grad_(requires_grad=True)
    )
    return copied, decoder


@dataclass(frozen=True)
class Partners:
    """The exchange matrix A without its zeros: piece p of the flat rows is linked with the places
    ``places[offsets[p]:offsets[p + 1]]`` of its row.

    A is symmetric, and has no links within a sentence.
    """

    offsets: np.ndarray
    places: np.ndarray

    @classmethod
    def of(
        cls, starts_P: np.ndarray, left_P: np.ndarray, right_P: np.ndarray, n_pieces: int
    ) -> Partners:
        """From links of places in rows that begin at `starts_P`, each link once."""
        here = np.concatenate([starts_P + left_P, starts_P + right_P])
        there = np.concatenate([right_P, left_P])
        width = int(there.max(initial=0)) + 1
        codes = np.unique(here.astype(np.int64) * width + there)
        counts = np.bincount(codes // width, minlength=n_pieces)
        return cls(offsets_of(counts), (codes % width).astype(np.int32))

    def linked(self, pieces: np.ndarray) -> np.ndarray:
        """Return whether each of some pieces has a partner."""
        return np.asarray(self.offsets[pieces + 1] > self.offsets[pieces])

    def of_pieces(self, pieces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the partners of some pieces: (their places in their rows, the place in `pieces` of
        the piece that each belongs to).
        """
        entries, owners = ranges(self.offsets, pieces)
        return self.places[entries].astype(np.int64), owners


_Batch = tuple[Rows, Masks, Partners, int]
"""The rows of a global batch, their masked places, the partners of all pieces, and how many masked
places have one.
"""


class WordExchange(Objective):
    """Cross-entropy of masked pieces, by the masked-LM head from their own states and by a second
    head from those of their partners.

    Row r is sentence pair r of the bitexts, `[CLS] tgt [SEP] src [SEP]`, of whose places the
    bitexts have the links. Means are over the masked places of the global batch, and over those of
    them that are linked. `options` are the resolved params of `weam`.
    """

    def __init__(
        self, encoder: TransformerEncoder, bitexts: Bitexts, options: Mapping[str, Any]
    ) -> None:
        self.encoder, self.rows, self.options = encoder, bitexts, options
        transform, self.decoder = split_head(encoder.model)
        self.head = cross_head(transform, encoder.hidden_size).to(encoder.device)
        self.module = torch.nn.ModuleDict({"model": encoder.model, "head": self.head})
        self.rule = MaskRule.of(encoder, options["mask_share"])
        self.batch: _Batch | None = None

    def begin(self, step: Step) -> None:
        """Masks of the global batch, and which of them have partners."""
        bitexts: Bitexts = self.rows
        first, second = bitexts.tgt_P[step.rows], bitexts.src_P[step.rows]
        rows = bitexts.sentences.joint_rows(first, second)
        masks = self.rule.choose(rows, step.generator(Stream.MASKING))
        links = bitexts.links.take(step.rows)
        partners = Partners.of(rows.offsets[links.rows()], links.src, links.tgt, len(rows.ids))
        self.batch = rows, masks, partners, int(partners.linked(masks.flat(rows.offsets)).sum())

    def loss(self, step: Step, positions: np.ndarray) -> torch.Tensor:  # noqa: ARG002
        """Return the contribution of some rows of the global batch."""
        assert self.batch is not None, "begin comes first"
        (of_batch, masks, partners, n_linked), options = self.batch, self.options
        rows, masks = of_batch.take(positions), masks.take(positions)
        packed, last = self.encoder.lay_out([masks.applied(rows)]), (self.encoder.n_layers,)
        (states_FH,), starts_S = self.encoder.states(packed, last), packed.starts_S
        pieces = masks.flat(of_batch.offsets[positions])
        linked = partners.linked(pieces)
        places, owners = partners.of_pieces(pieces[linked])
        starts = np.repeat(starts_S, np.diff(masks.offsets))[linked]
        arrays = masks.flat(starts_S), starts[owners] + places, owners, masks.targets
        masked_M, partners_E, owners_E, targets_M = (on_device(a, states_FH.device) for a in arrays)
        linked_N = on_device(masks.targets[linked], states_FH.device)
        exchanged_NH = exchange(states_FH, partners_E, owners_E, int(linked.sum()))
        mean = options["reduction"] == "mean"
        return prediction_loss(
            self.encoder.lm_logits(states_FH[masked_M]),
            targets_M,
            self.encoder.within(self.decoder, self.head(exchanged_NH)),
            linked_N,
            weight=1 / max(masks.total, 1) if mean else 1.0,
            cross_weight=options["lambda"] * (1 / max(n_linked, 1) if mean else 1.0),
        )


def piece_links(
    first_src: np.ndarray, n_src: np.ndarray, first_tgt: np.ndarray, n_tgt: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Links of words as links of their pieces: (place of the one, place of the other, number of the
    word link).

    Word link l joins the `n_src[l]` pieces from `first_src[l]` on with the `n_tgt[l]` pieces from
    `first_tgt[l]` on: the i-th with the i-th, and what the longer word has more of with the last
    piece of the shorter one.

    >>> links = piece_links(np.array([1]), np.array([3]), np.array([7]), np.array([2]))
    >>> [part.tolist() for part in links]
    [[1, 2, 3], [7, 8, 8], [0, 0, 0]]
    """
    longer = np.maximum(n_src, n_tgt)
    owners = np.repeat(np.arange(len(longer)), longer)
    i = np.arange(len(owners)) - np.repeat(np.cumsum(longer) - longer, longer)
    return (
        first_src[owners] + np.minimum(i, n_src[owners] - 1),
        first_tgt[owners] + np.minimum(i, n_tgt[owners] - 1),
        owners,
    )


def with_piece_links(bitexts: Bitexts, folders: Mapping[str, Path]) -> Bitexts:
    """Return bitexts with the links of their datasets, language -> folder as in `Bitexts.read`, as
    links of places in the rows `[CLS] tgt [SEP] src [SEP]` (the pivot first): their `src` are
    places of the pivot's pieces, their `tgt` of the other language's.

    Links of words that were not read whole are left out.
    """
    parts = [
        WordPairs.read(folder).links.take(bitexts.numbers_P[bitexts.langs_P == k])
        for k, folder in enumerate(folders.values())
    ]
    words, found = Links.join(parts), []
    for start in range(0, len(bitexts), _CHUNK):
        stop = min(start + _CHUNK, len(bitexts))
        numbers_R2 = np.stack([bitexts.tgt_P[start:stop], bitexts.src_P[start:stop]], axis=1)
        part = words.part(start, stop)
        found.append(expand(bitexts.sentences, numbers_R2, Links(part.offsets, part.tgt, part.src)))
    return replace(bitexts, links=Links.join(found))


def expand(sentences: Sentences, numbers_R2: np.ndarray, links: Links) -> Links:
    """Return the word links of some sentence pairs, from first to second sentences, as links of
    places in their joint rows; those of words that lost a piece are left out.
    """
    rows, owners = sentences.joint_rows(numbers_R2[:, 0], numbers_R2[:, 1]), links.rows()
    places, counts = [], []
    both = np.ones(len(owners), bool)
    for k, positions in enumerate((links.src, links.tgt)):
        words = sentences.word_offsets[numbers_R2[owners, k]] + positions
        first, count = (
            part[words].astype(np.int64) for part in (sentences.first_W, sentences.count_W)
        )
        both &= (count > 0) & (first + count <= rows.kept_RK[owners, k])
        places.append(rows.first_RK[owners, k] + first)
        counts.append(count)
    left, right, link = piece_links(
        places[0][both], counts[0][both], places[1][both], counts[1][both]
    )
    offsets = offsets_of(np.bincount(owners[both][link], minlength=len(rows)))
    return Links(offsets, left.astype(np.int32), right.astype(np.int32))
