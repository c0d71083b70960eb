"""The bitext of a language: its split, cleaned and tokenised, written as Arrow datasets.

The last `test` lines of a corpus are the test side, the `dev` lines before them the dev side.
Training runs backwards from there, nearest to dev first, or forwards from the first line. So a
smaller training set is a prefix of a larger one. No limit of length concerns held-out lines. Those
that are blank are dropped and counted, so a held-out side may be smaller than its number of lines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from raxalign.corpora.text.cleaning import (
    BATCH_ROWS,
    BitextOptions,
    Cleaner,
    Row,
    SplitCorpus,
    TooShort,
    shown,
    write_rows,
)
from raxalign.corpora.text.dataset import DatasetWriter, read_metadata, read_table
from raxalign.corpora.text.overlap import fingerprint, normalize
from raxalign.corpora.text.sentences import (
    cells,
    sentence_chunks,
    sentence_columns,
)


def write_heldout(source: SplitCorpus, options: BitextOptions, folder: Path) -> dict[str, Any]:
    """Write the test side to `<folder>/data` and the dev side to `<folder>/dev`, in file order.

    Args:
        source: the corpus and its split.
        options: how it is cleaned.
        folder: the artifact folder to fill.

    Returns:
        Notes, with counts per part.

    Raises:
        DataError: the corpus is shorter than its split, or a side has no sentence pair left.
    """
    cleaner, dev = Cleaner(source, options), source.split[1]
    heldout = cleaner.heldout(cleaner.tail(sum(source.split)))
    all_counts = {}
    for part, name, pairs in (("test", "data", heldout[dev:]), ("dev", "dev", heldout[:dev])):
        counts: Counter[str] = Counter(lines=len(pairs), blank=0, kept=0)
        rows = cleaner.clean(pairs, counts, training=False)
        cleaner.write(folder / name, part, rows, counts)
        if pairs and not counts["kept"]:
            raise cleaner.error(f"no sentence pair of the {part} side is left ({shown(counts)})")
        all_counts[part] = dict(counts)
    return {**cleaner.notes(), "counts": all_counts}


def write_training(
    source: SplitCorpus,
    sentences: int,
    options: BitextOptions,
    folder: Path,
    elsewhere: Sequence[Path] = (),
) -> dict[str, Any]:
    """Write the last `sentences` clean pairs before dev to `<folder>/data`, nearest to dev first;
    with ``training_from: start`` the first ones of the corpus, in file order.

    With ``overlap: drop``, a pair is left out that shares a normalised side with a held-out line,
    whose pivot side is held out for another language, or that is a repetition of a pair that was
    written.

    Args:
        source: the corpus and its split.
        sentences: how many pairs to write.
        options: how they are cleaned.
        folder: the artifact folder to fill.
        elsewhere: the folders that `write_heldout` filled for the other languages of one model.

    Returns:
        Notes, with counts.

    Raises:
        TooShort: there are fewer than `sentences` (``shortage: refuse``), or none at all.
    """
    cleaner = Cleaner(source, options, _pivot_sides(elsewhere))
    backwards = options.training_from == "end"
    tail = cleaner.tail(sum(source.split) + backwards * (sentences + sentences // 4 + 1000))
    counts = cleaner.write_training(tail, sentences, folder)
    if backwards and counts["kept"] < sentences and not tail.whole:
        tail = cleaner.tail(None)
        counts = cleaner.write_training(tail, sentences, folder)
    if counts["kept"] < sentences:
        _refuse_shortage(cleaner, sentences, counts, tail.total)
    return {**cleaner.notes(), "counts": {"training": dict(counts), "corpus_lines": tail.total}}


def _refuse_shortage(
    cleaner: Cleaner, sentences: int, counts: Mapping[str, int], total: int
) -> None:
    """Raises `TooShort` where fewer than `sentences` pairs do not do; `total` counts the corpus's
    lines.
    """
    lines = f"({total} lines in all; before dev {shown(counts)})"
    if not counts["kept"]:
        raise cleaner.error(f"nothing is left to train on {lines}", kind=TooShort)
    if cleaner.options.shortage == "refuse":
        raise cleaner.error(
            f"{sentences} training pairs were asked for, there are {counts['kept']} {lines}",
            f"Ask for at most {counts['kept']} sentences, or set `shortage: use-all`",
            TooShort,
        )


def write_text(
    bitexts: Sequence[Path], side: Literal["src", "tgt"], folder: Path
) -> dict[str, Any]:
    """Write one side of bitext datasets to `<folder>/data`, columns `words`, `words_text` and
    `words_starts`: sentences in order, each once.

    Args:
        bitexts: the dataset folders.
        side: the column to read.
        folder: the artifact folder to fill.

    Returns:
        Notes, with counts.
    """
    counts: Counter[str] = Counter(read=0, repeated=0, kept=0)

    def rows() -> Iterator[Row]:
        seen: set[bytes] = set()
        for bitext in bitexts:
            for sentences in sentence_chunks(read_table(bitext), side, BATCH_ROWS):
                for words in sentences:
                    counts["read"] += 1
                    key = fingerprint(*words)
                    if key not in seen:
                        seen.add(key)
                        yield cells("words", words)

    schema = pa.schema(sentence_columns("words"))
    metadata = {"bitexts": [read_metadata(bitext) for bitext in bitexts], "side": side}
    with DatasetWriter(folder / "data", schema, metadata) as writer:
        write_rows(writer, rows())
        counts.update(kept=writer.n_rows, repeated=counts["read"] - writer.n_rows)
        writer.metadata["counts"] = dict(counts)
    return {"counts": dict(counts)}


def _pivot_sides(folders: Sequence[Path]) -> frozenset[str]:
    """The normalised pivot sides of held-out sets that `write_heldout` wrote. `normalize` gives the
    same text for a sentence and for its words joined by blanks.
    """
    tables = [
        read_table(folder / name).column("tgt") for folder in folders for name in ("data", "dev")
    ]
    return frozenset(
        normalize(" ".join(words)) for column in tables for words in column.to_pylist()
    )
