"""The languages of sentences or pieces, for encoders whose states depend on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from raxalign import lazy

if TYPE_CHECKING:
    import numpy as np
else:
    np = lazy.load("numpy")


@dataclass(frozen=True)
class Spoken:
    """The languages of some items, sentences or pieces: that of item i is ``names[numbers[i]]``."""

    names: tuple[str, ...]
    numbers: np.ndarray

    @classmethod
    def of(cls, lang: str, n_items: int) -> Spoken:
        """Items of one language."""
        return cls((lang,), np.zeros(n_items, np.int64))

    def take(self, items: np.ndarray) -> Spoken:
        """Some of the items, in the order given."""
        return Spoken(self.names, self.numbers[items])

    def repeat(self, counts: np.ndarray) -> Spoken:
        """Each item `counts[i]` times, as the pieces of a sentence have its language."""
        return Spoken(self.names, np.repeat(self.numbers, counts))

    @classmethod
    def join(cls, parts: Sequence[Spoken | None]) -> Spoken | None:
        """The items of several parts, one part after the other; None where a part's languages are
        not known.

        >>> Spoken.join([Spoken.of("de", 1), Spoken.of("en", 2), Spoken.of("de", 1)])
        Spoken(names=('de', 'en'), numbers=array([0, 1, 1, 0]))
        """
        known = [part for part in parts if part is not None]
        if len(known) < len(parts) or not known:
            return None
        names = tuple(dict.fromkeys(name for part in known for name in part.names))
        place = {name: i for i, name in enumerate(names)}
        tables = [np.array([place[name] for name in part.names], np.int64) for part in known]
        return cls(
            names,
            np.concatenate([t[part.numbers] for t, part in zip(tables, known, strict=True)]),
        )
