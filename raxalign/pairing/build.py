"""Makes the artifacts of word pairs: bitext in, links beside it out, as a stream.

An artifact folder of held-out sentences holds the datasets `data` (test) and `dev`, one of training
sentences `data`; word pairs likewise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from raxalign.corpora.text.bitext import OWN_WORDS, WORDS
from raxalign.corpora.text.dataset import DatasetWriter, read_metadata, read_table
from raxalign.pairing.aligners.base import AlignerInputs, Links, WordAligner
from raxalign.pairing.filters import one_to_one as keep_one_to_one
from raxalign.pairing.pharaoh import write_links
from raxalign.pairing.schema import PAIRS_SCHEMA, link_columns, links_of, read_pairs
from raxalign.pairing.symmetrize import symmetrize_links
from raxalign.pairing.types import linked_types, write_types
from raxalign.pairing.words import Words
from raxalign.store.key import Json

_BATCH_ROWS = 8192

TEST, DEV, TRAIN = "data", "dev", "train"
LINKED_TYPES = "linked_types.arrow"


@dataclass(frozen=True)
class Recipe:
    """How links are made of sentences: which word aligner, what becomes of its two directions, and
    where it may work.
    """

    aligner: WordAligner
    symmetrization: str
    one_to_one: bool
    locations: Mapping[str, str]
    threads: int
    work: Path

    def facts(self) -> dict[str, Json]:
        """What metadata and notes say of it."""
        kind = type(self.aligner)
        return {
            "aligner": kind.__module__.rpartition(".")[2],
            "aligner_version": kind.VERSION,
            "aligner_params": self.aligner.params.identity(),
            "symmetrization": self.symmetrization,
            "one_to_one": self.one_to_one,
        }


def build_training(
    bitext: Path,
    aligner: WordAligner,
    folder: Path,
    *,
    lang: str,
    pivot: str,
    symmetrization: str,
    one_to_one: bool,
    locations: Mapping[str, str],
    threads: int,
    work: Path,
    metadata: Mapping[str, Json] | None = None,
) -> dict[str, Json]:
    """Writes the word pairs of a training bitext (a dataset folder) to `<folder>/data`.

    Returns notes: counts, the word aligner, and the links' digest.
    """
    recipe = Recipe(aligner, symmetrization, one_to_one, locations, threads, work)
    table = read_table(bitext)
    links = _align({bitext: table}, recipe)
    counts = _write(
        table,
        links,
        folder / TEST,
        {**_of_bitext(bitext), **_facts(recipe, lang, pivot, metadata), "part": "training"},
    )
    return {**recipe.facts(), **counts, "links_digest": links.digest()}


def build_heldout(
    heldout: Path,
    training: Path,
    aligner: WordAligner,
    folder: Path,
    *,
    lang: str,
    pivot: str,
    symmetrization: str,
    one_to_one: bool,
    locations: Mapping[str, str],
    threads: int,
    work: Path,
    metadata: Mapping[str, Json] | None = None,
    keep_training: bool = False,
) -> dict[str, Json]:
    """One run of the word aligner over test, dev (of the artifact folder `heldout`) and training
    sentences (a dataset folder) together.

    Writes `<folder>/data` (test), `<folder>/dev` and `<folder>/linked_types.arrow`, the word types
    that are linked in the training sentences of this run; with `keep_training` also
    `<folder>/train`, for `slice_training`. Returns notes: counts by part and the digest of all
    links.
    """
    recipe = Recipe(aligner, symmetrization, one_to_one, locations, threads, work)
    sources = {TEST: heldout / TEST, DEV: heldout / DEV, TRAIN: training}
    tables = {part: read_table(source) for part, source in sources.items()}
    links = _align({sources[part]: table for part, table in tables.items()}, recipe)
    facts, notes, start = (
        _facts(recipe, lang, pivot, metadata),
        {**recipe.facts(), "links_digest": links.digest()},
        0,
    )
    for part, name in ((TEST, "test"), (DEV, "dev"), (TRAIN, "training")):
        table, own = tables[part], links.part(start, start + tables[part].num_rows)
        start += table.num_rows
        if part == TRAIN:
            notes["linked_types"] = write_types(
                linked_types(_words(table, "src"), _words(table, "tgt"), own), folder / LINKED_TYPES
            )
        if part == TRAIN and not keep_training:
            notes[name] = _counts(own)
        else:
            notes[name] = _write(
                table, own, folder / part, {**_of_bitext(sources[part]), **facts, "part": name}
            )
    return notes


def slice_training(run: Path, folder: Path, sentences: int) -> dict[str, Json]:
    """Writes the first `sentences` training sentence pairs of a held-out run (made with
    `keep_training`) to `<folder>/data`.

    Fewer where the run has fewer: the bitext has refused that already if it was to.
    """
    whole = read_pairs(run / TRAIN)
    table = whole.slice(0, sentences)
    links = links_of(table)
    counts = _write(
        table, links, folder / TEST, {**read_metadata(run / TRAIN), "sliced_from": whole.num_rows}
    )
    return {**counts, "links_digest": links.digest()}


def export_pharaoh(folder: Path, path: Path) -> int:
    """Writes the links of a word-pair dataset as a Pharaoh file (0-based), a row a line; returns
    the number of lines.

    Read back with ``aligner: links``, the file fits a corpus of exactly these sentences in this
    order, with these words: written to files with blanks between them, that is a corpus with
    ``pretokenized: true``.
    """
    links = links_of(read_pairs(folder))
    write_links(path, links)
    return len(links)


def _align(bitexts: Mapping[Path, pa.Table], recipe: Recipe) -> Links:
    """Symmetrised and filtered links of the sentence pairs of bitexts by their folders, one after
    the other.
    """
    tables = list(bitexts.values())
    own_words = all(_has_own_words(folder, table) for folder, table in bitexts.items())
    src = Words.join([_words(table, "src") for table in tables])
    tgt = Words.join([_words(table, "tgt") for table in tables])
    ids = np.concatenate([table.column("id").to_numpy() for table in tables])
    inputs = AlignerInputs(
        ids,  # type: ignore[arg-type]  # an array is a sequence here
        _gold(tables),
        recipe.locations,
        recipe.work,
        recipe.threads,
        own_words,
    )
    links = symmetrize_links(*recipe.aligner.align(src, tgt, inputs), recipe.symmetrization)
    return keep_one_to_one(links) if recipe.one_to_one else links


def _words(table: pa.Table, column: str) -> Words:
    return Words(table.column(column))


def _gold(tables: Iterable[pa.Table]) -> Links | None:
    """The corpus's own links, where every table has them."""
    tables = list(tables)
    return (
        Links.join([links_of(table) for table in tables]) if all(map(_has_gold, tables)) else None
    )


