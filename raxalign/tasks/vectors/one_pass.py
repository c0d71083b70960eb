"""Several groups of layers from one pass, for tasks that evaluate each of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self, TypeVar

from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.vectors import Pooling, WordLists, WordVectors, parse_layers
from raxalign.lazy import torch

LIMIT = 4 << 30
"""Bytes of vectors beyond which they are read again for the next group of layers."""
_Read = TypeVar("_Read", bound="tuple[torch.Tensor, Any]")


@dataclass(frozen=True)
class OnePass(AlignedEncoder):
    """An aligned encoder that reads the layers of all its `entries`, values of `layers`, where one
    of them is asked for, and has the others `kept` until the same is asked for with them.
    """

    entries: tuple[str, ...] = ()
    kept: dict[Hashable, tuple[torch.Tensor, Any]] = field(
        default_factory=dict, compare=False, repr=False
    )

    @classmethod
    def of(cls, aligned: AlignedEncoder, entries: Sequence[str]) -> Self:
        """Return the same encoder with entries."""
        own = {entry.name: getattr(aligned, entry.name) for entry in fields(AlignedEncoder)}
        return cls(**own, entries=tuple(entries))

    def groups(self) -> list[tuple[int, ...]]:
        """Return the layers of each entry."""
        return [parse_layers(entry, self.n_layers) for entry in self.entries]

    def words(
        self,
        sentences: WordLists,
        lang: str,
        *,
        layers: str | Sequence[int] = "last",
        pooling: Pooling = "mean",
    ) -> WordVectors:
        """Vectors of all words, as an aligned encoder has them."""
        if layers not in self.entries:
            return super().words(sentences, lang, layers=layers, pooling=pooling)
        groups = self.groups()
        union = sorted({layer for group in groups for layer in group})

        def read() -> tuple[torch.Tensor, WordVectors]:
            found = AlignedEncoder.words(self, sentences, lang, layers=union, pooling=pooling)
            return found.vectors_NLH, found

        _, found = self.once(("words", lang, pooling, _digest(sentences)), read)
        places = [union.index(layer) for layer in groups[self.entries.index(str(layers))]]
        return replace(found, vectors_NLH=found.vectors_NLH[:, places])

    def sentences(
        self,
        sentences: WordLists,
        how: tuple[Hashable, ...],
        layers: str,
        read: Callable[[list[tuple[int, ...]]], _Read],
    ) -> _Read:
        """Return vectors of sentences (S, H) and what came with them.

        Args:
            sentences: the sentences.
            how: all else that their vectors depend on, but the layers.
            layers: one of the entries.
            read: gives the vectors (S, L, H) of some groups of layers.
        """
        key = ("sentences", *how, _digest(sentences))
        vectors_SLH, *rest = self.once(key, lambda: read(self.groups()))
        return vectors_SLH[:, self.entries.index(layers)], *rest  # type: ignore[return-value]

    def once(self, key: Hashable, read: Callable[[], _Read]) -> _Read:
        """Return what was read before in the same view, or read it."""
        key = (self.direction, key)
        if key not in self.kept:
            found = read()
            size = sum(vectors.nbytes for vectors, *_ in self.kept.values())
            if size + found[0].nbytes > LIMIT:
                self.kept.clear()
            if found[0].nbytes > LIMIT:
                return found
            self.kept[key] = found
        return self.kept[key]  # type: ignore[return-value]


def _digest(sentences: WordLists) -> Hashable:
    return len(sentences), hash(tuple(map(tuple, sentences)))
