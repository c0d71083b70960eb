from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raxalign.corpora.text.dataset import DatasetWriter, read_metadata
from raxalign.corpora.text.sentences import words_type
from raxalign.errors import DataError, RaxalignError
from raxalign.pairing.aligners.base import AlignerInputs
from raxalign.pairing.aligners.fast_align import FastAlign
from raxalign.pairing.aligners.links import GivenLinks
from raxalign.pairing.build import (
    LinkRecipe,
    WordPairs,
    build_seen,
    full_schema,
    pairs_schema,
    read_types,
    slice_training,
)
from raxalign.pairing.links import Links
from raxalign.pairing.words import Words

PAIRS = [
    (["Das", "Haus"], ["the", "house"]),
    (["ein", "Buch"], ["a", "book"]),
    (["das", "Buch"], ["the", "book"]),
    (["ein", "Haus"], ["a", "house"]),
]
GOLD = [[(0, 0), (1, 1)], [(0, 0), (0, 1)], [(1, 1)], []]


def write_bitext(folder, pairs, first_id=0, gold=None, **metadata):
    schema = pa.schema([("id", pa.int64()), ("src", words_type()), ("tgt", words_type())])
    ids = list(range(first_id, first_id + len(pairs)))
    columns = {"id": ids, "src": [s for s, _ in pairs], "tgt": [t for _, t in pairs]}
    if gold is not None:
        links = pa.list_(pa.int32())
        schema = pa.schema([*schema, ("src_links", links), ("tgt_links", links)])
        columns["src_links"] = [[s for s, _ in row] for row in gold]
        columns["tgt_links"] = [[t for _, t in row] for row in gold]
    told = {"corpus": "toy", "split": {"test": 2, "dev": 1}, "counts": {"blank": 7}, **metadata}
    with DatasetWriter(folder, schema, told) as writer:
        for start in range(0, len(pairs), 3):
            writer.write({name: column[start : start + 3] for name, column in columns.items()})
    return folder


@pytest.fixture
def workplace(tmp_path):
    return AlignerInputs((), None, {}, tmp_path / "work", 1)


def recipe(aligner=None, **more):
    return LinkRecipe(aligner or GivenLinks(GivenLinks.Params()), "de", "en", **more)


def types_of(path):
    return [(row["src"], row["tgt"]) for row in read_types(path).to_pylist()]


def rows(folder):
    table = WordPairs.read(folder).table
    WordPairs(table).check()
    links = Links.of_table(table)
    return [(id_, links.pair(i)) for i, id_ in enumerate(table.column("id").to_pylist())]


def test_training_pairs_are_the_sentences_with_their_links_beside_them(tmp_path, workplace):
    datasets = pytest.importorskip("datasets")
    bitext = write_bitext(tmp_path / "bitext", PAIRS, first_id=10, gold=GOLD)
    made, data = recipe(metadata={"key": "abc"}), tmp_path / "pairs" / "data"
    notes = made.build_training(bitext, workplace, tmp_path / "pairs")
    # The second sentence's word 0 has two links and loses both.
    linked = [(10, {(0, 0), (1, 1)}), (11, set()), (12, {(1, 1)}), (13, set())]
    assert rows(data) == linked
    counts = {"sentence_pairs": 4, "word_pairs": 3, "without_links": 2, "aligner": "links"}
    assert {name: notes[name] for name in counts} == counts
    assert notes["links_digest"] == Links.of_table(WordPairs.read(data).table).digest()
    metadata = read_metadata(data)
    expected = {"lang_pair": "de-en", "corpus": "toy", "symmetrization": "intersection"}
    expected |= {"aligner_version": 1, "key": "abc", "part": "training"}
    assert {name: metadata[name] for name in expected} == expected
    assert metadata["counts"]["word_pairs"] == 3
    assert metadata["bitext_counts"] == {"blank": 7}
    loaded = datasets.load_from_disk(str(data))
    assert loaded.features.arrow_schema.remove_metadata() == full_schema()
    words = {"id": 10, "src": ["Das", "Haus"], "tgt": ["the", "house"]}
    links = {"src_links": [0, 1], "tgt_links": [0, 1]}
    assert loaded[0] == {**words, **links, **dict.fromkeys(full_schema().names[5:])}
    assert WordPairs.read(data).export_pharaoh(tmp_path / "links") == 14
    written = (tmp_path / "links").read_text(encoding="ascii")
    assert written == "\n" * 10 + "0-0 1-1\n\n1-1\n\n"
    recipe(one_to_one=False).build_training(bitext, workplace, tmp_path / "all")
    assert [links for _, links in rows(tmp_path / "all" / "data")] == [set(row) for row in GOLD]


def heldout(tmp_path):
    write_bitext(tmp_path / "heldout" / "data", PAIRS[:1], first_id=100, gold=GOLD[:1])
    write_bitext(tmp_path / "heldout" / "dev", PAIRS[1:2], first_id=90, gold=GOLD[1:2])
    pairs, gold = (rows[2:] + rows[:1] * 2 for rows in (PAIRS, GOLD))
    return tmp_path / "heldout", write_bitext(tmp_path / "training", pairs, first_id=10, gold=gold)


