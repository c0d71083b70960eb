"""Unsupervised token translation by a shifted masked LM (Liu et al. 2020, §5)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, final

from pydantic import Field, field_validator

from raxalign.arrays import Ints, spread_evenly
from raxalign.corpora.readers.inspection import FileRead, Remark, Report, read_through
from raxalign.corpora.text.words import Sentence
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.blocks import Blocks
from raxalign.encoders.models.pieces import Pieces, token_batches
from raxalign.encoders.models.rows import RowSource
from raxalign.encoders.models.token_means import Reading, TokenMeans
from raxalign.encoders.models.transformer import TransformerEncoder, evaluating
from raxalign.encoders.models.transforms import Affine, Transform
from raxalign.encoders.models.vectors import Batch, BlockRange, parse_layers
from raxalign.errors import DataError
from raxalign.languages import labels_with, language
from raxalign.lazy import np, pa, torch
from raxalign.options.params import LATER, SEVERAL, BaseParams
from raxalign.options.sources import DataPath, HubName, Source
from raxalign.tasks.base import Outcome, Reads, Score, Task, TaskInputs, TaskNeeds, means
from raxalign.tasks.classifiers.examples import Example, Examples
from raxalign.tasks.classifiers.scheme import XNLI
from raxalign.tasks.classifiers.task import ClassificationTask
from raxalign.tasks.transfer.params import DATASET, REVISION, DataFiles
from raxalign.tasks.transfer.rows import unit
from raxalign.tasks.translation.counts import MEASURED, TokenCounts
from raxalign.tasks.vectors.pairs import SentencePairs

if TYPE_CHECKING:
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

    labels, aliases, columns = XNLI.labels, XNLI.aliases, XNLI.columns


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

        def rows(prefix: str, code: str) -> Examples:
            """The rows of the language, or of the pivot, as a source of the language."""
            file = inputs.files.get(f"{prefix}{split}", {}).get(lang)
            files: dict[str, dict[str, Path]] = {split: {code: file}} if file else {}
            digests = {
                f"{name.removeprefix(prefix).removesuffix(f'/{lang}')}/{code}": own
                for name, own in inputs.digests.items()
                if name.startswith(f"{prefix}hub/") and name.endswith(f"/{lang}")
            }
            head = self.task.head(replace(inputs, files=files, digests=digests))
            found: Examples = head.data.rows(split, code)
            return found

        both = (lang, rows("", lang)), (inputs.pivot, rows(PIVOT, inputs.pivot))
        remarks = [f"{code}: {said}" for code, side in both for said in side.remarks]
        own, pivot = (list(side.rows) for _, side in both)
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
        return SentencePairs(lines, src, tgt, premises, tuple(remarks))

    def read_files(self, languages: Sequence[str], pivot: str) -> Iterator[FileRead]:
        """Read all local files, the pivot's first; those not parallel to it are faulty."""
        head = self.task.head(TaskInputs(pivot))
        for split in self.splits():
            known = list[Example]()

            def read(report: Report, split: Split, lang: str, known: list[Example] = known) -> int:
                found = head.read_local(split, lang, report)
                Remark.all(found.source, found.remarks, report)
                rows = list(found.rows)
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


_HEAD_ROWS = 1024
"""Positions that the masked-LM head reads at once: its scores are as wide as the vocabulary."""


class Shift(NamedTuple):
    """One setting of the sweep: the `layer` after whose block the stream is shifted, and the weight
    `alpha` of the difference of the language means.
    """

    layer: int
    alpha: float

    @property
    def prefix(self) -> str:
        """The beginning of the names of its metrics."""
        return f"layer{self.layer}_alpha{self.alpha:g}_"


def stream_of(aligned: AlignedEncoder) -> AlignedEncoder:
    """Return the encoder with its inside transforms alone: the head never reads readouts."""
    return replace(aligned, transforms=tuple(t for t in aligned.transforms if t.sort == "inside"))