def _has_gold(table: pa.Table) -> bool:
    return {"src_links", "tgt_links"} <= set(table.schema.names)


def _has_own_words(bitext: Path, table: pa.Table) -> bool:
    """Whether no tokeniser made any word; where a bitext does not record it, gold links say so."""
    return bool(
        read_metadata(bitext).get(WORDS, OWN_WORDS if _has_gold(table) else "") == OWN_WORDS
    )


def _facts(
    recipe: Recipe, lang: str, pivot: str, metadata: Mapping[str, Json] | None
) -> dict[str, Json]:
    return {
        "lang": lang,
        "pivot": pivot,
        "lang_pair": f"{lang}-{pivot}",
        **recipe.facts(),
        **(metadata or {}),
    }


def _of_bitext(folder: Path) -> dict[str, Json]:
    """The bitext's metadata, its counts under a name of their own."""
    metadata = read_metadata(folder)
    return {
        **{name: value for name, value in metadata.items() if name != "counts"},
        "bitext_counts": metadata.get("counts"),
    }


def _counts(links: Links) -> dict[str, Json]:
    return {
        "sentence_pairs": len(links),
        "word_pairs": len(links.src),
        "without_links": int((np.diff(links.offsets) == 0).sum()),
    }


def _write(
    table: pa.Table, links: Links, folder: Path, metadata: Mapping[str, Json]
) -> dict[str, Json]:
    """Streams the sentences of the memory-mapped table with their links beside them."""
    counts = _counts(links)
    with DatasetWriter(folder, PAIRS_SCHEMA, {**metadata, "counts": counts}) as writer:
        for start in range(0, table.num_rows, _BATCH_ROWS):
            rows = table.select(["id", "src", "tgt"]).slice(start, _BATCH_ROWS).combine_chunks()
            columns = [rows.column(name).combine_chunks() for name in rows.schema.names]
            part = links.part(start, start + rows.num_rows)
            writer.write(
                pa.RecordBatch.from_arrays([*columns, *link_columns(part)], schema=PAIRS_SCHEMA)
            )
    return counts
