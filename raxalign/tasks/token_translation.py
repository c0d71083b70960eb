"""Unsupervised token translation by a shifted masked LM (Liu et al. 2020, §5)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, final

from pydantic import Field, field_validator

from raxalign.corpora.readers.inspection import FileRead, Report, read_through
from raxalign.corpora.text.words import Sentence
from raxalign.encoders.models.token_means import Reading, TokenMeans, means_of
from raxalign.encoders.models.vectors import Blocks, parse_blocks
from raxalign.errors import DataError
from raxalign.languages import labels_with
from raxalign.lazy import np, pa
from raxalign.options.params import LATER, SEVERAL, BaseParams
from raxalign.options.sources import DataPath, Source
from raxalign.tasks.base import Outcome, Reads, Score, Task, TaskInputs, TaskNeeds, means
from raxalign.tasks.classifiers.examples import Example
from raxalign.tasks.classifiers.task import ALIASES, COLUMNS, LABELS, XNLI, ClassificationTask
from raxalign.tasks.transfer.params import DATASET, REVISION, DataFiles
from raxalign.tasks.transfer.rows import unit
from raxalign.tasks.translation.counts import MEASURED, SCHEMA
from raxalign.tasks.vectors.frame import heldout_splits
from raxalign.tasks.vectors.pairs import SentencePairs

if TYPE_CHECKING:
    from raxalign.corpora.readers.inspection import FileRead
    from raxalign.encoders.models.aligned import AlignedEncoder
    from raxalign.tasks.translation.sweep import ShiftSweep
    from raxalign.train.runtime import Runtime

Split = Literal["dev", "test"]
PIVOT = "pivot_"
"""What the name of a source begins with that is the pivot's and not the language's own."""


class XnliFiles(BaseParams):
    """Paths of XNLI's files, or of others that the task `xnli` can read; {lang} and {pivot} in a
    path stand for languages.
    """

    dev: DataPath | None = None
    """Development file of each language (none: nothing is chosen on dev)."""
    test: DataPath
    """Test file of each language."""


class _XnliRows(ClassificationTask):
    """The rows, which are read and not classified."""

    labels = LABELS
    aliases = ALIASES
    columns = COLUMNS


class XnliSentences:
    """Reads premise and hypothesis of XNLI as one sentence (Liu et al. 2020, Table 1)."""

    def __init__(self, files: XnliFiles | None, dataset: str, revision: str) -> None:
        """Read local files, or without them the data set of the hub at a branch, tag or commit."""
        data = "hub" if files is None else DataFiles(train="", dev=files.dev, test=files.test)
        given = {"data": data, "dataset": dataset, "revision": revision}
        self.task = _XnliRows(_XnliRows.Params.model_validate(given))

    def splits(self) -> tuple[Split, ...]:
        """Return the splits that are given."""
        data = self.task.params.data
        return ("test",) if isinstance(data, DataFiles) and data.dev is None else ("dev", "test")

    def sources(self, lang: str, pivot: str) -> Mapping[str, Source]:
        """Return the files, or sets of the hub, that a language is read from, and the pivot's."""
        return {
            f"{prefix}{name}": source
            for prefix, code in (("", lang), (PIVOT, pivot))
            for name, source in self.task.sources(code, pivot).items()
            if name != "train"
        }

    def read(self, split: Split, lang: str, inputs: TaskInputs) -> SentencePairs:
        """Read a split of a language and the pivot. Raises `DataError` where a file cannot be read,
        or the two are not parallel.
        """

        def rows(prefix: str, code: str) -> list[Example]:
            """The rows of the language, or of the pivot, as a source of the language."""
            file = inputs.files.get(f"{prefix}{split}", {}).get(lang)
            commit = inputs.digests.get(f"{prefix}hub/{lang}")
            files: dict[str, dict[str, Path]] = {split: {code: file}} if file else {}
            digests = {f"hub/{code}": commit} if commit else {}
            head = self.task.head(replace(inputs, files=files, digests=digests))
            return list(head.data.rows(split, code).rows)

        own, pivot = rows("", lang), rows(PIVOT, inputs.pivot)
        _require_parallel(f"xnli/{lang}:{split}", own, pivot)
        # The tokenizer alone divides text without spaces.
        src, tgt = (
            [
                Sentence.of_text(" ".join(t for t in (row.first, row.second) if t is not None))
                for row in side
            ]
            for side in (own, pivot)
        )
        lines = np.array([row.line for row in pivot], dtype=np.int64)
        premises = np.array([unit(row.first.split()) for row in pivot], dtype=np.int64)
        return SentencePairs(lines, src, tgt, premises)

    def read_files(self, languages: Sequence[str], pivot: str) -> Iterator[FileRead]:
        """Read all local files, the pivot's first; those not parallel to it are faulty."""
        head = self.task.head(TaskInputs(pivot))
        for split in self.splits():
            known = list[Example]()

            def read(report: Report, split: Split, lang: str, known: list[Example] = known) -> int:
                rows = list(head.read_local(split, lang, report).rows)
                if lang == pivot:
                    known.extend(rows)
                elif known:
                    _require_parallel(str(head.data.path(split, lang)), rows, known)
                return len(rows)

            for lang in dict.fromkeys((pivot, *languages)):
                yield read_through(
                    head.data.path(split, lang), partial(read, split=split, lang=lang)
                )


