"""Train, dev and test parts of labelled examples: disjoint, without repeats, and each smaller set a
prefix of a larger one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, Literal, TypeVar
from zlib import crc32

from raxalign.errors import DataError

Split = Literal["train", "dev", "test"]
Draw = Callable[[int], int]
Item = TypeVar("Item", bound=Hashable)
_MASK = (1 << 64) - 1
_MISSES = 4_000


def choices(key: int) -> Draw:
    """Return a function that chooses among `count`, time and again: splitmix64 (Steele et al. 2014)
    from a key.
    """
    state = key & _MASK

    def draw(count: int) -> int:
        nonlocal state
        state = (state + 0x9E3779B97F4A7C15) & _MASK
        mixed = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        return ((mixed ^ (mixed >> 31)) >> 11) % count

    return draw


def part_of(signature: str) -> Split:
    """Return the part to which everything with this signature belongs: eight tenths train, a tenth
    each dev and test.
    """
    part = crc32(signature.encode()) % 10
    return "test" if part == 0 else "dev" if part == 1 else "train"


class Pool(Generic[Item]):
    """The examples of one split and seed in their order, made when asked for.

    `make(stream, draw)` gives an example and the signature that decides its split. Streams take
    turns, so that their labels or families are balanced in every prefix; where they need not be
    `even`, a stream that has no more is passed over.
    """

    def __init__(
        self,
        name: str,
        split: Split,
        seed: int,
        streams: int,
        make: Callable[[int, Draw], tuple[Item, str]],
        even: bool = True,
    ) -> None:
        if split not in ("train", "dev", "test"):
            raise DataError(
                "phrasebook", f"no split {split!r} of {name}", remedy="use train, dev or test"
            )
        self._name, self._split, self._seed, self._make = name, split, seed, make
        self._even = even
        self._cursors = [0] * streams
        self._turns = list(range(streams))
        self._seen: set[Item] = set()
        self._items: list[Item] = []

    def first(self, n: int) -> list[Item]:
        """Return the first n examples; raises `DataError` where there are fewer different ones."""
        while len(self._items) < n:
            stream = self._turns.pop(0) if self._turns else None
            item = self._next(stream) if stream is not None else None
            if stream is not None and item is not None:
                self._turns.append(stream)
                self._items.append(item)
            elif self._even or stream is None:
                known = (
                    f"has no more than {len(self._items)} different {self._split} examples of"
                    f" {self._name}"
                )
                raise DataError("phrasebook", known, remedy="ask for fewer")
        return self._items[:n]

    def _next(self, stream: int) -> Item | None:
        for _ in range(_MISSES):
            # Keys of different seeds and streams lie far apart in the generator's cycle.
            key = (self._seed * 1009 + stream) * 0xD1342543DE82EF95 + self._cursors[
                stream
            ] * 0x2545F4914F6CDD1D
            self._cursors[stream] += 1
            item, signature = self._make(stream, choices(key))
            if part_of(signature) == self._split and item not in self._seen:
                self._seen.add(item)
                return item
        return None
