"""Both sides of the bitext learn a teacher's sentence vectors (Reimers & Gurevych 2020)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, final

from pydantic import Field

from raxalign.corpora.text.dataset import read_table
from raxalign.corpora.text.sentences import sentence_chunks
from raxalign.encoders.models.pieces import Pieces, token_batches
from raxalign.encoders.models.rows import Sentences
from raxalign.encoders.models.trained_weights import frozen_copy
from raxalign.encoders.models.transformer import TransformerEncoder, evaluating
from raxalign.encoders.models.vectors import Layer, SentencePooling, parse_layers
from raxalign.encoders.transformer import Transformer
from raxalign.errors import DataError, RaxalignError
from raxalign.lazy import np, torch
from raxalign.methods.base import Effect, MethodInputs
from raxalign.methods.families import wording
from raxalign.methods.families.rows import Bitexts, States, real_gap
from raxalign.methods.families.trained import TrainedMethod
from raxalign.options.params import Removed
from raxalign.options.sources import DataPath, Source
from raxalign.train.devices import on_device
from raxalign.train.loop import Fitted
from raxalign.train.objective import Objective, Step
from raxalign.train.options import NO_OPTION, Epochs, LearningRate, Warmup

_READ = 8192  # sentences of the pivot that are tokenised together


@final
class Distillation(TrainedMethod["Lessons"]):
    """Train the encoder so that a sentence of either language has the vector that the teacher gives
    to the pivot's sentence.

    Formula: mean over sentence pairs and coordinates of (f(tgt) - T(tgt))² + (f(src) - T(tgt))²,
    where f is the vector of a sentence (the mean over its subword tokens) and T the teacher's.

    Data: the bitext; the sentence pairs of all languages are mixed. The teacher is a frozen
    copy of the original encoder, or the one in the folder `teacher` (Hugging Face, safetensors, as
    wide as the encoder), which reads with its own tokenizer. Its vectors are computed once, before
    training, if they take at most 2 GiB (on each worker), else batch by batch.

    Reference: Reimers & Gurevych (2020, Eq. 1); the defaults are those of their released training
    program.

    Relations: `sentence_margin` needs no teacher, but other sentences as negatives; choose this one
    where the teacher's vectors of the pivot are to be kept.

    Example:
        methods:
          none: {}
          distillation: {pooling: mean, epochs: 5}
    """

    VERSION = 1
    name = "distillation"
    reads = "bitext"
    reference = "Reimers & Gurevych 2020"
    papers = ("reimers2020",)

    class Params(TrainedMethod.Params):
        """Training is by AdamW with ε = 1e-6. A teacher of its own folder is read at its last
        layer, the encoder as its own teacher at the layer that is trained.
        """

        teacher: DataPath | None = None
        """Hugging Face folder of the teacher (none: the original encoder)."""
        learning_rate: LearningRate[float] = 2e-5
        batch_size: int = Field(64, ge=1, description=wording.BATCH_OF_PAIRS)
        epochs: Epochs = 5
        warmup: Warmup[float] = 0.1
        optimizer: ClassVar = {"eps": 1e-6}
        removed: ClassVar = {
            "eps": Removed(NO_OPTION, 1e-6),
            "teacher_pooling": Removed(
                "leave it out: the teacher's vectors are made by `pooling`", default=None
            ),
        }
        layers: Layer = Field("last", description=wording.LAYER_TRAINED)
        pooling: SentencePooling = Field("mean", description=wording.SENTENCE_POOLING)
        max_length: int = Field(128, ge=3, description=wording.SENTENCE_LENGTH)

    params: Params

    def canonical(self) -> dict[str, Any]:
        """Return the params with the teacher's pooling, which could once be another one."""
        return {**super().canonical(), "teacher_pooling": self.params.pooling}

    # - one teacher for all languages
    def sources(self, lang: str, pivot: str) -> Mapping[str, Source]:  # noqa: ARG002
        """Return the files of the teacher's folder. Raises `DataError` where it has no encoder."""
        if self.params.teacher is None:
            return {}
        folder = Path(self.params.teacher).absolute()
        if not folder.is_dir():
            raise DataError(
                folder,
                "no such folder, so there is no teacher",
                remedy="Name a Hugging Face folder, or leave `teacher` out",
            )
        return Transformer(Transformer.Params(name=str(folder))).sources()

    def effect(self) -> Effect:
        """New weights, and vectors of sentences where the last layer is trained."""
        pooling = self.params.pooling if self.params.layers == "last" else None
        return replace(super().effect(), pooling=pooling)

    def read(
        self, encoder: TransformerEncoder, inputs: MethodInputs, folders: Mapping[str, Path]
    ) -> Lessons:
        """Return the sentence pairs of all languages, and their teacher."""
        bitexts = Bitexts.read_sentences(encoder, folders, inputs.pivot, self.params.max_length)
        return Lessons(bitexts, self.teacher(encoder, list(folders.values()), inputs.pivot))

    def objective(self, encoder: TransformerEncoder, rows: Lessons, seed: int) -> Distill:  # noqa: ARG002
        """Return the distance from the teacher's vectors."""
        layers = parse_layers(self.params.layers, encoder.n_layers)
        return Distill(encoder, rows, layers, self.params.pooling)

    def notes(self, rows: Lessons, objective: Distill, fitted: Fitted) -> dict[str, object]:
        """Return the number of pairs, whether the teacher was read beforehand, and the losses."""
        notes = super().notes(rows, objective, fitted)
        return {"sentences": len(rows), "teacher_cached": objective.cached, **notes}

    def teacher(self, encoder: TransformerEncoder, folders: list[Path], pivot: str) -> Teacher:
        """Return the teacher of the pivot's sentences of some bitexts. Of a folder of
        sentence-transformers the transformer alone is read.
        """
        params, teacher = self.params, encoder
        layers = parse_layers(params.layers, encoder.n_layers)
        if params.teacher is not None:
            teacher = TransformerEncoder.from_folder(Path(params.teacher), device=encoder.device)
            teacher.model.requires_grad_(requires_grad=False)
            teacher.precision, teacher.compiled = encoder.precision, encoder.compiled
            layers = (teacher.n_layers,)
        chunks = (
            part for path in folders for part in sentence_chunks(read_table(path), "tgt", _READ)
        )
        sentences = replace(tokenise(teacher, chunks, params.max_length), languages=(pivot,))
        return Teacher(teacher, sentences, layers, params.pooling)


