"""The encoder as it is. The smallest complete method, to copy from."""

from __future__ import annotations

from typing import final

from raxalign.encoders.base import Encoder
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.methods.base import Acts, Method, MethodInputs, Needs
from raxalign.train.runtime import Runtime


@final
class NoAlignment(Method):
    """Leave the encoder as it is.

    Data: none. Reference: the base rows of every table, as of Cao et al. (2020).

    Relations: Every other method is compared with it; a grid without it has no baseline.

    Example:
        methods:
          none: {}
          rotation: {}
    """

    VERSION = 1
    accepts = frozenset({"transformer", "static"})
    reference = "the encoder itself"
    is_baseline = True

    def needs(self) -> Needs:
        """Nothing."""
        return Needs()

    def acts(self, n_layers: int) -> Acts:  # noqa: ARG002
        """Nowhere."""
        return Acts()

    def align(self, encoder: Encoder, inputs: MethodInputs, runtime: Runtime) -> AlignedEncoder:  # noqa: ARG002
        """Return the encoder without transforms."""
        return AlignedEncoder(encoder)
