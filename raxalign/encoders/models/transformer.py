"""Transformer encoders: hidden states, which edits may change, and vectors of words.

Several sentences (or pairs) may lie in one row, each of which sees only itself: the forward pass
without padding. Position ids begin anew with each sentence, and a block-diagonal mask keeps them
apart, so every sentence has exactly the states that it has alone. A probe compares packed with
padded sentences once per encoder: where sentences have other states, rows are padded. Blocks may be
compiled: one graph serves all of a kind, and hooks and what is outside run as always.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache, partial
from pathlib import Path
from types import MethodType, SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

from raxalign.caveats import Caveats
from raxalign.encoders.base import Encoder
from raxalign.encoders.models.blocks import Blocks, Edit
from raxalign.encoders.models.hub import encoder_place
from raxalign.encoders.models.kept_states import KeptStates
from raxalign.encoders.models.loading import ModelInputs, load_model, save_model
from raxalign.encoders.models.sentence_config import SentenceConfig, files_of
from raxalign.encoders.models.vectors import Batch, Pooling, Spans, WordVectors
from raxalign.errors import RaxalignError
from raxalign.lazy import np, torch
from raxalign.options.run import BasePrecision, Precision
from raxalign.store.key import digest
from raxalign.train.devices import arithmetic, forward_as, on_device

if TYPE_CHECKING:
    from raxalign.encoders.models.rows import Packed, Rows, RowSource

_LOCAL = ("local_attention", "sliding_window", "attention_window", "block_size", "axial_pos_shape")
"""Entries of configs by which attention is within a window or of blocks. It is as the whole one in
sentences as short as those of the probe, which would find no difference.
"""
_LONGEST = 512  # the pieces of the widest packed rows, about
_LENGTHS = (5, 8)  # the pieces of the sentences of a probe
_TOLERANCE = 1e-5  # of the norm of the states, in float32
_ROUNDINGS = 100  # how many units of the least precise type in use are rounding, not a difference
_GRAPHS = 64
"""The most graphs per kind of block. Each encoder has some: with and without gradient or dropout,
for one row and for several.
"""


class TransformerEncoder(Encoder):
    """An encoder, with its masked-LM head where it has one (`has_head`), or the base model of a
    decoder, and its tokenizer. Layer 0 is what enters the first block, layer l what leaves block l
    (the last one after the final norm, where the architecture has one).
    """

    family: ClassVar[str] = "transformer"

    def __init__(
        self, model: Any, tokenizer: Any, device: str = "cpu", precision: Precision = "fp32"
    ) -> None:
        from raxalign.encoders.models.pieces import read_template

        self.model = model.to(device)
        self.precision = precision
        self.tokenizer = tokenizer
        self.device = device
        self.hidden_size: int = model.config.hidden_size
        self.n_layers: int = model.config.num_hidden_layers
        self.has_head: bool = model.base_model is not model
        self.batch_tokens = 16_384 if str(device).startswith("cuda") else 4_096
        self.not_as_trained: Mapping[str, str] = {}
        self.prepared: Mapping[Path, Path] = {}
        """Folders of datasets whose pieces were made before, each with the folder of these."""
        self.template = own = read_template(tokenizer)
        """The special pieces around one text and two."""
        self.sentences: SentenceConfig | None = None
        self.filler = tokenizer.pad_token_id or tokenizer.eos_token_id or 0
        """The piece of a text of which a tokenizer without special pieces makes nothing."""
        every = (*own.before, *own.between, *own.after_single, *own.after_pair)
        self.inputs = ModelInputs(model, tokenizer, every)
        self.max_positions = self.inputs.max_positions
        self.trailing = 0 if self.inputs.is_decoder else len(own.after_single)
        self.kept: KeptStates | None = None
        """Where the states of this very model are kept, whose weights nothing changes."""
        self.packs: bool | None = None
        """Whether several sentences may share a row; None until `can_pack` has probed it."""
        self.even = False
        """Whether rows are laid out in few shapes (`Packed.of`)."""

    @classmethod
    def from_folder(
        cls,
        path_or_name: str | Path,
        revision: str | None = None,
        device: str = "cpu",
        base: BasePrecision = "fp32",
    ) -> TransformerEncoder:
        """The encoder of a local folder (a path, or a text that is an absolute one) or a hub name,
        in eval mode, with its configuration of sentence-transformers, where it has one, or the
        pooling of SONAR; see `load_model` for the arguments and the errors. Pieces that are not the
        tokenizer's own are reported wherever text is read. With `base` the weights are held in
        bfloat16, and nothing of the model is trained.
        """
        from raxalign.encoders.models.pieces import other_pieces

        name = path_or_name if isinstance(path_or_name, str) else str(path_or_name.absolute())
        encoder = cls(*load_model(name, revision, base), device)
        encoder.base_precision = base
        file, kinds = files_of(encoder_place(name, revision)), encoder.model.config.architectures
        encoder.sentences = SentenceConfig.read(file, kinds)
        differing = other_pieces(encoder.tokenizer)
        encoder.not_as_trained = {} if differing is None else {name: differing}
        return encoder

    def with_model(self, model: Any) -> TransformerEncoder:
        """Return an encoder like this one with another model, such as a frozen copy, whose rows may
        be packed where those of this one may.
        """
        made = TransformerEncoder(model, self.tokenizer, self.device, self.precision)
        made.packs = self.can_pack()
        made.compiled, made.base_precision = self.compiled, self.base_precision
        return made

    def blocks(self) -> tuple[torch.nn.Module, ...]:
        """The parts of the model that a backward pass can run again (`Objective.blocks`): its
        blocks, or what these are made of (XLM); none where they are not found, and all is kept.
        """
        try:
            parts = Blocks.of(self.model.base_model).parts
        except RaxalignError:
            return ()
        found: list[torch.nn.Module] = []
        for part in parts:
            found += part.children() if isinstance(part, torch.nn.ModuleList) else [part]
        return tuple(found)

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
        if self.inputs.is_half:
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
        if self.inputs.is_half or (not module and self.inputs.is_bidirectional):
            return
        config.write(folder, self.hidden_size, self.max_positions, **module)

    def pieces(
        self,
        sentences: Sequence[Sequence[str]],
        lang: str,
        pairs: Sequence[Sequence[str]] | None = None,
        pair_lang: str | None = None,
    ) -> RowSource:
        """Rows of the pieces of the running text with special ones, cut to `max_positions`: of
        sentences, or of pairs (`pairs[i]` follows `sentences[i]`, in `pair_lang`), which lose the
        end of the longer sentence first. Words keep their numbers whatever is cut.
        """
        from raxalign.encoders.models.pieces import Pieces
        from raxalign.encoders.models.rows import RowSource

        if pairs is not None and len(pairs) != len(sentences):
            raise ValueError(f"{len(sentences)} sentences, but {len(pairs)} second ones")
        sides = [Pieces.read(self.tokenizer, [sentences], lang)]
        if pairs is not None:
            sides.append(Pieces.read(self.tokenizer, [pairs], pair_lang or lang))
        return RowSource.of(self, sides)

    def collate(self, rows: RowSource | Rows, chosen: np.ndarray | None = None) -> Batch:
        """Some rows (None: all) as a padded batch on the encoder's device; they may be of different
        languages.
        """
        return self.laid_out(rows, chosen).on(self.device)

    def laid_out(self, rows: RowSource | Rows, chosen: np.ndarray | None = None) -> Batch:
        """The same in the memory of the host: the device has no part in it."""
        filler = int(self.tokenizer.pad_token_id or 0)
        return rows.take(chosen).padded(filler, self.inputs.segment_types)

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
            Blocks.of(self.model.base_model).watched(max(top, 1), states, edits or {}, batch),
        ):
            output = self.run(inputs)
        if top == self.n_layers:
            states[top] = output.last_hidden_state
        return tuple(map(self.widened, states[: top + 1]))

    def read(
        self, batch: Batch, layers: Sequence[int], edits: Mapping[int, Edit] | None = None
    ) -> list[torch.Tensor]:
        """Return the hidden states (B, T, H) of some layers as `hidden` does, without gradient and
        dropout. Those of fixed weights are read once (`kept`).
        """
        kept = self._kept(edits)
        if kept is not None and (found := kept.recall(batch, layers)) is not None:
            return found
        with torch.no_grad(), evaluating(self.model):
            hidden = self.hidden(batch, edits=edits, upto=max(layers))
        if kept is not None:
            kept.keep(batch, {layer: hidden[layer] for layer in layers})
        return [hidden[layer] for layer in layers]

    def _kept(self, edits: Mapping[int, Edit] | None) -> KeptStates | None:
        """Where states under such edits are kept; None where they are not."""
        return self.kept if not edits and self.kept and self.kept.model is self.model else None

    def read_ahead(
        self, rows: RowSource, layers: Sequence[int], edits: Mapping[int, Edit] | None = None
    ) -> None:
        """Read and keep the states of some rows that are not kept yet. Each process begins with
        another batch, so that those that read the same text at once share it. Does nothing where
        no states are kept, and stops when the folder is full.
        """
        from raxalign.encoders.models.pieces import token_batches

        if (kept := self._kept(edits)) is None:
            return
        batches = list(token_batches(rows.lengths, self.batch_tokens))
        first = random.Random(os.getpid()).randrange(max(len(batches), 1))
        for chosen in [*batches[first:], *batches[:first]]:
            batch = self.collate(rows, chosen)
            if not kept.has(batch, layers):
                self.read(batch, layers)
                if not kept.has(batch, layers):
                    return

    def keep_states(self, top: Path | None, key: str, start: str = "") -> None:
        """Let `read` and `states` keep states below the folder `top` (None: they do not), where
        `key` names the weights, which nothing changes from now on, and the code that reads with
        them; `start` names those that a task trained from, if states of what it trained are kept. A
        GPU computes states as fast as a disk gives them, and keeps none; nor do compiled blocks.
        """
        if top is None or str(self.device) != "cpu" or self.compiled:
            self.kept = None
            return
        # one thread adds up in another order than two
        threads, by = torch.get_num_threads(), torch.backends.cpu.get_cpu_capability()
        how = [self.precision, self.base_precision, threads, by]
        name, trained = digest([key, *how]), digest([start, *how]) if start else ""
        self.kept = KeptStates(top / name, self.model, trained)

    def run(self, inputs: Mapping[str, Any]) -> Any:
        """Return what the base model makes of its inputs, within a block of `arithmetic`. Compiled
        blocks round weights inside their graphs.
        """
        if self.precision != "bf16" or self.compiled:
            return self.model.base_model(**inputs)
        from raxalign.encoders.models.held_base import run_rounded

        return run_rounded(self.model.base_model, inputs)

    def can_pack(self) -> bool:
        """Return whether sentences may share a row, which a probe finds at the first call."""
        if self.packs is None:
            self.packs = _probe(self)
        return self.packs

    def lay_out(self, parts: Sequence[Rows], width: int | None = None) -> Packed:
        """Return all rows of several parts as they are read, at about `width` pieces per row (None:
        those of `Packed.of` where they are kept apart; 0: one per row). The device has no part in
        it.
        """
        from raxalign.encoders.models.rows import Packed

        filler = int(self.tokenizer.pad_token_id or 0)
        if width is None and self.can_pack():
            return Packed.of(parts, filler, even=self.even)
        return Packed.of(parts, filler, width or 0, even=self.even and bool(width))

    def states(self, packed: Packed, layers: tuple[int, ...]) -> list[torch.Tensor]:
        """Return the states of some layers, (B * T, H) each, by `starts_S`. Gradient flows. Without
        it and without dropout, those of fixed weights are read once (`kept`) where sentences share
        rows.
        """
        fixed = packed.shared and not torch.is_grad_enabled() and not self.model.training
        kept = self._kept(None) if fixed else None
        states = kept.recall(packed, layers) if kept else None
        if states is None:
            states = self._packed(packed, layers)
            if kept:
                kept.keep(packed, dict(zip(layers, states, strict=True)))
        return [state.reshape(-1, state.shape[-1]) for state in states]

    def _packed(self, packed: Packed, layers: tuple[int, ...]) -> list[torch.Tensor]:
        """The states (B, T, H) of some layers."""
        if packed.shared:
            with self.arithmetic(), compiled_blocks(self):
                states = _packed_states(self, packed, layers)
            return [self.widened(state) for state in states]
        hidden = self.hidden(self.one_per_row(packed), upto=max(layers))
        return [hidden[layer] for layer in layers]

    def one_per_row(self, packed: Packed) -> Batch:
        """Return rows of one sentence each as a batch, with their languages if they are known."""
        ids_BT = on_device(packed.ids_BT, self.device)
        none_BT = torch.full_like(ids_BT, -1)
        langs_BT = none_BT if packed.langs_BT is None else on_device(packed.langs_BT, ids_BT.device)
        segments_BT = _segments(self, packed)
        segments_BT = torch.zeros_like(ids_BT) if segments_BT is None else segments_BT
        mask_BT = on_device((packed.sentences_BT >= 0).astype(np.int64), ids_BT.device)
        return Batch(ids_BT, mask_BT, segments_BT, none_BT, none_BT, langs_BT, packed.languages)

    def lm_logits(self, states: torch.Tensor) -> torch.Tensor:
        """The masked-LM head on last-layer states (..., H): logits (..., V). Only the positions
        that are needed should be given. Raises `RaxalignError` where there is no such head.
        """
        return self.within(partial(apply_head, self.model), states)

    def logits_at(self, packed: Packed, places_M: np.ndarray) -> torch.Tensor:
        """Return what the masked-LM head predicts at some places of the states of rows, (M, V)."""
        (states_FH,) = self.states(packed, (self.n_layers,))
        return self.lm_logits(states_FH[on_device(places_M, states_FH.device)])

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
        from raxalign.encoders.models.pieces import token_batches

        rows = self.pieces(sentences, lang)
        sizes = np.array([len(sentence) for sentence in sentences], np.int64)
        if (found := Caveats.listener()) is not None:
            full = np.flatnonzero(rows.lengths == self.max_positions)
            held = (int(rows[i].lasts.max()) for i in full.tolist())
            found.beyond[lang] += int((sizes[full] - 1).sum()) - sum(held)
        self.read_ahead(rows, layers, edits)
        for chosen in token_batches(rows.lengths, self.batch_tokens):
            batch = self.laid_out(rows, chosen)
            yield chosen.tolist(), self._pooled(batch, sizes[chosen], layers, pooling, edits)

    def _pooled(
        self,
        batch: Batch,
        counts: np.ndarray,
        layers: tuple[int, ...],
        pooling: Pooling,
        edits: Mapping[int, Edit] | None,
    ) -> WordVectors:
        words = (batch.words_BT.numpy(), batch.lasts_BT.numpy())
        spans = Spans.of_words(*words, counts, pooling)
        vectors_NLH = spans.pool(self.read(batch.on(self.device), layers, edits))
        self.refuse_infinite(vectors_NLH, batch.languages[0])
        present_N = spans.present(self.device)
        return WordVectors(vectors_NLH, [0, *np.cumsum(counts).tolist()], present_N)


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


def _segments(encoder: TransformerEncoder, packed: Packed) -> torch.Tensor | None:
    """The token types of rows, where the encoder has a second one."""
    inputs = encoder.inputs
    if not inputs.has_segments or inputs.segment_types < 2:
        return None
    return on_device(packed.segments_BT, encoder.device)


def _packed_states(
    encoder: TransformerEncoder, packed: Packed, layers: tuple[int, ...]
) -> list[torch.Tensor]:
    """The hidden states (B, T, H) of some layers, in which a piece sees its sentence alone. Whether
    the encoder can do this is what a probe of it finds.
    """
    top, device = encoder.n_layers, encoder.device
    inputs = {
        "input_ids": on_device(packed.ids_BT, device),
        "attention_mask": _mask(encoder, on_device(packed.sentences_BT, device)),
    }
    if encoder.inputs.has_positions:
        positions_BT, first = on_device(packed.positions_BT, device), encoder.inputs.first_position
        inputs["position_ids"] = positions_BT + first if first else positions_BT
    if (segments_BT := _segments(encoder, packed)) is not None:
        inputs["token_type_ids"] = segments_BT
    if layers == (top,):
        return [encoder.run(inputs).last_hidden_state]
    # Hooks of transformers' own `output_hidden_states` would stay, and torch.compile stops at them.
    states: list[torch.Tensor] = []
    with Blocks.of(encoder.model.base_model).watched(max(1, *layers), states, {}, None):
        output = encoder.run(inputs)
    if top in layers:
        states[top] = output.last_hidden_state
    return [states[layer] for layer in layers]


def _mask(encoder: TransformerEncoder, sentences_BT: torch.Tensor) -> torch.Tensor:
    """The mask (B, 1, T, T) that is added to the scores of pairs of pieces."""
    kind = sentences_BT.device.type
    rounds = torch.is_autocast_enabled(kind)
    dtype = torch.get_autocast_dtype(kind) if rounds else encoder.inputs.states_dtype
    others_BTT = sentences_BT[:, :, None] != sentences_BT[:, None, :]
    none_BTT = torch.zeros_like(others_BTT, dtype=dtype)
    return none_BTT.masked_fill_(others_BTT, torch.finfo(dtype).min)[:, None]


@contextmanager
def compiled_blocks(encoder: TransformerEncoder) -> Iterator[None]:
    """Run the blocks of an encoder as compiled within the block, where it is `compiled`. A block
    that runs again in the backward pass runs again as compiled.
    """
    if not encoder.compiled:
        yield
        return
    found = Blocks.of(encoder.model.base_model).parts
    blocks = [block for block in found if not isinstance(block, torch.nn.ModuleList)]
    # Copies of a model must not run the weights of the original, so nothing is left behind.
    with ExitStack() as stack:
        for block in dict.fromkeys(blocks):
            kind: Any = type(block)
            stack.enter_context(forward_as(block, MethodType(_compiled(kind), block)))
        yield


@cache
def _compiled(kind: Any) -> Callable[..., Any]:
    """The forward pass of a class of blocks."""
    from torch.compiler import config  # an argument of torch.compile only from torch 2.13 on

    config.recompile_limit = max(config.recompile_limit, _GRAPHS)
    made: Callable[..., Any] = torch.compile(kind.forward, dynamic=True)
    return made


def _probe(encoder: TransformerEncoder) -> bool:
    """Whether two sentences in one row have the states, at all layers, of a padded batch.

    What an encoder cannot do is False too: a mask of four dimensions, positions from outside, a
    language per row. Neither random state nor the model's mode is changed.
    """
    config, precision = encoder.model.config, encoder.precision
    if not _keeps_positions(encoder) or any(getattr(config, name, None) for name in _LOCAL):
        return False
    # rounding, also that of an autocast around the call, would hide a difference
    plain = torch.autocast(torch.device(encoder.device).type, enabled=False)
    with evaluating(encoder.model), torch.random.fork_rng(devices=[]), plain, torch.no_grad():
        encoder.precision = "fp32"
        try:
            together, apart = _probed(encoder)
        except Exception:  # noqa: BLE001 (whatever stops a packed row, padded rows do without)
            return False
        finally:
            encoder.precision = precision
    return all(_equal(a, b) for a, b in zip(together, apart, strict=True))


def _keeps_positions(encoder: TransformerEncoder) -> bool:
    """Whether nothing but attention could mix up the sentences of a row: neither a language per
    row, nor a row's own positions, which run on from sentence to sentence and could run out.
    """
    limit = getattr(encoder.model.config, "max_position_embeddings", None) or 0
    return not encoder.inputs.has_languages and (
        encoder.inputs.has_positions or not 0 < limit < _LONGEST
    )


def _probed(encoder: TransformerEncoder) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """The states (F, H) of all layers of random sentences, always the same ones: in one row, and in
    a padded batch, in the same order.
    """
    from raxalign.encoders.models.rows import Packed, Rows

    sizes, pad = np.array(_LENGTHS), int(encoder.tokenizer.pad_token_id or 0)
    known = np.setdiff1d(np.arange(encoder.model.get_input_embeddings().num_embeddings), [pad])
    ids = np.random.default_rng(0).choice(known, sizes.sum())
    rows = Rows.of(ids, sizes)
    row = Packed.of([rows], pad, sum(_LENGTHS))
    together = _packed_states(encoder, row, tuple(range(encoder.n_layers + 1)))
    places = (torch.from_numpy(part[0]) for part in (row.sentences_BT, row.positions_BT))
    sentence_F, place_F = (part.to(encoder.device) for part in places)
    apart = encoder.hidden(encoder.one_per_row(Packed.of([rows], pad, 0)))
    return [state[0] for state in together], [state[sentence_F, place_F] for state in apart]


def _equal(together_FH: torch.Tensor, apart_FH: torch.Tensor) -> bool:
    """Whether they differ by rounding alone."""
    coarse = torch.finfo(apart_FH.dtype).eps
    if apart_FH.is_cuda and torch.get_float32_matmul_precision() != "highest":
        coarse = max(coarse, torch.finfo(torch.float16).eps)  # TF32 has as many digits
    tolerance = max(_TOLERANCE, min(_ROUNDINGS * coarse, 0.02))
    difference = (together_FH - apart_FH).norm(dim=-1)
    return bool((difference <= tolerance * apart_FH.norm(dim=-1)).all())
