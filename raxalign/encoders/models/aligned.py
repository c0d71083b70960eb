"""What a method returns: an encoder and transforms of its representations."""

from __future__ import annotations

import inspect
import json
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raxalign.catalog import Catalog, PluginFault
from raxalign.encoders.base import Encoder
from raxalign.encoders.models.blocks import Blocks, Edit
from raxalign.encoders.models.sentence_config import SentenceConfig
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.encoders.models.transforms import Affine, Transform, Unit
from raxalign.encoders.models.vectors import (
    Batch,
    Pooling,
    SentencePooling,
    WordLists,
    WordVectors,
    parse_layers,
)
from raxalign.errors import DataError, RaxalignError
from raxalign.languages import spellings
from raxalign.lazy import np, torch
from raxalign.options.run import BasePrecision
from raxalign.train.devices import on_device

if TYPE_CHECKING:
    from raxalign.encoders.models.rows import Packed, RowSource
    from raxalign.encoders.models.static import StaticEncoder

_RECORD, _TENSORS, _WEIGHTS, _FORMAT = "transforms.json", "transforms.safetensors", "encoder", 1
_NUMBERS = "Look for a division by zero, an empty mean or a training run that diverged"
_SHAPES = "Its vectors and maps have the width of the encoder (`encoder.hidden_size`)"
CODE = Path(__file__).with_name("aligned_sentences.py")
"""The module of sentence-transformers in exports with transforms: its code, which reads nothing of
raxalign and is copied into the folder.
"""


