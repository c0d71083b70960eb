"""Which layers are the features of a frozen encoder, as a param names them."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from raxalign.encoders.models.vectors import layer_ends, parse_layers

LAST_FOUR = "last-four"


def feature_layers(layers: str, n_layers: int) -> tuple[int, ...]:
    """The layers that are added up: ``last-four`` (fewer where there are fewer blocks), or as
    `parse_layers` has them.

    >>> feature_layers("last-four", 12), feature_layers("last-four", 2), feature_layers("9-10", 12)
    ((9, 10, 11, 12), (1, 2), (9, 10))
    """
    if layers == LAST_FOUR:
        return tuple(range(max(1, n_layers - 3), n_layers + 1))
    return parse_layers(layers, n_layers)


def _named(layers: str) -> str:
    if layers != LAST_FOUR:
        try:
            layer_ends(layers)
        except ValueError as error:
            raise ValueError(f"{error} (or `{LAST_FOUR}`)") from None
    return layers


FeatureLayers = Annotated[str, AfterValidator(_named)]
"""A param that `feature_layers` reads."""
