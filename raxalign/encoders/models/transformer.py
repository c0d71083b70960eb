"""Transformer encoders: hidden states, which edits may change, and vectors of words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

from raxalign.caveats import listener
from raxalign.encoders.base import Encoder
from raxalign.encoders.models.blocks import Edit, recomputable, watched
from raxalign.encoders.models.hub import encoder_place
from raxalign.encoders.models.loading import load_model, save_model
from raxalign.encoders.models.model_inputs import (
    ALONE,
    ModelInputs,
    is_bidirectional,
    is_decoder,
    is_half,
    language_pieces,
    max_positions,
)
from raxalign.encoders.models.pieces import (
    PieceRow,
    Pieces,
    bulk_pieces,
    cut,
    other_pieces,
    padded,
    read_template,
    share,
    token_batches,
)
from raxalign.encoders.models.sentence_config import (
    SentenceConfig,
    files_of,
    read_sentence_config,
    write_sentence_config,
)
from raxalign.encoders.models.vectors import (
    Batch,
    Pooling,
    WordVectors,
    index_words,
    pool_words,
    refuse_infinite,
)
from raxalign.errors import RaxalignError
from raxalign.lazy import np, torch
from raxalign.options.run import BasePrecision, Precision
from raxalign.train.devices import arithmetic


class TransformerEncoder(Encoder):
    """An encoder, with its masked-LM head where it has one (`has_head`), or the base model of a
    decoder, and its tokenizer. Layer 0 is what enters the first block, layer l what leaves block l
    (the last one after the final norm, where the architecture has one).
    """

    family: ClassVar[str] = "transformer"

    def __init__(
        self, model: Any, tokenizer: Any, device: str = "cpu", precision: Precision = "fp32"
    ) -> None:
        self.model = model.to(device)
        self.precision = precision
        self.tokenizer = tokenizer
        self.device = device
        self.hidden_size: int = model.config.hidden_size
        self.n_layers: int = model.config.num_hidden_layers
        self.has_head: bool = model.base_model is not model
        self.max_positions = max_positions(model, tokenizer)
        self.batch_tokens = 16_384 if str(device).startswith("cuda") else 4_096
        self.not_as_trained: Mapping[str, str] = {}
        self.prepared: Mapping[Path, Path] = {}
        """Folders of datasets whose pieces were made before, each with the folder of these."""
        own = read_template(tokenizer)
        groups = {1: (own.before, own.after_single), 2: (own.before, own.between, own.after_pair)}
        self._around = {
            n: [(np.array(special, np.int64), np.full(len(special), -1)) for special in group]
            for n, group in groups.items()
        }
        """The special pieces around one text and two, each with its word (-1: none)."""
        self.sentences: SentenceConfig | None = None
        self._filler = tokenizer.pad_token_id or tokenizer.eos_token_id or 0
        """The piece of a text of which a tokenizer without special pieces makes nothing."""
        self.trailing = 0 if is_decoder(model.config) else len(own.after_single)
        every = (*own.before, *own.between, *own.after_single, *own.after_pair)
        self.inputs = ModelInputs(model, language_pieces(tokenizer, every))
        self.packs: bool | None = None
        """Whether several sentences may share a row; None until `can_pack` has probed it."""

    @classmethod
    def from_folder(
        cls,
        path_or_name: str | Path,
        revision: str | None = None,
        device: str = "cpu",
        base: BasePrecision = "fp32",
    ) -> TransformerEncoder:
        """The encoder of a local folder or a hub name, in eval mode, with its configuration of
        sentence-transformers, where it has one, or the pooling of SONAR; see `load_model` for the
        arguments and the errors. Pieces that are not the tokenizer's own are reported wherever text
        is read. With `base` the weights are held in bfloat16, and nothing of the model is trained.
        """
        name = str(path_or_name)
        encoder = cls(*load_model(name, revision, base), device)
        encoder.base_precision = base
        encoder.sentences = read_sentence_config(files_of(encoder_place(name, revision)))
        if encoder.sentences is None and encoder.model.config.architectures == [ALONE]:
            encoder.sentences = SentenceConfig()
        differing = other_pieces(encoder.tokenizer)
        encoder.not_as_trained = {} if differing is None else {name: differing}
        return encoder

    def with_model(self, model: Any) -> TransformerEncoder:
        """Return an encoder like this one with another model, such as a frozen copy."""
        made = TransformerEncoder(model, self.tokenizer, self.device, self.precision)
        made.compiled, made.base_precision = self.compiled, self.base_precision
        return made

    def blocks(self) -> tuple[torch.nn.Module, ...]:
        """The parts of the model that a backward pass can run again (`Objective.blocks`)."""
        return recomputable(self.model)

    def arithmetic(self) -> AbstractContextManager[None]:
        """A block in which products are computed in the precision of the encoder."""
        return arithmetic(self.precision, self.device)

    def widened(self, states: torch.Tensor) -> torch.Tensor:
        """Return states or logits in float32, which the precision may have made narrower."""
        return states.float() if self.precision == "bf16" else states

    def within(self, part: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        """What a part of the model makes of an input, in the precision of the encoder."""
        with self.arithmetic():
            made = part(x)
        return self.widened(made)

    @property
    def opened_by(self) -> str:
        """The class of transformers that opens what `save` writes."""
        if self.has_head:
            return "AutoModelForMaskedLM"
        if is_half(self.model):
            return type(self.model).__name__
        half = type(self.model).__name__.endswith("EncoderModel")  # of T5 and its like
        return "AutoModelForTextEncoding" if half else "AutoModel"

    def save(self, folder: Path | str) -> None:
        """Write a folder (safetensors, tokenizer) that transformers opens (`opened_by`)."""
        save_model(self.model, self.tokenizer, Path(folder))
        if self.sentences is not None and not self.sentences.unread:
            self.write_sentences(Path(folder), self.sentences)

    def write_sentences(self, folder: Path, config: SentenceConfig, **module: Any) -> None:
        """Write a configuration of sentence-transformers, with what `module` says of a module of
        its own; a bidirectional decoder without one has none: it would be read in one direction.
        Neither has half a translation model, which sentence-transformers does not open.
        """
        if is_half(self.model) or (not module and is_bidirectional(self.model.config)):
            return
        write_sentence_config(folder, config, self.hidden_size, self.max_positions, **module)

    def pieces(
        self,
        sentences: Sequence[Sequence[str]],
        lang: str,
        pairs: Sequence[Sequence[str]] | None = None,
        pair_lang: str | None = None,
    ) -> list[PieceRow]:
        """Pieces of the running text with special ones, cut to `max_positions`: of sentences, or of
        pairs (`pairs[i]` follows `sentences[i]`, in `pair_lang`), which lose the end of the longer
        sentence first. Words keep their numbers whatever is cut.
        """
        if (found := listener()) is not None:
            found.not_as_trained.update(self.not_as_trained)
        singles = bulk_pieces(self.tokenizer, sentences, lang)
        if pairs is None:
            whole = zip(singles, sentences, strict=True)
            return [self.row((pieces,), (len(words),), (lang,)) for pieces, words in whole]
        if len(pairs) != len(sentences):
            raise ValueError(f"{len(sentences)} sentences, but {len(pairs)} second ones")
        languages = (lang, pair_lang or lang)
        seconds = bulk_pieces(self.tokenizer, pairs, languages[1])
        sizes = ((len(a), len(b)) for a, b in zip(sentences, pairs, strict=True))
        both = zip(singles, seconds, strict=True)
        return [self.row(texts, size, languages) for texts, size in zip(both, sizes, strict=True)]

    def row(
        self, texts: tuple[Pieces, ...], sizes: tuple[int, ...], languages: tuple[str, ...]
    ) -> PieceRow:
        """The row that `pieces` returns of a sentence or of a pair, from the pieces (none of them
        special), the number of words and the language of each of its texts.
        """
        around = self._around[len(texts)]
        room = self.max_positions - sum(len(special) for special, _ in around)
        kept: tuple[int, ...] = (room,)
        if len(texts) == 2:
            kept = share(len(texts[0].ids), len(texts[1].ids), room)
        ids, words, lasts = [around[0][0]], [around[0][1]], [around[0][1]]
        before = 0
        parts = zip(texts, kept, sizes, around[1:], languages, strict=True)
        for text, n, size, (special, none), lang in parts:
            own = cut(text, n)
            if len(own.ids) < len(text.ids) and (heard := listener()) is not None:
                heard.lose(lang, text.ids.tobytes())
            ids += (own.ids, special)
            for found, numbers in ((words, own.words), (lasts, own.lasts)):
                found += (np.where(numbers < 0, -1, numbers + before) if before else numbers, none)
            before += size
        first = len(ids[0]) + len(ids[1]) + len(ids[2])
        if not any(map(len, ids)):  # a row of padding alone has no states
            none = np.array([-1])
            return PieceRow(np.array([self._filler]), none, none, 1, before, languages)
        made = (np.concatenate(ids), np.concatenate(words), np.concatenate(lasts))
        return PieceRow(*made, first, before, languages)

    def collate(self, rows: Sequence[PieceRow]) -> Batch:
        """A padded batch on the encoder's device; its rows may be of different languages."""
        return self.laid_out(rows).on(self.device)

    def laid_out(self, rows: Sequence[PieceRow]) -> Batch:
        """The same in the memory of the host: the device has no part in it."""
        return padded(rows, int(self.tokenizer.pad_token_id or 0), self.inputs.segment_types)

    def hidden(
        self, batch: Batch, *, edits: Mapping[int, Edit] | None = None, upto: int | None = None
    ) -> tuple[torch.Tensor, ...]:
        """Hidden states (B, T, H) of the layers 0 to `upto` (the last); what an edit of layer l
        changes flows on and is what is read there. Gradient flows and dropout follows the model's
        mode; the masked-LM head and the blocks above `upto` are not computed.
        """
        top = self.n_layers if upto is None else upto
        states: list[torch.Tensor] = []
        inputs = self.inputs.of(batch)
        with (
            self.arithmetic(),
            watched(self.model.base_model, max(top, 1), states, edits or {}, batch),
        ):
            output = self.model.base_model(**inputs)
        if top == self.n_layers:
            states[top] = output.last_hidden_state
        return tuple(map(self.widened, states[: top + 1]))

    def lm_logits(self, states: torch.Tensor) -> torch.Tensor:
        """The masked-LM head on last-layer states (..., H): logits (..., V). Only the positions
        that are needed should be given. Raises `RaxalignError` where there is no such head.
        """
        return self.within(partial(apply_head, self.model), states)

    def iter_words(
        self,
        sentences: Sequence[Sequence[str]],
        lang: str,
        *,
        layers: tuple[int, ...],
        pooling: Pooling,
        edits: Mapping[int, Edit] | None = None,
    ) -> Iterator[tuple[Sequence[int], WordVectors]]:
        """Word vectors batch by batch, longest sentences first, without gradient and dropout."""
        rows = self.pieces(sentences, lang)
        if (found := listener()) is not None:
            full = [row for row in rows if len(row) == self.max_positions]
            found.beyond[lang] += sum(row.n_words - 1 - int(row.lasts.max()) for row in full)
        for chosen in token_batches([len(row) for row in rows], self.batch_tokens):
            part = [rows[i] for i in chosen]
            yield chosen.tolist(), self._pooled(part, layers, pooling, edits)

    def _pooled(
        self,
        rows: list[PieceRow],
        layers: tuple[int, ...],
        pooling: Pooling,
        edits: Mapping[int, Edit] | None,
    ) -> WordVectors:
        with torch.no_grad(), evaluating(self.model):
            batch, counts = self.laid_out(rows), [row.n_words for row in rows]
            words = (batch.words_BT.numpy(), batch.lasts_BT.numpy())
            index = index_words(*words, counts, self.device)
            states = self.hidden(batch.on(self.device), edits=edits, upto=max(layers))
            vectors_NLH = torch.stack(
                [pool_words(states[layer], index, pooling) for layer in layers], dim=1
            )
            refuse_infinite(vectors_NLH, rows[0].languages[0])
            return WordVectors(vectors_NLH, [0, *np.cumsum(counts).tolist()], index.present())


