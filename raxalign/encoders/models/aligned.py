"""What a method returns: an encoder and transforms of its representations."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from raxalign.encoders.base import Encoder
from raxalign.encoders.models.blocks import Edit
from raxalign.encoders.models.rows import Packed
from raxalign.encoders.models.sentence_config import SentenceConfig
from raxalign.encoders.models.sentence_module import KIND, SentenceUse, needs_module, write_module
from raxalign.encoders.models.soundness import refuse_unsound_words
from raxalign.encoders.models.static import RECORD as STATIC_RECORD
from raxalign.encoders.models.static import StaticEncoder, write_vectors
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.encoders.models.transforms import Affine, Transform, Unit, pack, unpack
from raxalign.encoders.models.vectors import (
    Batch,
    Pooling,
    WordLists,
    WordVectors,
    assemble,
    parse_layers,
)
from raxalign.errors import DataError, RaxalignError
from raxalign.lazy import torch
from raxalign.options.run import BasePrecision
from raxalign.train.devices import on_device

__all__ = ["Affine", "AlignedEncoder", "Transform", "Unit"]

_RECORD, _TENSORS, _WEIGHTS, _FORMAT = "transforms.json", "transforms.safetensors", "encoder", 1


@dataclass(frozen=True)
class AlignedEncoder:
    """An encoder plus transforms, applied in their order. `weights_changed` says that the encoder
    is not the one that the method was given; `direction` is the language of a view by `toward`;
    `notes` are the method's, for the record. `frozen` takes the place of inside transforms that are
    not there: up to this layer, training for a task leaves the encoder as it is (it is not saved).

    Readouts apply to what comes out: in `hidden` to every piece by its language, in `words` to the
    pooled vectors (rotations are fitted on those; for affine steps and mean pooling the two are the
    same).
    """

    encoder: Encoder
    transforms: tuple[Transform, ...] = ()
    weights_changed: bool = False
    notes: Mapping[str, object] = field(default_factory=dict)
    direction: str | None = None
    frozen: int = 0

    def __post_init__(self) -> None:
        depth = self.encoder.n_layers
        for transform in self.transforms:
            if not 0 <= (layer := transform.layer) <= depth:
                has = f"the encoder has the layers 0 to {depth}"
                raise ValueError(f"a transform of layer {layer}, but {has}")
            if transform.sort == "inside" and not isinstance(self.encoder, TransformerEncoder):
                raise RaxalignError("only a transformer has an inside that transforms can change")
        object.__setattr__(self, "transforms", tuple(t.to(self.device) for t in self.transforms))

    @property
    def hidden_size(self) -> int:
        """The width of its vectors."""
        return self.encoder.hidden_size

    @property
    def n_layers(self) -> int:
        """The number of blocks; layers are 0 (embeddings) to this."""
        return self.encoder.n_layers

    @property
    def device(self) -> str:
        """Where its tensors are."""
        return self.encoder.device

    def toward(self, lang: str) -> AlignedEncoder:
        """The same encoder with the pivot's transforms for one other language."""
        return replace(self, direction=lang)

    def joined(self, others: Iterable[AlignedEncoder], order: Sequence[str]) -> AlignedEncoder:
        """The same encoder with the readouts of others too, which were each fitted for other
        languages, in the order of these.
        """
        parts = [self, *others]
        transforms = [transform for part in parts for transform in part.transforms]
        transforms.sort(key=lambda found: order.index(found.toward or found.lang))
        notes = {name: fact for part in parts for name, fact in part.notes.items()}
        return replace(self, transforms=tuple(transforms), notes=notes)

    def inside_depth(self) -> int:
        """The highest layer with an inside transform, or the `frozen` one; 0 where neither is."""
        return max([self.frozen, *(t.layer for t in self.transforms if t.sort == "inside")])

    def active(self, sort: str) -> tuple[Transform, ...]:
        """The transforms of a sort that apply in this view."""
        return tuple(
            t for t in self.transforms if t.sort == sort and t.toward in (None, self.direction)
        )

    def words(
        self,
        sentences: WordLists,
        lang: str,
        *,
        layers: str | Sequence[int] = "last",
        pooling: Pooling = "mean",
    ) -> WordVectors:
        """Vectors of all words in input order, (N, L, H), transformed; absent words are zero."""
        batches = self.iter_words(sentences, lang, layers=layers, pooling=pooling)
        n_layers = len(self._chosen(layers))
        return assemble(sentences, batches, n_layers, self.hidden_size)

    def _chosen(self, layers: str | Sequence[int]) -> tuple[int, ...]:
        return parse_layers(layers, self.n_layers) if isinstance(layers, str) else tuple(layers)

    def iter_words(
        self,
        sentences: WordLists,
        lang: str,
        *,
        layers: str | Sequence[int] = "last",
        pooling: Pooling = "mean",
    ) -> Iterator[tuple[Sequence[int], WordVectors]]:
        """The vectors of `words` batch by batch: (indices of the sentences, their vectors)."""
        chosen, edits = self._chosen(layers), self.edits()
        inside: dict[str, Any] = {"edits": edits} if edits else {}
        batches = self.encoder.iter_words(sentences, lang, layers=chosen, pooling=pooling, **inside)
        own = [transform for transform in self.active("readout") if transform.lang == lang]
        readouts = [[t for t in own if t.layer == layer] for layer in chosen]
        for indices, part in batches:
            words = sum(len(sentences[i]) for i in indices)
            refuse_unsound_words(self.encoder, part, words, len(chosen))
            yield indices, _read(part, readouts) if any(readouts) else part

    def hidden(self, batch: Batch) -> tuple[torch.Tensor, ...]:
        """Hidden states (B, T, H) of all layers, transformed by the language of each piece."""
        if not isinstance(self.encoder, TransformerEncoder):
            raise RaxalignError("only a transformer has hidden states; ask this encoder for words")
        states = list(self.encoder.hidden(batch, edits=self.edits()))
        for transform in self.active("readout"):
            states[transform.layer] = _where_spoken(
                transform, states[transform.layer], batch.langs_BT, batch.languages
            )
        return tuple(states)

    def packed_hidden(self, packed: Packed) -> torch.Tensor:
        """Hidden states (F, H) of the last layer, in the order of the places of rows that were laid
        out, transformed by the language of each piece. Gradient flows.

        Raises `RaxalignError` where sentences share rows and an inside transform applies to a
        language of these.
        """
        if not packed.shared and isinstance(self.encoder, TransformerEncoder):
            return self.hidden(self.encoder.one_per_row(packed))[-1].flatten(0, 1)
        inside = any(t.lang in (packed.languages or t.lang) for t in self.active("inside"))
        if not isinstance(self.encoder, TransformerEncoder) or inside:
            raise RaxalignError("sentences share rows in a transformer without inside transforms")
        (states_FH,) = self.encoder.states(packed, (self.n_layers,))
        for transform in self.active("readout"):
            if transform.layer == self.n_layers:
                if packed.langs_BT is None:
                    raise RaxalignError("transforms of packed rows need the language of each piece")
                langs_F = on_device(packed.langs_BT, self.device).reshape(-1)
                states_FH = _where_spoken(transform, states_FH, langs_F, packed.languages)
        return states_FH

    def edits(self) -> dict[int, Edit]:
        """The inside transforms as edits of the stream, by layer."""

        def change(inside: list[Transform], states_BTH: torch.Tensor, batch: Batch) -> torch.Tensor:
            for transform in inside:
                states_BTH = _where_spoken(transform, states_BTH, batch.langs_BT, batch.languages)
            return states_BTH

        layers: dict[int, list[Transform]] = {}
        for transform in self.active("inside"):
            layers.setdefault(transform.layer, []).append(transform)
        return {layer: partial(change, inside) for layer, inside in layers.items()}

    def save(self, folder: Path | str) -> None:
        """Write transforms and notes, and the encoder's weights only where they changed."""
        self._write(Path(folder))
        if self.weights_changed:
            self.encoder.save(Path(folder) / _WEIGHTS)

    def export(self, folder: Path | str, use: SentenceUse | None = None) -> tuple[str, ...]:
        """Write a folder that `AutoModel` opens (static vectors: word2vec files, as trained and
        aligned), with the transforms next to it; `from_export` reads it. sentence-transformers
        opens that of a transformer as `use` says; with transforms by a module that is part of the
        folder (`aligned_sentences`), which applies them and is given the language of the texts.
        Return the names of these languages; none where the vectors do not depend on the language.
        Raises `RaxalignError` where sentences cannot be read as `use` says.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self.encoder.save(folder)
        self._write(folder)
        if isinstance(self.encoder, StaticEncoder) and not self.encoder.reading.pieces:
            self._write_words(self.encoder, folder)
        if not isinstance(self.encoder, TransformerEncoder):
            return ()
        return self._write_sentences(self.encoder, folder, use or SentenceUse())

    def _write_words(self, encoder: StaticEncoder, folder: Path) -> None:
        """Write ``<lang>.aligned.vec`` for each language, the vectors of its words as `words` gives
        them; ``<pivot>-<lang>.aligned.vec`` where the pivot's depend on the other language.
        """
        for lang in encoder.languages if self.transforms else ():
            words = encoder.space(lang).words
            toward = dict.fromkeys(t.toward for t in self.transforms if t.lang == lang)
            for other in toward or [None]:
                view = self if other is None else self.toward(other)
                found = view.words([words], lang)
                kept = found.present_N.nonzero()[:, 0].tolist()
                vectors_NH = found.vectors_NLH[kept, 0].cpu().numpy()
                name = lang if other is None else f"{lang}-{other}"
                path = folder / f"{name}.aligned.vec"
                write_vectors(path, [words[i] for i in kept], vectors_NH)

    def has_module(self) -> bool:
        """Return whether an export needs ``trust_remote_code=True`` in sentence-transformers."""
        encoder = self.encoder
        return (
            isinstance(encoder, TransformerEncoder)
            and not encoder.inputs.is_half
            and needs_module(encoder, self.transforms)
        )

    def _write_sentences(
        self, encoder: TransformerEncoder, folder: Path, use: SentenceUse
    ) -> tuple[str, ...]:
        own = encoder.sentences
        config = own if own is not None and not own.unread else SentenceConfig()
        config = config if use.pooling is None else SentenceConfig(use.pooling)
        if self.has_module():
            choices = write_module(folder, encoder, self.transforms, use)
            encoder.write_sentences(folder, config, transformer=KIND, languages=choices)
            return choices
        if own is None or use.pooling is not None:
            encoder.write_sentences(folder, config)
        return ()

    def _write(self, folder: Path) -> None:
        from safetensors.torch import save_file

        folder.mkdir(parents=True, exist_ok=True)
        records, tensors = pack(self.transforms)
        notes = {"weights_changed": self.weights_changed, "notes": dict(self.notes)}
        record = {"format": _FORMAT, "transforms": records, **notes}
        save_file(tensors, folder / _TENSORS)
        text = json.dumps(record, indent=1, ensure_ascii=False, sort_keys=True)
        (folder / _RECORD).write_text(text + "\n", encoding="utf-8")

    @classmethod
    def load(
        cls,
        folder: Path | str,
        base: Callable[[], Encoder],
        device: str = "cpu",
        held: BasePrecision = "fp32",
    ) -> AlignedEncoder:
        """What `save` wrote; `base` makes the encoder where the weights did not change, and `held`
        is how those that did not are held where others did.
        """
        transforms, changed, notes = _read_record(Path(folder))
        own = Path(folder) / _WEIGHTS
        encoder = (
            TransformerEncoder.from_folder(own, device=device, base=held) if changed else base()
        )
        return cls(encoder, transforms, changed, notes)

    @classmethod
    def from_export(cls, folder: Path | str, device: str = "cpu") -> AlignedEncoder:
        """What `export` wrote, or a plain Hugging Face folder, or one of static vectors."""
        folder = Path(folder).absolute()
        kind = StaticEncoder if (folder / STATIC_RECORD).is_file() else TransformerEncoder
        encoder = kind.from_folder(folder, device=device)
        return cls(encoder, *(_read_record(folder) if (folder / _RECORD).is_file() else ()))


def _where_spoken(
    transform: Transform, states: torch.Tensor, langs: torch.Tensor, languages: tuple[str, ...]
) -> torch.Tensor:
    """The states (..., H), transformed where `langs` (...) is the transform's in `languages`."""
    if transform.lang not in languages:
        return states
    spoken = langs == languages.index(transform.lang)
    return torch.where(spoken[..., None], transform(states), states)


def _read(part: WordVectors, readouts: list[list[Transform]]) -> WordVectors:
    """Word vectors with the readouts of each of their layers; absent words stay zero."""
    columns = list(part.vectors_NLH.unbind(dim=1))
    for k, transforms in enumerate(readouts):
        for transform in transforms:
            columns[k] = transform(columns[k])
    return replace(part, vectors_NLH=torch.stack(columns, dim=1) * part.present_N[:, None, None])


def _read_record(folder: Path) -> tuple[tuple[Transform, ...], bool, dict[str, object]]:
    """(transforms, whether the weights changed, notes) of a folder."""
    from safetensors.torch import load_file

    path = folder / _RECORD
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if record["format"] != _FORMAT:
            fault = f"format {record['format']!r}, but this version reads {_FORMAT}"
            raise DataError(path, fault, remedy="Use the raxalign that wrote it")
        transforms = unpack(record["transforms"], load_file(folder / _TENSORS))
        return transforms, record["weights_changed"], record["notes"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(path, f"is not an aligned encoder's record ({error})") from error
