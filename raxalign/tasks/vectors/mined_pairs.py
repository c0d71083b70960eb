"""Comparable text: sentences of two languages of which some are translations of each other, and the
pairs that are mined in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from raxalign.arrays import Bools, Floats, Ints
from raxalign.config.params import BaseParams
from raxalign.config.sources import DataPath, DataPrefix, LocalFile, expand_path
from raxalign.corpora.readers.lines import opened, read_lines
from raxalign.corpora.text.words import tokenize, within_text
from raxalign.errors import DataError
from raxalign.lazy import np, torch
from raxalign.similarity import nearest_neighbors
from raxalign.similarity.measures import hubness

_SIDE = "{side}"


class ComparableFiles(BaseParams):
    """The files of one split, in the layout of BUCC 2018."""

    text: DataPrefix
    """Files of the sentences, `{side}` standing for the code of a language: a number and a sentence
    per line, divided by a tab.
    """
    gold: DataPath
    """File of the pairs that are translations: two numbers per line, the pivot's last."""

    def sources(self, split: str, lang: str, pivot: str) -> Mapping[str, LocalFile]:
        """Return the files of one language and the pivot: ``test_source`` and so on."""
        paths = {"source": self.text.replace(_SIDE, lang), "gold": self.gold}
        paths["target"] = self.text.replace(_SIDE, pivot)
        return {
            f"{split}_{name}": LocalFile(expand_path(path, lang=lang, pivot=pivot))
            for name, path in paths.items()
        }


@dataclass(frozen=True)
class ComparableText:
    """The different sentences of both sides as words with their numbers in the files, of equal ones
    that of the first, and the different gold pairs as places in them, int64 (G, 2).
    """

    src: Sequence[Sequence[str]]
    tgt: Sequence[Sequence[str]]
    src_ids: Sequence[str]
    tgt_ids: Sequence[str]
    gold: Ints

    @classmethod
    def read(cls, paths: Mapping[str, Path], lang: str, pivot: str) -> ComparableText:
        """Read ``source``, ``target`` and ``gold``. Raises `DataError` with file and line for what
        is not a number and a sentence, a number that is there twice, and a gold pair of a number
        that is not there.
        """
        sides = [_side(paths["source"], lang), _side(paths["target"], pivot)]
        (src_ids, src_places), (tgt_ids, tgt_places) = map(_different, sides)
        places, gold = (src_places, tgt_places), dict[tuple[int, ...], None]()
        for at, cells in _rows(paths["gold"], "two numbers, divided by a tab"):
            unknown = [
                cell for cell, known in zip(cells, places, strict=True) if cell.strip() not in known
            ]
            if unknown:
                told = f"{unknown[0]!r} is not the number of a sentence on its side"
                raise DataError(paths["gold"], told, line=at)
            pair = tuple(known[cell.strip()] for cell, known in zip(cells, places, strict=True))
            gold[pair] = None
        if not gold:
            raise DataError(paths["gold"], "has no pairs")
        src, tgt = (
            [side[n] for n in ids] for side, ids in zip(sides, (src_ids, tgt_ids), strict=True)
        )
        return cls(src, tgt, src_ids, tgt_ids, np.array(list(gold), dtype=np.int64))


def _side(path: Path, lang: str) -> dict[str, Sequence[str]]:
    """The words of each sentence, by its number."""
    divide, found = tokenize(lang), dict[str, Any]()
    for at, (number, text) in _rows(path, "a number and a sentence, divided by a tab"):
        if number.strip() in found:
            raise DataError(path, f"the number {number.strip()!r} is there twice", line=at)
        found[number.strip()] = within_text(divide, text)
    return found


def _different(side: Mapping[str, Sequence[str]]) -> tuple[list[str], dict[str, int]]:
    """The number of the first of equal sentences, and the place of every sentence among them."""
    places = dict[tuple[str, ...], int]()
    found = {n: places.setdefault(tuple(words), len(places)) for n, words in side.items()}
    first = {place: number for number, place in reversed(found.items())}
    return [first[place] for place in range(len(places))], found


def _rows(path: Path, form: str) -> Iterator[tuple[int, list[str]]]:
    """The lines of a file that are not blank, cut at the first tab, with their numbers."""
    with opened(path) as stream:
        for at, line in enumerate(read_lines(stream, path), 1):
            cells = line.split("\t", 1)
            if line.strip() and len(cells) != 2:
                raise DataError(path, f"is not {form}", line=at)
            if line.strip():
                yield at, cells


@dataclass(frozen=True)
class Mined:
    """Pairs (M, 2) of places, each sentence in at most one, with margins (M,), largest first."""

    pairs: Ints
    margins: Floats

    @classmethod
    def of(cls, src_SH: torch.Tensor, tgt_TH: torch.Tensor, k: int) -> Mined:
        """Mine pairs: the best of either side by margin, of two with a sentence in common the
        better one (Artetxe and Schwenk 2019, maximum score).
        """
        src_SH, tgt_TH = (torch.nn.functional.normalize(side, dim=1) for side in (src_SH, tgt_TH))
        forward, backward = nearest_neighbors(src_SH, tgt_TH, measure="margin", k=k)
        rows = torch.arange(len(src_SH), device=forward.device)
        columns = torch.arange(len(tgt_TH), device=forward.device)
        pairs = torch.cat([torch.stack([rows, forward], 1), torch.stack([backward, columns], 1)])
        pairs = torch.unique(pairs, dim=0)
        around = hubness(src_SH, tgt_TH, k)[pairs[:, 0]] + hubness(tgt_TH, src_SH, k)[pairs[:, 1]]
        cosines = (src_SH[pairs[:, 0]] * tgt_TH[pairs[:, 1]]).sum(1)
        margins = (2 * cosines / around.clamp(min=1e-6)).double().cpu().numpy()
        found, taken = [], (set[int](), set[int]())
        order = np.argsort(-margins, kind="stable")
        for place, (i, j) in zip(order, pairs.cpu().numpy()[order].tolist(), strict=True):
            if i not in taken[0] and j not in taken[1]:
                found.append(place)
                taken[0].add(i)
                taken[1].add(j)
        return cls(pairs.cpu().numpy()[found], margins[found])

    def best_threshold(self, gold: Ints) -> float:
        """Return the margin with the best F1: halfway between the last pair kept and the next."""
        right = self.right(gold).cumsum()
        f1 = 2 * right / (np.arange(1, len(right) + 1) + len(gold))
        best = int(f1.argmax())
        return float(self.margins[best : best + 2].mean())

    def right(self, gold: Ints) -> Bools:
        """Return which pairs (M,) are gold pairs."""
        known = set(map(tuple, gold.tolist()))
        return np.array([tuple(pair) in known for pair in self.pairs.tolist()], dtype=np.bool_)