def _require_parallel(where: str, own: Sequence[Example], pivot: Sequence[Example]) -> None:
    """Raise `DataError` where two languages have other numbers of rows, or other labels."""
    remedy = "Give the files of one split, which have the same rows in every language"
    if len(own) != len(pivot):
        told = f"{len(own)} rows, but the pivot has {len(pivot)}: they are not parallel"
        raise DataError(where, told, remedy=remedy)
    for mine, other in zip(own, pivot, strict=True):
        if mine.label != other.label:
            told = f"labelled {mine.label}, but {other.label} in line {other.line} of the pivot"
            raise DataError(
                where, f"{told}: the rows are not parallel", line=mine.line, remedy=remedy
            )


@final
class TokenTranslation(Task):
    """Token translation of held-out sentences, of the grid's own corpus or of XNLI, into the pivot
    and out of it.

    Formula: h -> h + α (R_target - R_source) after block l, where R is a language's mean over
    monolingual text. The shifted states pass through the blocks above and the masked-LM head, on
    unmasked input; the output is the likeliest piece at every position but the special ones. Inside
    transforms of the aligned encoder apply, in the means too. Readouts do not apply, because the
    head never reads them.

    Metrics are of one direction: `de-en` is from German. A language has the pieces of its own side
    of the split, translated or not. The shift, a layer l and a weight α, that has the best `bleu1`
    on dev is chosen for each direction, and the notes name it. Outside the grid's own corpus, the
    size of each language's vocabulary is measured too.

    Data: text of each language and the pivot, and held-out sentence pairs of the corpus or XNLI.

    Reference: Liu et al. (2020, §5); Papineni et al. (2002) for BLEU.

    Relations: Its own shift is that of the method `mean_shift`; `retrieval` chooses among the words
    of given sentences, without the masked-LM head.

    Example:
        tasks:
          token_translation: {layers: 6-12, alpha: [1.0, 2.0], dev_sentences: 256}
    """

    VERSION = 5
    papers = ("liu2020", "papineni2002")
    accepts = frozenset({"transformer"})
    metrics = MEASURED
    main_metric = "bleu1"
    predicts = frozenset()  # a row per point of a sweep: no metric over all of them

    class Params(Reading, Task.Params):
        """The means are those of the method `mean_shift`."""

        layers: Blocks = "last"
        """Layers after whose blocks states are shifted, one at a time: `last`, one number from 1 on
        or a range such as `9-12`.
        """
        alpha: Annotated[tuple[float, ...], SEVERAL] = Field((1.0, 2.0, 3.0), min_length=1)
        """Weights of the difference of the language means, one number or several, which are all
        evaluated and are not an axis.
        """
        dev_sentences: int | None = Field(256, ge=1)
        """Number of dev sentences that are translated to choose the shift, evenly spread over the
        text (none: all).
        """
        max_sentences: int | None = Field(None, ge=1)
        """Number of test sentences that are translated, evenly spread over the text (none: all)."""
        data: Annotated[Literal["corpus", "xnli"] | XnliFiles, LATER] = "corpus"
        """Whose sentences are translated: the held-out ones of the grid's `corpus`, those of XNLI
        from the hub (`xnli`), or of local files like XNLI's, whose rows are parallel in all
        languages; premise and hypothesis of a row are one sentence.
        """
        dataset: Annotated[str, DATASET, LATER] = XNLI
        revision: Annotated[str, REVISION, LATER] = "main"
        samples: Annotated[int, LATER] = Field(0, ge=0)
        """Number of translated test sentences whose text is kept in the predictions, from the first
        on, with the output of every shift and the reference; the report shows them.
        """

        @field_validator("alpha")
        @classmethod
        def _are_different_numbers(cls, alpha: tuple[float, ...]) -> tuple[float, ...]:
            finite = all(abs(weight) < float("inf") for weight in alpha)
            if not finite or len({f"{weight:g}" for weight in alpha}) < len(alpha):
                told = "the weights must be finite and differ in their first six digits"
                raise ValueError(f"alpha: {told}, but they are {list(alpha)}")
            return alpha

    params: Params

    def needs(self) -> TaskNeeds:
        """Return the held-out sentences, and text for the means."""
        return TaskNeeds(bitext=self.params.data == "corpus", text=True, head=True)

    def sources(self, lang: str, pivot: str) -> Mapping[str, Source]:
        """Return XNLI's data in a language and in the pivot; nothing for `data: corpus`."""
        return {} if self.params.data == "corpus" else self._xnli().sources(lang, pivot)

    def read_files(self, languages: tuple[str, ...], pivot: str) -> Iterator[FileRead]:
        """Read local files; those that are not parallel to the pivot's are faults."""
        if isinstance(self.params.data, XnliFiles):
            yield from self._xnli().read_files(languages, pivot)

    def _xnli(self) -> XnliSentences:
        data = self.params.data
        files = data if isinstance(data, XnliFiles) else None
        return XnliSentences(files, self.params.dataset, self.params.revision)

    def reads(self, n_layers: int) -> Reads:
        """Return the stream up to the masked-LM head, which reads no readout."""
        parse_blocks(self.params.layers, n_layers)
        return Reads(stream=n_layers)

    def canonical(self) -> dict[str, object]:
        """Return the params without the size of blocks where sentences are the rows, and without
        what names data, whose own identity enters the key.
        """
        idle = {"dataset", "revision"}
        return {
            name: list(value) if name == "alpha" else value
            for name, value in self.params.identity().items()
            if name not in idle
        }

    def evaluate(
        self,
        aligned: AlignedEncoder,
        languages: tuple[str, ...],
        inputs: TaskInputs,
        runtime: Runtime,  # noqa: ARG002
        trained: Path | None,  # noqa: ARG002
    ) -> Outcome:
        """Translate every split both ways by every shift; dev compares those of a direction."""
        from raxalign.tasks.translation.sweep import stream_of

        scores, tables = list[Score](), list[pa.Table]()
        notes: dict[str, object] = {}
        vocabularies = defaultdict[tuple[str, str], set[int]](set)  # by language and split
        for lang in languages:
            stream = stream_of(aligned.toward(lang))
            for sweep, language_means in self._sweeps(stream, inputs, lang):
                scores += sweep.scores()
                tables += sweep.tables(self.params.samples)
                notes[sweep.label] = sweep.notes(language_means)
                special = frozenset(sweep.encoder.tokenizer.all_special_ids)
                for split, way in sweep.ways.items():
                    for side in way:
                        vocabularies[side.lang, split] |= side.vocabulary - special
        for (lang, split), pieces in vocabularies.items() if self.params.data != "corpus" else ():
            # Those that the pivot has in its sentences of all pairs too (Liu et al. 2020, Table 3).
            shared = len(pieces & vocabularies[inputs.pivot, split])
            scores.append(Score(lang, "vocabulary_count", split, float(len(pieces))))
            scores.append(Score(lang, "shared_count", split, float(shared)))
        unseen = labels_with(inputs.unseen, (*languages, inputs.pivot))
        averaged = ("convert_rate", "bleu1", "bleu1_sacrebleu")
        scores += means(scores, metrics=averaged, unseen=unseen)
        return Outcome(scores, pa.concat_tables(tables) if tables else SCHEMA.empty_table(), notes)

    def _sweeps(
        self, stream: AlignedEncoder, inputs: TaskInputs, lang: str
    ) -> Iterator[tuple[ShiftSweep, Mapping[str, TokenMeans]]]:
        """Yield both directions of a language and the pivot, with the means behind the shifts."""
        from raxalign.tasks.translation.sweep import Shift, ShiftSweep, read_sides

        encoder: Any = stream.encoder
        layers = parse_blocks(self.params.layers, stream.n_layers)
        limits = {"dev": self.params.dev_sentences, "test": self.params.max_sentences}
        sides = {
            split: read_sides(encoder, pairs, (lang, inputs.pivot), limits[split])
            for split, pairs in self._pairs(inputs, lang)
            if len(pairs.ids)
        }
        found = {
            code: means_of(encoder, inputs.text[code], code, layers, self.params, stream.edits())
            for code in (lang, inputs.pivot)
        }
        for source, target in ((lang, inputs.pivot), (inputs.pivot, lang)):
            ways = {split: both if source == lang else both[::-1] for split, both in sides.items()}
            shifts = {
                Shift(layer, alpha): alpha * (found[target].means_LH[k] - found[source].means_LH[k])
                for k, layer in enumerate(layers)
                for alpha in self.params.alpha
            }
            yield ShiftSweep.run(stream, f"{source}-{target}", ways, shifts), found

    def _pairs(self, inputs: TaskInputs, lang: str) -> Iterator[tuple[str, SentencePairs]]:
        """The sentence pairs of every split that there is."""
        if self.params.data != "corpus":
            xnli = self._xnli()
            yield from ((split, xnli.read(split, lang, inputs)) for split in xnli.splits())
            return
        for split, folder in heldout_splits(inputs.bitext[lang]):
            yield split, SentencePairs.read(folder)