def translate(
    stream: AlignedEncoder,
    rows: RowSource,
    lang: str,
    shifts: Mapping[Shift, torch.Tensor],
) -> dict[Shift, list[Ints]]:
    """Return the likeliest piece at every position of each row but those of special pieces, for
    each shift: what is added to the stream (H,), after the block that its key names.

    Nothing is masked. Rows stay in their order. The blocks below a shift run once for all shifts
    where the architecture allows it. The encoder has inside transforms alone.
    """
    encoder = stream.encoder
    assert isinstance(encoder, TransformerEncoder)
    found = {shift: [np.zeros(0, np.int64)] * len(rows) for shift in shifts}
    template = encoder.template
    with torch.no_grad(), evaluating(encoder.model):
        for chosen in token_batches(rows.lengths, encoder.batch_tokens):
            batch = encoder.collate(rows, chosen)
            places_T = torch.arange(batch.mask_BT.shape[1], device=batch.mask_BT.device)
            ends_B1 = batch.mask_BT.sum(1, keepdim=True) - len(template.after_single)
            # Neither padding nor what the tokenizer adds around a sentence.
            kept_BT = (places_T >= len(template.before)) & (places_T < ends_B1)
            ends = np.cumsum(kept_BT.sum(1).cpu().numpy())[:-1]
            for shift, states_BTH in _shifted(stream, batch, lang, shifts):
                parts = torch.split(states_BTH[kept_BT], _HEAD_ROWS)
                ids_P = torch.cat([encoder.lm_logits(part).argmax(-1) for part in parts])
                rows_ids = np.split(ids_P.cpu().numpy(), ends)
                for place, ids in zip(chosen.tolist(), rows_ids, strict=True):
                    found[shift][place] = ids
    return found


def _shifted(
    stream: AlignedEncoder, batch: Batch, lang: str, shifts: Mapping[Shift, torch.Tensor]
) -> Iterator[tuple[Shift, torch.Tensor]]:
    """Yield the last layer's states (B, T, H) under each shift."""
    encoder = stream.encoder
    assert isinstance(encoder, TransformerEncoder)
    blocks, outputs = Blocks.of(encoder.model.base_model), list[Any]()
    if len(shifts) > 1 and blocks.replayable:
        highest = max(shift.layer for shift in shifts)
        with blocks.recorded(highest) as outputs:
            encoder.hidden(batch, edits=stream.edits(), upto=highest)
    for shift, step_H in shifts.items():
        step = Transform(lang, shift.layer, "inside", (Affine(shift=step_H),))
        shifted = replace(stream, transforms=(*stream.transforms, step))
        with blocks.replayed(outputs[: shift.layer]):
            states_BTH = shifted.hidden(batch)[-1]
        yield shift, states_BTH


_TEXTS = tuple(f"{what}_text" for what in ("source", "output", "reference"))


@dataclass(frozen=True)
class TranslatedSide:
    """The sentences of one language that are translated, in words, as rows that the encoder reads,
    and in pieces, whole and without special ones. `vocabulary` are the pieces of all sentences of
    the side, translated or not; special pieces count as every language's. `truncated` counts the
    rows that are cut.
    """

    lang: str
    pairs: SentencePairs
    words: Sequence[Sequence[str]]
    rows: RowSource
    pieces: Sequence[Ints]
    vocabulary: frozenset[int]
    truncated: int

    def texts(self, most: int) -> list[str]:
        """Return the first sentences as text: words joined by blanks, or by nothing."""
        space = " " if language(self.lang).spaced else ""
        return [space.join(words) for words in self.words[:most]]


Way = tuple[TranslatedSide, TranslatedSide]
"""One direction of translation in one split: the side that is translated, and its reference."""


