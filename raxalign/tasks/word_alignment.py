"""Word alignment from vectors in context, beside links made by hand: how many of the links does a
space show without a word aligner?
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, final

import lazy_loader as lazy
import numpy as np
import pyarrow as pa
from pydantic import Field

from raxalign.config.params import BaseParams
from raxalign.config.sources import DataPath, LocalFile, Source, expand_path
from raxalign.encoders.models.vectors import Layers, Pooling, parse_layers
from raxalign.errors import DataError
from raxalign.pairing.aligners.base import Links
from raxalign.pairing.error_rate import LinkCounts, count_links
from raxalign.pairing.gold import GoldFormat, GoldLinks, read_gold
from raxalign.sample import Ratios, Sample, of_ratio
from raxalign.tasks.base import Outcome, Reads, Score, Task, TaskInputs
from raxalign.tasks.transfer.outcome import means

if TYPE_CHECKING:
    import torch

    from raxalign.corpora.readers.inspection import FileRead, Report
    from raxalign.encoders.models.aligned import AlignedEncoder
    from raxalign.encoders.models.vectors import WordVectors
    from raxalign.train.runtime import Runtime
else:
    torch = lazy.load("torch")

_DIVIDER = "|||"
_METRICS = ("f1", "precision", "recall", "alignment_error_rate")
_RATIOS: Ratios = {
    "f1": (("n_right", "n_right_sure"), ("n_gold", "n_predicted")),
    "precision": (("n_right",), ("n_predicted",)),
    "recall": (("n_right_sure",), ("n_gold",)),
    "alignment_error_rate": (("n_wrong",), ("n_gold", "n_predicted")),
}

Sentence = Sequence[str]


class GoldFiles(BaseParams):
    """A text whose lines are ``words ||| words``, divided by blanks, and its links."""

    text: DataPath
    links: DataPath


class GoldData(BaseParams):
    """Gold links by split; a split that is not given is not reported."""

    dev: GoldFiles | None = None
    test: GoldFiles | None = None

    def splits(self) -> dict[str, GoldFiles]:
        """Those that are given, by name."""
        return {
            name: files
            for name, files in (("dev", self.dev), ("test", self.test))
            if files is not None
        }


@final
class WordAlignment(Task):
    """Links of words whose vectors in context are like each other, scored beside links made by
    hand.

    Words are those of the gold text, divided by its blanks and never tokenised again; one that the
    encoder does not read (too long a sentence) has no link. Formula, of the links A, the sure links
    S and the possible links P, over all sentence pairs together: `precision` |A & P| / |A|;
    `recall` |A & S| / |S|; `f1`, their harmonic mean; `alignment_error_rate` 1 - (|A & S| + |A &
    P|) / (|A| + |S|), of which less is better. Where all links are sure, `f1` is one less the error
    rate. `avg` has the means over language pairs.

    Reference: Och & Ney (2003) for the scores; Jalili Sabet et al. (2020, SimAlign) for
    `intersection`; Dou & Neubig (2021, awesome-align) for `softmax`, which they read from word
    pieces at layer 8 and this task from words.
    """

    VERSION = 1
    predicts = frozenset({"id", "links", "n_gold", "n_predicted", "n_right", "n_wrong"})
    accepts = frozenset({"transformer", "static"})
    main_metric = "f1"

    class Params(Task.Params):
        """`data` has a `text` and its `links` for `test`, `dev` or both, whose paths may hold
        {lang} and {pivot}. A line of the text is the words of the other language, ``|||``, and
        those of the pivot. `format: pharaoh` has one line per sentence pair, sure links as ``i-j``
        and possible ones as ``ipj``, counted from `first`; `naacl` one line per link, ``sentence i
        j [S|P]``, counted from 1. `swap` is for text and links with the pivot's side first.

        `layers` are added up; `pooling` joins a word's pieces. `extraction: intersection` links
        words that are each other's nearest by cosine; `softmax` links two words where their dot
        product has a share above `threshold` both among the words of the one sentence and among
        those of the other.
        """

        data: GoldData
        format: GoldFormat = "pharaoh"
        first: Literal[0, 1] = 0
        swap: bool = False
        layers: Layers = "last"
        pooling: Pooling = "mean"
        extraction: Literal["intersection", "softmax"] = "intersection"
        threshold: float = Field(0.001, ge=0, lt=1)

    params: Params

    def reads(self, n_layers: int) -> Reads:
        """`layers`."""
        return Reads(frozenset(parse_layers(self.params.layers, n_layers)))

    def canonical(self) -> dict[str, object]:
        """Without `threshold` where nothing is compared with it, and `first` where the format says
        it.
        """
        idle = ({"threshold"} if self.params.extraction == "intersection" else set()) | (
            {"first"} if self.params.format == "naacl" else set()
        )
        return {name: value for name, value in self.params.identity().items() if name not in idle}

    def sources(self, lang: str, pivot: str) -> Mapping[str, Source]:
        """Text and links of a language."""
        named = {
            f"{split}_{kind}": getattr(files, kind)
            for split, files in self.params.data.splits().items()
            for kind in ("text", "links")
        }
        return {
            name: LocalFile(expand_path(path, lang=lang, pivot=pivot))
            for name, path in named.items()
        }

    def check(self, languages: tuple[str, ...], pivot: str) -> list[str]:  # noqa: ARG002
        """No split at all, and one file for several languages."""
        splits = self.params.data.splits()
        if not splits:
            return ["data has neither dev nor test: there is nothing to evaluate"]
        one = [
            f"data.{split}.{kind}"
            for split, files in splits.items()
            for kind in ("text", "links")
            if "{lang}" not in getattr(files, kind)
        ]
        return (
            [
                f"{name} is one file for several languages: write {{lang}} in its path"
                for name in one
            ]
            if len(languages) > 1
            else []
        )

    def read_files(self, languages: tuple[str, ...], pivot: str) -> Iterator[FileRead]:
        """Reads text and links of every language and split, as `evaluate` does."""
        from raxalign.corpora.readers.inspection import read_through

        for lang in languages:
            for files in self.params.data.splits().values():
                text, links = (
                    expand_path(path, lang=lang, pivot=pivot) for path in (files.text, files.links)
                )
                yield read_through(links, partial(self._annotated, text, links))

    def _annotated(self, text: Path, links: Path, _: Report) -> int:
        """The number of sentence pairs that have links."""
        return len(_Gold.read(text, links, self.params).src)

    @classmethod
    def sample(cls, rows: pa.Table, metric: str) -> Sample | None:
        """Every metric; `f1` is one of possible links, too, where not all are sure."""
        return of_ratio(rows, metric, _RATIOS)

    def evaluate(
        self,
        aligned: AlignedEncoder,
        languages: tuple[str, ...],
        inputs: TaskInputs,
        runtime: Runtime,  # noqa: ARG002
        trained: Path | None,  # noqa: ARG002
    ) -> Outcome:
        """Links and scores of every language and split."""
        scores: list[Score] = []
        tables: list[pa.Table] = []
        notes: dict[str, dict[str, object]] = {}
        for lang in languages:
            label = f"{lang}-{inputs.pivot}"
            for split in self.params.data.splits():
                gold = _Gold.read(
                    inputs.files[f"{split}_text"][lang],
                    inputs.files[f"{split}_links"][lang],
                    self.params,
                )
                links, unread = self._links(aligned.toward(lang), gold, lang, inputs.pivot)
                counts = count_links(links, gold.links.sure, gold.links.possible)
                scores += [
                    Score(label, metric, split, value) for metric, value in _metrics(counts).items()
                ]
                tables.append(_table(label, split, gold.links.rows, links, counts))
                sure, possible = (
                    len(np.unique(part.codes())) for part in (gold.links.sure, gold.links.possible)
                )
                facts = {
                    "sentences": len(links),
                    "links": int(counts.found.sum()),
                    "sure": sure,
                    "possible": possible,
                    "words_unread": unread,
                }
                notes.setdefault(label, {})[split] = facts
        scores += (
            means(scores, [f"{lang}-{inputs.pivot}" for lang in languages])
            if len(languages) > 1
            else []
        )
        return Outcome(scores, pa.concat_tables(tables) if tables else _SCHEMA.empty_table(), notes)

    def _links(
        self, aligned: AlignedEncoder, gold: _Gold, lang: str, pivot: str
    ) -> tuple[Links, int]:
        """The links that the vectors show, and how many words have no vector."""
        params = self.params
        src, tgt = (
            aligned.words(sentences, code, layers=params.layers, pooling=params.pooling)
            for sentences, code in ((gold.src, lang), (gold.tgt, pivot))
        )
        found = []
        for row in range(len(gold.src)):
            (s, s_at), (t, t_at) = (_read(side, row) for side in (src, tgt))
            linked = (
                mutual_links(s, t)
                if params.extraction == "intersection"
                else softmax_links(s, t, params.threshold)
            )
            found.append([(s_at[i], t_at[j]) for i, j in linked])
        return Links.of(found), int((~src.present_N).sum() + (~tgt.present_N).sum())


def mutual_links(src_SH: torch.Tensor, tgt_TH: torch.Tensor) -> list[tuple[int, int]]:
    """Words that are each other's nearest by cosine, the first of equals; (row of one, row of the
    other).
    """
    if not len(src_SH) or not len(tgt_TH):
        return []
    cosine_ST = (
        torch.nn.functional.normalize(src_SH, dim=1)
        @ torch.nn.functional.normalize(tgt_TH, dim=1).T
    )
    ahead, back = cosine_ST.argmax(1).tolist(), cosine_ST.argmax(0).tolist()
    return [(i, j) for i, j in enumerate(ahead) if back[j] == i]


def softmax_links(
    src_SH: torch.Tensor, tgt_TH: torch.Tensor, threshold: float
) -> list[tuple[int, int]]:
    """Words whose dot product has a share above `threshold` in both directions' softmax."""
    if not len(src_SH) or not len(tgt_TH):
        return []
    product_ST = src_SH @ tgt_TH.T
    kept = (product_ST.softmax(1) > threshold) & (product_ST.softmax(0) > threshold)
    return [(int(i), int(j)) for i, j in kept.nonzero().tolist()]


