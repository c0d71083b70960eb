"""Word alignment by vectors in context, scored against links made by hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, ClassVar, Literal, final

from pydantic import Field

from raxalign.caveats import Caveats, LeftOut
from raxalign.corpora.readers.inspection import LocalRows, Translations
from raxalign.corpora.readers.lines import opened, read_lines
from raxalign.corpora.text.words import Spacing, divide_at_blanks, given_words, spaced_out
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.vectors import LayerList, Pooling, WordVectors
from raxalign.errors import DataError
from raxalign.lazy import np, pa, torch
from raxalign.measured import share
from raxalign.options.params import LATER, BaseParams, Removed
from raxalign.options.sources import DataPath, LocalFile, Source, expand_path
from raxalign.pairing.aligners.awesome_align import Extraction, linked
from raxalign.pairing.gold import GoldFormat, GoldLinks
from raxalign.pairing.links import Links
from raxalign.sample import Ratios, Sample
from raxalign.similarity.measures import Scaled
from raxalign.tasks.base import Task, TaskInputs
from raxalign.tasks.vectors import frame
from raxalign.tasks.vectors.frame import VectorTask

_RATIOS: Ratios = {
    "precision": (("n_right",), ("n_predicted",)),
    "recall": (("n_right_sure",), ("n_gold",)),
    "alignment_error_rate": (("n_wrong",), ("n_gold", "n_predicted")),
}
"""Metrics as ratios of sums of columns of the predictions."""


def _of_links(rows: pa.Table, metric: str) -> Sample | None:
    """Return the sample of a metric.

    `f1` is not a ratio of sums where gold has possible links: with precision P and recall R, whose
    influences are known, its derivative is 2 (R² dP + P² dR) / (P + R)².
    """
    if metric != "f1":
        # of no links, precision and recall are 1, and the error rate is 0
        nothing = float(metric in ("precision", "recall"))
        return Sample.of_ratio(rows, metric, _RATIOS, of_nothing=nothing)
    precision, recall = (_of_links(rows, name) for name in ("precision", "recall"))
    if precision is None or recall is None:
        return None
    p, r = precision.value, recall.value
    total = p + r or 1.0
    slopes = 2 * (r**2 * precision.influence() + p**2 * recall.influence()) / total**2
    return Sample.of_influence(precision.units, 2 * p * r / total, slopes)


_scored = partial(share, sample=_of_links)


class GoldFiles(BaseParams):
    """A text whose lines are ``words ||| words``, separated by spaces, and its links."""

    text: DataPath
    """Text with one sentence pair per line: the words of the other language, ``|||``, and those of
    the pivot, separated by spaces; the path may hold {lang} and {pivot}.
    """
    links: DataPath
    """Links of the words of `text`; the path may hold {lang} and {pivot}."""


class GoldData(BaseParams):
    """Gold links by split; a split that is not given is not reported."""

    dev: GoldFiles | None = None
    """Text and links of the development set."""
    test: GoldFiles | None = None
    """Text and links of the test set."""

    def splits(self) -> dict[str, GoldFiles]:
        """Return those that are given, by name."""
        return {name: files for name, files in (("dev", self.dev), ("test", self.test)) if files}


@dataclass(frozen=True)
class GoldPairs:
    """The annotated sentence pairs of a text and their links; `left_out` are the other ones."""

    src: Sequence[Sequence[str]]
    tgt: Sequence[Sequence[str]]
    links: GoldLinks
    left_out: LeftOut

    def __len__(self) -> int:
        return len(self.src)

    @classmethod
    def read(
        cls, text: Path, links: Path, written: GoldFormat, first: Literal[0, 1] = 0, *, swap: bool
    ) -> GoldPairs:
        """Read a text and its links, which count words from `first` on; with `swap` the pivot's
        side comes first in both. Raises `DataError` where they do not fit together.
        """
        gold = GoldLinks.read(links, written, first=first, swap=swap)
        sides = list(_sides(text))
        needed = int(gold.rows[-1]) + 1
        if len(sides) < needed or (written == "pharaoh" and len(sides) != needed):
            raise DataError(
                text,
                f"has {len(sides)} lines, but {links} is about {needed} sentence pairs",
                remedy="Write one line per sentence pair",
            )
        annotated, left = {*gold.rows.tolist()}, LeftOut()
        kept = [side for row, side in enumerate(sides) if left.keep(row in annotated, _UNLINKED)]
        chosen = [side[::-1] if swap else side for side in kept]
        src, tgt = [pair[0] for pair in chosen], [pair[1] for pair in chosen]
        gold.require_inside(*(np.array([len(words) for words in side]) for side in (src, tgt)))
        return cls(src, tgt, gold, left)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What is to be said of the text."""
        links = self.links.left_out.remarks("links", len(self.links.possible.src))
        return (*self.left_out.remarks("sentence pairs", len(self)), *links)


