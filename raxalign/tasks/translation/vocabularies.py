"""How many pieces each language has in the sentences that are translated (Liu et al. 2020,
Table 3).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from raxalign.tasks.base import Score

if TYPE_CHECKING:
    from raxalign.encoders.models.transformer import TransformerEncoder
    from raxalign.tasks.translation.sides import Way


@dataclass(frozen=True)
class Vocabularies:
    """The pieces of every language by (language, split), special ones left out.

    Attributes:
        encoder: the encoder whose tokenizer has the pieces.
        found: the pieces; those of the pivot are of its sentences in all language pairs.
    """

    encoder: TransformerEncoder
    found: dict[tuple[str, str], frozenset[int]] = field(default_factory=dict)

    def add(self, ways: Mapping[str, Way]) -> None:
        """Add the sides of a direction, by split."""
        special = frozenset(self.encoder.tokenizer.all_special_ids)
        for split, way in ways.items():
            for side in (way.source, way.target):
                known = self.found.get((side.lang, split), frozenset())
                self.found[side.lang, split] = known | (side.vocabulary - special)

    def scores(self, pivot: str) -> Iterator[Score]:
        """Yield the number of pieces of each language, and of those that the pivot has too."""
        for (lang, split), pieces in self.found.items():
            yield Score(lang, "vocabulary_count", split, float(len(pieces)))
            shared = pieces & self.found[pivot, split]
            yield Score(lang, "shared_count", split, float(len(shared)))
