"""The measures of similarity: their names in YAML, what each computes, and where it comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Measure = Literal["csls", "cosine", "dot", "euclidean", "released_cao"]
"""The names of the measures, as `measure:` of a task takes them."""

Scaling = Literal["unit", "none", "centered", "released_cao"]
Penalty = Literal["none", "hubness", "square"]


@dataclass(frozen=True)
class Definition:
    """What one measure computes.

    The score of a candidate y for a query x is s(x, y) without a penalty and 2 s(x, y) - p(y) with
    one, where s is the dot product of the scaled vectors.

    Attributes:
        about: what it computes, as a phrase that names its source.
        scaling: what is multiplied. `unit` divides each vector by its norm, `centered` takes the
            candidates' mean off both sides (which moves no distance and keeps rounding small), and
            `released_cao` divides queries by their norms and each whole side by its own.
        penalty: p(y). `hubness` is the mean s of y and its k nearest vectors of the other side,
            `square` is y's squared norm.
    """

    about: str
    scaling: Scaling
    penalty: Penalty = "none"


MEASURES: Mapping[Measure, Definition] = {
    "csls": Definition(
        "2 cos(x, y) - r(x) - r(y), with r the mean cosine of the `k` nearest vectors of the other"
        " side (Conneau et al. 2018, eq. 3)",
        "unit",
        "hubness",
    ),
    "cosine": Definition("the cosine of the angle between two vectors", "unit"),
    "dot": Definition("the dot product", "none"),
    "euclidean": Definition("the smallest Euclidean distance", "centered", "square"),
    "released_cao": Definition(
        "what the circulating script of Cao et al. (2020) computes under the name of CSLS: nearly a"
        " dot product, because it divides a matrix by the norm of the whole and the queries by"
        " their own",
        "released_cao",
        "hubness",
    ),
}
"""The definition of every measure."""


def uses_neighbors(measure: Measure) -> bool:
    """Return whether the option `k` changes what a measure finds."""
    return MEASURES[measure].penalty == "hubness"


NEIGHBORS_ABOUT = (
    "Number of nearest vectors in a hubness term, of"
    f" {' and '.join(f'`{name}`' for name in MEASURES if uses_neighbors(name))}; the"
    " other measures have none."
)
"""What the option `k` of a task is, in one sentence."""


def measure_about(purpose: str) -> str:
    """Return one sentence on an option `measure`: its purpose, and every measure with what it
    computes.
    """
    named = "; ".join(f"`{name}`, {entry.about}" for name, entry in MEASURES.items())
    return f"{purpose}: {named}."
