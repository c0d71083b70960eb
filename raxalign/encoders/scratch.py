"""A small BERT made from the grid's own text, for when nothing can be downloaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeAlias, final

from pydantic import Field, model_validator

from raxalign.arrays import offsets_of
from raxalign.corpora.text.words import in_text
from raxalign.encoders.base import EncoderInputs, EncoderKind
from raxalign.encoders.models.folder import Footprint, footprint_of
from raxalign.encoders.models.loading import save_model
from raxalign.encoders.models.masking import MaskedLM, Masks
from raxalign.encoders.models.pieces import Pieces
from raxalign.encoders.models.rows import Packed, Rows
from raxalign.encoders.models.sentence_config import SentenceConfig
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.encoders.models.vocabulary import (
    read_vocabulary,
    read_words,
    train_wordpiece,
    wrap_vocabulary,
)
from raxalign.errors import RaxalignError
from raxalign.lazy import np, torch
from raxalign.options.params import LATER, Removed
from raxalign.options.sources import DataPath, LocalFile, Source
from raxalign.train.loop import fit
from raxalign.train.options import TrainSettings
from raxalign.train.runtime import Runtime


@final
class Scratch(EncoderKind):
    """A BERT with its own WordPiece vocabulary or a given one, trained by masked language modelling
    on the concatenated monolingual text of all languages, with no parallel signal (the set-up of
    Liu et al. 2020 and K et al. 2020, made small).

    Data: monolingual text of all languages (`text`), and a vocabulary if one is named.

    Relations: `transformer` reads an encoder that is trained already; choose this one to control
    what an encoder has seen. `static` vectors cost much less.

    Example:
        encoder:
          kind: scratch
          layers: 4
          hidden_size: 256
          vocab_size: 8_000
          steps: 20_000
        text: {source: moses, path: "wikipedia/{lang}-{pivot}"}
    """

    VERSION: ClassVar[int] = 3
    papers = ("devlin2019",)
    family: ClassVar[str] = "transformer"
    needs_text: bool = True

    class Params(EncoderKind.Params):
        """The shape of the model, its vocabulary, and its training."""

        layers: int = Field(3, ge=1)
        """Number of blocks."""
        hidden_size: int = Field(128, ge=8)
        """Width of the hidden states, which `heads` must divide."""
        heads: int = Field(4, ge=1)
        """Attention heads per block."""
        intermediate: int = Field(512, ge=8)
        """Width of the feed-forward layer of a block."""
        positions: int = Field(128, ge=8)
        """Largest number of subword tokens that the encoder reads at once."""
        vocab_size: int = Field(4_000, ge=100)
        """Largest number of subword tokens in the vocabulary."""
        vocabulary: DataPath | None = None
        """File of subword tokens, a `vocab.txt` (none: one is trained on the text)."""
        max_sentences: int = Field(20_000, ge=1)
        """Largest number of sentences per language to train on."""
        window: int = Field(64, ge=8)
        """Largest number of subword tokens per training row."""
        slicing: Annotated[bool, LATER] = False
        """Whether the text, its sentences in their order, is sliced into rows of `window` subword
        tokens, so that every token is trained on; otherwise rows are sentences, pairs and groups of
        sentences in random order, and a sentence that is longer than `window` loses its end.
        """
        batch_size: int = Field(16, ge=1)
        """Windows per training step; shorter rows count by their subword tokens."""
        steps: int = Field(1_200, ge=1)
        """Training steps."""
        learning_rate: float = Field(1e-3, gt=0)
        """Learning rate at the end of the warm-up."""
        dropout: float = Field(0.1, ge=0, lt=1)
        """Probability of dropout, here and in later training runs."""
        seed: int = 0
        """Seed of the initial weights and of the training run."""
        removed: ClassVar = {
            "lowercase": Removed("leave it out: text is read with its case", False),
            "warmup": Removed("leave it out: the rate rises over a tenth of the steps", 0.1),
            "mask_share": Removed("leave it out: 15 % of the subword tokens are masked", 0.15),
        }

        @model_validator(mode="after")
        def _fits(self) -> Scratch.Params:
            if self.hidden_size % self.heads:
                raise ValueError(
                    f"hidden_size {self.hidden_size} cannot be divided among {self.heads} heads"
                )
            if self.window > self.positions:
                raise ValueError(f"window {self.window} is more than positions {self.positions}")
            return self

        def identity(self) -> dict[str, Any]:
            """Without `vocab_size` where the vocabulary is given."""
            idle = set() if self.vocabulary is None else {"vocab_size"}
            return {name: value for name, value in super().identity().items() if name not in idle}

    params: Params

    def sources(self) -> Mapping[str, Source]:
        """The vocabulary, where it is given."""
        given = self.params.vocabulary
        return {} if given is None else {"vocabulary": LocalFile(Path(given))}

    def depth(self, known: Callable[[str], str | None]) -> int:  # noqa: ARG002
        """`layers`."""
        return self.params.layers

    def unpooled(self, pooling: str, known: Callable[[str], str | None]) -> Sequence[str]:  # noqa: ARG002
        """Only `own` is lacking."""
        return SentenceConfig.lacking(self.label(), pooling, None, causal=False)

    def footprint(self, known: Callable[[str], str | None]) -> Footprint:  # noqa: ARG002
        """By its options; a vocabulary that is trained counts as full."""
        own = self.params
        sizes = (own.layers, own.hidden_size, own.intermediate, own.vocab_size, own.positions)
        return footprint_of(*sizes)

    def build(self, inputs: EncoderInputs, runtime: Runtime, folder: Path) -> Mapping[str, object]:
        """Train the model, and its vocabulary unless one is given, and write a Hugging Face
        masked-LM folder. Raises `RaxalignError` where there is no text.
        """
        vocabulary = inputs.locations.get("vocabulary")
        given = Path(vocabulary) if vocabulary else None
        return _pretrain(self.params, inputs.text, given, runtime, folder)

    def load(self, inputs: EncoderInputs, device: str) -> TransformerEncoder:
        """The encoder that `build` left in ``inputs.folder``."""
        if inputs.folder is None:
            raise RaxalignError("a scratch encoder has to be built before it is loaded")
        return TransformerEncoder.from_folder(
            Path(inputs.folder).absolute(), device=device, base=inputs.base_precision
        )


TWO_SEGMENTS = 0.5
"""Share of the rows that have two segments, where a sentence ends within them."""
NAME = "scratch"  # of the curves and checkpoints of a pre-training
_WARMUP, _MASK_SHARE = 0.1, 0.15  # of the steps, and of the pieces
LAST = 20  # steps whose mean loss is recorded in the notes as the last one


Sliced: TypeAlias = "tuple[np.ndarray, int]"
"""The pieces of a row, and where its second segment begins."""


def slice_rows(
    sentences: Sequence[np.ndarray], window: int, ends: tuple[int, int], rng: np.random.Generator
) -> list[Sliced]:
    """Slice a text, the pieces of its sentences in their order, into rows of `window` pieces that
    have every piece of the text once; `ends` are the numbers of ``[CLS]`` and ``[SEP]``.

    A row is ``[CLS] ... [SEP]``, and goes on where the one before it stopped, within a sentence
    too. Half of the rows within which a sentence ends, as `rng` draws them, have two segments,
    ``[CLS] ... [SEP] ... [SEP]``, divided at such an end, so that the encoder knows the segments
    that pairs will have.
    """
    ids = np.concatenate([np.zeros(0, np.int32), *sentences])
    stops = offsets_of(np.array([len(sentence) for sentence in sentences], dtype=np.int64))[1:]
    rows, at = [], 0
    while at < len(ids):
        room = window - 2
        divide = None
        if rng.random() < TWO_SEGMENTS:
            last = min(at + room - 1, len(ids))
            inside = stops[np.searchsorted(stops, at, "right") : np.searchsorted(stops, last)]
            if len(inside):
                divide, room = int(rng.choice(inside)), room - 1
        end, (cls, sep) = min(at + room, len(ids)), ends
        parts = [ids[at:end]] if divide is None else [ids[at:divide], ids[divide:end]]
        row = np.concatenate([[cls], *(piece for part in parts for piece in (part, [sep]))])
        rows.append((row, len(parts[0]) + 2))
        at += room
    return rows


def _pretrain(
    params: Scratch.Params,
    text: Mapping[str, Path],
    vocabulary: Path | None,
    runtime: Runtime,
    folder: Path,
) -> Mapping[str, object]:
    """Train a model on the text of all languages into `folder`, by a vocabulary from a file or from
    the text; the first worker saves it. Returns the notes; raises `RaxalignError` without text.
    """
    sentences = {lang: read_words(text[lang], params.max_sentences) for lang in sorted(text)}
    if not any(sentences.values()):
        needs = "a scratch encoder is trained on text, but there is none: give the grid a corpus"
        raise RaxalignError(needs)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(params.seed)
        tokenizer = _tokenizer(params, vocabulary, sentences)
        model = new_bert(params, len(tokenizer))
        encoder = TransformerEncoder(model, tokenizer, runtime.device, runtime.precision)
        encoder.compiled = runtime.compiled
        rows, cut = training_rows(encoder, sentences, params)
        settings, where = train_settings(params, rows), replace(runtime, seed=params.seed)
        fitted = fit(Pretraining(encoder, rows, params), len(rows), settings, where, name=NAME)
        if runtime.rank == 0:
            save_model(encoder.model, tokenizer, folder)
    return {
        "sentences": {lang: len(part) for lang, part in sentences.items()},
        "sentences_cut": cut,
        "vocabulary": len(tokenizer),
        "pieces": len(rows.ids),
        "rows_per_step": settings.batch_size,
        "first_loss": fitted.losses[0],
        "last_loss": float(np.mean(fitted.losses[-LAST:])),
    }


def _tokenizer(
    params: Scratch.Params,
    vocabulary: Path | None,
    sentences: Mapping[str, Sequence[Sequence[str]]],
) -> Any:
    """The tokenizer over the given vocabulary, or over one that is trained on the text."""
    if vocabulary is not None:
        return wrap_vocabulary(read_vocabulary(vocabulary, whole=True), lowercase=False)
    texts = [in_text(words, lang).text for lang, part in sentences.items() for words in part]
    words = [text.split() for text in texts]
    return train_wordpiece(words, params.vocab_size, lowercase=False)


def training_rows(
    encoder: TransformerEncoder,
    sentences: Mapping[str, Sequence[Sequence[str]]],
    params: Scratch.Params,
) -> tuple[Rows, dict[str, int]]:
    """Return the training rows of all languages, and how many sentences of each lost their end. The
    text of a language is as its dataset has it: its last sentence first.
    """
    rng, rows, cut = np.random.default_rng(params.seed), list[Sliced](), dict[str, int]()
    tokenizer = encoder.tokenizer
    for lang, part in sentences.items():
        cut[lang] = 0
        if params.slicing:
            # Datasets of text run backwards; what follows a sentence is to stand after it.
            pieces = Pieces.read(tokenizer, [part[::-1]], lang).of_sentences()
            ends = (int(tokenizer.cls_token_id), int(tokenizer.sep_token_id))
            rows += slice_rows(pieces, params.window, ends, rng)
            continue
        read = encoder.pieces(part, lang).take()
        rows += pack_rows(np.split(read.ids, read.offsets[1:-1]), params.window, rng)
        # longer than the window, or than the encoder's positions
        sizes = np.array([len(words) for words in part])
        lost = np.maximum.reduceat(read.lasts, read.offsets[:-1]) < sizes - 1
        cut[lang] += int(((read.lengths > params.window) | lost).sum())
    return joined(rows), cut


def joined(rows: Sequence[Sliced]) -> Rows:
    """Return rows end to end, with their segments."""
    ids = np.concatenate([ids for ids, _ in rows]).astype(np.int32)
    segments = np.concatenate([np.arange(len(ids)) >= second for ids, second in rows])
    return Rows.of(ids, np.array([len(ids) for ids, _ in rows]), segments.astype(np.int8))


def train_settings(params: Scratch.Params, rows: Rows) -> TrainSettings:
    """The options of the loop. A step has the rows of `batch_size` windows of pieces on average."""
    per_row = len(rows.ids) / len(rows)
    return TrainSettings(
        learning_rate=params.learning_rate,
        batch_size=max(1, round(params.batch_size * params.window / per_row)),
        steps=params.steps,
        warmup=float(max(1, round(_WARMUP * params.steps))),
        schedule="linear",
        betas=(0.9, 0.98),
        weight_decay=0.01,
        clip=1.0,
    )


class Pretraining(MaskedLM[Rows]):
    """Predicts the masked pieces of packed rows, each of which sees only itself."""

    def __init__(self, encoder: TransformerEncoder, rows: Rows, params: Scratch.Params) -> None:
        super().__init__(encoder, rows, lambda rows, step: rows.take(step.rows), _MASK_SHARE)
        self.window = params.window

    def lay_out(self, rows: Rows, masks: Masks) -> Packed:
        """Some rows as the encoder reads them."""
        found: Packed = self.encoder.lay_out([masks.applied(rows)], self.window)
        return found


def new_bert(params: Scratch.Params, vocabulary: int) -> Any:
    """A BERT with random weights (torch's global random state)."""
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(
        vocab_size=vocabulary,
        hidden_size=params.hidden_size,
        num_hidden_layers=params.layers,
        num_attention_heads=params.heads,
        intermediate_size=params.intermediate,
        max_position_embeddings=params.positions,
        hidden_dropout_prob=params.dropout,
        attention_probs_dropout_prob=params.dropout,
        attn_implementation="sdpa",
    )
    return BertForMaskedLM(config)


def pack_rows(singles: Sequence[np.ndarray], window: int, rng: np.random.Generator) -> list[Sliced]:
    """Training rows of at most `window` pieces: a third single sentences, a third pairs, a third as
    many as fit, so that the encoder knows the positions and segments that it will read.
    """
    order, rows, at = rng.permutation(len(singles)), [], 0
    while at < len(order):
        most = (1, 2, len(order))[rng.integers(3)]
        group = [singles[order[at]]]
        at += 1
        size = len(group[0])
        while at < len(order) and len(group) < most:
            size += len(singles[order[at]]) - 1
            if size > window:
                break
            group.append(singles[order[at]])
            at += 1
        # Every sentence but the first goes without its [CLS].
        ids = np.concatenate([group[0], *(row[1:] for row in group[1:])])[:window]
        rows.append((ids, len(group[0]) if len(group) == 2 else len(ids)))
    return rows