def read_sides(
    encoder: TransformerEncoder,
    pairs: SentencePairs,
    languages: tuple[str, str],
    limit: int | None = None,
) -> Way:
    """Make both sides of sentence pairs, the other language's and the pivot's; `limit` of them are
    translated, evenly spread over the text (None: all).
    """
    translated = pairs.take(chosen := spread_evenly(len(pairs.ids), limit))
    special = frozenset(encoder.tokenizer.all_special_ids)
    sides = []
    both = zip(languages, (pairs.src, pairs.tgt), (translated.src, translated.tgt), strict=True)
    for lang, sentences, words in both:
        divided = Pieces.read(encoder.tokenizer, [sentences], lang).of_sentences()
        whole = [ids.astype(np.int64) for ids in divided]
        used = frozenset(np.unique(np.concatenate(whole)).tolist() if whole else ())
        pieces = [whole[row] for row in chosen.tolist()]
        rows = encoder.pieces(words, lang)
        cut = int((rows.sentences.kept(rows.numbers_R) < rows.sentences.lengths_S).sum())
        sides.append(TranslatedSide(lang, translated, words, rows, pieces, used | special, cut))
    return sides[0], sides[1]


@dataclass(frozen=True)
class ShiftSweep:
    """The outputs of all shifts in one direction (``de-en`` is from German), the translated pieces
    of each sentence, and what they are scored by, with the sides of each split.
    """

    label: str
    encoder: TransformerEncoder
    ways: Mapping[str, Way]
    outputs: Mapping[str, Mapping[Shift, Sequence[Ints]]]
    counts: Mapping[str, Mapping[Shift, TokenCounts]]

    @classmethod
    def run(
        cls,
        stream: AlignedEncoder,
        label: str,
        ways: Mapping[str, Way],
        shifts: Mapping[Shift, torch.Tensor],
    ) -> ShiftSweep:
        """Translate the source side of every split by every shift, which is added to the stream
        (H,) of an encoder with inside transforms alone.
        """
        assert isinstance(stream.encoder, TransformerEncoder)
        outputs, counts = {}, {}
        for split, (source, target) in ways.items():
            outputs[split] = translate(stream, source.rows, source.lang, shifts)
            counts[split] = {
                shift: TokenCounts.of(output, target.pieces, source.vocabulary, target.vocabulary)
                for shift, output in outputs[split].items()
            }
        return cls(label, stream.encoder, ways, outputs, counts)

    def best(self) -> Shift | None:
        """Return the shift with the best BLEU-1 on dev (the first of equals), or the only one; None
        where there is nothing to choose by.
        """
        on_dev = self.counts.get("dev")
        if on_dev is None:
            only = next(iter(self.counts.values()), {})
            return next(iter(only)) if len(only) == 1 else None
        return max(on_dev, key=lambda shift: on_dev[shift].bleu1())

    def scores(self) -> Iterator[Score]:
        """Yield the metrics of every shift, and those of the best one without its name."""
        for split, by_shift in self.counts.items():
            for shift, counts in by_shift.items():
                for metric, value in counts.scores():
                    yield Score(self.label, f"{shift.prefix}{metric}", split, value)
        best = self.best()
        if best is None:
            return
        for split, (_, target) in self.ways.items():
            for metric, value in self.counts[split][best].scores():
                yield Score(self.label, metric, split, value)
            words = sacrebleu1(self.encoder, self.outputs[split][best], target.pieces, target.lang)
            yield Score(self.label, "bleu1_sacrebleu", split, words)

    def tables(self, samples: int) -> Iterator[pa.Table]:
        """Make one row per sentence and shift; `unit` is the same wherever the pivot's sentence is.
        The first `samples` test sentences keep their texts.
        """
        for split, by_shift in self.counts.items():
            source, target = self.ways[split]
            n, schema = len(source.pairs.ids), TokenCounts.schema()
            fixed: dict[str, Any] = {
                "lang": [self.label] * n,
                "split": [split] * n,
                "id": source.pairs.ids,
                "unit": source.pairs.units,
            }
            if source.pairs.premises is not None:
                schema = schema.append(pa.field("premise", pa.int64()))
                fixed["premise"] = source.pairs.premises
            if samples:
                schema = pa.schema([*schema, *((name, pa.string()) for name in _TEXTS)])
            kept = samples if split == "test" else 0
            for shift, counts in by_shift.items():
                columns = {
                    **fixed,
                    "layer": [shift.layer] * n,
                    "alpha": [shift.alpha] * n,
                    **vars(counts),
                }
                if samples:
                    outputs = self.outputs[split][shift][:kept]
                    made = [self.encoder.tokenizer.decode(ids.tolist()) for ids in outputs]
                    texts = source.texts(kept), made, target.texts(kept)
                    for name, found in zip(_TEXTS, texts, strict=True):
                        columns[name] = [*found, *[None] * (n - len(found))]
                yield pa.table(columns, schema=schema)

    def notes(self, means: Mapping[str, TokenMeans]) -> dict[str, object]:
        """Return what was chosen, and what the language means and the splits consist of."""
        best = self.best()
        found: dict[str, object] = {
            "chosen_on": "dev" if "dev" in self.ways else None,
            "layer": best and best.layer,
            "alpha": best and best.alpha,
            "means": {code: {"rows": m.rows, "tokens": m.tokens} for code, m in means.items()},
        }
        for split, (source, target) in self.ways.items():
            found[split] = {
                "sentences": len(source.pairs.ids),
                **source.pairs.note,
                "truncated": source.truncated,
                "vocabulary": [len(source.vocabulary), len(target.vocabulary)],
                "shared": len(source.vocabulary & target.vocabulary),
            }
        return found


