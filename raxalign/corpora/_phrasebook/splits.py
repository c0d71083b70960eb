"""Train, dev and test parts of labelled examples: disjoint, without repeats, and each smaller set a prefix of a larger one."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, Literal, TypeVar
from zlib import crc32

from raxalign.corpora._phrasebook.sentences import scrambled
from raxalign.errors import DataError

Split = Literal["train", "dev", "test"]
Digits = Callable[[int], int]
Item = TypeVar("Item", bound=Hashable)
# Examples of a stream are numbered below this; the digits of a scrambled number are the choices that make one.
_RANGE = 1 << 48
_MISSES = 20_000


def digits(number: int) -> Digits:
    """A function that takes a choice among `count` from the number, time and again."""
    state = number

    def draw(count: int) -> int:
        nonlocal state
        state, digit = divmod(state, count)
        return digit

    return draw


def part_of(signature: str) -> Split:
    """The part to which everything with this signature belongs: eight tenths train, a tenth each dev and test."""
    part = crc32(signature.encode()) % 10
    return "test" if part == 0 else "dev" if part == 1 else "train"


class Pool(Generic[Item]):
    """The examples of one split and seed in their order, made when asked for.

    `make(stream, draw)` gives an example and the signature that decides its split. Streams take turns, so that what they stand for (labels,
    families) is balanced in every prefix.
    """

    def __init__(self, name: str, split: Split, seed: int, streams: int, make: Callable[[int, Digits], tuple[Item, str]]) -> None:
        if split not in ("train", "dev", "test"):
            raise DataError("phrasebook", f"no split {split!r} of {name}", remedy="use train, dev or test")
        self._name, self._split, self._seed, self._make = name, split, seed, make
        self._cursors = [0] * streams
        self._seen: set[Item] = set()
        self._items: list[Item] = []

    def first(self, n: int) -> list[Item]:
        """The first n examples; raises `DataError` where there are not so many different ones."""
        while len(self._items) < n:
            self._items.append(self._next(len(self._items) % len(self._cursors)))
        return self._items[:n]

    def _next(self, stream: int) -> Item:
        for _ in range(_MISSES):
            number = scrambled(self._cursors[stream], _RANGE, self._seed * 1009 + stream)
            self._cursors[stream] += 1
            item, signature = self._make(stream, digits(number))
            if part_of(signature) == self._split and item not in self._seen:
                self._seen.add(item)
                return item
        raise DataError("phrasebook", f"has no more than {len(self._items)} different {self._split} examples of {self._name}", remedy="ask for fewer")