@dataclass(frozen=True)
class Teacher:
    """An encoder that reads the pivot's sentences, tokenised by itself, and never changes."""

    encoder: TransformerEncoder
    sentences: Sentences
    layers: tuple[int, ...]
    pooling: SentencePooling

    def frozen(self) -> Teacher:
        """Return the same with weights of its own, which stay as they are now."""
        model = frozen_copy(self.encoder.model, rounded=self.encoder.precision == "bf16")
        return replace(self, encoder=self.encoder.with_model(model))

    def vectors(self, rows: np.ndarray) -> torch.Tensor:
        """Return the vectors of some sentences, (N, H), without gradient and without dropout."""
        with torch.no_grad(), evaluating(self.encoder.model):
            states = States.read(self.encoder, self.sentences, rows, self.layers)
            return states.sentences(self.pooling)

    def all_vectors(self, rows: np.ndarray) -> torch.Tensor:
        """Return the vectors of many sentences, on the CPU."""
        vectors_NH = torch.empty(len(rows), self.encoder.hidden_size)
        lengths = self.sentences.row_lengths(rows)
        for chosen in token_batches(lengths, self.encoder.batch_tokens):
            vectors_NH[torch.from_numpy(chosen)] = self.vectors(rows[chosen]).float().cpu()
        return vectors_NH


@dataclass(frozen=True)
class Lessons:
    """Sentence pairs, and the teacher of their pivot's side."""

    bitexts: Bitexts
    teacher: Teacher

    def __len__(self) -> int:
        return len(self.bitexts)


class Distill(Objective):
    """Brings the sentence vectors of both sides to what the teacher makes of the pivot's side.

    Teacher vectors of at most `cache_bytes` are computed once and kept in memory, others batch by
    batch.
    """

    def __init__(
        self,
        encoder: TransformerEncoder,
        lessons: Lessons,
        layers: tuple[int, ...],
        pooling: SentencePooling,
        cache_bytes: int = 2 << 30,
    ) -> None:
        bitexts, teacher = lessons.bitexts, lessons.teacher
        if teacher.encoder.hidden_size != encoder.hidden_size:
            raise RaxalignError(
                f"distillation: the teacher's vectors have {teacher.encoder.hidden_size}"
                f" coordinates and the encoder's {encoder.hidden_size}. Choose a teacher of the"
                " encoder's width"
            )
        self.module = encoder.model
        self.encoder, self.rows, self.layers, self.pooling = encoder, bitexts, layers, pooling
        # the same sentence is read once
        _, first, self.sentence = np.unique(
            bitexts.types[bitexts.tgt_P], return_index=True, return_inverse=True
        )
        self.cached = 4 * len(first) * encoder.hidden_size <= cache_bytes
        if self.cached:
            self.known_SH = teacher.all_vectors(first)
        else:
            self.teacher = teacher if teacher.encoder is not encoder else teacher.frozen()

    def on(self, lessons: Lessons) -> Distill:
        """Return the same objective over other sentence pairs; it shares the module."""
        return Distill(self.encoder, lessons, self.layers, self.pooling)

    def encoders(self) -> tuple[TransformerEncoder, ...]:
        """Return the encoder, and the teacher where it reads batch by batch."""
        return (self.encoder,) if self.cached else (self.encoder, self.teacher.encoder)

    def taught(self, rows: np.ndarray) -> torch.Tensor:
        """Return the teacher's vectors of some rows, (N, H)."""
        if self.cached:
            known_NH = self.known_SH[torch.from_numpy(self.sentence[rows])]
            parameter = next(self.module.parameters())
            return on_device(known_NH.to(parameter.dtype), parameter.device)
        return self.teacher.vectors(rows)

    def loss(self, step: Step, positions: np.ndarray) -> torch.Tensor:
        """Return the contribution of some rows: MSE(source, teacher) + MSE(pivot, teacher), means
        over pairs and coordinates (Reimers & Gurevych 2020, Eq. 1).
        """
        rows = step.rows[positions]
        bitexts: Bitexts = self.rows
        states = States.read(self.encoder, bitexts.sentences, bitexts.sides(rows), self.layers)
        vectors_SH = states.sentences(self.pooling)
        taught_NH = self.taught(rows)
        squares: torch.Tensor = (
            real_gap(vectors_SH[: len(rows)], taught_NH).pow(2).sum()
            + real_gap(vectors_SH[len(rows) :], taught_NH).pow(2).sum()
        )
        return squares / (len(step.rows) * taught_NH.shape[1])


def tokenise(
    encoder: TransformerEncoder,
    chunks: Iterable[Sequence[Sequence[str]]],
    max_length: int,
    lang: str | None = None,
) -> Sentences:
    """Return sentences, given as lists of some, that are rows of their own, of at most `max_length`
    pieces. `lang` is their language (None: a spaced one).
    """
    pieces = Pieces.read(encoder.tokenizer, chunks, lang)
    languages = () if lang is None else (lang,)
    return Sentences.of(encoder, [pieces], [0], languages, max_length, alone=True)