def sacrebleu1(
    encoder: TransformerEncoder, output: Sequence[Ints], references: Sequence[Ints], lang: str
) -> float:
    """Return BLEU of unigrams by sacrebleu on words in place of pieces, from 0 to 1: both sides
    are put together from pieces and tokenised for the target language (13a, or characters for
    scripts without spaces).
    """
    from sacrebleu.metrics.bleu import BLEU

    known = language(lang)
    tokenize = "13a" if known.spaced else "zh" if known.base == "zh" else "char"
    texts, wanted = (
        [encoder.tokenizer.decode(ids.tolist()) for ids in side] for side in (output, references)
    )
    bleu = BLEU(max_ngram_order=1, tokenize=tokenize, smooth_method="none")
    return float(bleu.corpus_score(texts, [wanted]).score) / 100


@final
class TokenTranslation(Task):
    """Token translation of held-out sentences, of the grid's own corpus or of XNLI, into the pivot
    and out of it.

    Formula: h -> h + α (R_target - R_source) after block l, where R is a language's mean over
    monolingual text. The shifted states pass through the blocks above and the masked-LM head, on
    unmasked input; the output is the likeliest subword token at every position but the special
    ones. Inside transforms of the aligned encoder apply, in the means too. Post-hoc maps do not
    apply, because the head never reads them.

    Metrics are of one direction: `de-en` is from German. A language has the subword tokens of its
    own side of the split, translated or not. The shift, a layer l and a weight α, that has the best
    `bleu1` on dev is chosen for each direction, and the notes name it. Outside the grid's own
    corpus, the size of each language's vocabulary is measured too.

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

        layers: BlockRange = "last"
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
        dataset: Annotated[HubName, DATASET, LATER] = XNLI.dataset
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
        parse_layers(self.params.layers, n_layers, blocks=True)
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
        return Outcome(
            scores,
            pa.concat_tables(tables) if tables else TokenCounts.schema().empty_table(),
            notes,
        )

    def _sweeps(
        self, stream: AlignedEncoder, inputs: TaskInputs, lang: str
    ) -> Iterator[tuple[ShiftSweep, Mapping[str, TokenMeans]]]:
        """Yield both directions of a language and the pivot, with the means behind the shifts."""
        encoder: Any = stream.encoder
        layers = parse_layers(self.params.layers, stream.n_layers, blocks=True)
        limits = {"dev": self.params.dev_sentences, "test": self.params.max_sentences}
        sides = {
            split: read_sides(encoder, pairs, (lang, inputs.pivot), limits[split])
            for split, pairs in self._pairs(inputs, lang)
            if len(pairs.ids)
        }
        found = {
            code: self.params.means(encoder, inputs.text[code], code, layers, stream.edits())
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
        yield from SentencePairs.held_out(inputs.bitext[lang])
