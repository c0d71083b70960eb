"""What strong and weak contrast share: options, freezing, and the training."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from raxalign.arrays import offsets_of, ranges
from raxalign.encoders.models.trained_weights import Freeze, weight_changes
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.encoders.models.vectors import Layers, Pooling, Spans, parse_layers
from raxalign.lazy import np, torch
from raxalign.methods.base import MethodInputs
from raxalign.methods.families import wording
from raxalign.methods.families.rows import Bitexts, States
from raxalign.methods.families.trained import TrainedMethod
from raxalign.options.params import LATER, Removed
from raxalign.train.chance import Stream, mix
from raxalign.train.devices import on_device
from raxalign.train.group import add_up
from raxalign.train.objective import Objective, Step
from raxalign.train.options import Epochs, LearningRate, Steps, Warmup


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

    @staticmethod
    def sharing(*types: torch.Tensor) -> torch.Tensor:
        """Return which of P pairs of items share a type (P, P), and so are not negatives of each
        other, given the type numbers (P,) of one side or of several: either of them is enough.
        """
        shared_PP = types[0][:, None] == types[0][None, :]
        for types_P in types[1:]:
            shared_PP = shared_PP | (types_P[:, None] == types_P[None, :])
        return shared_PP

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


def _is_direct(step: Step) -> bool:
    """Whether one forward with gradients reads the whole batch. It does not depend on the workers,
    since dropout draws by other seeds then.
    """
    return step.n_shares == 1 and len(step.rows) <= step.micro


def _reseed(step: Step, positions: np.ndarray) -> None:
    """The same dropout for the same micro-batch in both passes."""
    place = int(positions[0])
    step.seed_dropout(step.share_of(positions), place)


PROJECTED = 128
"""Coordinates that the projector puts out."""


def contrastive_loss(
    src_PD: torch.Tensor,
    tgt_PD: torch.Tensor,
    *,
    temperature: float,
    strong: bool,
    hidden_PP: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return the mean over the words of both sides of -log softmax of the cosine with the
    translation, over temperature, among the candidates.

    Candidates are the words of the other side (weak: the mean of both directions), or those of both
    sides without the word itself (strong); Wu & Dredze (2020, §3). The words of link j are not
    candidates for those of link i (i != j) where `hidden_PP[i, j]`.
    """
    src_PD, tgt_PD = (torch.nn.functional.normalize(part, dim=-1) for part in (src_PD, tgt_PD))
    gold_P = torch.arange(len(src_PD), device=src_PD.device)
    itself_PP = torch.eye(len(src_PD), dtype=torch.bool, device=src_PD.device)
    across_PP = src_PD @ tgt_PD.T / temperature
    if hidden_PP is not None:
        across_PP = across_PP.masked_fill(hidden_PP & ~itself_PP, -torch.inf)
    logits = torch.cat([across_PP, across_PP.T])
    if strong:
        left_out_PP = itself_PP if hidden_PP is None else itself_PP | hidden_PP
        within = [
            (side_PD @ side_PD.T / temperature).masked_fill(left_out_PP, -torch.inf)
            for side_PD in (src_PD, tgt_PD)
        ]
        logits = torch.cat([logits, torch.cat(within)], dim=1)
    loss: torch.Tensor = torch.nn.functional.cross_entropy(logits, gold_P.repeat(2))
    return loss