def _read(side: WordVectors, row: int) -> tuple[torch.Tensor, list[int]]:
    """The vectors (words, H) of a sentence's words that were read, layers added up, and where they
    stand in it.
    """
    begin, end = side.offsets[row], side.offsets[row + 1]
    present = side.present_N[begin:end]
    return side.vectors_NLH[begin:end][present].float().sum(1), present.nonzero()[:, 0].tolist()


@dataclass(frozen=True)
class _Gold:
    """The annotated sentence pairs and their links."""

    src: Sequence[Sentence]
    tgt: Sequence[Sentence]
    links: GoldLinks

    @classmethod
    def read(cls, text: Path, links: Path, params: WordAlignment.Params) -> _Gold:
        """Raises `DataError` where text and links do not fit."""
        gold = read_gold(links, params.format, first=params.first, swap=params.swap)
        sides = list(_sides(text))
        needed = int(gold.rows[-1]) + 1
        if len(sides) < needed or (params.format == "pharaoh" and len(sides) != needed):
            raise DataError(
                text,
                f"has {len(sides)} lines, {links} is about {needed} sentence pairs",
                remedy="A line is needed for each",
            )
        chosen = [sides[row][::-1] if params.swap else sides[row] for row in gold.rows.tolist()]
        src, tgt = [pair[0] for pair in chosen], [pair[1] for pair in chosen]
        gold.require_inside(
            *(np.array([len(sentence) for sentence in side]) for side in (src, tgt))
        )
        return cls(src, tgt, gold)


