import bz2
import gzip
import lzma

import pytest

from raxalign.corpora.base import SentencePair
from raxalign.corpora.moses import Moses
from raxalign.corpora.readers.lines import _BLOCK
from raxalign.errors import DataError
from raxalign.options.sources import LocalFile
from tests.corpora.places import placed


def pairs(made):
    corpus, inputs = made
    return list(corpus.read("de", "en", inputs))


def texts(made):
    return [(pair.source, pair.target) for pair in pairs(made)]


def refused(made, told):
    with pytest.raises(DataError, match=told) as error:
        pairs(made)
    return error.value


def test_the_prefix_may_hold_languages_and_dots(tmp_path):
    corpus = Moses(Moses.Params(path=f"{tmp_path}/v1.0/{{lang}}-{{pivot}}"))
    assert corpus.sources("de", "en") == {
        "source": LocalFile(tmp_path / "v1.0/de-en.de"),
        "target": LocalFile(tmp_path / "v1.0/de-en.en"),
    }


def test_only_newlines_end_lines(moses):
    for separator in "\x85\u2028\u2029\x0b\x0c\x1c\r":
        found = texts(moses([f"a{separator}b", "c"], ["x", "y"]))
        assert found == [(f"a{separator}b", "x"), ("c", "y")]
    dropped = moses(b"\xef\xbb\xbfeins\r\nzwei\r\n", b"one\ntwo")
    assert texts(dropped) == [("eins", "one"), ("zwei", "two")]