_UNLINKED = "without a line in the file of links"


def _sides(path: Path) -> Iterator[list[tuple[str, ...]]]:
    """Yield the words of both sides of every line, divided as their links count them."""
    with opened(path) as file:
        for number, line in enumerate(read_lines(file, path), 1):
            sides = [divide_at_blanks(side) for side in line.split("|||")]
            if len(sides) != 2 or not all(sides):
                problem = "a line must be words, ||| and words, both separated by spaces"
                raise DataError(path, problem, line=number)
            yield sides


@final
class WordAlignment(VectorTask):
    """Links between words whose vectors in context are similar, scored against links made by
    hand.

    Words are what plain spaces and tabs separate in the gold text, as its links count them:
    no-break and ideographic spaces do not. They are never tokenised again. In languages written
    without spaces `spacing` moves the error rate by about a point. A word that the encoder does not
    read, because its sentence is too long, has no link. Scores compare the links A with the sure
    links S and the possible links P, over all sentence pairs together. Where all links are sure,
    `f1` is one minus the error rate. `avg` has the means over language pairs.

    Data: sentence pairs with links that were made by hand, as files.

    Reference: Och & Ney (2003) for the scores; Jalili Sabet et al. (2020, SimAlign) for
    `intersection`; Dou & Neubig (2021, awesome-align) for `softmax` and `entmax`, which they read
    from subword tokens at layer 8 and this task from words; Peters et al. (2019) for entmax.

    Relations: `retrieval` finds one word among those of all sentences and needs no links made by
    hand; the word aligners `simalign` and `awesome_align` make links in this way for training.

    Example:
        tasks:
          word_alignment:
            data:
              test:
                text: "gold/{lang}-{pivot}.src-tgt"
                links: "gold/{lang}-{pivot}.gold"
            first: 1
            extraction: softmax
    """

    VERSION = 2
    papers = (
        "och2003",
        "extraction=intersection jalilisabet2020",
        "extraction=softmax dou2021",
        "extraction=entmax dou2021",
        "extraction=entmax peters2019",
    )
    predicts = frozenset({"id", "links", "n_gold", "n_predicted", "n_right", "n_wrong"})
    metrics = (
        _scored("f1", "Harmonic mean of precision and recall."),
        _scored("precision", "Share of the links found that are possible links, |A & P| / |A|."),
        _scored("recall", "Share of the sure links that are found, |A & S| / |S|."),
        _scored(
            "alignment_error_rate",
            "Error rate of the links found, 1 - (|A & S| + |A & P|) / (|A| + |S|).",
            "lower",
        ),
    )
    main_metric = "f1"
    columns: ClassVar = {
        **dict.fromkeys(
            ("id", "n_right", "n_right_sure", "n_gold", "n_predicted", "n_wrong"), "int64"
        ),
        "links": "string",
    }

    class Params(Task.Params):
        """Words that are each other's nearest by the cosine are linked, or those with a share."""

        removed: ClassVar[Mapping[str, Removed]] = {
            "measure": Removed("leave it out: `intersection` is by the cosine", default="cosine"),
            "k": Removed("leave it out: `intersection` is by the cosine", default=10),
            "temperature": frame.NO_TEMPERATURE,
        }
        data: GoldData
        """Texts and links of `dev`, `test` or both."""
        format: GoldFormat = "pharaoh"
        """How links are written: `pharaoh` has one line per sentence pair, with sure links as
        ``i-j`` and possible ones as ``ipj``, where its number and a tab may come first; `naacl` has
        one line per link, ``sentence i j [S|P]``, counted from 1.
        """
        first: Literal[0, 1] = 0
        """Number of the first word in `pharaoh` links."""
        swap: bool = False
        """Whether text and links have the pivot's side first."""
        layers: LayerList = Field("last", description=frame.LAYERS)
        pooling: Pooling = Field("mean", description=frame.WORD_POOLING)
        extraction: Literal["intersection", "softmax", "entmax"] = "intersection"
        """Which words are linked: those that are each other's nearest (`intersection`), or those
        whose dot product has a share above `threshold` among the words of either sentence, by
        `softmax` or by the sparse `entmax` with α = 1.5, which gives most words none.
        """
        threshold: float = Field(0.001, ge=0, lt=1)
        """Share of `softmax` or `entmax` that linked words exceed in both directions."""
        spacing: Annotated[Spacing, LATER] = "language"
        """What divides the words of the gold text in the text that the encoder reads: what their
        language writes, which is nothing in Chinese or Japanese (`language`), or `blanks`, so that
        each word is divided into subword tokens by itself, as SimAlign and awesome-align do it.
        """

    params: Params

    def idle(self) -> set[str]:
        """Return the option of the other extraction, and `first` where the format fixes it."""
        idle = {"first"} if self.params.format == "naacl" else set()
        return idle | ({"threshold"} if self.params.extraction == "intersection" else set())

    def sources(self, lang: str, pivot: str) -> Mapping[str, Source]:
        """Return text and links of a language."""
        return {
            f"{split}_{kind}": LocalFile(expand_path(getattr(files, kind), lang=lang, pivot=pivot))
            for split, files in self.params.data.splits().items()
            for kind in ("text", "links")
        }

    def check(self, languages: tuple[str, ...], pivot: str) -> list[str]:  # noqa: ARG002
        """Report data without a split, and one file for several languages."""
        splits = self.params.data.splits()
        if not splits:
            return ["data has neither dev nor test: there is nothing to evaluate"]
        return [
            f"data.{split}.{kind} is one file for several languages: write {{lang}} in its path"
            for split, files in splits.items()
            for kind in ("text", "links")
            if len(languages) > 1 and "{lang}" not in getattr(files, kind)
        ]

    def rows(self, lang: str, inputs: TaskInputs) -> Iterator[LocalRows]:
        """Yield text and links of every split."""

        def texts(gold: GoldPairs) -> Translations:
            pairs = zip(map(" ".join, gold.src), map(" ".join, gold.tgt), strict=True)
            return Translations(lang, inputs.pivot, list(pairs))

        params = self.params
        read = partial(GoldPairs.read, written=params.format, first=params.first, swap=params.swap)
        for split in params.data.splits():
            text, links = (inputs.files[f"{split}_{kind}"][lang] for kind in ("text", "links"))
            yield LocalRows(split, links, partial(read, text, links), texts)

    def compare(
        self, aligned: AlignedEncoder, lang: str, inputs: TaskInputs
    ) -> Iterator[tuple[str, frame.SplitResult]]:
        """Find and score the links of every split."""
        for source in self.rows(lang, inputs):
            split, gold = source.split, source.read()
            links, unread = self._links(aligned, gold, lang, inputs.pivot)
            sure, possible = gold.links.sure, gold.links.possible
            counts = gold.links.counted(links)
            table = {
                "id": gold.links.rows,
                "n_right": counts.right,
                "n_right_sure": counts.right_sure,
                "n_gold": counts.sure,
                "n_predicted": counts.found,
                "n_wrong": counts.wrong,
                "links": [
                    " ".join(f"{i}-{j}" for i, j in sorted(links.pair(row)))
                    for row in range(len(links))
                ],
            }
            notes = {
                "sentences": len(links),
                **Caveats.warning(gold.remarks),
                "links": int(counts.found.sum()),
                "sure": len(np.unique(sure.codes())),
                "possible": len(np.unique(possible.codes())),
                "words_unread": unread,
            }
            yield split, frame.SplitResult(counts.scores(), [table], {split: notes})

    def _links(
        self, aligned: AlignedEncoder, gold: GoldPairs, lang: str, pivot: str
    ) -> tuple[Links, int]:
        """The links that the vectors show, and how many words have no vector."""
        params = self.params
        src, tgt = (
            aligned.words(
                spaced_out([given_words(words, code) for words in sentences], params.spacing),
                code,
                layers=frame.single(params.layers),
                pooling=params.pooling,
            )
            for sentences, code in ((gold.src, lang), (gold.tgt, pivot))
        )
        found = []
        for row in range(len(gold.src)):
            (s, s_at), (t, t_at) = (_vectors(side, row) for side in (src, tgt))
            pairs = (
                Scaled.of(s, t, "cosine").mutual_nearest()
                if params.extraction == "intersection"
                else probable_links(s, t, params.extraction, params.threshold)
            )
            found.append([(s_at[i], t_at[j]) for i, j in pairs])
        return Links.of(found), int((~src.present_N).sum() + (~tgt.present_N).sum())


def probable_links(
    src_SH: torch.Tensor, tgt_TH: torch.Tensor, extraction: Extraction, threshold: float
) -> list[tuple[int, int]]:
    """Return the words whose product has a share above `threshold` in both directions."""
    if not len(src_SH) or not len(tgt_TH):
        return []
    (kept_ST,) = linked((src_SH @ tgt_TH.T)[None], extraction, threshold)
    return [(int(i), int(j)) for i, j in kept_ST.nonzero().tolist()]


def _vectors(side: WordVectors, row: int) -> tuple[torch.Tensor, list[int]]:
    """The vectors (words, H) of a sentence's words that were read, and their places in it."""
    begin, end = side.offsets[row], side.offsets[row + 1]
    present = side.present_N[begin:end]
    return side.vectors_NLH[begin:end][present].float().sum(1), present.nonzero()[:, 0].tolist()
