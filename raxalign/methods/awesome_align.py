"""The encoder learns to link words by its own links (Dou and Neubig 2021).

A batch of n sentence pairs is a tensor (n, S, T) of S source with T target pieces, as in the word
aligner: similarities of their states at one layer, ``-inf`` where one of the two is special or
fills up a shorter sentence. S_xy are the probabilities of the target's pieces for each of the
source's, and S_yx the other way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, final

from pydantic import Field, model_validator

from raxalign.encoders.models.masking import Masked, MaskRule
from raxalign.encoders.models.rows import Packed, Rows
from raxalign.encoders.models.vectors import Layer, parse_layers
from raxalign.errors import RaxalignError
from raxalign.lazy import np, torch
from raxalign.methods.base import MethodInputs, Needs
from raxalign.methods.families import wording
from raxalign.methods.families.rows import Bitexts
from raxalign.methods.families.trained import MaskedLMMethod, TrainedMethod
from raxalign.options.params import Removed
from raxalign.pairing.aligners.awesome_align import Extraction, linked, probabilities
from raxalign.train.chance import Stream, mix
from raxalign.train.devices import on_device
from raxalign.train.objective import HostSided, Step
from raxalign.train.options import NO_OPTION, Epochs, LearningRate, Warmup

if TYPE_CHECKING:
    from raxalign.encoders.models.transformer import TransformerEncoder


@final
class AwesomeTraining(TrainedMethod[Bitexts]):
    """Train the encoder for linking words by its states, as the word aligner `awesome_align` does
    it: on the links that it finds itself, and by predicting masked words and telling translations
    from other pairs.

    Formula: mlm L_MLM + tlm L_TLM + so L_SO + psi L_PSI + co L_CO, each to be minimised. L_SO =
    -Σ_ij A_ij (P(y_j | x_i) / |x| + P(x_i | y_j) / |y|) / 2, where A are the subword tokens of
    words that are linked now. L_CO = -Σ_ij P(y_j | x_i) P(x_i | y_j) / min(|x|, |y|). L_PSI = -log
    s(x, y) - log(1 - s(x, y')) with y' of another pair, halved; s reads [CLS] of both together
    through a layer with tanh. L_MLM and L_TLM are those of `mlm`, over each side, and of `tlm`.

    Data: sentence pairs of all languages together. No links are read. The trained encoder is saved
    as any other; name its folder as `encoder` of the word aligner, or evaluate it by the task
    `word_alignment`.

    The program of the authors has twice this L_SO, takes the means of masked tokens for each
    sentence, and masks one sentence of a pair at a time. The head of L_PSI is dropped after
    training.

    Reference: Dou and Neubig (2021, section 2.2); settings of their released program.

    Relations: Its parts L_MLM and L_TLM are the methods `mlm` and `tlm`; choose it where links are
    the aim, and `finetune` or `weam` where the vectors of linked words are.

    Example:
        methods:
          none: {}
          awesome_align: {co: [0, 1], layers: 8, steps: 40_000}
    """

    VERSION = 1
    name = "awesome_align"
    reads = "bitext"
    reference = "Dou and Neubig 2021"
    papers = ("dou2021", "extraction=entmax peters2019")

    class Params(MaskedLMMethod.Params):
        """Training is by AdamW; gradients have norm 1 at most. Weight 0 leaves a loss out."""

        so: float = Field(1.0, ge=0, allow_inf_nan=False, description="Weight of L_SO.")
        co: float = Field(0.0, ge=0, allow_inf_nan=False, description="Weight of L_CO.")
        mlm: float = Field(1.0, ge=0, allow_inf_nan=False, description="Weight of L_MLM.")
        tlm: float = Field(1.0, ge=0, allow_inf_nan=False, description="Weight of L_TLM.")
        psi: float = Field(1.0, ge=0, allow_inf_nan=False, description="Weight of L_PSI.")
        layers: Layer = "0.67"
        """Layer whose states are compared: `last`, one number (0: the embeddings) or a fraction of
        the depth; 0.67 is layer 8 of 12, the paper's.
        """
        extraction: Literal["softmax", "entmax"] = "softmax"
        """How similarities become probabilities: by `softmax`, or by the sparse `entmax` with α =
        1.5.
        """
        threshold: float = Field(0.001, ge=0, lt=1)
        """Probability that two subword tokens must exceed, each for the other, to be linked in
        L_SO.
        """
        learning_rate: LearningRate[float] = 2e-5
        batch_size: int = Field(8, ge=1, description=wording.BATCH_OF_PAIRS)
        epochs: Epochs = 1
        warmup: Warmup[float] = 0.0
        optimizer: ClassVar = {"clip": 1.0}
        removed: ClassVar = {
            "weight_decay": Removed(NO_OPTION, 0.0),
            "clip": Removed(NO_OPTION, 1.0),
        }
        max_length: int = Field(128, ge=8, description=wording.PAIR_LENGTH)

        @model_validator(mode="after")
        def _trains_something(self) -> Self:
            if not (self.so or self.co or self.mlm or self.tlm or self.psi):
                raise ValueError(
                    "all of so, co, mlm, tlm and psi are 0, which leaves nothing to train; give one"
                    " of them a weight, or use the method `none`"
                )
            return self

    params: Params

    def needs(self) -> Needs:
        """Sentence pairs, and the masked-LM head where pieces are predicted."""
        return replace(super().needs(), head=bool(self.params.mlm or self.params.tlm))

    def idle(self) -> set[str]:
        """Those of a loss that is left out."""
        params = self.params
        idle = set() if params.mlm or params.tlm else {"mask_share"}
        idle |= set() if params.so or params.co else {"extraction"}
        idle |= set() if params.so or params.co or params.psi else {"layers"}
        return super().idle() | idle | (set() if params.so else {"threshold"})

    def read(
        self, encoder: TransformerEncoder, inputs: MethodInputs, folders: Mapping[str, Path]
    ) -> Bitexts:
        """Return the sentence pairs of all languages. Raises `RaxalignError` for a single pair,
        which cannot be told from others.
        """
        bitexts = Bitexts.read(encoder, folders, inputs.pivot, self.params.max_length)
        if self.params.psi and len(bitexts) < 2:
            raise RaxalignError(
                "awesome_align: psi tells translations from other pairs, and there is one sentence"
                " pair; give more text, or psi: 0"
            )
        return bitexts

    def objective(self, encoder: TransformerEncoder, rows: Bitexts, seed: int) -> AlignerLosses:
        """Return the weighted sum of the losses."""
        return AlignerLosses(encoder, rows, self.resolved(), seed)


def link_losses(
    similarities_NST: torch.Tensor, links_NST: torch.Tensor, extraction: Extraction
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return -L_SO and -L_CO of each sentence pair, (n,) each, with `links_NST` as the A of the
    paper: L_SO = Σ_ij A_ij (S_xy_ij / |x| + S_yx_ji / |y|) / 2, and L_CO = trace(S_xy S_yx) /
    min(|x|, |y|). The program of the authors has twice this L_SO.
    """
    compared_NST = similarities_NST > -torch.inf
    of_tgt_NST, of_src_NST = probabilities(similarities_NST, extraction)
    src_N, tgt_N = (compared_NST.any(dim).sum(1).clamp(min=1) for dim in (2, 1))
    shares_NST = (of_tgt_NST / src_N[:, None, None] + of_src_NST / tgt_N[:, None, None]) / 2
    trained_N = (shares_NST * links_NST).sum((1, 2))
    agreed_N = (of_tgt_NST * of_src_NST * compared_NST).sum((1, 2)) / torch.minimum(src_N, tgt_N)
    return -trained_N, -agreed_N


def between_words(
    links_NST: torch.Tensor, src_words_NS: torch.Tensor, tgt_words_NT: torch.Tensor
) -> torch.Tensor:
    """Return the links (n, S, T) of all pieces of two words of which some pieces are linked; the
    words of the pieces are numbered in each sentence (-1: none, which is never linked).
    """
    same_NSS, same_NTT = (
        (words[:, :, None] == words[:, None, :]).float() for words in (src_words_NS, tgt_words_NT)
    )
    return same_NSS @ links_NST.float() @ same_NTT > 0


@dataclass(frozen=True)
class _Side:
    """The pieces of a side of n sentence pairs: their places in the states, and their words (-1: a
    piece of no word, or none), (n, S) each.
    """

    places_NS: np.ndarray
    words_NS: np.ndarray

    @classmethod
    def of(cls, rows: Rows, starts_N: np.ndarray) -> _Side:
        """Return those of rows of one sentence that begin at `starts_N` of the states."""
        steps_S = np.arange(int(rows.kept_RK.max(initial=0)))
        inside_NS = rows.first_RK + np.where(steps_S < rows.kept_RK, steps_S, 0)
        words_NS = rows.words[rows.offsets[:-1, None] + inside_NS]
        return cls(starts_N[:, None] + inside_NS, np.where(steps_S < rows.kept_RK, words_NS, -1))


@dataclass(frozen=True)
class _Predicted:
    """Masked rows as the encoder reads them: the places of its states that are predicted, what
    stood there, and the weights of their losses, (M,) each.
    """

    packed: Packed
    places_M: np.ndarray
    targets_M: np.ndarray
    weights_M: np.ndarray


@dataclass(frozen=True)
class _Drawn:
    """What is drawn for a global batch of B pairs: masked rows with the weight of each of their
    losses, and 2 B rows of two sentences, first those that are translations (None: not wanted).
    """

    masked: list[tuple[Masked, float]]
    identified: Rows | None


@dataclass(frozen=True)
class _Parts:
    """What the device reads of a micro-batch (None: not wanted)."""

    alone: Packed | None
    sides: tuple[_Side, _Side] | None
    identified: Packed | None
    predicted: _Predicted | None


class AlignerLosses(HostSided[_Drawn, _Parts]):
    """The weighted sum of the five losses over sentence pairs. Row r is pair r of the bitexts.

    Losses of links and of the identification of translations are means over the pairs of the global
    batch, those of masked pieces means over its masked places, of each side for `mlm`. The links
    are those that the encoder finds by itself at each step, without dropout and without gradient.
    The head that tells translations reads the first piece one layer above the links, as in the
    program of the authors. `options` are the resolved params of the method.
    """

    def __init__(
        self, encoder: TransformerEncoder, bitexts: Bitexts, options: Mapping[str, Any], seed: int
    ) -> None:
        encoder.can_pack()  # found out here, and not by the thread that prepares steps
        self.encoder, self.rows, self.options = encoder, bitexts, options
        (self.layer,) = parse_layers(options["layers"], encoder.n_layers)
        self.above = min(self.layer + 1, encoder.n_layers)
        masks = options["mlm"] or options["tlm"]
        self.rule = MaskRule.of(encoder, options["mask_share"]) if masks else None
        self.module, self.head = encoder.model, None
        if options["psi"]:
            size = encoder.hidden_size
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(mix(seed, Stream.NEW_WEIGHTS))
                head = torch.nn.Sequential(
                    torch.nn.Linear(size, size), torch.nn.Tanh(), torch.nn.Linear(size, 1)
                )
            self.head = head.to(encoder.device)
            self.module = torch.nn.ModuleDict({"model": encoder.model, "head": self.head})

    def host_batch(self, step: Step) -> _Drawn:
        """Return the masks, the order of sentences, and the pairs that do not translate."""
        bitexts, options, chance = self.rows, self.options, step.generator(Stream.MIXING)
        sentences, n = bitexts.sentences, len(step.rows)
        src, tgt = bitexts.src_P[step.rows], bitexts.tgt_P[step.rows]
        turned = chance.random(n) < 0.5
        rows = []
        if options["mlm"]:
            rows = [(sentences.single_rows(side), options["mlm"]) for side in (src, tgt)]
        if options["tlm"]:
            first, second = np.where(turned, tgt, src), np.where(turned, src, tgt)
            rows.append((sentences.joint_rows(first, second), options["tlm"]))
        masked, masking = [], step.generator(Stream.MASKING)
        for read, weight in rows:
            assert self.rule is not None, "there are masks"
            masks = self.rule.choose(read, masking)
            masked.append((Masked(read, masks), weight / max(masks.total, 1)))
        if self.head is None:
            return _Drawn(masked, None)
        others = (step.rows + chance.integers(1, len(bitexts), n)) % len(bitexts)
        first, second = np.tile(src, 2), np.concatenate([tgt, bitexts.tgt_P[others]])
        turned = chance.random(2 * n) < 0.5
        sides = np.where(turned, second, first), np.where(turned, first, second)
        return _Drawn(masked, sentences.joint_rows(*sides))

    def host_part(self, step: Step, batch: _Drawn, positions: np.ndarray) -> _Parts:
        """Return what is read of some pairs of the global batch."""
        alone = sides = identified = None
        if self.options["so"] or self.options["co"]:
            numbers = self.rows.sides(step.rows[positions])
            rows, n = self.rows.sentences.single_rows(numbers), len(positions)
            alone = self.encoder.lay_out([rows])
            halves = np.arange(n), np.arange(n, 2 * n)
            src, tgt = (_Side.of(rows.take(half), alone.starts_S[half]) for half in halves)
            sides = src, tgt
        if batch.identified is not None:
            pairs = batch.identified.take(np.concatenate([positions, len(step.rows) + positions]))
            identified = self.encoder.lay_out([pairs])
        return _Parts(alone, sides, identified, self._predicted(batch, positions))

    def _predicted(self, batch: _Drawn, positions: np.ndarray) -> _Predicted | None:
        """The masked rows of some pairs; those without a masked place are not read."""
        chosen = []
        for masked, weight in batch.masked:
            at = positions[np.diff(masked.masks.offsets)[positions] > 0]
            if len(at):
                chosen.append((masked.rows.take(at), masked.masks.take(at), weight))
        if not chosen:
            return None
        packed = self.encoder.lay_out([m.applied(rows) for rows, m, _ in chosen])
        starts = np.split(packed.starts_S, np.cumsum([len(rows) for rows, *_ in chosen])[:-1])
        places = [m.flat(begins) for (_, m, _), begins in zip(chosen, starts, strict=True)]
        targets = [m.targets for _, m, _ in chosen]
        weights = [np.full(len(m.targets), weight) for _, m, weight in chosen]
        return _Predicted(packed, *map(np.concatenate, (places, targets, weights)))

    def device_loss(self, step: Step, part: _Parts) -> torch.Tensor:
        """Return the contribution of some pairs."""
        n, total = len(step.rows), torch.zeros((), device=self.encoder.device)
        if part.alone is not None and part.sides is not None:
            total = total + self._of_links(part.alone, part.sides).sum() / n
        if part.identified is not None:
            total = total + self.options["psi"] * self._identification(part.identified) / (2 * n)
        if part.predicted is not None:
            logits_MV = self.encoder.logits_at(part.predicted.packed, part.predicted.places_M)
            targets_M, weights_M = (
                on_device(array, logits_MV.device)
                for array in (part.predicted.targets_M, part.predicted.weights_M)
            )
            losses_M = torch.nn.functional.cross_entropy(logits_MV, targets_M, reduction="none")
            total = total + losses_M @ weights_M.to(losses_M.dtype)
        return total

    def _of_links(self, packed: Packed, sides: tuple[_Side, _Side]) -> torch.Tensor:
        """The weighted losses (n,) of the links between the pieces of sentence pairs."""
        from raxalign.encoders.models.transformer import evaluating

        options, device, model = self.options, self.encoder.device, self.encoder.model
        places, words = (
            [on_device(array, device) for array in arrays]
            for arrays in zip(*((side.places_NS, side.words_NS) for side in sides), strict=True)
        )

        def similarities() -> torch.Tensor:
            (states_FH,) = self.encoder.states(packed, (self.layer,))
            compared_NST = (words[0] >= 0)[:, :, None] & (words[1] >= 0)[:, None, :]
            products_NST = torch.bmm(states_FH[places[0]], states_FH[places[1]].mT)
            return products_NST.masked_fill(~compared_NST, -torch.inf)

        similar_NST = similarities()
        guide_NST = similar_NST.detach()
        if options["so"] and model.training:
            with torch.no_grad(), evaluating(model):
                guide_NST = similarities()
        found_NST = linked(guide_NST, options["extraction"], options["threshold"])
        links_NST = between_words(found_NST, *words)
        trained_N, agreed_N = link_losses(similar_NST, links_NST, options["extraction"])
        losses_N: torch.Tensor = options["so"] * trained_N + options["co"] * agreed_N
        return losses_N

    def _identification(self, packed: Packed) -> torch.Tensor:
        """The summed -L_PSI of pairs, of which the first half are translations."""
        assert self.head is not None, "pairs are identified by it"
        (states_FH,) = self.encoder.states(packed, (self.above,))
        first_PH = states_FH[on_device(packed.starts_S, states_FH.device)]
        logits_P = self.encoder.within(self.head, first_PH)[:, 0]
        labels_P = torch.zeros_like(logits_P)
        labels_P[: len(logits_P) // 2] = 1
        loss: torch.Tensor = torch.nn.functional.binary_cross_entropy_with_logits(
            logits_P, labels_P, reduction="sum"
        )
        return loss