def test_lines_are_whole_across_blocks(moses):
    lines = ["ä" * 700 + str(i) for i in range(3 * _BLOCK // 1400)]
    long = ["x" * (_BLOCK + 3), "y"]
    assert texts(moses(lines, lines)) == [(line, line) for line in lines]
    assert texts(moses(long, long)) == [(line, line) for line in long]


@pytest.mark.parametrize(
    ("source", "target", "told"), [(3, 5, "3 lines.*5"), (5, 3, "5 lines.*3"), (0, 2, "0 lines.*2")]
)
def test_different_line_counts_are_told(moses, source, target, told):
    error = refused(moses(["a"] * source, ["b"] * target), told)
    assert error.line == min(source, target) + 1
    assert error.file.endswith(".de" if source < target else ".en")


@pytest.mark.parametrize("at", [0, 1, 90_000])
def test_invalid_utf8_is_named_by_file_and_line_and_reading_is_a_stream(moses, at):
    lines = [b"gut und sch\xc3\xb6n"] * 90_002
    lines[at] = b"sch\xf6n"
    made = moses(b"\n".join(lines), ["x"] * len(lines))
    refused(made, rf"corpus\.de:{at + 1}: invalid UTF-8 \(byte 0xf6\)")
    if at > _BLOCK // 13:
        corpus, inputs = made
        assert next(iter(corpus.read("de", "en", inputs))).source == "gut und schön"


@pytest.mark.parametrize(
    ("source", "target", "told"),
    [
        (["a", "b", "c"], b"x\ny\x00\nz\n", r"corpus\.en:2: has a NUL byte"),
        ("ä\n".encode("utf-16"), ["x"], "UTF-16"),
        (b"eins\nzwei \xc3", ["x", "y"], r"corpus\.de:2: invalid UTF-8"),
        (b"", b"", "empty"),
    ],
)
def test_what_is_not_text_by_lines_is_named(moses, source, target, told):
    refused(moses(source, target), told)


def test_a_missing_file_is_named(moses, tmp_path):
    made = moses(["a"], ["b"])
    (tmp_path / "corpus.en").unlink()
    refused(made, r"corpus\.en: there is no such file")


def files(folder, **texts):
    for name, lines in texts.items():
        text = "".join(f"{line}\n" for line in lines)
        (folder / name.replace("_", ".")).write_text(text, encoding="utf-8")


def opened(lang="de", **params):
    return placed(Moses(Moses.Params(**params)), lang=lang)


def test_parts_are_read_in_order_with_ids_that_run_on(tmp_path):
    files(tmp_path, train_de=["a", "b"], train_en=["A", "B"], val_de=["c"], val_en=["C"])
    files(tmp_path, test_de=["d", "e"], test_en=["D", "E"])
    named = (("test", "test"), ("train", "train"), ("dev", "val"))
    corpus, inputs = opened(path={part: str(tmp_path / name) for part, name in named})
    assert list(inputs.locations) == [
        f"{part}/{side}" for part in ("train", "dev", "test") for side in ("source", "target")
    ]
    found = [(pair.id, pair.source, pair.target) for pair in corpus.read("de", "en", inputs)]
    assert found == [(0, "a", "A"), (1, "b", "B"), (2, "c", "C"), (3, "d", "D"), (4, "e", "E")]
    assert corpus.part_sizes("de", "en", inputs) == (2, 1)
    assert corpus.n_pairs("de", "en", 10) == 2


def test_without_a_dev_file_there_is_no_dev_and_one_that_is_not_there_is_named(moses, tmp_path):
    files(tmp_path, train_de=["a"], train_en=["A"], test_de=["d"], test_en=["D"])
    parts = {part: str(tmp_path / part) for part in ("train", "test")}
    corpus, inputs = opened(path=parts)
    assert corpus.part_sizes("de", "en", inputs) == (1, 0)
    corpus, inputs = opened(path={**parts, "dev": str(tmp_path / "dev")})
    with pytest.raises(DataError, match=r"dev\.de: there is no such file"):
        corpus.part_sizes("de", "en", inputs)
    corpus, inputs = moses(["a"], ["b"])
    with pytest.raises(DataError, match="moses: this corpus has no files of its own"):
        corpus.part_sizes("de", "en", inputs)


def test_files_may_call_languages_by_other_codes(tmp_path):
    files(tmp_path, **{"nld-eng_nld": ["ja"], "nld-eng_eng": ["yes"]})
    codes = {"nl": "nld", "en": "eng"}
    corpus, inputs = opened("nl", path=f"{tmp_path}/{{lang}}-{{pivot}}", codes=codes)
    assert list(corpus.read("nl", "en", inputs)) == [SentencePair(0, "ja", "yes")]


@pytest.mark.parametrize(
    ("suffix", "pack"), [("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress)]
)
def test_packed_files_are_read_where_there_are_no_others(tmp_path, suffix, pack):
    files(tmp_path, corpus_en=["yes", "no"])
    packed = tmp_path / f"corpus.de.{suffix}"
    packed.write_bytes(pack(b"ja\nnein\n"))
    corpus, inputs = opened(path=str(tmp_path / "corpus"))
    assert inputs.locations["source"] == str(packed)
    assert [pair.source for pair in corpus.read("de", "en", inputs)] == ["ja", "nein"]
    packed.write_bytes(b"plain text")
    refused((corpus, inputs), rf"corpus\.de\.{suffix}: the \.{suffix} file is damaged")
    files(tmp_path, corpus_de=["doch", "nie"])
    plain = opened(path=str(tmp_path / "corpus"))[1].locations["source"]
    assert plain == str(tmp_path / "corpus.de")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        # without a time: two workers must collect the same tests
        (gzip.compress(b"ja\nnein\n", mtime=0), r": is a packed file \(gzip\), not text"),
        (bz2.compress(b"ja\nnein\n"), r": is a packed file \(bzip2\), not text"),
        (bytes.fromhex("28b52ffd") + b"ja", r": is a packed file \(zstd\), not text"),
        (b"PK\x03\x04ja", r": is a packed file \(zip\), not text"),
        (b'<?xml version="1.0"?>\n<tmx/>', r":1: is XML, .*\(TMX\).*own-text\.md has a"),
        (b"\xef\xbb\xbf<tmx>\n</tmx>", r":1: is XML, .*\(TMX\).*own-text\.md has a"),
    ],
)
def test_a_packed_file_and_a_translation_memory_under_a_plain_name_are_named(
    tmp_path, content, told
):
    files(tmp_path, corpus_en=["yes", "no"])
    (tmp_path / "corpus.de").write_bytes(content)
    refused(opened(path=str(tmp_path / "corpus")), rf"corpus\.de{told}")


@pytest.mark.parametrize("bad", ["de", "en"])
def test_of_two_packed_files_the_damaged_one_is_named(tmp_path, bad):
    packed = gzip.compress("".join(f"Satz {i * i}\n" for i in range(500)).encode())
    for damaged in (packed[:-12], packed[:20] + b"\xff" * 9 + packed[29:]):
        for code in ("de", "en"):
            (tmp_path / f"corpus.{code}.gz").write_bytes(damaged if code == bad else packed)
        told = rf"corpus\.{bad}\.gz: the \.gz file is damaged"
        refused(opened(path=str(tmp_path / "corpus")), told)


def test_pretokenized_words_are_what_blanks_divide(tmp_path):
    files(
        tmp_path,
        corpus_de=["Herr  Dr. Maier\tsagt: „ja“ ", "10\u00a0000 \u3000 x", ""],
        corpus_en=["don't @-@ do", "a b c", "x"],
    )
    corpus, inputs = opened(path=str(tmp_path / "corpus"), pretokenized=True)
    found = list(corpus.read("de", "en", inputs))
    first = ("Herr", "Dr.", "Maier", "sagt:", "„ja“")
    assert [pair.source_words for pair in found] == [first, ("10\u00a0000", "\u3000", "x"), ()]
    assert found[0].target_words == ("don't", "@-@", "do")


def test_options_that_say_nothing_leave_the_identity_as_it_was():
    said = {"pretokenized": True, "codes": {"nl": "nld"}}
    assert Moses.Params(path="a", **said).identity() == said
    for path in ("a/b", {"train": "a", "test": "b"}):
        assert Moses.Params(path=path).identity() == {}


def test_lines_are_counted_up_to_what_is_enough(moses, tmp_path):
    corpus, _ = moses(["a"] * 7, ["b"] * 7)
    assert corpus.n_pairs("de", "en", 100) == 7
    (tmp_path / "corpus.en").write_bytes(b"b\nb")
    assert corpus.n_pairs("de", "en", 100) == 2
    (tmp_path / "corpus.en").unlink()
    assert corpus.n_pairs("de", "en", 100) is None


@pytest.mark.parametrize("between", ["\t", " "])
def test_lines_that_begin_with_their_own_numbers_are_refused(tmp_path, between):
    words = ["Der Hund", "3 Katzen", "Ein Haus"]
    files(tmp_path, text_en=["The dog", "3 cats", "A house"])
    files(tmp_path, text_de=[f"{i}{between}{text}" for i, text in enumerate(words, 4)])
    corpus, inputs = opened(path=str(tmp_path / "text"))
    with pytest.raises(DataError, match=r"text\.de:1: each line begins with its own number, "):
        list(corpus.read("de", "en", inputs))
    files(tmp_path, text_de=[f"{i} {text}" for i, text in zip((4, 5, 7), words, strict=True)])
    assert len(list(corpus.read("de", "en", inputs))) == 3
