"""A masked word is also predicted from the state of its translation (Yang et al. 2021)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, final

from pydantic import Field

from raxalign.methods.base import MethodInputs
from raxalign.methods.families import wording
from raxalign.methods.families.masked_lm import MaskedLMParams, read_pairs
from raxalign.methods.families.trained import Folders, Profiles, TrainedMethod
from raxalign.methods.rows.sentences import Bitexts, with_piece_links
from raxalign.train.options import Epochs, LearningRate

if TYPE_CHECKING:
    from raxalign.encoders.models.transformer import TransformerEncoder
    from raxalign.methods.objectives.weam import WordExchange

_PROFILES: Profiles = {"paper": {"reduction": "sum"}, "sane": {"reduction": "mean"}}


@final
class Weam(TrainedMethod[Bitexts]):
    """Train the encoder to predict the masked words of a sentence and its translation, read
    together, twice: from their own states, and from the states of the words that they are linked
    with.

    Formula: L_mp + λ L_cp over X = [CLS] S [SEP] T [SEP], where S is in the pivot. L_mp = mean over
    masked pieces of -log p(piece | h), by the masked-LM head. L_cp = the same over those with a
    link, from h' = A h, by a head δ(W3 (W2 h' + b2) + b3) with the same output embedding. A joins
    linked pieces, symmetrically; its rows sum to 1, so that a one-to-one link swaps two vectors.

    Data: linked words of all languages together, in random order. A link of words is one of their
    pieces, the i-th with the i-th, what is left with the last one. Masked pieces without a link
    have no part in L_cp, nor in its mean; a linked piece may itself be masked.

    W2 starts as the identity, b2 as zero, and W3, b3 (with the norm) as a copy of the masked-LM
    head's, so the encoder has to have one of a known shape (BERT, RoBERTa, XLM-R, DistilBERT,
    ModernBERT). This second head is dropped after training. Positions run on through both sentences
    and there are no language embeddings. `profile: paper` sums over masked pieces, as printed;
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
    profiles = _PROFILES

    class Params(MaskedLMParams):
        """Training is by AdamW."""

        profile: Literal["paper", "sane"] = Field("sane", description=wording.PROFILE)
        reg_weight: float = Field(1.0, alias="lambda", ge=0, allow_inf_nan=False)
        """Weight of L_cp, λ in the formula."""
        learning_rate: LearningRate[float] = 5e-5
        batch_size: int = Field(32, ge=1, description=wording.BATCH_OF_PAIRS)
        epochs: Epochs = 2
        mask_share: float = Field(0.3, gt=0, lt=1)
        reduction: Literal["sum", "mean"] | None = None
        """Whether L_mp and L_cp are sums or means over the masked pieces of a batch."""
        min_pieces: int = Field(1, ge=1, description=wording.MIN_PIECES_OF_PAIR)
        max_pieces: int = Field(0, ge=0, description=wording.MAX_PIECES_OF_PAIR)
        max_length: int = Field(128, ge=8, description=wording.PAIR_LENGTH)

    params: Params

    def read(self, encoder: TransformerEncoder, inputs: MethodInputs, folders: Folders) -> Bitexts:
        """Return the sentence pairs of all languages, with the links of their pieces."""
        bitexts = read_pairs(self, encoder, inputs, folders)
        return with_piece_links(bitexts, folders)

    def objective(self, encoder: TransformerEncoder, rows: Bitexts, seed: int) -> WordExchange:  # noqa: ARG002
        """Return the two predictions. Raises `RaxalignError` where the head cannot be copied."""
        from raxalign.methods.objectives.weam import WordExchange

        return WordExchange(encoder, rows, self.resolved())

    def counts(self, rows: Bitexts) -> dict[str, object]:
        """Return the number of sentence pairs of each language, and of linked pieces."""
        return {**rows.counts, "piece_links": len(rows.links.src)}
