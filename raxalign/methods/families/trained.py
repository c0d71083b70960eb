"""What methods that train the encoder share: options, and the frame around the training."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sized
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Literal, Self, TypeVar

from pydantic import Field, model_validator

from raxalign.corpora.readers.inspection import FileRead
from raxalign.encoders.base import Encoder
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.sentence_config import SentenceConfig
from raxalign.encoders.models.trained_weights import (
    AdapterOption,
    Freeze,
    adapted,
    frozen,
    lowest_trained,
)
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.encoders.models.vectors import parse_layers
from raxalign.errors import RaxalignError
from raxalign.extras import require
from raxalign.methods.base import Acts, Effect, Method, MethodInputs, Needs
from raxalign.options.params import LATER, BaseParams, Removed
from raxalign.train.options import (
    NO_OPTION,
    Epochs,
    LearningRate,
    LoopOptions,
    TrainSettings,
    Warmup,
)
from raxalign.train.runtime import Runtime

if TYPE_CHECKING:
    from raxalign.encoders.models.masking import MaskedLM
    from raxalign.encoders.models.rows import Rows
    from raxalign.methods.families.rows import Bitexts
    from raxalign.train.loop import Fitted, KeepBest
    from raxalign.train.objective import Objective, Step


class WithTask(BaseParams):
    """A task that is trained together with the method, and how. The steps, the learning rate and
    all else of the optimiser are those of the task's training.
    """

    task: str = Field(min_length=1)
    """Task of the grid, by its name there, whose training run is part of this one."""
    schedule: Literal["joint", "alternate", "before"] = "joint"
    """How both are trained: each step by the sum of both losses (`joint`), steps of one and of the
    other in turn (`alternate`), or all of the method before all of the task (`before`), which is
    what a grid does without `with_task`.
    """
    weight: float = Field(1.0, ge=0, allow_inf_nan=False)
    """Weight of the method's loss beside the task's (0: the task is trained alone)."""
    removed: ClassVar = {
        "every": Removed("leave it out: the method has a step per step of the task", 1),
        "conflicts": Removed("leave it out: the two gradients are summed", "keep"),
        "gradients": Removed("leave it out: the gradients of both are not measured", 0),
    }


_PAPERS = (
    "with_task=joint gaschi2023",
    "with_task=alternate liu2025middle",
)


RowsT = TypeVar("RowsT", bound=Sized)


class TrainedMethod(Method, Generic[RowsT]):
    """Changes the weights of a transformer. Subclasses say what is trained on (`read`), what is
    minimised over it (`objective`), and what the notes count (`counts`). With `profiles` their
    params have a `profile`, one of those names.
    """

    name: ClassVar[str]
    """The training in curves, messages and checkpoints."""
    reads: ClassVar[Literal["links", "bitext", "text"]]
    predicts: ClassVar[bool] = False
    """Whether it trains the masked-LM head, too."""
    profiles: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Profile -> option (YAML name) -> the value that it has where none is given."""

    class Params(Method.Params, LoopOptions):
        """The options that every training run of an encoder has."""

        freeze: Annotated[Freeze, LATER] = "none"
        lora: Annotated[AdapterOption, LATER] = "none"
        selection: Annotated[Literal["none", "dev"], LATER] = "none"
        """Which weights are kept: the last ones (`none`), or those of the step with the lowest loss
        on the dev part of the corpus (`dev`), measured after each epoch and at the end.
        """
        with_task: Annotated[Literal["none"] | WithTask, LATER] = "none"
        """A task of the grid that is trained in the same training run, which leaves the aligned
        encoder and the task's model; a mapping, or `none`.
        """

        removed: ClassVar = {
            "select_every": Removed(
                "leave it out: the loss is measured after each epoch", default=0
            ),
        }

        @model_validator(mode="after")
        def _selects_once(self) -> Self:
            joint = self.with_task != "none" and self.with_task.schedule != "before"
            if joint and self.selection == "dev":
                raise ValueError(
                    "selection: dev: with `with_task` the task's own `selection` chooses the"
                    " weights",
                    "leave `selection` out here",
                )
            return self

    params: Params

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "papers" in vars(cls):
            cls.papers = (*cls.papers, *_PAPERS)

    def needs(self) -> Needs:
        """What `reads` says, with the dev part where weights are selected."""
        data = {self.reads: True}
        return Needs(**data, dev=self.selects(), head=self.predicts, pieces=True)

    def resolved(self) -> dict[str, Any]:
        """Return the params by their YAML names, with the profile's values instead of its name."""
        given, profile = self.params.identity(), self._profile()
        given.pop("profile", None)
        return {
            name: profile.get(name) if value is None else value for name, value in given.items()
        }

    def canonical(self) -> dict[str, Any]:
        """Return the resolved params without the idle ones."""
        idle = self.idle()
        return {name: value for name, value in self.resolved().items() if name not in idle}

    def idle(self) -> set[str]:
        """`epochs` where `steps` are given, and what the training of a task decides that is trained
        with it.
        """
        idle = {"epochs"} if self.resolved().get("steps") else set()
        if self.effect().with_task is None:
            return idle | {"with_task"}
        return idle | {*LoopOptions.model_fields, *LoopOptions.removed} - {"batch_size", "dropout"}

    def settings(self, *, shuffle: bool = True) -> TrainSettings:
        """Return the settings of the loop."""
        return self.params.settings(self._profile(), shuffle=shuffle)

    def selects(self) -> bool:
        """Return whether the dev part decides which weights are kept (`Needs.dev`)."""
        return self.params.selection == "dev"

    def shown(self) -> dict[str, Any]:
        """Return the params as tables show them, with a profile and a task that were asked for,
        in the words that were given.
        """
        asked = {"profile", "with_task"} & self.params.model_fields_set
        found = {name: getattr(self.params, name) for name in asked}
        if isinstance(found.get("with_task"), WithTask):
            found["with_task"] = found["with_task"].model_dump(exclude_unset=True)
        return {**super().shown(), **found}

    def has_chance(self) -> bool:
        """The order of rows has; so have dropout, masks and new weights, where there are any."""
        return True

    def effect(self) -> Effect:
        """New weights, for all languages."""
        options = self.params
        joint = options.with_task != "none" and options.with_task.schedule != "before"
        return Effect(
            weights=True,
            dropout=options.dropout,
            adapters=options.lora != "none",
            with_task=options.with_task if joint else None,
        )

    def acts(self, n_layers: int) -> Acts:
        """Return the stream from the lowest layer on that training can change. Raises
        `RaxalignError` where the loss is at a layer that the encoder does not have or that `freeze`
        or `lora` holds, or where nothing is left to train.
        """
        adapters = self.params.lora != "none"
        lowest = lowest_trained(self.params.freeze, n_layers, embeddings_held=adapters)
        written: str | None = getattr(self.params, "layers", None)
        below = min(parse_layers(written or "last", n_layers))
        if below >= lowest:
            return Acts(stream_from=lowest)
        option = "lora" if self.params.freeze == "none" else "freeze"
        held = option if written is None else f"layers {written!r}: {option}"
        if lowest > n_layers:
            told = f"{held} leaves layer {below} as it is; it holds every block, so that nothing is"
            raise RaxalignError(f"{told} left to train: free some of them")
        raise RaxalignError(f"{held} leaves layer {below} as it is; choose layers from {lowest} on")

    def align(self, encoder: Encoder, inputs: MethodInputs, runtime: Runtime) -> AlignedEncoder:
        """Train the encoder in place, except what `freeze` holds; with `lora` by adapters, which
        are then merged. Raises what `train` raises, and `RaxalignError` for a training that is one
        with a task's (`raxalign.stages.makers`).
        """
        assert isinstance(encoder, TransformerEncoder), "the plan asks `accepts`"
        if self.effect().with_task is not None:
            raise RaxalignError(
                f"{self.name}: `with_task` needs a task of a grid; leave it out here"
            )
        with self.changing(encoder, runtime.seed):
            notes = self.train(encoder, inputs, runtime)
        return self.aligned(encoder, notes)

    @contextmanager
    def changing(self, encoder: TransformerEncoder, seed: int) -> Iterator[None]:
        """Let the block train an encoder, except what `freeze` holds; with `lora` by adapters,
        which are merged at its end. `seed` is that of the training.
        """
        from raxalign.train.chance import Stream, mix

        self.acts(encoder.n_layers)
        options = self.params
        with (
            adapted(encoder, options.lora, mix(seed, Stream.ADAPTERS)),
            frozen(encoder, options.freeze),
        ):
            yield

    def aligned(self, encoder: TransformerEncoder, notes: Mapping[str, object]) -> AlignedEncoder:
        """Return an encoder that was trained, with the notes on its training."""
        pooling = self.effect().pooling
        if pooling is not None:
            encoder.sentences = SentenceConfig.trained(pooling, encoder.trailing)
        return AlignedEncoder(encoder, weights_changed=True, notes=notes)

    def read_files(self, languages: tuple[str, ...], pivot: str) -> Iterator[FileRead]:
        """Read the outside files. Raises `DependencyError` where `lora` lacks its library."""
        if self.params.lora != "none":
            require("peft", "lora")
        return super().read_files(languages, pivot)

    def train(
        self, encoder: TransformerEncoder, inputs: MethodInputs, runtime: Runtime
    ) -> Mapping[str, object]:
        """Train the encoder in place; return notes: counts, and `losses` of the training. Raises
        `DataError` for data with nothing to train on, and `RaxalignError` where `selection: dev`
        would have the last step alone to choose from.
        """
        from raxalign.train.loop import fit

        rows = self.rows(encoder, inputs)
        objective, n_rows = self.objective(encoder, rows, runtime.seed), self.n_rows(rows)
        settings, keep = self.settings(shuffle=self.shuffles()), None
        if self.selects():
            total = settings.total(n_rows)
            keep = self._selection(encoder, inputs, objective, total, runtime.seed)
        fitted = fit(objective, n_rows, settings, runtime, name=self.name, keep=keep)
        return self.notes(rows, objective, fitted)

    def rows(self, encoder: TransformerEncoder, inputs: MethodInputs) -> RowsT:
        """Return the rows that are trained on. Raises `DataError` where there are none."""
        needs, languages = self.needs(), inputs.languages
        folders = inputs.pairs if needs.links else inputs.bitext if needs.bitext else inputs.text
        languages = (*languages, inputs.pivot) if needs.text else languages
        return self.read(encoder, inputs, {lang: folders[lang] for lang in languages})

    @abstractmethod
    def read(
        self, encoder: TransformerEncoder, inputs: MethodInputs, folders: Mapping[str, Path]
    ) -> RowsT:
        """Return the rows that are trained on, in pieces by the encoder's tokenizer. `folders` are
        those of the inputs that `needs` asks for, or of the dev part, by language.
        """

    def read_dev(self, encoder: TransformerEncoder, inputs: MethodInputs) -> RowsT:
        """Return the rows of the dev part."""
        return self.read(encoder, inputs, {lang: inputs.dev[lang] for lang in inputs.languages})

    @abstractmethod
    def objective(self, encoder: TransformerEncoder, rows: RowsT, seed: int) -> Objective:
        """Return what is minimised over the rows; `seed` is that of the training."""

    def read_pairs(
        self, encoder: TransformerEncoder, folders: Mapping[str, Path], pivot: str
    ) -> Bitexts:
        """Return the sentence pairs of all languages of which the params, which have `min_pieces`,
        `max_pieces` and `max_length`, allow the length.
        """
        from raxalign.methods.families.rows import Bitexts

        resolved = self.resolved()
        allowed = resolved["min_pieces"], resolved["max_pieces"] or None
        return Bitexts.read(encoder, folders, pivot, resolved["max_length"], allowed)

    def n_rows(self, rows: RowsT) -> int:
        """Return the number of rows that an epoch has."""
        return len(rows)

    def counts(self, rows: RowsT) -> dict[str, object]:
        """Return what the notes say of the rows: of bitexts the pairs of each language."""
        return dict(getattr(rows, "counts", {}))

    def notes(
        self,
        rows: RowsT,
        objective: Any,  # noqa: ARG002
        fitted: Fitted,
    ) -> dict[str, object]:
        """Return the notes on a training: what was counted, and its `losses`."""
        return {**self.counts(rows), **losses(fitted)}

    def shuffles(self) -> bool:
        """Return whether rows are trained on in random order."""
        return True

    def _selection(
        self,
        encoder: TransformerEncoder,
        inputs: MethodInputs,
        objective: Objective,
        total: int,
        seed: int,
    ) -> KeepBest:
        """Return what keeps the weights of the lowest loss on the dev part, in `total` steps."""
        from raxalign.train.loop import KeepBest
        from raxalign.train.objective import DevLoss

        start = objective.comparable_from
        if start >= total:
            raise RaxalignError(
                f"{self.name}: losses can be compared from step {start} on, and the training run"
                f" has {total} steps, so `selection: dev` has nothing to choose from. Train"
                " longer, or leave `selection` out"
            )
        rows = self.read_dev(encoder, inputs)
        batch_size = self.settings().batch_size
        loss = DevLoss(objective.on(rows), self.n_rows(rows), batch_size, seed)
        return KeepBest(lambda _: loss.measure(), lowest=True, start=start, curve="dev_loss")

    def _profile(self) -> Mapping[str, Any]:
        """The values of the profile; none without profiles."""
        return self.profiles[getattr(self.params, "profile")] if self.profiles else {}  # noqa: B009


