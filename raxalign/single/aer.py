"""The alignment error rate of links, against links made by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from raxalign.corpora.text.bitext import has_own_words
from raxalign.corpora.text.dataset import read_metadata
from raxalign.errors import DataError, RaxalignError
from raxalign.pairing.build import WordPairs
from raxalign.pairing.gold import GoldFormat, GoldLinks
from raxalign.pairing.links import Links
from raxalign.pairing.words import Words
from raxalign.single.place import silent

_TELLING = 10  # sentence pairs; among as many, at least one has a link of its first word


@dataclass(frozen=True)
class ErrorRateRequest:
    """What is scored: `links`, a Pharaoh file or a folder of word pairs, against `gold`; `swap`
    where `gold` has the sides the other way round.
    """

    links: Path
    gold: Path
    written: GoldFormat = "pharaoh"
    gold_first: int = 0
    links_first: int = 0
    swap: bool = False

    def scores(self, *, tell: Callable[[str], None] = silent) -> dict[str, float | int]:
        """Scores by name: `precision`, `recall`, `f1`, `aer`, and the numbers of `sentences`,
        `links`, `sure` and `possible` links (sure ones too).

        Word pairs are matched with gold sentence pairs by their ids, lines of the corpus. Raises
        `RaxalignError` where the two do not fit.
        """
        gold = GoldLinks.read(self.gold, self.written, first=self.gold_first, swap=self.swap)
        for remark in gold.left_out.remarks("links", len(gold.possible.src)):
            tell(f"{self.gold}: {remark}")
        if self.links.is_dir():
            gold, links = _of_pairs(self, gold, tell)
        else:
            links = _of_file(self, gold)
        if self.written == "pharaoh" and self.gold_first == 0 and _skips_first(gold.possible):
            tell(
                f"warning: no link in {self.gold} has a first word: does the file count from 1"
                " (--one-based)?"
            )
        if not self.links.is_dir() and self.links_first == 0 and _skips_first(links):
            tell(
                f"warning: no link in {self.links} has a first word: does the file count from 1"
                " (--links-one-based)?"
            )
        counts = gold.counted(links)
        scores = counts.scores()
        return {
            **{name: scores[name] for name in ("precision", "recall", "f1")},
            "aer": scores["alignment_error_rate"],
            "sentences": len(gold),
            "links": int(counts.found.sum()),
            "sure": int(counts.sure.sum()),
            "possible": len(np.unique(gold.possible.codes())),
        }


def _of_file(request: ErrorRateRequest, gold: GoldLinks) -> Links:
    """The links of the annotated lines."""
    links, needed = Links.read(request.links), int(gold.rows[-1]) + 1
    if len(links) < needed or (request.written == "pharaoh" and len(links) != needed):
        raise DataError(
            request.links,
            f"has {len(links)} lines, {request.gold} is about {needed} sentence pairs",
            remedy="One line per sentence pair is needed; the folder of `raxalign pairs` is matched"
            " by ids",
        )
    first = np.int32(request.links_first)
    if len(links.src) and min(int(links.src.min()), int(links.tgt.min())) < first:
        raise DataError(
            request.links,
            "a link has position 0, although words are declared to count from 1",
            remedy="Leave out --links-one-based",
        )
    return Links(links.offsets, links.src - first, links.tgt - first).take(gold.rows)


def _of_pairs(
    request: ErrorRateRequest, gold: GoldLinks, tell: Callable[[str], None]
) -> tuple[GoldLinks, Links]:
    """The annotated sentence pairs that are among the word pairs, and their links."""
    table = WordPairs.read(request.links).table
    ids = table.column("id").to_numpy()
    order = np.argsort(ids, kind="stable")
    at = np.minimum(np.searchsorted(ids[order], gold.rows), max(len(ids) - 1, 0))
    there = ids[order][at] == gold.rows if len(ids) else np.zeros(len(gold), np.bool_)
    if not there.any():
        raise RaxalignError(
            f"{request.links}: none of its sentence pairs is annotated in {request.gold}; ids are"
            " lines of the corpus"
        )
    if not there.all():
        tell(
            f"{int((~there).sum())} sentence pairs of {request.gold} are not among the word pairs"
            " (`raxalign pairs` drops repeated ones without `--overlap keep`) and are left out"
        )
    metadata = read_metadata(request.links)
    if "corpus" in metadata and not has_own_words(metadata):
        tell(
            f"warning: the words of {request.links} were made by a tokeniser, and {request.gold}"
            " counts words that spaces separate: make the word pairs with `--option"
            " pretokenized=true`"
        )
    gold, rows = gold.keep(there), order[at[there]]
    src, tgt = (Words(table.column(name)).lengths[rows] for name in ("src", "tgt"))
    gold.require_inside(src, tgt)
    return gold, Links.of_table(table).take(rows)


def _skips_first(links: Links) -> np.bool_ | bool:
    """Whether no first word has a link, though there are many sentence pairs."""
    return len(links) >= _TELLING and len(links.src) > 0 and links.src.all() and links.tgt.all()
