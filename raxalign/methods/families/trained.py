"""What methods that train the encoder have in common: profiles, chance, effect, and the frame
around the training.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from raxalign.encoders.models.vectors import parse_layers
from raxalign.methods.base import Acts, Effect, Method, MethodInputs

if TYPE_CHECKING:
    from raxalign.encoders.base import Encoder
    from raxalign.encoders.models.aligned import AlignedEncoder
    from raxalign.encoders.models.transformer import TransformerEncoder
    from raxalign.train.loop import Fitted
    from raxalign.train.runtime import Runtime

Profiles = Mapping[str, Mapping[str, Any]]
"""Profile -> param (YAML name) -> the value that it has where none is given."""


class TrainedMethod(Method):
    """Changes the weights of a transformer. Subclasses say how in `train`; with `profiles` their
    params have a `profile`, one of those names.
    """

    profiles: ClassVar[Profiles] = {}

    def resolved(self) -> dict[str, Any]:
        """The params by their YAML names, with the profile's values where none is given, without
        the profile's name.
        """
        given = self.params.identity()
        profile = self.profiles[given.pop("profile")] if self.profiles else {}
        return {
            name: profile.get(name) if value is None else value for name, value in given.items()
        }

    def canonical(self) -> dict[str, Any]:
        """The resolved params."""
        return self.resolved()

    def shown(self) -> dict[str, Any]:
        """Return the params as tables show them, with a profile that was asked for."""
        asked = {"profile"} & self.params.model_fields_set
        return {**super().shown(), **{name: getattr(self.params, name) for name in asked}}

    def has_chance(self) -> bool:
        """The order of rows has, and so have dropout, masks and new weights, where there are
        any.
        """
        return True

    def effect(self) -> Effect:
        """New weights, for all languages."""
        return Effect(weights=True)

    def acts(self, n_layers: int) -> Acts:
        """The whole stream, at whatever `layers` the loss is."""
        layers: str | None = getattr(self.params, "layers", None)
        if layers is not None:
            parse_layers(layers, n_layers)
        return Acts(stream_from=0)

    def align(self, encoder: Encoder, inputs: MethodInputs, runtime: Runtime) -> AlignedEncoder:
        """The encoder, trained in place. Raises what `train` raises."""
        from raxalign.encoders.models.aligned import AlignedEncoder
        from raxalign.encoders.models.transformer import TransformerEncoder

        assert isinstance(encoder, TransformerEncoder), "the plan asks `accepts`"
        return AlignedEncoder(
            encoder, weights_changed=True, notes=self.train(encoder, inputs, runtime)
        )

    @abstractmethod
    def train(
        self, encoder: TransformerEncoder, inputs: MethodInputs, runtime: Runtime
    ) -> Mapping[str, object]:
        """Train the encoder in place; returns notes: counts, and `losses` of the training."""


def losses(fitted: Fitted) -> dict[str, object]:
    """The notes on a training: its steps, and the first and the last loss."""
    return {
        "steps": len(fitted.losses),
        "first_loss": fitted.losses[0],
        "last_loss": fitted.losses[-1],
    }