def test_one_run_gives_test_and_dev_and_the_types_linked_in_training(tmp_path, workplace):
    notes = recipe().build_heldout(*heldout(tmp_path), workplace, tmp_path / "run")
    assert rows(tmp_path / "run" / "data") == [(100, {(0, 0), (1, 1)})]
    assert rows(tmp_path / "run" / "dev") == [(90, set())]
    assert not (tmp_path / "run" / "train").exists()
    types = types_of(tmp_path / "run" / "linked_types.arrow")
    assert sorted(types) == [("Buch", "book"), ("Das", "the"), ("Haus", "house")]
    word_pairs = [notes[part]["word_pairs"] for part in ("test", "dev", "training")]
    assert (word_pairs, notes["linked_types"]) == ([2, 0, 5], 3)
    assert read_metadata(tmp_path / "run" / "data")["part"] == "test"


def test_the_word_aligner_sees_test_and_dev_and_training_in_one_run(tmp_path, workplace):
    seen = []

    class Spy(FastAlign):
        def align(self, src, tgt, inputs: AlignerInputs):
            seen.append((list(src), list(inputs.ids), inputs.gold))
            return super().align(src, tgt, inputs)

    aligner = Spy(FastAlign.Params())
    recipe(aligner).build_heldout(*heldout(tmp_path), workplace, tmp_path / "run")
    ((src, ids, gold),) = seen
    assert ids == [100, 90, 10, 11, 12, 13]
    assert src == [s for s, _ in [*PAIRS[:1], *PAIRS[1:2], *PAIRS[2:], *PAIRS[:1] * 2]]
    assert [gold.pair(i) for i in range(3)] == [{(0, 0), (1, 1)}, {(0, 0), (0, 1)}, {(1, 1)}]


def test_a_slice_of_the_run_is_its_first_training_sentences(tmp_path, workplace):
    recipe().build_heldout(*heldout(tmp_path), workplace, tmp_path / "run", keep_training=True)
    notes = slice_training(tmp_path / "run", tmp_path / "slice", 3)
    expected = [(10, {(1, 1)}), (11, set()), (12, {(0, 0), (1, 1)})]
    assert rows(tmp_path / "slice" / "data") == rows(tmp_path / "run" / "train")[:3] == expected
    assert notes["word_pairs"] == 3
    assert read_metadata(tmp_path / "slice" / "data")["sliced_from"] == 4
    assert slice_training(tmp_path / "run", tmp_path / "all", 99)["sentence_pairs"] == 4


def test_equal_bitexts_give_equal_bytes(tmp_path, workplace):
    bitext = write_bitext(tmp_path / "bitext", PAIRS * 20)
    for name in ("a", "b"):
        recipe(FastAlign(FastAlign.Params())).build_training(bitext, workplace, tmp_path / name)
    data = "data/data-00000-of-00001.arrow"
    assert (tmp_path / "a" / data).read_bytes() == (tmp_path / "b" / data).read_bytes()


def test_seen_types_are_those_of_the_run_and_the_training_sets_and_the_dictionaries(
    tmp_path, workplace
):
    recipe().build_heldout(*heldout(tmp_path), workplace, tmp_path / "run")
    sentences = [(["Ein", "Buch"], ["a", "book"])]
    own = write_bitext(tmp_path / "own", sentences, gold=[[(0, 0), (1, 1)]])
    recipe().build_training(own, workplace, tmp_path / "pairs")
    runs, pairs = [tmp_path / "run" / "linked_types.arrow"], [tmp_path / "pairs" / "data"]
    dictionaries = [[("katze", "cat"), ("buch", "book")]]
    notes = build_seen(runs, pairs, dictionaries, tmp_path / "seen")
    types = [("Buch", "book"), ("Das", "the"), ("Ein", "a"), ("Haus", "house")]
    assert types_of(tmp_path / "seen" / "types.arrow") == types
    entries = types_of(tmp_path / "seen" / "dictionary.arrow")
    assert entries == [("buch", "book"), ("katze", "cat")]
    assert notes == {"types": 4, "dictionary_entries": 2}
    assert build_seen([], [], [[]], tmp_path) == {"types": 0, "dictionary_entries": 0}
    assert read_types(tmp_path / "types.arrow").num_rows == 0
    (tmp_path / "types.arrow").write_bytes(b"ARROW1")
    with pytest.raises(DataError, match=r"types\.arrow"):
        read_types(tmp_path / "types.arrow")


def test_given_links_require_the_words_of_the_corpus(tmp_path):
    (tmp_path / "links").write_text("0-0\n1-1\n\n0-1\n", encoding="ascii")
    made_with = recipe(GivenLinks(GivenLinks.Params(path="links")))
    workplace = AlignerInputs((), None, {"links": str(tmp_path / "links")}, tmp_path / "work", 1)
    own = write_bitext(tmp_path / "own", PAIRS, words="own")
    made_with.build_training(own, workplace, tmp_path / "pairs")
    linked = [{(0, 0)}, {(1, 1)}, set(), {(0, 1)}]
    assert rows(tmp_path / "pairs" / "data") == list(enumerate(linked))
    made = write_bitext(tmp_path / "made", PAIRS)
    with pytest.raises(RaxalignError, match="made here by a tokeniser"):
        made_with.build_training(made, workplace, tmp_path / "refused")
    for name in ("data", "dev"):
        write_bitext(tmp_path / "run" / name, PAIRS[:2], words="own")
    with pytest.raises(RaxalignError, match="made here by a tokeniser"):
        made_with.build_heldout(tmp_path / "run", made, workplace, tmp_path / "refused")


