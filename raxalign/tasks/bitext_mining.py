"""Mining of translations in comparable text, in the manner of BUCC (Zweigenbaum et al. 2018)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, final

from pydantic import Field

from raxalign.config.params import BaseParams
from raxalign.config.sources import Source
from raxalign.corpora.readers.inspection import FileRead, read_through
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.vectors import LayerList
from raxalign.lazy import np, pa
from raxalign.measured import Measured, share
from raxalign.sample import Ratios, Sample, of_ratio
from raxalign.tasks.base import Task, TaskInputs, TaskNeeds
from raxalign.tasks.transfer.rows import unit
from raxalign.tasks.vectors import frame
from raxalign.tasks.vectors.frame import VectorTask
from raxalign.tasks.vectors.mined_pairs import ComparableFiles, ComparableText, Mined
from raxalign.tasks.vectors.sentences import SentenceReading, sentence_vectors

_RATIOS: Ratios = {
    "f1": (("n_right", "n_right"), ("n_gold", "n_found")),
    "precision": (("n_right",), ("n_found",)),
    "recall": (("n_right",), ("n_gold",)),
}


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

    Reference: Zweigenbaum et al. (2018) for the data; Artetxe and Schwenk (2019) for the margin.
    """

    VERSION = 2
    papers = ("zweigenbaum2018", "artetxe2019margin", "hu2020")
    metrics = (
        share("f1", "Harmonic mean of precision and recall over pairs of sentences."),
        share("precision", "Share of the pairs found that are translations."),
        share("recall", "Share of the translations that are found."),
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
        return TaskNeeds()

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

    def read_files(self, languages: tuple[str, ...], pivot: str) -> Iterator[FileRead]:
        """Read the files of every language."""
        for lang in languages:
            for split, files in self.params.data.splits().items():
                found = files.sources(split, lang, pivot)
                paths = {name.partition("_")[2]: entry.path for name, entry in found.items()}
                read = read_through(
                    paths["gold"],
                    lambda _, paths=paths, lang=lang: len(  # type: ignore[misc]
                        ComparableText.read(paths, lang, pivot).gold
                    ),
                )
                yield read

    @classmethod
    def sample(cls, rows: pa.Table, metric: str) -> Sample | None:
        """Return the sample of a score, by counts per pair that is found or gold."""
        return of_ratio(rows, metric, _RATIOS)

    def compare(
        self, aligned: AlignedEncoder, lang: str, inputs: TaskInputs
    ) -> Iterator[tuple[str, frame.SplitResult]]:
        """Mine both parts, the second one with the threshold of the first."""
        params, threshold = self.params, 0.0
        how = SentenceReading(frame.single(params.layers), params.pooling)
        for split in params.data.splits():
            names = ("source", "target", "gold")
            paths = {name: inputs.files[f"{split}_{name}"][lang] for name in names}
            text = ComparableText.read(paths, lang, inputs.pivot)
            src, _ = sentence_vectors(aligned, text.src, lang, how)
            tgt, _ = sentence_vectors(aligned, text.tgt, inputs.pivot, how)
            mined = Mined.of(src, tgt, params.k)
            if split == "dev":
                threshold = mined.best_threshold(text.gold)
            table = _predictions(text, mined, threshold)
            right, found, gold = (int(table[f"n_{name}"].sum()) for name in _COUNTS)
            values = {"f1": 2 * right / (found + gold), "recall": right / gold}
            values |= {"precision": right / found if found else 0.0, "threshold": threshold}
            notes = {"sentences": [len(text.src), len(text.tgt)], "found": found, "gold": gold}
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
