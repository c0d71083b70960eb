"""Reading tagged sentences, with the traps of the files that circulate."""

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raxalign.errors import DataError
from raxalign.tasks.base import TaskInputs
from raxalign.tasks.pos import Pos
from raxalign.tasks.slots import Slots
from raxalign.tasks.taggers.reading import TaggedSentences
from raxalign.tasks.taggers.scheme import TagScheme, entities_of, iob2

read_conllu = partial(TaggedSentences.of_file, scheme=Pos(Pos.Params()).scheme())


def write(tmp_path, text, name="dev.conll"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def conll(tmp_path, text):
    return [
        (row.words, row.tags, row.line)
        for row in TaggedSentences.of_file(write(tmp_path, text)).rows
    ]


@pytest.mark.parametrize(
    ("iob1", "expected"),
    [
        ("I-PER I-PER O I-LOC", "B-PER I-PER O B-LOC"),
        ("I-PER B-PER I-PER", "B-PER B-PER I-PER"),  # in IOB1 a B- divides neighbours
        ("I-PER I-LOC I-LOC I-PER", "B-PER B-LOC I-LOC B-PER"),
        ("B-PER I-PER O B-LOC I-ORG", "B-PER I-PER O B-LOC B-ORG"),
        ("O O", "O O"),
    ],
)
def test_iob1_becomes_iob2_by_hand(iob1, expected):
    assert " ".join(iob2(iob1.split())) == expected


ENTITIES = {("PER", 0, 1), ("PER", 2, 2), ("LOC", 4, 6), ("ORG", 7, 7)}


@pytest.mark.parametrize(
    "tags",
    [
        "B-PER I-PER B-PER O B-LOC I-LOC I-LOC B-ORG",
        "I-PER I-PER B-PER O I-LOC I-LOC I-LOC I-ORG",
        "B-PER E-PER S-PER O B-LOC I-LOC E-LOC S-ORG",
        "B-PER E-PER S-PER O B-LOC M-LOC E-LOC S-ORG",
        "B-PER L-PER U-PER O B-LOC I-LOC L-LOC U-ORG",
        "B-PER E-PER I-PER O I-LOC I-LOC I-LOC W-ORG",  # what follows an end begins
    ],
)
def test_entities_are_the_same_in_every_scheme(tags, tmp_path):
    text = "".join(f"w {tag}\n" for tag in tags.split())
    (found,) = TaggedSentences.of_file(write(tmp_path, text)).rows
    assert " ".join(found.tags) == "B-PER I-PER B-PER O B-LOC I-LOC I-LOC B-ORG"
    assert entities_of(tags.split()) == ENTITIES


def test_types_without_a_mark_are_entities_of_io(tmp_path):
    (found,) = TaggedSentences.of_file(write(tmp_path, "a PER\nb PER\nc O\nd PER\ne LOC\n")).rows
    assert found.tags == ("B-PER", "I-PER", "O", "B-PER", "B-LOC")
    with pytest.raises(DataError, match="unknown tag 'PER'"):
        TaggedSentences.of_file(write(tmp_path, "a B-PER\nb PER\nc O\n"))


@given(st.lists(st.sampled_from(["O", "B-a", "I-a", "B-b", "I-b"]), min_size=1, max_size=12))
def test_conversion_keeps_every_entity_and_is_done_once(tags):
    converted = iob2(tags)
    assert entities_of(converted) == entities_of(tags)
    assert iob2(converted) == converted


def test_columns_of_the_shared_tasks(tmp_path):
    text = "-DOCSTART- -X- -X- O\n\nEU NNP I-NP I-ORG\nrejects VBZ I-VP O\n\n"
    text += "Peter NNP I-NP I-PER\nBlackburn NNP I-NP I-PER\n"
    assert conll(tmp_path, text) == [
        (("EU", "rejects"), ("B-ORG", "O"), 3),
        (("Peter", "Blackburn"), ("B-PER", "I-PER"), 6),
    ]


def test_tabs_line_ends_marks_and_spaces_that_are_no_blanks(tmp_path):
    text = "\ufeffto\tO\r\nwest\u00a0bam\tB-artist\r\n\r\n \r\nplay\tO\r\n".encode()
    assert conll(tmp_path, text) == [
        (("to", "west\u00a0bam"), ("O", "B-artist"), 1),
        (("play",), ("O",), 5),
    ]


def test_a_word_of_white_space_that_is_no_blank_is_a_word(tmp_path):
    assert conll(tmp_path, "彼\tO\n\u3000\tO\n\u00a0は\tO\n") == [
        (("彼", "\u3000", "\u00a0は"), ("O",) * 3, 1)
    ]
    text = line("1", "彼", "PRON") + line("2", "\u3000", "SYM")
    (row,) = read_conllu(write(tmp_path, text)).rows
    assert row.words == ("彼", "\u3000")
    assert (row.running.text, row.running.starts) == ("彼 \u3000", (0, 2))


def test_a_long_sentence_among_others_is_read(tmp_path):
    assert (
        len(TaggedSentences.of_file(write(tmp_path, "b O\n\n" + "a O\n" * 1000)).rows[1].words)
        == 1000
    )
    assert len(TaggedSentences.of_file(write(tmp_path, "a O\n" * 200)).rows) == 1


def test_another_encoding_is_refused_with_the_line_and_the_remedy(tmp_path):
    told = r"dev\.conll:1: invalid UTF-8 \(byte 0xf6\)\. Convert the file to UTF-8"
    with pytest.raises(DataError, match=told):
        TaggedSentences.of_file(write(tmp_path, "Köln B-LOC\n".encode("latin-1")))


def test_reading_goes_on_after_a_fault_where_faults_are_collected(tmp_path):
    faults = []
    assert (
        len(
            TaggedSentences.of_file(write(tmp_path, "a O\nb\n\nc X-x\nd O\n"), report=faults.append)
        )
        == 2
    )
    text = line("1", "a", "NN") + "1\n" + line("x", "b", "NOUN")
    read_conllu(write(tmp_path, text), report=faults.append)
    assert [fault.line for fault in faults] == [2, 4, 1, 2, 3]


def line(number, word, tag):
    return "\t".join([number, word, "_", tag, *"______"]) + "\n"


def test_conllu_skips_ranges_empty_nodes_and_comments(tmp_path):
    text = "# text = im Haus\n" + line("1-2", "im", "_") + line("1", "in", "ADP")
    text += line("2", "dem", "DET") + line("2.1", "x", "_") + line("3", "Haus", "NOUN")
    text += "\n# next\n" + line("1", "?", "PUNCT") + "\n"
    rows = read_conllu(write(tmp_path, text)).rows
    assert [(row.words, row.tags, row.line) for row in rows] == [
        (("in", "dem", "Haus"), ("ADP", "DET", "NOUN"), 3),
        (("?",), ("PUNCT",), 9),
    ]


GERMEVAL = (
    "#\thttp://de.wikipedia.org/wiki/X [2009-10-17]\n1\tAufgrund\tO\tO\n2\tKölner\tB-LOCderiv\tO\n"
    "3\tFC\tB-ORG\tB-LOC\n\n#\tn-tv\n1\tTor\tO\tO\n"
)
UNER = (
    "# newdoc id = a\n# sent_id = a-1\n# text = im Ort\n1-2\tim\t_\t_\t_\n1\tin\tO\t-\t-\n"
    "2\tdem\tO\t-\t-\n3\tOrt\tB-LOC\t-\tx\n\n# sent_id = a-2\n1\t#\tO\t-\t-\n"
)


def test_a_number_before_each_word_is_not_the_word(tmp_path):
    assert conll(tmp_path, GERMEVAL) == [
        (("Aufgrund", "Kölner", "FC"), ("O", "B-LOCderiv", "B-ORG"), 2),
        (("Tor",), ("O",), 7),
    ]
    assert conll(tmp_path, UNER) == [
        (("in", "dem", "Ort"), ("O", "O", "B-LOC"), 5),
        (("#",), ("O",), 10),
    ]
    # numbers are words where they do not count the words of their sentences, and no line is a note
    text = "1 CD O\n\n# SYM O\n2 CD O\n2 CD O\n"
    assert [words for words, *_ in conll(tmp_path, text)] == [("1",), ("#", "2", "2")]


def test_fingerprints_know_a_sentence_however_it_is_written(tmp_path):
    one = TaggedSentences.of_file(write(tmp_path, "Set O\nalarm B-x\n", "a")).fingerprints()
    two = TaggedSentences.of_file(write(tmp_path, "set\tB-y\nALARM\tO\n\nother\tO\n", "b"))
    assert (two.fingerprints() == one[0]).tolist() == [True, False]
    assert [row.words for row in two.without([TaggedSentences.of_file(tmp_path / "a")]).rows] == [
        ("other",)
    ]


# MultiATIS++'s files, as they are published.
TSV = "dev_de.tsv"
HEAD = "id\tutterance\tslot_labels\tintent\n"
ROWS = "1\tflights from new york\tO O I-fromloc.city_name I-fromloc.city_name\tatis_flight\n"
ROWS += "2\tzeig flüge\tO O\tatis_flight\n"


def test_words_and_their_labels_in_iob2(tmp_path):
    rows = TaggedSentences.of_file(write(tmp_path, HEAD + ROWS, TSV)).rows
    tags = ("O", "O", "B-fromloc.city_name", "I-fromloc.city_name")
    assert [(row.words, row.tags, row.line) for row in rows] == [
        (("flights", "from", "new", "york"), tags, 2),
        (("zeig", "flüge"), ("O", "O"), 3),
    ]


def test_the_header_tells_it_from_columns_of_words(tmp_path):
    task = Slots(Slots.Params(data={"train": str(tmp_path / "{pivot}.tsv")}))
    data = task.head(TaskInputs("en")).data
    write(tmp_path, HEAD + ROWS, "en.tsv")
    assert len(data.rows("train", "en")) == 2
    write(tmp_path, "play O\nvivaldi B-artist\n", "en.tsv")
    assert data.rows("train", "en").rows[0].tags == ("O", "B-artist")


def test_rows_of_other_numbers_of_words_and_labels_are_left_out_and_counted(tmp_path):
    for lang in ("en", "de"):
        write(tmp_path, HEAD + ROWS.replace("york", f"york{lang}"), f"{lang}.tsv")
    write(tmp_path, HEAD + ROWS + "3\ta b\tO O O\tx\n4\tc\tO O\tx\n", "dev_de.tsv")
    files = {"train": f"{tmp_path}/{{pivot}}.tsv", "dev": f"{tmp_path}/dev_{{lang}}.tsv"}
    write(tmp_path, HEAD + ROWS, "dev_en.tsv")
    task = Slots(Slots.Params(data=files, mismatched="drop"))
    data = task.head(TaskInputs("en")).data
    found = data.rows("dev", "de")
    assert (len(found), found.left_out.total(), found.first(1).remarks) == (2, 2, found.remarks)
    said = "2 of 4 sentences are left out: with other numbers of words and of tags"
    assert found.note == {"warning": said}
    assert data.rows("train", "en").note == {}
    read = {entry.path.name: entry for entry in task.read_files(("de",), "en")}
    assert not any(entry.faults for entry in read.values())
    trained = "evaluated sentences that were trained on too: 1 of 2"
    told = [f"{tmp_path}/dev_de.tsv: {text}" for text in (trained, said)]
    assert [*map(str, read["dev_de.tsv"].remarks)] == told
    assert [*map(str, read["dev_en.tsv"].remarks)] == [f"{tmp_path}/dev_en.tsv: {trained}"]
    plain = Slots(Slots.Params(data=files))
    (fault, _) = list(plain.read_files(("de",), "en"))[2].faults
    assert "`mismatched: drop` leaves such rows out" in str(fault)
    assert plain.canonical() == {k: v for k, v in task.canonical().items() if k != "mismatched"}


NOT_NEXT = "is not the number of the next word"
ONE_WORD = r"dev\.conll: each sentence is one word, .*Leave out the numbers"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a O\nb X O\n", r"dev\.conll:2: 3 columns, expected 2"),
        ("a O\nb\n", r"dev\.conll:2: 1 column, expected 2"),
        ("a\nb\n", r"dev\.conll:1: 1 column, expected a word and its tag"),
        ("a O\nb X-PER\nc B-PER\n", r"dev\.conll:2: unknown tag 'X-PER'.*IOB2.*IOBES"),
        ("a B-\n", r"dev\.conll:1: unknown tag 'B-'"),
        ("a\tO\n\tO\n", r"dev\.conll:2: the word is empty"),
        ("1 a O\n2 b O\n4 c O\n", rf"dev\.conll:3: '4' {NOT_NEXT}\. If it"),
        ("1 a O\n2 b O\n1 c O\n", rf"dev\.conll:3: '1' {NOT_NEXT}"),
        ("1 a O\n2 b O\n\nc d O\n", rf"dev\.conll:4: 'c' {NOT_NEXT}"),
        ("1 a O\n\n0 b O\n", ONE_WORD),
        ("1 a NN O\n2 b NN O\n", r"dev\.conll:1: unknown tag 'NN'.*in column 3$"),
        (b"a O\n\xe9 O\n", r"dev\.conll:2: invalid UTF-8"),
        ("", r"dev\.conll: has no sentences"),
        ("-DOCSTART- O\n\n", r"dev\.conll: has no sentences"),
        ("\n" + "a O\n" * 201, r"dev\.conll:2: a sentence of 201 words: .* until line 202\. Write"),
        ("b O\n\n" + "a O\n" * 1001, r"dev\.conll:3: a sentence of 1,001 words"),
        (HEAD + ROWS + "3\ta b\tO O O\tx\n", r"dev\.conll:4: 2 words, but 3 tags"),
        (HEAD + ROWS + "3\ta b\tO x\tx\n", r"dev\.conll:4: unknown tag 'x'"),
        (HEAD + ROWS + "3\ta b\tO O\n", r"dev\.conll:4: 3 columns, the header has 4"),
        (HEAD + ROWS + "3\t\t\tx\n", r"dev\.conll:4: the request is empty"),
        (HEAD, "no requests after its header"),
    ],
)
def test_faults_have_their_line(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        TaggedSentences.of_file(write(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1\tim\n", r":1: 2 columns, expected the 10"),
        (line("1", "a", "NN"), r":1: unknown part of speech 'NN'.*ADJ, ADP"),
        (line("one", "a", "NOUN"), r":1: unknown number of a word 'one'"),
        (line("1", " ", "NOUN"), r":1: the word is empty"),
        ("# text\n\n", "has no sentences"),
    ],
)
def test_faults_of_conllu_have_their_line(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        read_conllu(write(tmp_path, text))
    with pytest.raises(DataError, match="no such file"):
        read_conllu(tmp_path / "none")


def test_the_code_of_a_language_before_each_word_is_no_part_of_it(tmp_path):
    text = "de:Rom\tB-LOC\nde::\tO\nde:\tO\n\nzh-classical:x\tO\n"
    found = TaggedSentences.of_file(write(tmp_path, text))
    assert [(row.words, row.tags) for row in found.rows] == [
        (("Rom", ":"), ("B-LOC", "O")),
        (("x",), ("O",)),
    ]
    assert found.remarks == (
        "1 of 4 words is left out: a tag without a word",
        "the code of a language before each word (de:) is not read",
    )
    assert conll(tmp_path, "de:Rom O\nso O\n")[0][0] == ("de:Rom", "so")
    assert conll(tmp_path, "http:Rom O\n")[0][0] == ("http:Rom",)


def test_a_treebank_without_its_text_is_refused(tmp_path):
    rows = "".join(f"{i}\t_\t_\tX\t_\t_\t0\troot\t_\t_\n" for i in (1, 2, 3))
    with pytest.raises(DataError, match=r"dev\.conll: 3 of 3 words are `_`: .*Put it back"):
        read_conllu(write(tmp_path, rows))
    words = rows.replace("\t_\t_\tX", "\ta\t_\tX") + "\n"
    mixed = "\n".join([words] * 9) + "\n" + rows.replace("2\t_", "2\ta").replace("3\t_", "3\ta")
    assert read_conllu(write(tmp_path, mixed)).rows[-1].words == ("_", "a", "a")


@pytest.mark.parametrize(
    "text", ["a O\n O\nb B-PER\n", "a\tO\n\tO\nb\tB-PER\n", " O\na O\nb B-PER\n"]
)
def test_a_tag_without_a_word_is_an_error_or_left_out_and_counted(tmp_path, text):
    path = write(tmp_path, text)
    with pytest.raises(DataError, match=r"the word is empty\. `mismatched: drop` leaves such rows"):
        TaggedSentences.of_file(path)
    found = TaggedSentences.of_file(path, scheme=TagScheme(mismatched="drop"))
    assert [(row.words, row.tags) for row in found.rows] == [(("a", "b"), ("O", "B-PER"))]
    assert found.remarks == ("1 of 3 words is left out: a tag without a word",)
