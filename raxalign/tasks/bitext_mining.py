"""Mining of translations in comparable text, in the manner of BUCC (Zweigenbaum et al. 2018)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, final

from pydantic import Field

from raxalign.arrays import Bools, Floats, Ints
from raxalign.caveats import Caveats, LeftOut
from raxalign.corpora.readers.inspection import LocalRows
from raxalign.corpora.readers.lines import opened, read_lines
from raxalign.corpora.text.words import tokenize, within_text
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.vectors import LayerList
from raxalign.errors import DataError
from raxalign.lazy import np, torch
from raxalign.measured import Measured, share
from raxalign.options.params import BaseParams
from raxalign.options.sources import DataPath, DataPrefix, LocalFile, Source, expand_path
from raxalign.sample import Ratios, Sample
from raxalign.similarity.measures import hubness
from raxalign.similarity.neighbors import nearest_neighbors
from raxalign.tasks.base import Task, TaskInputs, TaskNeeds
from raxalign.tasks.transfer.rows import unit
from raxalign.tasks.vectors import frame
from raxalign.tasks.vectors.frame import SentenceReading, VectorTask

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
    that of the first, and the different gold pairs as places in them, int64 (G, 2). `remarks` say
    how many sentences are like others.
    """

    src: Sequence[Sequence[str]]
    tgt: Sequence[Sequence[str]]
    src_ids: Sequence[str]
    tgt_ids: Sequence[str]
    gold: Ints
    remarks: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.gold)

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
        places_of_gold, left = np.array(list(gold), dtype=np.int64), LeftOut()
        for code, side, own in zip((lang, pivot), sides, (src, tgt), strict=True):
            left[f"of {code} like an earlier one"] = len(side) - len(own)
        remarks = left.remarks("sentences", len(src) + len(tgt))
        return cls(src, tgt, src_ids, tgt_ids, places_of_gold, remarks)


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


_RATIOS: Ratios = {
    "f1": (("n_right", "n_right"), ("n_gold", "n_found")),
    "precision": (("n_right",), ("n_found",)),
    "recall": (("n_right",), ("n_gold",)),
}
_counted = partial(share, sample=partial(Sample.of_ratio, ratios=_RATIOS))  # per pair found or gold


class MiningData(BaseParams):
    """The two parts of a data set. BUCC's gold pairs are public for its sample and its training
    part, which XTREME takes as development and test set.
    """

    dev: ComparableFiles
    """Part on which the threshold is chosen."""
    test: ComparableFiles
    """Part that is mined with that threshold."""

    def splits(self) -> dict[str, ComparableFiles]:
        """Return the files by split, the one that chooses first."""
        return {"dev": self.dev, "test": self.test}


