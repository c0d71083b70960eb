"""The axes of a grid: what every point has, whatever its method's own params are."""

from __future__ import annotations

from enum import StrEnum, nonmember


class Axis(StrEnum):
    """An axis that all points of a grid have, by its name in `exclude`, in tables and in
    ``--only``. A method's params that have several values are axes too, of that method alone.
    """

    METHOD = "method"
    LANGUAGES = "languages"
    SENTENCES = "sentences"
    SEED = "seed"
    ENCODER = "encoder"
    LANGUAGE = nonmember("language")
    """Another name of `LANGUAGES`, for grids with one language per trial; where a grid has sets,
    `LANGUAGES` is the name of one, and this a language in it.
    """