def losses(fitted: Fitted) -> dict[str, object]:
    """Return the notes on a training: its steps, the first and the last loss, and with a selection
    the `selected_step`, whose weights were kept, and its `dev_loss`.
    """
    notes: dict[str, object] = {
        "steps": len(fitted.losses),
        "first_loss": fitted.losses[0],
        "last_loss": fitted.losses[-1],
    }
    if fitted.selected is not None:
        kept = fitted.selected
        notes |= {"selected_step": kept, "dev_loss": dict(fitted.scores)[kept]}
    return notes


class MaskedLMMethod(TrainedMethod[RowsT]):
    """Trains by masked language modelling alone."""

    class Params(TrainedMethod.Params):
        """The options of a training by masked language modelling (Pan et al. 2021), with AdamW and
        a weight decay of 0.01. Rows are sentences unless a subclass says otherwise.
        """

        mask_share: float = Field(0.15, gt=0, lt=1)
        """Share of the subword tokens, special ones apart, that are masked per batch: 80 % by the
        mask, 10 % by random subword tokens, 10 % by themselves.
        """
        learning_rate: LearningRate[float] = 3e-5
        batch_size: int = Field(128, ge=1)
        """Sentences per training step, counted over all languages together."""
        epochs: Epochs = 10
        warmup: Warmup[float] = 0.1
        optimizer: ClassVar = {"weight_decay": 0.01}
        removed: ClassVar = {"weight_decay": Removed(NO_OPTION, 0.01)}
        max_length: int = Field(128, ge=8)
        """Largest number of subword tokens per row, special ones included; longer rows are cut."""

    params: Params

    def objective(self, encoder: TransformerEncoder, rows: RowsT, seed: int) -> MaskedLM[RowsT]:  # noqa: ARG002
        """Return the prediction of masked pieces."""
        from raxalign.encoders.models.masking import MaskedLM

        return MaskedLM(encoder, rows, self.batch_of, self.params.mask_share)

    @abstractmethod
    def batch_of(self, rows: RowsT, step: Step) -> Rows:
        """Return the rows of a global batch."""

    def counts(self, rows: RowsT) -> dict[str, object]:
        """Return the number of rows too."""
        return {"rows": self.n_rows(rows), **super().counts(rows)}