def _sides(path: Path) -> Iterator[tuple[Sentence, Sentence]]:
    """The words of both sides of every line."""
    from raxalign.corpora.readers.lines import read_lines

    try:
        with path.open("rb") as file:
            for number, line in enumerate(read_lines(file, path), 1):
                sides = [side.split() for side in line.split(_DIVIDER)]
                if len(sides) != 2 or not all(sides):
                    raise DataError(
                        path,
                        f"a line is words, {_DIVIDER} and words, both divided by blanks",
                        line=number,
                    )
                yield sides[0], sides[1]
    except OSError as error:
        raise DataError(path, f"cannot be read ({error.strerror})") from error


def _metrics(counts: LinkCounts) -> dict[str, float]:
    scores = counts.scores()
    return dict(
        zip(_METRICS, (scores.f1, scores.precision, scores.recall, scores.error_rate), strict=True)
    )


_COUNTS = ("id", "n_right", "n_right_sure", "n_gold", "n_predicted", "n_wrong")
_SCHEMA = pa.schema(
    [
        ("lang", pa.string()),
        ("split", pa.string()),
        *((name, pa.int64()) for name in _COUNTS),
        ("links", pa.string()),
    ]
)


def _table(label: str, split: str, rows: np.ndarray, links: Links, counts: LinkCounts) -> pa.Table:
    """A row per sentence pair: its line in the text, counts (`n_right` of possible links), and the
    links that were found as ``i-j``.
    """
    shown = [" ".join(f"{i}-{j}" for i, j in sorted(links.pair(k))) for k in range(len(links))]
    numbers = (rows, counts.right, counts.right_sure, counts.sure, counts.found, counts.wrong)
    fixed = {"lang": [label] * len(rows), "split": [split] * len(rows)}
    return pa.table(
        {**fixed, **dict(zip(_COUNTS, numbers, strict=True)), "links": shown}, schema=_SCHEMA
    )