@contextmanager
def evaluating(model: torch.nn.Module) -> Iterator[None]:
    """The model in eval mode; afterwards in the mode that it had."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


def apply_head(model: Any, states: torch.Tensor) -> torch.Tensor:
    """Return the logits (..., V) of the masked-LM head on last-layer states (..., H). Raises
    `RaxalignError` where the model has no such head, or one that is not known here.
    """
    if model.base_model is model:
        raise RaxalignError(
            f"{type(model).__name__}: this encoder has no masked-LM head, which predicts words; use"
            " one that was saved with its head (AutoModelForMaskedLM)"
        )
    if found := [name for name in ("cls", "lm_head", "predictions") if hasattr(model, name)]:
        logits = getattr(model, found[0])(states)
    elif hasattr(model, "vocab_transform"):
        changed = model.vocab_layer_norm(model.activation(model.vocab_transform(states)))
        logits = model.vocab_projector(changed)
    elif hasattr(model, "lm_predictions"):  # DeBERTa, whose head reads the input embeddings
        words = model.get_input_embeddings()
        if words.weight.dtype != states.dtype:  # held in bfloat16
            words = SimpleNamespace(weight=words.weight.to(states.dtype))
        logits = model.lm_predictions(states, words)
    elif hasattr(model, "pred_layer"):
        logits = model.pred_layer.proj(states)
    elif hasattr(model, "generator_predictions"):
        logits = model.generator_lm_head(model.generator_predictions(states))
    elif hasattr(model, "head"):
        logits = model.decoder(model.head(states))
    else:
        raise RaxalignError(f"{type(model).__name__}: no known masked-LM head")
    return logits  # type: ignore[no-any-return]
