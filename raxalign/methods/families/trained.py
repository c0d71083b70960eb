"""What methods that train the encoder share: options of the loop, profiles, chance, effect, and the
frame around the training.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from raxalign.config.params import LATER
from raxalign.encoders.models.freezing import Freeze, frozen, lowest_trained
from raxalign.encoders.models.lora import AdapterOption, adapted
from raxalign.encoders.models.vectors import parse_layers
from raxalign.errors import RaxalignError
from raxalign.extras import require
from raxalign.methods.base import Acts, Effect, Method, MethodInputs
from raxalign.train.chance import ADAPTERS, mix
from raxalign.train.loop import Fitted, KeepBest, TrainSettings, fit
from raxalign.train.options import LoopOptions
from raxalign.train.sharing import DevLoss

if TYPE_CHECKING:
    from raxalign.corpora.readers.inspection import FileRead
    from raxalign.encoders.base import Encoder
    from raxalign.encoders.models.aligned import AlignedEncoder
    from raxalign.encoders.models.sentence_config import SentencePooling
    from raxalign.encoders.models.transformer import TransformerEncoder
    from raxalign.train.objective import Objective
    from raxalign.train.runtime import Runtime

Profiles = Mapping[str, Mapping[str, Any]]
"""Profile -> option (YAML name) -> the value that it has where none is given."""

_SELECTION = (
    "Which weights are kept: the last ones (`none`), or those of the step with the lowest loss on"
    " the dev part of the corpus (`dev`)."
)
_SELECT_EVERY = (
    "Training steps between two measurements of the loss on the dev part (0: after each epoch); the"
    " last step is measured too."
)


class TrainedParams(Method.Params, LoopOptions):
    """The options that every training of an encoder has."""

    freeze: Annotated[Freeze, LATER] = "none"
    lora: Annotated[AdapterOption, LATER] = "none"
    selection: Annotated[Literal["none", "dev"], LATER] = Field("none", description=_SELECTION)
    select_every: Annotated[int, LATER] = Field(0, ge=0, description=_SELECT_EVERY)


class TrainedMethod(Method):
    """Changes the weights of a transformer. Subclasses define how in `train`; with `profiles` their
    params have a `profile`, one of those names.
    """

    profiles: ClassVar[Profiles] = {}

    params: TrainedParams

    def resolved(self) -> dict[str, Any]:
        """Return the params by their YAML names, with the profile's values where none is given,
        without the profile's name.
        """
        given, profile = self.params.identity(), self._profile()
        given.pop("profile", None)
        return {
            name: profile.get(name) if value is None else value for name, value in given.items()
        }

    def canonical(self) -> dict[str, Any]:
        """Return the resolved params: without `epochs` where `steps` are given, and without
        `select_every` where nothing is selected.
        """
        resolved = self.resolved()
        idle = {"epochs": resolved.get("steps"), "select_every": not self.selects()}
        return {name: value for name, value in resolved.items() if not idle.get(name)}

    def settings(self, *, shuffle: bool = True) -> TrainSettings:
        """Return the settings of the loop."""
        return self.params.settings(self._profile(), shuffle=shuffle)

    def selects(self) -> bool:
        """Return whether the dev part decides which weights are kept, so that `Needs.dev` is
        due.
        """
        return self.params.selection == "dev"

    def shown(self) -> dict[str, Any]:
        """Return the params as tables show them, with a profile that was asked for."""
        asked = {"profile"} & self.params.model_fields_set
        return {**super().shown(), **{name: getattr(self.params, name) for name in asked}}

    def has_chance(self) -> bool:
        """The order of rows has, and so have dropout, masks and new weights, where there are
        any.
        """
        return True

    def has_dropout(self) -> bool:
        """As `dropout` says."""
        return self.params.dropout

    def effect(self) -> Effect:
        """New weights, for all languages."""
        return Effect(weights=True)

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
            raise RaxalignError(f"{held} leaves layer {below} as it is; it holds every block")
        raise RaxalignError(f"{held} leaves layer {below} as it is; choose layers from {lowest} on")

    def align(self, encoder: Encoder, inputs: MethodInputs, runtime: Runtime) -> AlignedEncoder:
        """Train the encoder in place, except what `freeze` holds; with `lora` by adapters, which
        are then merged. Raises what `train` raises.
        """
        from raxalign.encoders.models.aligned import AlignedEncoder
        from raxalign.encoders.models.sentence_config import trained_config
        from raxalign.encoders.models.transformer import TransformerEncoder

        assert isinstance(encoder, TransformerEncoder), "the plan asks `accepts`"
        self.acts(encoder.n_layers)
        seed = mix(runtime.seed, ADAPTERS)
        with adapted(encoder, self.params.lora, seed), frozen(encoder, self.params.freeze):
            notes = self.train(encoder, inputs, runtime)
        pooling = self.sentence_pooling()
        if pooling is not None:
            encoder.sentences = trained_config(pooling, encoder.trailing)
        return AlignedEncoder(encoder, weights_changed=True, notes=notes)

    def read_files(self, languages: tuple[str, ...], pivot: str) -> Iterator[FileRead]:
        """Read the outside files. Raises `DependencyError` where `lora` is asked for and its
        library is not installed.
        """
        if self.params.lora != "none":
            require("peft", "lora")
        return super().read_files(languages, pivot)

    def sentence_pooling(self) -> SentencePooling | None:
        """Return how the vectors of sentences are made that are trained; None where words are, or
        where they are not those of the last layer.
        """
        return None

    @abstractmethod
    def train(
        self, encoder: TransformerEncoder, inputs: MethodInputs, runtime: Runtime
    ) -> Mapping[str, object]:
        """Train the encoder in place; returns notes: counts, and `losses` of the training."""

    def fit(
        self,
        objective: Objective,
        n_rows: int,
        runtime: Runtime,
        name: str,
        dev: Callable[[], tuple[Objective, int]],
    ) -> Fitted:
        """Train by an objective with the options of the loop.

        Args:
            objective: What is minimised; its module is trained in place.
            n_rows: The number of its rows.
            runtime: Where the training runs.
            name: The training in curves, messages and checkpoints.
            dev: Reads the dev part: the objective over its rows (`Objective` over the same module),
                and their number. It is called where `selection` asks for it.

        Returns:
            What the training did.

        Raises:
            RaxalignError: `selection: dev` would have the last step alone to choose from.
        """
        settings = self.settings(shuffle=self.shuffles())
        keep = self._selection(objective, n_rows, runtime, name, dev) if self.selects() else None
        return fit(objective, n_rows, settings, runtime, name=name, keep=keep)

    def shuffles(self) -> bool:
        """Return whether rows are trained on in random order."""
        return True

    def _selection(
        self,
        objective: Objective,
        n_rows: int,
        runtime: Runtime,
        name: str,
        dev: Callable[[], tuple[Objective, int]],
    ) -> KeepBest:
        """The weights of the lowest loss on the dev part."""
        settings, start = self.settings(), objective.comparable_from
        total = settings.total(n_rows)
        if start >= total:
            raise RaxalignError(
                f"{name}: losses can be compared from step {start} on, and the training has {total}"
                " steps, so `selection: dev` has nothing to choose from. Train longer, or leave"
                " `selection` out"
            )
        watched, n_dev = dev()
        loss = DevLoss(watched, n_dev, settings.batch_size, runtime.seed)
        return KeepBest(
            lambda _: loss.measure(),
            self.params.select_every or None,
            lowest=True,
            start=start,
            curve="dev_loss",
        )

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
