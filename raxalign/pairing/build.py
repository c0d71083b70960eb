"""Makes the artifacts of word pairs from bitext, as a stream.

An artifact folder of held-out sentences holds the datasets `data` (test) and `dev`, one of training
sentences `data`; word pairs likewise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from raxalign.arrays import Bools, Int32s, Ints
from raxalign.caveats import Caveats
from raxalign.corpora.text.bitext import OWN_WORDS, WORDS
from raxalign.corpora.text.dataset import DatasetWriter, read_metadata, read_table
from raxalign.corpora.text.sentences import text_columns
from raxalign.lazy import np, pa
from raxalign.pairing.aligners.base import AlignerInputs, Links, WordAligner
from raxalign.pairing.pharaoh import write_links
from raxalign.pairing.schema import (
    full_schema,
    link_columns,
    linked_types,
    links_of,
    read_pairs,
    write_types,
)
from raxalign.pairing.symmetrize import symmetrize_links
from raxalign.pairing.words import Words
from raxalign.store.key import Json

OneToOne = bool | Literal["first"]
"""Which links are kept of words that have several: none of them (True), all (False), or those of
`first_of_neighbours`.
"""


def thin(links: Links, how: OneToOne) -> Links:
    """Return the links that `how` keeps."""
    if how == "first":
        return first_of_neighbours(links)
    return one_to_one(links) if how else links


def one_to_one(links: Links) -> Links:
    """Only the links both of whose words are in no other link; a word with several links loses all
    of them (Cao et al. 2020).

    A link that is given twice counts as two.

    >>> one_to_one(Links.of([{(0, 0), (1, 1), (1, 2)}])).pair(0)
    {(0, 0)}
    """
    rows = links.rows()
    return links.where(_alone(rows, links.src) & _alone(rows, links.tgt))


def first_of_neighbours(links: Links) -> Links:
    """Return the links without those that share a word with the link that was kept before them.

    The links of a sentence pair are read by target word (the pivot's), then by source word. This is
    the rule of the code of Wang et al. (2019), whose source is English. A word may keep two links
    where a link of other words stands between them.

    >>> sorted(first_of_neighbours(Links.of([{(0, 0), (1, 1), (1, 2), (2, 2)}])).pair(0))
    [(0, 0), (1, 1), (2, 2)]
    """
    counts = np.diff(links.offsets)
    order = np.lexsort((links.src, links.tgt, links.rows()))
    keep = np.zeros(len(links.src), np.bool_)
    before_src, before_tgt = np.full((2, len(links)), -1, np.int32)
    # The k-th links of all sentence pairs are decided at once: what is kept depends on the links
    # before it in its own sentence pair.
    for k in range(int(counts.max(initial=0))):
        rows = np.flatnonzero(counts > k)
        at = order[links.offsets[rows] + k]
        new = (links.src[at] != before_src[rows]) & (links.tgt[at] != before_tgt[rows])
        at, rows = at[new], rows[new]
        keep[at] = True
        before_src[rows], before_tgt[rows] = links.src[at], links.tgt[at]
    return links.where(keep)


def _alone(rows: Ints, words: Int32s) -> Bools:
    """Whether each link is the only one of its sentence pair with that word."""
    if not len(rows):
        return np.zeros(0, np.bool_)
    width = int(words.max()) + 1
    # Counting is dense in (sentence pair, position): as large as the text itself, where sorting
    # would cost several passes.
    places = rows * width + words
    return np.asarray(np.bincount(places, minlength=1)[places] == 1)


_BATCH_ROWS = 8192
_THERE = frozenset({"read", "kept", "escaped", "without_text"})  # counts of pairs that are kept
_LONG = 100  # words: a shorter sentence may well have no link

SIDES = ("src", "tgt")
TEST, DEV, TRAIN = "data", "dev", "train"
LINKED_TYPES = "linked_types.arrow"


@dataclass(frozen=True)
class LinkRecipe:
    """How the links of a language and the pivot are made: by which word aligner, and what becomes
    of its two directions.

    `metadata` holds more facts for the metadata of the datasets.
    """

    aligner: WordAligner
    lang: str
    pivot: str
    symmetrization: str = "intersection"
    one_to_one: OneToOne = True
    metadata: Mapping[str, Json] = field(default_factory=dict)

    def facts(self) -> dict[str, Json]:
        """Return what metadata and notes record of it."""
        kind = type(self.aligner)
        return {
            "aligner": kind.__module__.rpartition(".")[2],
            "aligner_version": kind.VERSION,
            "aligner_params": self.aligner.params.identity(),
            "symmetrization": self.symmetrization,
            "one_to_one": self.one_to_one,
        }

    def described(self) -> dict[str, Json]:
        """Return the metadata of a dataset: the languages, `facts`, and `metadata`."""
        pair = {"lang": self.lang, "pivot": self.pivot, "lang_pair": f"{self.lang}-{self.pivot}"}
        return {**pair, **self.facts(), **self.metadata}


def build_training(
    bitext: Path, recipe: LinkRecipe, inputs: AlignerInputs, folder: Path
) -> dict[str, Json]:
    """Write the word pairs of a training bitext (a dataset folder) to `<folder>/data`; returns
    notes: counts, the word aligner, and the links' digest. Sentences and languages are added to
    `inputs`.
    """
    table = read_table(bitext)
    links = _align({bitext: table}, recipe, inputs)
    metadata = {**_of_bitext(bitext), **recipe.described(), "part": "training"}
    counts = _write(table, links, folder / TEST, metadata)
    return {**recipe.facts(), **counts, "links_digest": links.digest()}


def build_heldout(
    heldout: Path,
    training: Path,
    recipe: LinkRecipe,
    inputs: AlignerInputs,
    folder: Path,
    *,
    keep_training: bool = False,
) -> dict[str, Json]:
    """Run the word aligner once over test, dev (the artifact folder `heldout`) and training
    sentences (a dataset folder) together, and write `<folder>/data` (test), `<folder>/dev` and
    `<folder>/linked_types.arrow`, the word types that are linked in the training sentences of this
    run; with `keep_training` also `<folder>/train`, for `slice_training`.

    Returns notes: counts per part, the word aligner, and the digest of all links.
    """
    bitexts = {source: read_table(source) for source in (heldout / TEST, heldout / DEV, training)}
    links = _align(bitexts, recipe, inputs)
    notes = {**recipe.facts(), "links_digest": links.digest()}
    start, parts = 0, ((TEST, "test"), (DEV, "dev"), (TRAIN, "training"))
    for (part, name), (source, table) in zip(parts, bitexts.items(), strict=True):
        own = links.part(start, start + table.num_rows)
        start += table.num_rows
        if part == TRAIN:
            types = linked_types(Words(table.column("src")), Words(table.column("tgt")), own)
            notes["linked_types"] = write_types(types, folder / LINKED_TYPES)
        if part == TRAIN and not keep_training:
            notes[name] = _counts(own)
        else:
            metadata = {**_of_bitext(source), **recipe.described(), "part": name}
            notes[name] = _write(table, own, folder / part, metadata)
    return notes


def slice_training(run: Path, folder: Path, sentences: int) -> dict[str, Json]:
    """Write the first `sentences` training sentence pairs of a held-out run (made with
    `keep_training`) to `<folder>/data`.

    Writes fewer where the run has fewer: where that is refused, making the bitext has raised.
    """
    whole = read_pairs(run / TRAIN)
    table = whole.slice(0, sentences)
    links = links_of(table)
    counts = _write(
        table, links, folder / TEST, {**read_metadata(run / TRAIN), "sliced_from": whole.num_rows}
    )
    return {**counts, "links_digest": links.digest()}


def export_pharaoh(folder: Path, path: Path) -> int:
    """Write the links of a word-pair dataset as a Pharaoh file (0-based), line by line of the
    corpus up to the last that is in the dataset; lines that are not are blank. Returns the number
    of lines.

    ``aligner: links`` reads the file for the same corpus where blanks divide its words
    (``pretokenized: true``), and `raxalign aer` beside links made by hand.
    """
    table = read_pairs(folder)
    ids, links = table.column("id").to_numpy(), links_of(table)
    rows = np.full(int(ids.max(initial=-1)) + 1, len(links))
    rows[ids] = np.arange(len(links))
    with_a_blank = Links(np.append(links.offsets, links.offsets[-1]), links.src, links.tgt)
    write_links(path, with_a_blank.take(rows))
    return len(rows)


def _align(bitexts: Mapping[Path, pa.Table], recipe: LinkRecipe, inputs: AlignerInputs) -> Links:
    """Symmetrised and filtered links of the sentence pairs of bitexts by their folders, one after
    the other.
    """
    tables = list(bitexts.values())
    has_gold = all(map(_has_gold, tables))
    src, tgt = (Words.join([Words.of_table(table, name) for table in tables]) for name in SIDES)
    ids = np.concatenate([table.column("id").to_numpy() for table in tables])
    filled = replace(
        inputs,
        ids=ids,  # type: ignore[arg-type]  # an array is a sequence here
        gold=Links.join([links_of(table) for table in tables]) if has_gold else None,
        # gold links mean that no tokeniser made a word, where a bitext does not record it
        own_words=all(
            read_metadata(folder).get(WORDS, OWN_WORDS if _has_gold(table) else "") == OWN_WORDS
            for folder, table in bitexts.items()
        ),
        lang=recipe.lang,
        pivot=recipe.pivot,
    )
    links = symmetrize_links(*recipe.aligner.align(src, tgt, filled), recipe.symmetrization)
    without = np.diff(links.offsets) == 0
    longest = max(int(side.lengths[without].max(initial=0)) for side in (src, tgt))
    if longest > _LONG and (heard := Caveats.listener()) is not None:
        told = f"{int(without.sum()):,} of {len(links):,} sentence pairs have none"
        heard.partial[f"links of {recipe.lang}"] = f"{told}, the longest of {longest:,} words"
    return thin(links, recipe.one_to_one)


def _has_gold(table: pa.Table) -> bool:
    return {"src_links", "tgt_links"} <= set(table.schema.names)


def _of_bitext(folder: Path) -> dict[str, Json]:
    """The bitext's metadata, its counts under a name of their own."""
    metadata = read_metadata(folder)
    return {
        **{name: value for name, value in metadata.items() if name != "counts"},
        "bitext_counts": metadata.get("counts"),
    }


def left_out(*folders: Path) -> dict[str, str]:
    """Return what of their corpora word-pair datasets do not have, as `Caveats.partial` has it."""
    found = {}
    for facts in map(read_metadata, folders):
        counts = facts.get("bitext_counts") or {}
        lost = {name: n for name, n in counts.items() if n and name not in _THERE}
        if n := (facts.get("counts") or {}).get("without_links"):
            lost["without a link"] = n
        if lost and "read" in counts:
            why = ", ".join(f"{n:,} {name}" for name, n in lost.items())
            told = f"{sum(lost.values()):,} of {counts['read']:,} give no word pairs ({why})"
            found[f"sentence pairs of {facts['lang_pair']}"] = told
    return found


def _counts(links: Links) -> dict[str, Json]:
    return {
        "sentence_pairs": len(links),
        "word_pairs": len(links.src),
        "without_links": int((np.diff(links.offsets) == 0).sum()),
    }


def _write(
    table: pa.Table, links: Links, folder: Path, metadata: Mapping[str, Json]
) -> dict[str, Json]:
    """Streams the sentences of the memory-mapped table with their links."""
    counts = _counts(links)
    with DatasetWriter(folder, full_schema(), {**metadata, "counts": counts}) as writer:
        for start in range(0, table.num_rows, _BATCH_ROWS):
            rows = table.slice(start, _BATCH_ROWS)
            columns = [_column(rows, name) for name in ("id", *SIDES)]
            texts = [_column(rows, name) for side in SIDES for name in text_columns(side)]
            links_here = link_columns(links.part(start, start + rows.num_rows))
            writer.write(
                pa.RecordBatch.from_arrays([*columns, *links_here, *texts], schema=full_schema())
            )
    return counts


def _column(rows: pa.Table, name: str) -> pa.Array:
    """A column in one piece; nulls for running text that a bitext does not have."""
    if name not in rows.column_names:
        return pa.nulls(rows.num_rows, full_schema().field(name).type)
    return rows.column(name).combine_chunks()
