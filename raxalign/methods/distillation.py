"""Distillation: both sides of the bitext learn the sentence vectors that a teacher gives to the
pivot's side (Reimers & Gurevych 2020).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from pydantic import Field

from raxalign.config.sources import DataPath, Source
from raxalign.encoders.models.sentence_config import SentencePooling
from raxalign.encoders.models.vectors import Layer, parse_layers
from raxalign.errors import DataError
from raxalign.methods.base import MethodInputs, Needs
from raxalign.methods.families import wording
from raxalign.methods.families.trained import TrainedMethod, TrainedParams, losses
from raxalign.train.options import Epochs, Epsilon, LearningRate, Warmup

if TYPE_CHECKING:
    from raxalign.encoders.models.transformer import TransformerEncoder
    from raxalign.methods.objectives.distillation import Teacher
    from raxalign.methods.rows.typed import SentenceRows
    from raxalign.train.runtime import Runtime


@final
class Distillation(TrainedMethod):
    """Train the encoder so that a sentence of either language has the vector that the teacher gives
    to the pivot's sentence.

    Formula: mean over sentence pairs and coordinates of (f(tgt) - T(tgt))² + (f(src) - T(tgt))²,
    where f is the vector of a sentence (the mean over its pieces) and T the teacher's.

    Data: the bitext; the sentence pairs of all languages are mixed. The teacher is a frozen
    copy of the original encoder, or the one in the folder `teacher` (Hugging Face, safetensors, as
    wide as the encoder), which reads with its own tokenizer. Its vectors are computed once, before
    training, if they take at most 2 GiB (on each worker), else batch by batch.

    Reference: Reimers & Gurevych (2020, Eq. 1); the defaults are those of their released training
    program.
    """

    VERSION = 1
    reference = "Reimers & Gurevych 2020"
    papers = ("reimers2020",)

    class Params(TrainedParams):
        """A teacher of its own folder is read at its last layer, the encoder as its own teacher at
        the layer that is trained.
        """

        teacher: DataPath | None = Field(
            None,
            description=("Hugging Face folder of the teacher (none: the original encoder)."),
        )
        teacher_pooling: SentencePooling | None = Field(
            None, description="What the teacher's vector of a sentence is (none: as in `pooling`)."
        )
        learning_rate: LearningRate[float] = 2e-5
        batch_size: int = Field(64, ge=1, description=wording.BATCH_OF_PAIRS)
        epochs: Epochs = 5
        warmup: Warmup[float] = 0.1
        eps: Epsilon[float] = 1e-6
        layers: Layer = Field("last", description=wording.LAYER_TRAINED)
        pooling: SentencePooling = Field("mean", description=wording.SENTENCE_POOLING)
        max_length: int = Field(128, ge=3, description=wording.SENTENCE_LENGTH)

    params: Params

    def needs(self) -> Needs:
        """Sentence pairs."""
        return Needs(bitext=True, dev=self.selects(), pieces=True)

    def canonical(self) -> dict[str, Any]:
        """Return the params with the teacher's pooling filled in."""
        return {
            **super().canonical(),
            "teacher_pooling": self.params.teacher_pooling or self.params.pooling,
        }

    # - one teacher for all languages
    def sources(self, lang: str, pivot: str) -> Mapping[str, Source]:  # noqa: ARG002
        """Return the files of the teacher's folder. Raises `DataError` where it is not there or is
        not an encoder.
        """
        from raxalign.encoders.transformer import Transformer

        if self.params.teacher is None:
            return {}
        if not Path(self.params.teacher).is_dir():
            raise DataError(
                self.params.teacher,
                "no such folder, so there is no teacher",
                remedy="Name a Hugging Face folder, or leave `teacher` out",
            )
        return Transformer(Transformer.Params(name=self.params.teacher)).sources()

    def sentence_pooling(self) -> SentencePooling | None:
        """Return `pooling`, where the last layer is trained."""
        return self.params.pooling if self.params.layers == "last" else None

    def train(
        self, encoder: TransformerEncoder, inputs: MethodInputs, runtime: Runtime
    ) -> Mapping[str, object]:
        """Train; notes count sentence pairs, and record whether the teacher was read once before
        the training.
        """
        from raxalign.methods.objectives.distillation import Distill
        from raxalign.methods.rows.typed import read_sentence_rows

        params = self.params
        (layer,) = parse_layers(params.layers, encoder.n_layers)

        def read(bitext: Mapping[str, Path]) -> tuple[SentenceRows, Teacher]:
            folders = [bitext[lang] for lang in inputs.languages]
            corpus = read_sentence_rows(encoder, folders, params.max_length)
            return corpus, self._teacher(encoder, folders, layer)

        corpus, teacher = read(inputs.bitext)
        objective = Distill(encoder, corpus, teacher, layer, params.pooling)

        def dev() -> tuple[Distill, int]:
            held_out, teacher = read(inputs.dev)
            return Distill(encoder, held_out, teacher, layer, params.pooling), len(held_out)

        fitted = self.fit(objective, len(corpus), runtime, "distillation", dev)
        return {"sentences": len(corpus), "teacher_cached": objective.cached, **losses(fitted)}

    def _teacher(self, encoder: TransformerEncoder, folders: list[Path], layer: int) -> Teacher:
        from raxalign.methods.objectives.distillation import Teacher, load_teacher

        params = self.params
        pooling = params.teacher_pooling or params.pooling
        if params.teacher is None:
            return Teacher.of(encoder, folders, layer, pooling, params.max_length)
        teacher = load_teacher(Path(params.teacher), encoder.device)
        teacher.precision, teacher.compiled = encoder.precision, encoder.compiled
        return Teacher.of(teacher, folders, teacher.n_layers, pooling, params.max_length)