def pairs_table(src_links, tgt_links):
    columns = {"id": [7], "src": [["a", "b"]], "tgt": [["A"]]}
    columns |= {"src_links": [src_links], "tgt_links": [tgt_links]}
    return pa.Table.from_pydict(columns, schema=pairs_schema())


def texts_table(text, starts, ends=None, words=("a", "b")):
    columns = pairs_table([0], [0]).to_pydict() | {"src": [list(words)]}
    columns |= {"src_text": [text], "src_starts": [starts], "src_ends": [ends]}
    columns |= {key: [None] for key in ("tgt_text", "tgt_starts", "tgt_ends")}
    return pa.Table.from_pydict(columns, schema=full_schema())


def test_words_that_are_not_in_their_text_are_refused():
    decomposed, words = "a\u0301\u200c b", ("\u00e1", "b")
    WordPairs(texts_table("a b", [0, 2])).check()
    WordPairs(texts_table(decomposed, [0, 4], [3, 5], words)).check()
    told = r"row 0 \(id 7\) has words in src that are not in src_text"
    for wrong in (("a b", [0, 1]), (decomposed, [0, 3], [1, 4], words)):
        with pytest.raises(DataError, match=told):
            WordPairs(texts_table(*wrong)).check()


def test_word_pairs_that_were_written_before_words_had_ends_are_read(tmp_path):
    table = texts_table("a b", [0, 2]).drop_columns(["src_ends", "tgt_ends"])
    with DatasetWriter(tmp_path / "old", table.schema, {}) as writer:
        writer.write(table.to_batches()[0])
    (sentence,) = Words.of_table(WordPairs.read(tmp_path / "old").table, "src").read(np.array([0]))
    assert (sentence, sentence.text, sentence.starts) == (["a", "b"], "a b", (0, 2))
    with pytest.raises(DataError, match="not a word-pair dataset: its columns are id, src, tgt"):
        WordPairs.read(write_bitext(tmp_path / "other", PAIRS))


@pytest.mark.parametrize(
    ("src_links", "tgt_links", "problem"),
    [
        ([0, 1], [0], "different numbers"),
        ([2], [0], "word 2 of src"),
        ([0], [1], "word 1 of tgt"),
        ([-1], [0], "word -1 of src"),
    ],
)
def test_bad_rows_are_named_by_their_id(src_links, tgt_links, problem):
    with pytest.raises(DataError, match=rf"\(id 7\).*{problem}"):
        WordPairs(pairs_table(src_links, tgt_links)).check()


def test_links_of_a_table_that_is_a_slice():
    table = pa.concat_tables([pairs_table([0], [0]), pairs_table([1], [0])]).slice(1, 1)
    WordPairs(table).check()
    assert Links.of_table(table).pair(0) == {(1, 0)}


def test_links_digest_tells_links_apart():
    links = [[{(0, 0)}, set()], [set(), {(0, 0)}], [{(0, 1)}, set()]]
    assert len({Links.of(pairs).digest() for pairs in links}) == 3


# Of one to four bytes, with an accent that stands alone; more would say the same again.
LETTERS = "a \x00é\u0301ß漢字🙂"
sentences = st.lists(st.lists(st.text(LETTERS, max_size=4), max_size=4), max_size=6)


def decode(words):
    flat = words.vocabulary.take(pa.array(words.codes)).to_pylist()
    bounds = words.offsets.tolist()
    return [flat[a:b] for a, b in pairwise(bounds)]


@settings(max_examples=25)
@given(sentences, sentences)
def test_numbers_stand_for_the_words_over_several_chunks(first, second):
    words = Words.join([Words.of(first), Words.of(second)])
    assert decode(words) == first + second == [list(sentence) for sentence in words]
    assert len(words.vocabulary) == len({word for sentence in first + second for word in sentence})


def test_a_slice_of_a_column_is_numbered_alone():
    column = pa.chunked_array([pa.array([["a"], ["b", "c"], ["d"]], words_type())]).slice(1, 1)
    words = Words(column)
    assert decode(words) == [["b", "c"]]
    assert words.offsets.tolist() == [0, 2]
    assert words[0] == ["b", "c"]


def test_folding_joins_words_that_differ_in_case():
    words = Words.of([["Der", "der", "DAS"], ["das", "É", "é"]])
    codes, size = words.folded(lowercase=True)
    assert (codes.tolist(), size) == ([0, 0, 1, 1, 2, 2], 3)
    codes, size = words.folded(lowercase=False)
    assert (codes.tolist(), size) == ([0, 1, 2, 3, 4, 5], 6)