@dataclass(frozen=True)
class SentenceUse:
    """How sentence-transformers reads an export: the `languages` whose texts it takes, the pivot
    included (empty: those of the transforms); the `language` of texts for which none is given,
    ``en>de`` for a pivot with transforms by language; the `layers` that are added up (None: the
    last, or the highest one of the transforms); and the `pooling` (None: the encoder's own).
    """

    languages: tuple[str, ...] = ()
    language: str | None = None
    layers: str | None = None
    pooling: SentencePooling | None = None

    def layers_read(self, transforms: Sequence[Transform], depth: int) -> tuple[int, ...]:
        """Return the layers that are added up: its own ones where the transforms meet them."""
        if self.layers is not None and self.meets(
            transforms, wanted := parse_layers(self.layers, depth)
        ):
            return wanted
        readouts = [transform.layer for transform in transforms if transform.sort == "readout"]
        return (max(readouts, default=depth),)

    @staticmethod
    def meets(transforms: Sequence[Transform], layers: Sequence[int]) -> bool:
        """Return whether something of the transforms is in what is read of the layers."""
        top = max(layers)
        return any(t.layer in layers if t.sort == "readout" else t.layer <= top for t in transforms)


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

    def seen_from(self, lang: str, pivot: str) -> AlignedEncoder:
        """The same encoder with what is aligned in the space of one language, as that is by itself,
        in place of the pivot's: the inverse of its transforms follows those of the others.
        """
        own = [transform for transform in self.transforms if transform.lang == lang]
        rest = [transform for transform in self.transforms if transform.lang != lang]
        others = dict.fromkeys([*(transform.lang for transform in rest), pivot])
        back = [transform.inverse(other) for other in others for transform in reversed(own)]
        return replace(self, transforms=(*rest, *back))

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
        return WordVectors.assembled(sentences, batches, n_layers, self.hidden_size)

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
            _refuse_unsound_words(self.encoder, part, words, len(chosen))
            yield indices, _read(part, readouts) if any(readouts) else part

    def hidden(self, batch: Batch) -> tuple[torch.Tensor, ...]:
        """Hidden states (B, T, H) of all layers, transformed by the language of each piece."""
        if not isinstance(self.encoder, TransformerEncoder):
            raise RaxalignError("only a transformer has hidden states; ask this encoder for words")
        states = dict(enumerate(self.encoder.hidden(batch, edits=self.edits())))
        self._transform(states, batch)
        return tuple(states.values())

    def _transform(self, states: dict[int, torch.Tensor], batch: Batch) -> None:
        """Apply the readouts to the states of a batch by their layers, those that there are."""
        for transform in self.active("readout"):
            if transform.layer in states:
                states[transform.layer] = _where_spoken(
                    transform, states[transform.layer], batch.langs_BT, batch.languages
                )

    def read(
        self, rows: RowSource, layers: Sequence[int]
    ) -> Iterator[tuple[np.ndarray, Batch, list[torch.Tensor]]]:
        """Yield numbers of rows (B,), the longest first, with their batch and what `hidden` gives
        for some layers, (B, T, H) each, without gradient and dropout. Raises `RaxalignError` for an
        encoder that is not a transformer.
        """
        from raxalign.encoders.models.pieces import token_batches

        encoder, edits = self.encoder, self.edits()
        if not isinstance(encoder, TransformerEncoder):
            raise RaxalignError("only a transformer has hidden states; ask this encoder for words")
        encoder.read_ahead(rows, layers, edits)
        for chosen in token_batches(rows.lengths, encoder.batch_tokens):
            batch = encoder.collate(rows, chosen)
            states = dict(zip(layers, encoder.read(batch, layers, edits), strict=True))
            self._transform(states, batch)
            yield chosen, batch, [states[layer] for layer in layers]

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
                    raise RaxalignError(
                        "transforms of packed rows need the language of each subword token"
                    )
                langs_F = on_device(packed.langs_BT, self.device).reshape(-1)
                states_FH = _where_spoken(transform, states_FH, langs_F, packed.languages)
        return states_FH

    def refuse_unsound(self, method: Any, kind: str, languages: Collection[str]) -> None:
        """Raise where this, as a method of some kind returned it, has numbers, shapes or languages
        that cannot be used, or changed weights that the method does not declare, or the other way
        round: `PluginFault` with file and line for one from outside, else `RaxalignError`.
        """
        found = next(_faults(self, method.effect(), languages), None)
        if found is None:
            return
        text, remedy = f"method {Catalog.name_of(kind)}: align returned {found[0]}", found[1]
        file = _file_of(method)
        if file is None:
            raise RaxalignError(f"{text}. {remedy}")
        _, line = inspect.getsourcelines(type(method).align)
        raise PluginFault(file, text, line=line, remedy=remedy)

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
        from raxalign.encoders.models.static import StaticEncoder

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
        from raxalign.encoders.models.static import VectorSpace

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
                VectorSpace([words[i] for i in kept], vectors_NH).write(path)

    def has_module(self) -> bool:
        """Return whether an export needs ``trust_remote_code=True`` in sentence-transformers."""
        encoder = self.encoder
        return (
            isinstance(encoder, TransformerEncoder)
            and not encoder.inputs.is_half
            and (
                bool(self.transforms)
                or encoder.inputs.has_languages
                or encoder.inputs.is_bidirectional
                or bool(encoder.inputs.text_steps)
            )
        )

    def _write_sentences(
        self, encoder: TransformerEncoder, folder: Path, use: SentenceUse
    ) -> tuple[str, ...]:
        own = encoder.sentences
        config = own if own is not None and not own.unread else SentenceConfig()
        config = config if use.pooling is None else SentenceConfig(use.pooling)
        if self.has_module():
            choices = _write_module(folder, encoder, self.transforms, use)
            encoder.write_sentences(
                folder, config, transformer=f"{CODE.stem}.AlignedTransformer", languages=choices
            )
            return choices
        if own is None or use.pooling is not None:
            encoder.write_sentences(folder, config)
        return ()

    def _write(self, folder: Path) -> None:
        from safetensors.torch import save_file

        folder.mkdir(parents=True, exist_ok=True)
        records, tensors = _packed(self.transforms)
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
        from raxalign.encoders.models.static import StaticEncoder

        folder = Path(folder).absolute()
        kind = StaticEncoder if (folder / StaticEncoder.RECORD).is_file() else TransformerEncoder
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
        transforms = _unpacked(record["transforms"], load_file(folder / _TENSORS))
        return transforms, record["weights_changed"], record["notes"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(path, f"is not an aligned encoder's record ({error})") from error


def _packed(
    transforms: tuple[Transform, ...],
) -> tuple[list[dict[str, Any]], dict[str, torch.Tensor]]:
    """(one JSON record per transform, tensors by name); `_unpacked` is the inverse."""
    records: list[dict[str, Any]] = []
    tensors: dict[str, torch.Tensor] = {}
    for i, transform in enumerate(transforms):
        steps: list[dict[str, Any]] = []
        for k, step in enumerate(transform.steps):
            steps.append({"step": "unit" if isinstance(step, Unit) else "affine"})
            for part in Affine.PARTS:
                value = getattr(step, part, None)
                if value is not None:
                    steps[-1][part] = name = f"{i}.{k}.{part}"
                    tensors[name] = value.detach().to("cpu", torch.float32).contiguous().clone()
        plain = ("lang", "layer", "sort", "toward")
        records.append({**{name: getattr(transform, name) for name in plain}, "steps": steps})
    return records, tensors


def _unpacked(
    records: list[dict[str, Any]], tensors: Mapping[str, torch.Tensor]
) -> tuple[Transform, ...]:
    """The transforms of `_packed`."""

    def step(record: dict[str, Any]) -> Unit | Affine:
        if record["step"] == "unit":
            return Unit()
        return Affine(*(tensors[record[part]] if part in record else None for part in Affine.PARTS))

    return tuple(
        Transform(r["lang"], r["layer"], r["sort"], tuple(map(step, r["steps"])), r["toward"])
        for r in records
    )


def _faults(
    aligned: AlignedEncoder, effect: Any, languages: Collection[str]
) -> Iterator[tuple[str, str]]:
    """What is wrong, each with a remedy."""
    hidden = aligned.encoder.hidden_size
    if aligned.weights_changed != effect.weights:
        which = "changed weights" if aligned.weights_changed else "weights that did not change"
        told = f"{which} (`weights_changed`), and `effect` says Effect(weights={effect.weights})"
        yield told, "What trains the encoder says so in both places"
    for transform in aligned.transforms:
        of = f"the transform of {transform.lang} at layer {transform.layer}"
        if transform.lang not in languages:
            yield (
                f"{of}, and the languages are {', '.join(languages)}",
                "Others are read by nothing",
            )
        for step in transform.steps:
            for part in Affine.PARTS if isinstance(step, Affine) else ():
                value = getattr(step, part)
                if value is None:
                    continue
                wanted = (hidden, hidden) if part == "weight" else (hidden,)
                if not _fits(tuple(value.shape), wanted):
                    yield f"{of} with a {part} of shape {tuple(value.shape)}, not {wanted}", _SHAPES
                elif not torch.isfinite(value).all():
                    yield f"{of} with a {part} that has NaN or infinite values", _NUMBERS
    model = getattr(aligned.encoder, "model", None)
    if aligned.weights_changed and isinstance(model, torch.nn.Module):
        for name, weight in model.named_parameters():
            if not torch.isfinite(weight).all():
                yield f"an encoder whose weights {name} have NaN or infinite values", _NUMBERS


def _fits(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Whether a shape is the wanted one. A vector may be one number, or a row."""
    if len(wanted) == 2:
        return shape == wanted
    *before, last = shape or (1,)
    return set(before) <= {1} and last in (1, *wanted)


def _refuse_unsound_words(encoder: Encoder, part: WordVectors, words: int, n_layers: int) -> None:
    """Raise `PluginFault` where an encoder from outside gave word vectors in another shape than
    (words, layers, hidden size), or with numbers that are not finite.
    """
    file = _file_of(encoder)
    if file is None:
        return
    shape, wanted = tuple(part.vectors_NLH.shape), (words, n_layers, encoder.hidden_size)
    if shape != wanted:
        fault = f"vectors of shape {shape}, not {wanted} (words, layers, hidden size)"
    elif torch.isfinite(part.vectors_NLH).all():
        return
    else:
        fault = "vectors with NaN or infinite values"
    kind = type(encoder)
    _, line = inspect.getsourcelines(kind.iter_words)
    said = f"{Catalog.outside()[file]}: {kind.__name__}.iter_words gave {fault}"
    raise PluginFault(file, said, line=line)


def _file_of(plugin: object) -> str | None:
    """The file of something that a plug-in from outside defines; None for the package's own."""
    file = str(getattr(sys.modules.get(type(plugin).__module__), "__file__", ""))
    return file if file in Catalog.outside() else None


def _write_module(
    folder: Path, encoder: TransformerEncoder, transforms: Sequence[Transform], use: SentenceUse
) -> tuple[str, ...]:
    """Write the module next to an encoder; return the names by which it is given a language. Raises
    `RaxalignError` where `use.language` is not one of them.
    """
    layers = use.layers_read(transforms, encoder.n_layers)
    languages = use.languages or tuple(dict.fromkeys(transform.lang for transform in transforms))
    matters = bool(transforms) or encoder.inputs.has_languages
    choices = _choices(transforms, languages) if matters else []
    if matters and use.language is not None and use.language not in choices:
        fault = f"--language {use.language}: this encoder is not aligned for it"
        raise RaxalignError(f"{fault}; choose one of {', '.join(choices)}")
    inputs = {"lang_ids": encoder.inputs.adapters, "langs": encoder.inputs.embedded}
    inside = any(transform.sort == "inside" for transform in transforms)
    settings = {
        "layers": list(layers),
        "depth": encoder.n_layers,
        **_blocks(encoder, watched=inside or layers != (encoder.n_layers,)),
        "language": use.language,
        "choices": choices,
        "names": {
            name.lower().replace("_", "-"): code
            for code in languages
            for name in (*spellings(code), code)
        },
        "inputs": {
            name: {lang: numbers.number(lang) for lang in languages}
            for name, numbers in inputs.items()
            if numbers.named
        },
        "bidirectional": encoder.inputs.is_bidirectional,
        "text_form": encoder.inputs.text_steps,
    }
    text = json.dumps(settings, indent=1, ensure_ascii=False, sort_keys=True)
    (folder / "sentences.json").write_text(text + "\n", encoding="utf-8")
    shutil.copyfile(CODE, folder / CODE.name)
    return tuple(choices)


def _choices(transforms: Sequence[Transform], languages: Sequence[str]) -> list[str]:
    """The names of languages; ``en>de`` for those whose transforms hold for one other language."""
    choices: list[str] = []
    for lang in languages:
        toward = [t.toward for t in transforms if t.lang == lang and t.toward is not None]
        choices += [f"{lang}>{other}" for other in dict.fromkeys(toward)] or [lang]
    return choices


def _blocks(encoder: TransformerEncoder, *, watched: bool) -> dict[str, object]:
    """The names of the modules whose outputs are the stream, where it is `watched`."""
    base: Any = encoder.model.base_model
    names = {id(module): name for name, module in base.named_modules()}
    blocks = Blocks.of(base) if watched else None
    parts = [] if blocks is None else [p for p in (blocks.embeds, *blocks.leaves) if p is not None]
    return {
        "blocks": [names[id(part)] for part in parts],
        "embeds": blocks is not None and blocks.embeds is not None,
    }
