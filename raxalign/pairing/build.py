"""Word pairs on disk: their Arrow schema, what has to hold for their rows, and how their artifacts
are made from bitext, as a stream; and the pairs of word types that are linked in training, which
make a word pair of the test *seen*.

An artifact folder of held-out sentences holds the datasets `data` (test) and `dev`, one of training
sentences `data`; word pairs likewise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from raxalign.arrays import Bools, Int32s, Ints, distinct
from raxalign.caveats import Caveats
from raxalign.corpora.text.bitext import has_own_words
from raxalign.corpora.text.dataset import DatasetWriter, read_metadata, read_table
from raxalign.corpora.text.sentences import read_sentences, text_columns, words_type
from raxalign.corpora.text.words import Sentence, clean
from raxalign.errors import DataError
from raxalign.lazy import np, pa, pc
from raxalign.pairing.aligners.base import AlignerInputs, WordAligner
from raxalign.pairing.links import Links
from raxalign.pairing.words import Words
from raxalign.store.key import Json


def pairs_schema() -> pa.Schema:
    """Return the columns that every word-pair dataset has, one row per sentence pair: link k joins
    word ``src[src_links[k]]`` with word ``tgt[tgt_links[k]]``, positions 0-based.
    """
    links = pa.list_(pa.int32())
    words = {"id": pa.int64(), "src": words_type(), "tgt": words_type()}
    return pa.schema({**words, "src_links": links, "tgt_links": links})


def full_schema() -> pa.Schema:
    """Return the columns that are written: those of `pairs_schema`, and the running text of both
    sides.
    """
    return pa.schema([*pairs_schema(), *text_columns("src").items(), *text_columns("tgt").items()])


@dataclass(frozen=True)
class WordPairs:
    """The rows of a word-pair dataset, with the columns of `pairs_schema`."""

    table: pa.Table

    @classmethod
    def read(cls, folder: Path) -> WordPairs:
        """Return the word pairs of a dataset folder, memory-mapped. Raises `DataError` where it
        does not have the columns of `pairs_schema`, or others than those of `full_schema`.
        """
        table = read_table(folder)
        fields = set(table.schema.remove_metadata())
        if not set(pairs_schema()) <= fields <= set(full_schema()):
            columns = ", ".join(table.schema.names)
            raise DataError(folder, f"is not a word-pair dataset: its columns are {columns}")
        return cls(table)

    @property
    def links(self) -> Links:
        """The links of all sentence pairs."""
        return Links.of_table(self.table)

    def check(self) -> None:
        """Raise `DataError`, with the row's id, unless all links are within their
        sentences, and all words at their starts in the running text.
        """
        table = self.table

        def fault(row: int, problem: str) -> DataError:
            return DataError("word pairs", f"row {row} (id {table.column('id')[row]}) {problem}")

        links = self.links
        rows = links.rows()
        for name, positions in (("src", links.src), ("tgt", links.tgt)):
            outside = (positions < 0) | (positions >= Words(table.column(name)).lengths[rows])
            if outside.any():
                k = int(np.argmax(outside))
                problem = f"has a link to word {positions[k]} of {name}, which has fewer words"
                raise fault(int(rows[k]), problem)
            for row, words in enumerate(read_sentences(table, name)):
                if isinstance(words, Sentence) and not all(
                    start >= 0
                    and (words.text.startswith(word, start) or word in clean(words.text[start:end]))
                    for word, (start, end) in zip(words, words.spans(), strict=True)
                ):
                    raise fault(row, f"has words in {name} that are not in {name}_text")

    def export_pharaoh(self, path: Path) -> int:
        """Write the links as a Pharaoh file (0-based), line by line of the corpus up to the last
        that is in the dataset; lines that are not are blank. Returns the number of lines.

        ``aligner: links`` reads the file for the same corpus where blanks divide its words
        (``pretokenized: true``), and `raxalign aer` beside links made by hand.
        """
        ids, links = self.table.column("id").to_numpy(), self.links
        rows = np.full(int(ids.max(initial=-1)) + 1, len(links))
        rows[ids] = np.arange(len(links))
        with_a_blank = Links(np.append(links.offsets, links.offsets[-1]), links.src, links.tgt)
        with_a_blank.take(rows).write(path)
        return len(rows)

    @staticmethod
    def left_out(*folders: Path) -> dict[str, str]:
        """Return what of their corpora datasets do not have, as `Caveats.partial` has it."""
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


def link_columns(links: Links) -> tuple[pa.Array, pa.Array]:
    """Return the two columns of links, without a Python object per link."""
    offsets = pa.array(links.offsets.astype(np.int32))
    src, tgt = (
        pa.ListArray.from_arrays(offsets, pa.array(side)) for side in (links.src, links.tgt)
    )
    return src, tgt


def types_schema() -> pa.Schema:
    """Return the columns of linked word types: one row per pair of surface forms, cased."""
    return pa.schema([("src", pa.string()), ("tgt", pa.string())])


def linked_types(src: Words, tgt: Words, links: Links) -> pa.Table:
    """Return the different pairs of words that links join, in order of the vocabularies."""
    rows, size = links.rows(), max(1, len(tgt.vocabulary))
    s = src.codes[src.offsets[rows] + links.src].astype(np.int64)
    t = tgt.codes[tgt.offsets[rows] + links.tgt].astype(np.int64)
    pairs = distinct(s * size + t)
    columns = [
        src.vocabulary.take(pa.array(pairs // size)),
        tgt.vocabulary.take(pa.array(pairs % size)),
    ]
    return pa.Table.from_arrays(columns, schema=types_schema())


def write_types(types: pa.Table, path: Path) -> int:
    """Write a table of `types_schema` as an Arrow IPC file; return its number of rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with pa.ipc.new_file(str(path), types_schema()) as file:
        file.write_table(types, max_chunksize=1 << 17)
    return int(types.num_rows)