@final
class BitextMining(VectorTask):
    """Mining of translations: of all pairs of sentences of a language and the pivot, those are
    found whose margin is above a threshold. Most sentences have no translation. Equal sentences of
    a side are one, which has the translations of all of them (LASER's `unify`).

    Formula: margin(x, y) = cos(x, y) / ((r(x) + r(y)) / 2) with r the mean cosine of the `k`
    nearest sentences of the other side. Candidates are the best partners of all sentences of both
    sides; of two candidates with a sentence in common the one with the larger margin stays. The
    threshold is that with the best F1 on `dev`. F1 = 2 |found and gold| / (|found| + |gold|).

    The hub has no data for it: `mteb/BUCC` is one part alone, so that nothing could
    choose the threshold. The task `mteb` scores that part in mteb's manner (`tasks: [BUCC]`).

    Data: sentences of both languages, and the pairs among them that are translations, for `dev` and
    `test`.

    Reference: Zweigenbaum et al. (2018) for the data; Artetxe and Schwenk (2019) for the margin.

    Relations: `sentence_retrieval` looks for the translation of each sentence, which all of them
    have; choose this one for comparable text.

    Example:
        tasks:
          bitext_mining:
            data:
              dev: {text: "bucc/dev.{lang}.{side}", gold: "bucc/dev.{lang}.gold"}
              test: {text: "bucc/test.{lang}.{side}", gold: "bucc/test.{lang}.gold"}
    """

    VERSION = 2
    papers = ("zweigenbaum2018", "artetxe2019margin", "hu2020")
    metrics = (
        _counted("f1", "Harmonic mean of precision and recall over pairs of sentences."),
        _counted("precision", "Share of the pairs found that are translations."),
        _counted("recall", "Share of the translations that are found."),
        Measured("threshold", "Margin above which pairs are found.", "neither", "part"),
    )
    main_metric = "f1"
    averaged = ("f1", "precision", "recall")
    columns: ClassVar = {
        **dict.fromkeys(("src_id", "tgt_id"), "string"),
        **dict.fromkeys(("unit", "n_right", "n_found", "n_gold"), "int64"),
        "margin": "double",
    }
    predicts = frozenset({"margin", "n_found", "n_gold", "n_right", "src_id", "tgt_id", "unit"})

    class Params(Task.Params):
        """Files are those of BUCC 2018: `text: "bucc/{lang}-{pivot}.sample.{side}"`, `gold:
        "bucc/{lang}-{pivot}.sample.gold"`.
        """

        data: MiningData
        """Files of both parts."""
        layers: LayerList = Field("last", description=frame.LAYERS)
        pooling: frame.OwnPooling = Field("mean", description=frame.SENTENCE_POOLING)
        k: int = Field(4, ge=1)
        """Number of nearest sentences of the other side by whose mean cosine a cosine is divided.
        """

    params: Params

    def needs(self) -> TaskNeeds:
        """Return nothing of the grid's corpus."""
        return TaskNeeds(pooling=f"pooling: {self.params.pooling}")

    def idle(self) -> set[str]:
        """Return none: the margin always has neighbours."""
        return set()

    def sources(self, lang: str, pivot: str) -> Mapping[str, Source]:
        """Return the files of a language and the pivot."""
        return {
            name: source
            for split, files in self.params.data.splits().items()
            for name, source in files.sources(split, lang, pivot).items()
        }

    def rows(self, lang: str, inputs: TaskInputs) -> Iterator[LocalRows]:
        """Yield both sides and the gold pairs of every split."""
        for split in self.params.data.splits():
            names = ("source", "target", "gold")
            paths = {name: inputs.files[f"{split}_{name}"][lang] for name in names}
            read = partial(ComparableText.read, paths, lang, inputs.pivot)
            yield LocalRows(split, paths["gold"], read)

    def compare(
        self, aligned: AlignedEncoder, lang: str, inputs: TaskInputs
    ) -> Iterator[tuple[str, frame.SplitResult]]:
        """Mine both parts, the second one with the threshold of the first."""
        params, threshold = self.params, 0.0
        how = SentenceReading(frame.single(params.layers), params.pooling)
        for source in self.rows(lang, inputs):
            split, text = source.split, source.read()
            src, src_read = how.vectors(aligned, text.src, lang)
            tgt, tgt_read = how.vectors(aligned, text.tgt, inputs.pivot)
            mined = Mined.of(src, tgt, params.k)
            if split == "dev":
                threshold = mined.best_threshold(text.gold)
            table = _predictions(text, mined, threshold)
            right, found, gold = (int(table[f"n_{name}"].sum()) for name in _COUNTS)
            values = {"f1": 2 * right / (found + gold), "recall": right / gold}
            values |= {"precision": right / found if found else 0.0, "threshold": threshold}
            notes = {
                "sentences": [len(text.src), len(text.tgt)],
                "unread_src": int((~src_read).sum()),
                "unread_tgt": int((~tgt_read).sum()),
                "found": found,
                "gold": gold,
                **Caveats.warning(text.remarks),
            }
            yield split, frame.SplitResult(values, [table], {split: notes})


_COUNTS = ("right", "found", "gold")


def _predictions(text: ComparableText, mined: Mined, threshold: float) -> dict[str, Any]:
    """Return one row per pair that is found or gold; `unit` is the same wherever the pivot's
    sentence is. A gold pair that was not mined has no margin.
    """
    kept = mined.margins > threshold
    found_pairs = map(tuple, mined.pairs[kept].tolist())
    margins = dict(zip(found_pairs, mined.margins[kept].tolist(), strict=True))
    gold = set(map(tuple, text.gold.tolist()))
    pairs = [*margins, *sorted(gold - margins.keys())]
    found = np.array([pair in margins for pair in pairs], dtype=np.int64)
    wanted = np.array([pair in gold for pair in pairs], dtype=np.int64)
    return {
        "src_id": [text.src_ids[i] for i, _ in pairs],
        "tgt_id": [text.tgt_ids[j] for _, j in pairs],
        "unit": np.array([unit(text.tgt[j]) for _, j in pairs], dtype=np.int64),
        "n_right": found * wanted,
        "n_found": found,
        "n_gold": wanted,
        "margin": np.array([margins.get(pair, np.nan) for pair in pairs]),
    }
