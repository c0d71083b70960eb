"""What a task measures: the names of its metrics, what they are, better values, and units."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    import pyarrow as pa

    from raxalign.sample import Sample

Better = Literal["higher", "lower", "neither"]
Role = Literal["score", "part", "count", "error"]
Unit = Literal["share", "count", "number"]
Motion = Literal["any", "rigid", "rotation"]
"""How the vectors of a language are moved together: in any way, without a change of their distances
(`rigid`), or besides without a shift (`rotation`), so that their lengths and angles stay too.
"""

FEW = 30
"""Pairs: an accuracy over fewer is an accident of the data."""
_SPOKEN = {"f1": "F1", "mrr": "MRR", "bleu1": "BLEU-1", "mexa": "MEXA", "cka": "CKA"}
_BRACES = re.compile(r"\{([^{}]*)\}")
_NUMBER = r"-?[0-9.]+(?:e[-+]?[0-9]+)?"
_AT_LAYERS = re.compile(r"layer(\d+(?:-\d+)?)_(\w+)")
_VARIED = {"...": ".+"}
_ROUNDING = 1e-9  # a mean of ones may be that much above 1
_LIMITS = {"share": (0.0, 1.0), "count": (0.0, math.inf), "number": (-math.inf, math.inf)}


@dataclass(frozen=True)
class Measured:
    """One metric that a task reports, or several that differ in a part of their names.

    Attributes:
        name: the metric as scores name it. Braces stand for a part that varies: for any of several
            words (``accuracy_{to_pivot|from_pivot}``), for any text (``main_score_of_{...}``), or
            for a number (``layer{l}_anisotropy``).
        about: what it is, in one sentence; empty where nothing declares the metric.
        better: which values are better; `neither` where no direction is.
        role: `score` is worth a table, `part` is one direction of a score or its value at one
            setting of a sweep, `count` is a number of examples, `error` is a standard error.
        unit: `share` is from 0 to 1 and shown in percent, `count` is a whole number from 0 on,
            `number` is shown as it is.
        range: the smallest and the largest value that there can be (None: those of the unit).
        unmoved: the motion of each language's vectors that leaves the metric as it is, where it is
            one of representations alone: `rigid` includes rotations (`any`: there is none).
        over_all_pairs: of a metric over word pairs that are never linked in training, the name of
            the same one over all pairs.
        sample: forms the sample of a value from the predictions of its language and split, which
            gives it intervals and p-values; the second argument is the name of the metric. None,
            or where it returns None: they do not divide into independent units.
        by_layer: whether a list of layers has a value of each, as ``layer8-12_accuracy``.
        on_dev: whether `sample` takes the predictions of the development set too, by which the
            task chooses what it reports.
    """

    name: str
    about: str
    better: Better = "higher"
    role: Role = "score"
    unit: Unit = "number"
    range: tuple[float, float] | None = None
    unmoved: Motion = "any"
    over_all_pairs: str = ""
    sample: Sampler | None = field(default=None, compare=False, repr=False)
    by_layer: bool = False
    on_dev: bool = False

    def __post_init__(self) -> None:
        """Refuse what no reader of a declaration knows. Raises ValueError."""
        for what, known in (("better", Better), ("role", Role), ("unit", Unit)):
            if getattr(self, what) not in get_args(known):
                raise ValueError(
                    f"{self.name}: {what} is {getattr(self, what)!r}; write"
                    f" {', '.join(get_args(known)[:-1])} or {get_args(known)[-1]}"
                )
        low, high = self.limits
        if low > high or (self.unit == "share" and not 0 <= low <= high <= 1):
            raise ValueError(f"{self.name}: range is {self.range}, which no {self.unit} has")

    @property
    def limits(self) -> tuple[float, float]:
        """The smallest and the largest value that there can be."""
        return self.range or _LIMITS[self.unit]

    @property
    def sign(self) -> int:
        """What values are multiplied by so that larger ones are better; 0 where none are."""
        return {"higher": 1, "lower": -1, "neither": 0}[self.better]

    @property
    def scale(self) -> int:
        """What values and differences are multiplied by where they are shown: 100 for shares."""
        return 100 if self.unit == "share" else 1

    def stays(self, motion: Motion) -> bool:
        """Return whether the metric is the same after each language has been moved so.

        >>> Measured("cka", "Similarity.", unmoved="rigid").stays("rotation")
        True
        """
        kinds = get_args(Motion)
        return self.unmoved != "any" and kinds.index(motion) >= kinds.index(self.unmoved)

    @property
    def declared(self) -> bool:
        """Whether a task or an added metric says all this."""
        return bool(self.about)

    def fault(self, value: float, *, mean: bool = False) -> str:
        """Return why a finite value cannot be one of this metric; nothing where it can.

        Args:
            value: the value.
            mean: whether it is a mean of several values, of which counts are not whole.

        >>> Measured("mrr", "Mean of 1 / rank.", unit="share").fault(1.25)
        'is 1.25, outside the range 0 to 1 of its unit share'
        """
        low, high = self.limits
        if not math.isfinite(value):
            return ""
        if not low - _ROUNDING <= value <= high + _ROUNDING:
            of_unit = "" if self.range else f" of its unit {self.unit}"
            return f"is {value:g}, outside the range {low:g} to {high:g}{of_unit}"
        if self.unit == "count" and not mean and not float(value).is_integer():
            return f"is {value:g}, which is not a whole number, as its unit count says"
        return ""

    def names(self, metric: str) -> bool:
        """Return whether this is the declaration of a metric.

        >>> layers = Measured("layer{l}_{first|last}_f1", "F1 at one layer.", role="part")
        >>> layers.names("layer12_last_f1"), layers.names("layer_last_f1"), layers.names("f1")
        (True, False, False)
        """
        return self._pattern.fullmatch(metric) is not None

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        # split leaves what braces hold at the odd places
        parts = [
            re.escape(part)
            if place % 2 == 0
            else _VARIED.get(part, f"(?:{part})" if "|" in part else _NUMBER)
            for place, part in enumerate(_BRACES.split(self.name))
        ]
        return re.compile("".join(parts))

    @classmethod
    def undeclared(cls, metric: str) -> Measured:
        """Return what is known of a metric that nothing declares: a number, of which neither larger
        nor smaller values are better.
        """
        return cls(metric, "", "neither")

    @classmethod
    def find(cls, metrics: Sequence[Measured], name: str) -> Measured | None:
        """Return what is declared of a metric, or None where that is nothing."""
        if found := next((entry for entry in metrics if entry.names(name)), None):
            return found
        _, own = cls.at_layers(name)
        entry = next((entry for entry in metrics if entry.by_layer and entry.names(own)), None)
        if entry is None or own == name:
            return None
        role: Role = "part" if entry.role == "score" else entry.role
        about = f"{entry.about[:-1]}, at one of several layers."
        return replace(entry, name=name, about=about, role=role)

    @staticmethod
    def at_layers(metric: str) -> tuple[str, str]:
        """Return the layers that the name of a metric begins with, and its rest.

        >>> Measured.at_layers("layer8-12_accuracy"), Measured.at_layers("accuracy")
        (('8-12', 'accuracy'), ('', 'accuracy'))
        """
        found = _AT_LAYERS.fullmatch(metric)
        return (found[1], found[2]) if found else ("", metric)


Declared = Callable[[str, str], Measured]
"""What is declared of a metric, by the names of its task and of itself."""


Sampler = Callable[["pa.Table", str], "Sample | None"]


def share(
    name: str,
    about: str,
    better: Better = "higher",
    role: Role = "score",
    sample: Sampler | None = None,
) -> Measured:
    """Return the declaration of a value from 0 to 1, which is shown in percent."""
    return Measured(name, about, better, role, "share", sample=sample)


def count(name: str, about: str) -> Measured:
    """Return the declaration of a number of examples."""
    return Measured(name, about, "neither", "count", "count")


def standard_error(name: str, about: str) -> Measured:
    """Return the declaration of the standard error of a share."""
    return Measured(name, about, "neither", "error", "share")


def spoken(metric: str) -> str:
    """Return a metric as a reader writes it.

    >>> spoken("contextual_accuracy"), spoken("mrr")
    ('contextual accuracy', 'MRR')
    """
    return " ".join(_SPOKEN.get(part, part) for part in metric.split("_"))