def read_types(path: Path) -> pa.Table:
    """Return a table of `types_schema`, memory-mapped. Raises `DataError` where there is none."""
    try:
        table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
    except (OSError, pa.ArrowInvalid) as error:
        raise DataError(path, f"is not a table of word types ({error})") from error
    if not table.schema.remove_metadata().equals(types_schema()):
        columns = ", ".join(table.schema.names)
        raise DataError(path, f"is not a table of word types: its columns are {columns}")
    return table


def build_seen(
    linked_types_files: Iterable[Path],
    pairs_folders: Iterable[Path],
    dictionaries: Iterable[Sequence[tuple[str, str]]],
    folder: Path,
) -> dict[str, Json]:
    """Write `<folder>/types.arrow`, the word types linked in runs of the word aligner or in
    word-pair datasets, as they are written, and `<folder>/dictionary.arrow`, the
    entries of dictionaries, which count for a word in any case.

    `linked_types_files` are the `linked_types.arrow` of held-out runs, `pairs_folders` dataset
    folders, `dictionaries` entries (source, target). Rows are sorted by source, then target.
    """
    tables = [read_types(path) for path in linked_types_files]
    for table in (WordPairs.read(folder).table for folder in pairs_folders):
        src, tgt = (Words(table.column(name)) for name in ("src", "tgt"))
        tables.append(linked_types(src, tgt, Links.of_table(table)))
    entries = [{"src": src, "tgt": tgt} for found in dictionaries for src, tgt in found]
    lowered = pa.Table.from_pylist(entries, types_schema())
    return {
        "types": write_types(_distinct(tables), folder / "types.arrow"),
        "dictionary_entries": write_types(_distinct([lowered]), folder / "dictionary.arrow"),
    }


def _distinct(tables: Sequence[pa.Table]) -> pa.Table:
    """Return each pair of types once, sorted."""
    types = pa.concat_tables(tables) if tables else types_schema().empty_table()
    types = types.group_by(["src", "tgt"]).aggregate([]).select(["src", "tgt"])
    return types.take(pc.sort_indices(types, [("src", "ascending"), ("tgt", "ascending")]))


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

    def build_training(self, bitext: Path, inputs: AlignerInputs, folder: Path) -> dict[str, Json]:
        """Write the word pairs of a training bitext (a dataset folder) to `<folder>/data`; returns
        notes: counts, the word aligner, and the links' digest. Sentences and languages are added to
        `inputs`.
        """
        table = read_table(bitext)
        links = _align({bitext: table}, self, inputs)
        metadata = {**_of_bitext(bitext), **self.described(), "part": "training"}
        counts = _write(table, links, folder / TEST, metadata)
        return {**self.facts(), **counts, "links_digest": links.digest()}

    def build_heldout(
        self,
        heldout: Path,
        training: Path,
        inputs: AlignerInputs,
        folder: Path,
        *,
        keep_training: bool = False,
    ) -> dict[str, Json]:
        """Run the word aligner once over test, dev (the artifact folder `heldout`) and training
        sentences (a dataset folder) together, and write `<folder>/data` (test), `<folder>/dev` and
        `<folder>/linked_types.arrow`, the word types that are linked in the training sentences of
        this run; with `keep_training` also `<folder>/train`, for `slice_training`.

        Returns notes: counts per part, the word aligner, and the digest of all links.
        """
        bitexts = {
            source: read_table(source) for source in (heldout / TEST, heldout / DEV, training)
        }
        links = _align(bitexts, self, inputs)
        notes = {**self.facts(), "links_digest": links.digest()}
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
                metadata = {**_of_bitext(source), **self.described(), "part": name}
                notes[name] = _write(table, own, folder / part, metadata)
        return notes


def slice_training(run: Path, folder: Path, sentences: int) -> dict[str, Json]:
    """Write the first `sentences` training sentence pairs of a held-out run (made with
    `keep_training`) to `<folder>/data`.

    Writes fewer where the run has fewer: where that is refused, making the bitext has raised.
    """
    whole = WordPairs.read(run / TRAIN).table
    table = whole.slice(0, sentences)
    links = Links.of_table(table)
    counts = _write(
        table, links, folder / TEST, {**read_metadata(run / TRAIN), "sliced_from": whole.num_rows}
    )
    return {**counts, "links_digest": links.digest()}


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
        gold=Links.join([Links.of_table(table) for table in tables]) if has_gold else None,
        # gold links mean that no tokeniser made a word, where a bitext does not record it
        own_words=all(
            has_own_words(read_metadata(folder), unknown=_has_gold(table))
            for folder, table in bitexts.items()
        ),
        lang=recipe.lang,
        pivot=recipe.pivot,
    )
    links = Links.symmetrized(*recipe.aligner.align(src, tgt, filled), recipe.symmetrization)
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