def word_contrastive_loss(
    words_WD: torch.Tensor,
    is_src_W: torch.Tensor,
    src_P: torch.Tensor,
    tgt_P: torch.Tensor,
    *,
    temperature: float,
    strong: bool,
    hidden_PW: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return the mean over both words of all links of -log softmax of the cosine with the other
    one, over temperature, among the candidates.

    Candidates are all words of the other side (weak), or all words but the word itself (strong).
    Link j joins the words `src_P[j]` and `tgt_P[j]`. Word w is not a candidate for those of link j
    where `hidden_PW[j, w]`, unless it is the linked one. Where every word has one link this is
    `contrastive_loss`.
    """
    unit_WD = torch.nn.functional.normalize(words_WD, dim=-1)
    asked, gold = torch.cat([src_P, tgt_P]), torch.cat([tgt_P, src_P])
    logits = unit_WD[asked] @ unit_WD.T / temperature
    numbers_W = torch.arange(len(words_WD), device=words_WD.device)
    left_out = asked[:, None] == numbers_W if strong else is_src_W[asked][:, None] == is_src_W
    if hidden_PW is not None:
        left_out = left_out | (hidden_PW.repeat(2, 1) & (gold[:, None] != numbers_W))
    loss: torch.Tensor = torch.nn.functional.cross_entropy(
        logits.masked_fill(left_out, -torch.inf), gold
    )
    return loss


def hidden_words(types_W: torch.Tensor, *links: torch.Tensor) -> torch.Tensor:
    """Which words (P, W) share a type with a link, or are linked to a word that does. The P links
    join the words of the two numbers `links`; the sides have no type in common.
    """
    types = [types_W[ends_P] for ends_P in links]
    hidden_PW = (types[0][:, None] == types_W) | (types[1][:, None] == types_W)
    shared_PP = WholeBatch.sharing(*types).to(torch.float32)
    through_PW = torch.zeros(hidden_PW.shape, device=hidden_PW.device)
    for ends_P in links:
        through_PW.index_add_(1, ends_P, shared_PP)
    return hidden_PW | (through_PW > 0)


@cache
def _distance() -> Any:
    """Return the function of `parameter_distance`, a class of PyTorch's and so made when it is
    first used. Keeps no copy of the differences.
    """

    class Distance(torch.autograd.Function):
        @staticmethod
        def forward(
            ctx: Any, origins: Sequence[torch.Tensor], *parameters: torch.Tensor
        ) -> torch.Tensor:
            norms = [
                torch.linalg.vector_norm(p - origin)
                for p, origin in zip(parameters, origins, strict=True)
            ]
            distance: torch.Tensor = torch.linalg.vector_norm(torch.stack(norms))
            ctx.origins, ctx.parameters, ctx.distance = origins, parameters, distance
            return distance.clone()

        @staticmethod
        def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
            scale = torch.where(
                ctx.distance > 0, gradients[0] / ctx.distance, torch.zeros_like(ctx.distance)
            )
            return None, *(
                (p.detach() - origin).mul_(scale)
                for p, origin in zip(ctx.parameters, ctx.origins, strict=True)
            )

    return Distance


def parameter_distance(
    parameters: Sequence[torch.Tensor], origins: Sequence[torch.Tensor]
) -> torch.Tensor:
    """sqrt(sum ||θ - θ0||²): the norm, not its square (Wu & Dredze 2020, Eq. 5). Its gradient is 0
    where it is 0.
    """
    return _distance().apply(origins, *parameters)  # type: ignore[no-any-return]


class Contrast(WholeBatch):
    """Draws linked words of the global batch together, and apart from its other words; layers are
    contrasted one by one, and averaged. `options` are the resolved params of the method.

    An item is a link: its two vectors at each layer, after the projector (shared by the layers).
    """

    def __init__(
        self,
        encoder: TransformerEncoder,
        bitexts: Bitexts,
        options: Mapping[str, Any],
        *,
        strong: bool,
    ) -> None:
        self.encoder, self.rows, self.options, self.strong = encoder, bitexts, options, strong
        self.layers = parse_layers(options["layers"], encoder.n_layers)
        self.projector = _projector(encoder, bias=options["projector_bias"])
        self.module = torch.nn.ModuleList([encoder.model, self.projector])
        self.shape = (2, len(self.layers), PROJECTED)
        self.weight = options["lambda"] if options["regularizer"] == "parameters" else 0.0
        parameters = encoder.model.base_model.parameters() if self.weight else ()
        self.trained = [p for p in parameters if p.requires_grad]
        self.origins = [p.detach().clone() for p in self.trained]
        self.loss_unit = max(1.0, self.weight)

    def counts(self, rows: np.ndarray) -> np.ndarray:
        """Return the number of links of each row, (rows,)."""
        return np.asarray(np.diff(self.rows.links.offsets)[rows])

    def vectors(self, rows: np.ndarray) -> torch.Tensor:
        """Return the vectors of linked words, (links, 2, L, D)."""
        owners, src, tgt = self.rows.linked(rows)
        words, owners = np.concatenate([src, tgt]), np.concatenate([owners, owners + len(rows)])
        vectors = self.read(rows, words, owners)
        return torch.stack([vectors[: len(src)], vectors[len(src) :]], dim=1)

    def read(self, rows: np.ndarray, words: np.ndarray, owners: np.ndarray) -> torch.Tensor:
        """Return the vectors (N, L, D) of words of some rows, by their numbers and by the places of
        their sentences: first those of all source sides.
        """
        bitexts: Bitexts = self.rows
        sentences = bitexts.sentences
        states = States.read(self.encoder, sentences, bitexts.sides(rows), self.layers)
        first, count = sentences.spans(words)
        first = states.starts_S[owners] + first
        vectors_NLH = Spans.of(first, count, self.options["pooling"]).pool(states.layers)
        projected: torch.Tensor = self.projector(vectors_NLH)
        return projected

    def batch_loss(self, rows: np.ndarray, vectors: torch.Tensor) -> torch.Tensor:
        """Return the mean over layers; a batch without links has nothing to contrast."""
        if not len(vectors):
            return vectors.sum()
        hidden_PP = None
        if self.options["same_type"] == "mask":
            types, (_, *linked) = self.rows.types, self.rows.linked(rows)
            hidden_PP = self.sharing(*(on_device(types[words], vectors.device) for words in linked))
        how: Any = {"temperature": self.options["temperature"], "strong": self.strong}
        losses = [
            contrastive_loss(*layer_P2D.unbind(dim=1), **how, hidden_PP=hidden_PP)
            for layer_P2D in vectors.unbind(dim=2)
        ]
        return torch.stack(losses).mean()

    def extra(self) -> torch.Tensor | None:
        """λ times how far the trained weights are from where they began."""
        if not self.trained:
            return None
        if changes := weight_changes(self.encoder.model):
            # Adapters are what is trained, but the weights that they change are what is held.
            norms = torch.stack([torch.linalg.vector_norm(change) for change in changes])
            drift: torch.Tensor = torch.linalg.vector_norm(norms)
            return self.weight * drift
        return self.weight * parameter_distance(self.trained, self.origins)


class WordContrast(Contrast):
    """Draws linked words together, and apart from all other words of the global batch. An item is a
    word that was read: those of a row's source side first.
    """

    def __init__(self, *given: Any, strong: bool) -> None:
        super().__init__(*given, strong=strong)
        self.shape = self.shape[1:]

    def counts(self, rows: np.ndarray) -> np.ndarray:
        """Return the number of words of each row that were read, of both sides, (rows,)."""
        _, owners = self.rows.sentences.read_words(self.rows.sides(rows))
        return np.bincount(owners % len(rows), minlength=len(rows))

    def items(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the words of some rows, and which of them the source side has."""
        sides = np.stack([self.rows.src_P[rows], self.rows.tgt_P[rows]], axis=1).reshape(-1)
        words, owners = self.rows.sentences.read_words(sides)
        return words, owners % 2 == 0

    def vectors(self, rows: np.ndarray) -> torch.Tensor:
        """Return the vectors of all words, (words, L, D)."""
        words, owners = self.rows.sentences.read_words(self.rows.sides(rows))
        vectors_WLH = self.read(rows, words, owners)
        order = np.argsort(owners % max(len(rows), 1), kind="stable")
        return vectors_WLH[on_device(order, vectors_WLH.device)]

    def batch_loss(self, rows: np.ndarray, vectors: torch.Tensor) -> torch.Tensor:
        """Return the mean over layers; a batch without links has nothing to contrast."""
        _, *ends = self.rows.linked(rows)
        if not len(ends[0]):
            return vectors.sum() * 0
        (words, is_src), device = self.items(rows), vectors.device
        order = np.argsort(words)
        src, tgt = (on_device(order[np.searchsorted(words[order], part)], device) for part in ends)
        hidden_PW = None
        if self.options["same_type"] == "mask":
            hidden_PW = hidden_words(on_device(self.rows.types[words], device), src, tgt)
        how: Any = {"temperature": self.options["temperature"], "strong": self.strong}
        linked = (on_device(is_src, device), src, tgt)
        losses = [
            word_contrastive_loss(layer_WD, *linked, **how, hidden_PW=hidden_PW)
            for layer_WD in vectors.unbind(dim=1)
        ]
        return torch.stack(losses).mean()


def _projector(encoder: TransformerEncoder, *, bias: bool) -> torch.nn.Module:
    """Linear without bias - ReLU - linear; where it starts is chance."""
    width = encoder.hidden_size
    layers = [
        torch.nn.Linear(width, width, bias=False),
        torch.nn.ReLU(),
        torch.nn.Linear(width, PROJECTED, bias=bias),
    ]
    return torch.nn.Sequential(*layers).to(next(encoder.model.parameters()))


_PAPER: Mapping[str, Any] = {
    "lambda": 1.0,
    "learning_rate": 1e-4,
    "batch_size": 128,
    "steps": 100_000,
    "warmup": 4000,
    "pooling": "first",
    "same_type": "keep",
    "max_length": 96,
    "projector_bias": True,
}
_PROFILES = {
    "paper": _PAPER,
    "released": {**_PAPER, "projector_bias": False},
    "sane": {
        "lambda": 0.1,
        "learning_rate": 5e-5,
        "batch_size": 32,
        "steps": 0,
        "warmup": 0.1,
        "pooling": "last",
        "same_type": "mask",
        "max_length": 128,
        "projector_bias": True,
    },
}


class ContrastMethod(TrainedMethod["Bitexts"]):
    """Trains the encoder by a contrast of linked words, a `strong` one or a weak one."""

    profiles = _PROFILES
    reads = "links"
    strong: ClassVar[bool]

    class Params(TrainedMethod.Params):
        """`freeze: {blocks: lower, embeddings: false}` holds blocks and trains the embeddings, as
        AlignFreeze does, where `freeze: lower` holds the embeddings too.
        """

        profile: Literal["paper", "released", "sane"] = Field("sane", description=wording.PROFILE)
        reg_weight: float | None = Field(None, alias="lambda", ge=0, allow_inf_nan=False)
        """Weight of the regulariser, λ in the formula: of the distance (not squared) of the weights
        from the start.
        """
        regularizer: Literal["parameters", "none"] = "parameters"
        """What holds the encoder near its start: the distance of its weights from theirs at the
        start (`parameters`), or nothing (`none`).
        """
        temperature: float = Field(0.1, gt=0, allow_inf_nan=False)
        """Temperature of the contrast, τ in the formula."""
        projector_bias: bool | None = None
        """Whether the second layer of the projector has a bias; the first layer has none."""
        negatives: Annotated[Literal["all", "linked"], LATER] = "linked"
        """What a linked word is contrasted with: the other linked words of the batch (`linked`), or
        all words of the batch (`all`).
        """
        same_type: Literal["keep", "mask"] | None = None
        """Whether links that share a word type on either side are negatives of one another (`keep`)
        or not (`mask`).
        """
        freeze: Freeze = "none"
        learning_rate: LearningRate[float | None] = None
        batch_size: int | None = Field(None, ge=1, description=wording.BATCH_OF_PAIRS)
        epochs: Epochs = 1
        steps: Steps[int | None] = None  # type: ignore[assignment]  # by profile
        warmup: Warmup[float | None] = None
        layers: Layers = "last"
        """Layers whose words are contrasted, one by one, and averaged: `last`, one number or a
        range such as `9-12` (0: the embeddings).
        """
        pooling: Pooling | None = Field(None, description=wording.WORD_POOLING)
        max_length: int | None = Field(None, ge=3, description=wording.SENTENCE_LENGTH)
        removed: ClassVar = {
            "projector": Removed("leave it out: words are contrasted behind a projector", True),
            "projector_size": Removed("leave it out: the projector puts out 128 numbers", 128),
            "identical_pairs": Removed(
                "leave it out: words that are spelt the same are dropped", "drop"
            ),
        }

    params: Params

    def canonical(self) -> dict[str, Any]:
        """Return the resolved params; without a regulariser there is no λ."""
        resolved = super().canonical()
        if resolved["regularizer"] == "none" or resolved["lambda"] == 0:
            resolved |= {"regularizer": "none", "lambda": 0.0}
        return resolved

    def idle(self) -> set[str]:
        """Return what a projector with a bias leaves out."""
        # with a bias as before it could be left out: results made then keep their keys
        return super().idle() | ({"projector_bias"} if self.resolved()["projector_bias"] else set())

    def read(
        self, encoder: TransformerEncoder, inputs: MethodInputs, folders: Mapping[str, Path]
    ) -> Bitexts:
        """Return the word pairs of all languages."""
        return Bitexts.read_words(encoder, folders, inputs.pivot, self.resolved()["max_length"])

    def objective(self, encoder: TransformerEncoder, rows: Bitexts, seed: int) -> Contrast:
        """Return the contrast, with a projector that is left behind."""
        kind = WordContrast if self.params.negatives == "all" else Contrast
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(mix(seed, Stream.NEW_WEIGHTS))
            return kind(encoder, rows, self.resolved(), strong=self.strong)

    def counts(self, rows: Bitexts) -> dict[str, object]:
        """Return the number of sentences, of word pairs, and of those that are spelt the same."""
        return {
            "sentences": len(rows),
            "pairs": len(rows.links.src),
            "identical_pairs_dropped": rows.dropped,
        }
