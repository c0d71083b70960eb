"""The sentence pairs of local files are read to their end before a grid needs them."""

import gzip
from dataclasses import replace
from pathlib import Path

import pytest

from raxalign.corpora.phrasebook import PhrasebookCorpus
from raxalign.corpora.readers.inspection import FileRead, Translations
from raxalign.grid import checks as bitexts
from raxalign.grid.checks import LocalData
from raxalign.grid.expansion.expand import expand
from raxalign.grid.file import load
from raxalign.store.storage import Storage
from tests.grids import of_kind, small_plan

GRID = """
name: short
encoder: {{kind: scratch}}
languages: {{each: [de, fr]}}
corpus: {{source: {source}, split: {{test: 2, dev: 1}}}}
sentences: {sentences}
methods: {{rotation: {{}}, ppa: {{}}}}
tasks: {{sentence_retrieval: {{}}}}
"""


@pytest.fixture
def plan(tmp_path):
    def plan_(source, more="", sentences="[2, 3]"):
        text = GRID.format(source=source, sentences=sentences) + more
        (tmp_path / "grid.yaml").write_text(text, encoding="utf-8")
        return expand(load(tmp_path / "grid.yaml"), allow_missing=True)

    return plan_


@pytest.fixture
def found(plan, tmp_path):
    return lambda source: list(LocalData(plan(source)).bitexts(Storage(str(tmp_path / "storage"))))


def test_each_language_is_read_once_and_a_bad_line_is_named(found, tmp_path):
    for lang, text in (("de", "x\n" * 9), ("fr", "x\n" * 7)):
        (tmp_path / f"{lang}-en.{lang}").write_text(text)
        (tmp_path / f"{lang}-en.en").write_text("y\n" * 9)
    german, french = found("moses, path: '{lang}-{pivot}'")
    assert (german.path.name, german.rows, german.faults) == ("de-en.de", 9, ())
    (fault,) = french.faults
    assert str(fault).startswith(f"{tmp_path}/fr-en.fr:8: {tmp_path}/fr-en.fr has 7 lines")


def test_a_delimiter_that_was_forgotten_is_found(found, tmp_path):
    (tmp_path / "pairs").write_text("a ||| b\n" * 9)
    assert [str(fault) for entry in found("tsv, path: pairs") for fault in entry.faults] == [
        f"{tmp_path}/pairs:1: a line has 1 column, not 2. Columns are divided by '\\t'"
        " (`delimiter`)"
    ] * 2


def test_files_that_are_not_there_and_corpora_without_files_are_passed_over(found):
    assert found("moses, path: '{lang}-{pivot}'") == []
    assert found("phrasebook, size: 300") == []


def write_phrases(folder, *, swap):
    for lang in ("de", "fr"):
        pairs = list(PhrasebookCorpus(PhrasebookCorpus.Params(size=40)).read(lang, "en", None))
        sides = ([pair.source for pair in pairs], [pair.target for pair in pairs])
        for code, text in zip((lang, "en"), sides[::-1] if lang in swap else sides, strict=True):
            (folder / f"{lang}-en.{code}").write_text("\n".join(text) + "\n", encoding="utf-8")


def test_sides_that_are_swapped_are_remarked_on_once_per_language(plan, tmp_path):
    write_phrases(tmp_path, swap=("fr",))
    (remark,) = LocalData(plan("moses, path: '{lang}-{pivot}'")).doubts()
    assert str(remark).startswith(f"{tmp_path}/fr-en.fr: the sides of fr-en seem to be swapped: ")
    write_phrases(tmp_path, swap=())
    assert list(LocalData(plan("moses, path: '{lang}-{pivot}'")).doubts()) == []


def test_why_a_corpus_cannot_be_read_is_told_before_it_runs(plan, tmp_path):
    write_phrases(tmp_path, swap=("fr",))
    (tmp_path / "fr-en.fr").write_bytes(b"\xff\n")
    (told,) = LocalData(plan("moses, path: '{lang}-{pivot}'")).doubts()
    assert str(told).startswith(f"{tmp_path}/fr-en.fr:1: invalid UTF-8")


def test_held_out_lines_with_a_blank_side_are_counted(found, tmp_path):
    for lang in ("de", "fr"):
        (tmp_path / f"{lang}-en.{lang}").write_text("x\n" * 7 + "\u200b\ny\n")
        (tmp_path / f"{lang}-en.en").write_text("y\n" * (6 if lang == "de" else 9) + " \n\n\n")
    (tmp_path / "fr-en.en").write_text("y\n" * 9)
    german, french = found("moses, path: '{lang}-{pivot}'")
    for entry, lang, blank in ((german, "de", 3), (french, "fr", 1)):
        assert [str(remark) for remark in entry.remarks] == [
            f"{tmp_path}/{lang}-en.{lang}: {blank} of 3 sentence pairs that are held out have a"
            " blank side and are left out"
        ]


def test_a_shift_is_seen_by_plan_at_the_beginning_and_by_doctor_everywhere(plan, found, tmp_path):
    text = [f"{'word ' * (1 + (i * 7919) % 23)}{i}" for i in range(3000)]
    for lang, at in (("de", 0), ("fr", 2000)):
        moved = [*text[:at], *text[at + 1 :], "end"]
        (tmp_path / f"{lang}-en.{lang}").write_text("\n".join(moved) + "\n")
        (tmp_path / f"{lang}-en.en").write_text("\n".join(text).replace("word", "wort") + "\n")
    (seen,) = LocalData(plan("moses, path: '{lang}-{pivot}'")).doubts()
    assert str(seen).startswith(
        f"{tmp_path}/de-en.de: the sides of de-en seem to be shifted against"
    )
    assert [len(entry.remarks) for entry in found("moses, path: '{lang}-{pivot}'")] == [1, 1]


def read(lang, pairs):
    return FileRead(Path(f"{lang}.txt"), len(pairs), translations=Translations(lang, "en", pairs))


def test_dictionaries_and_gold_texts_that_are_swapped_are_named(plan, tmp_path):
    """German by its frequent words and by the words of the grid's text, Greek by its letters."""
    write_phrases(tmp_path, swap=())
    made = plan("moses, path: '{lang}-{pivot}'")
    text = ((tmp_path / f"de-en.{code}").read_text(encoding="utf-8") for code in ("de", "en"))
    sentences = list(zip(*(side.splitlines() for side in text), strict=True))
    words = [
        (de, en)
        for pair in sentences
        for de, en in zip(*(set(side.lower().strip(".").split()) for side in pair), strict=False)
    ]
    greek = [("καλημέρα", "morning")] * 9
    right = [read("de", sentences), read("de", words), read("el", greek), read("fr", [])]
    assert list(LocalData(made).swapped_translations(right)) == []
    wrong = [
        replace(entry, translations=replace(own, pairs=[pair[::-1] for pair in own.pairs]))
        for entry in right
        if (own := entry.translations)
    ]
    assert [
        str(doubt).partition(" seem")[0] for doubt in LocalData(made).swapped_translations(wrong)
    ] == [
        "de.txt: the sides of de-en",
        "de.txt: the sides of de-en",
        "el.txt: the sides of el-en",
    ]


@pytest.mark.parametrize(("training_from", "fatal"), [("end", True), ("start", False)])
def test_links_of_another_length_than_the_text_say_both_lengths(
    plan, tmp_path, training_from, fatal
):
    write_phrases(tmp_path, swap=())
    for lang, n_lines in (("de", 38), ("fr", 40)):
        (tmp_path / f"links.{lang}").write_text("0-0\n" * n_lines)
    made = plan(
        f"moses, path: '{{lang}}-{{pivot}}', training_from: {training_from}",
        "pairs: {aligner: links, path: 'links.{lang}', words: any}\n",
    )
    sizes = {
        entry.path: entry.rows
        for entry in LocalData(made).bitexts(Storage(str(tmp_path / "storage")))
    }
    assert list(LocalData(made).other_lengths(sizes)) == [
        (
            fatal,
            f"{tmp_path}/links.de: has 38 lines, and {tmp_path}/de-en.de 40. Line k has the links"
            " of sentence pair k, so both need equally many",
        )
    ]


@pytest.fixture
def told(plan, tmp_path):
    def shortages_of(sentences, more=""):
        corpus = 'source: moses, path: "{lang}-{pivot}"'
        found = plan(f"moses, path: '{{lang}}-{{pivot}}'{more}", f"text: {{{corpus}}}\n", sentences)
        return LocalData(found).shortages()

    for lang, n_lines in (("de", 10), ("fr", 3)):
        for code in (lang, "en"):
            (tmp_path / f"{lang}-en.{code}").write_text("x\n" * n_lines, encoding="utf-8")
    return shortages_of


def test_what_the_largest_training_text_lacks_is_told_by_language(told, tmp_path):
    asked = "9 training sentences were asked for, and there are"
    assert told("[5, 9, 8]") == (
        f"{tmp_path}/de-en.de: de-en: {asked} 10 lines, of them 1 for dev and 2 for test (the"
        " default is 1,024 for each); ask for at most 7, make `split` smaller, or set `shortage:"
        " use-all`",
        f"{tmp_path}/fr-en.fr: fr-en: {asked} 3 lines, of them 1 for dev and 2 for test (the"
        " default is 1,024 for each); make `split` smaller, or name a corpus with more text",
    )


def test_enough_text_and_shortages_that_are_allowed_are_not_told(told):
    assert [message.split(": ")[1] for message in told("[5, 7]")] == ["fr-en"]
    assert told("[5, 9]", ", shortage: use-all") == ()


def test_files_that_are_not_there_are_passed_over(told, tmp_path):
    for path in tmp_path.glob("*-en.en"):
        path.unlink()
    assert told("900") == ()


def test_a_word_aligner_that_is_not_installed_is_told_where_links_are_still_to_be_made(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    storage, methods = Storage(str(tmp_path / "storage")), ("none: {}", "rotation: {}")
    found = small_plan(tmp_path, methods=methods, aligner="eflomal", seeds="[0, 1]")
    (told,) = LocalData(found).obstacles(storage)
    assert "pairs.aligner: eflomal" in told
    assert "pip install 'raxalign[eflomal]'" in told
    assert LocalData(small_plan(tmp_path, methods=methods, aligner="thot")).obstacles(storage) == ()
    for stage in of_kind(found, "pairs"):
        storage.artifacts.make(stage.kind, stage.key, lambda folder: {})
    assert LocalData(found).obstacles(storage) == ()


def test_a_segmenter_that_is_not_installed_is_told_where_text_is_still_to_be_divided(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("raxalign.extras.find_spec", lambda name: None)

    def absent(segmentation, more=""):
        source = f"moses, path: '{{lang}}-{{pivot}}', segmentation: {segmentation}{more}"
        text = GRID.format(source=source, sentences=3).replace("[de, fr]", "[de, zh]")
        (tmp_path / "grid.yaml").write_text(text, encoding="utf-8")
        found = expand(load(tmp_path / "grid.yaml"), allow_missing=True)
        told = LocalData(found).obstacles(storage)
        return found, tuple(fault for fault in told if "no such file" not in fault)

    storage = Storage(str(tmp_path / "storage"))
    assert absent("characters")[1] == ()
    own = ", by_language: {zh: {source: moses, path: words, pretokenized: true}}"
    assert absent("words", own)[1] == ()
    found, told = absent("words")
    assert told == (
        "corpus.segmentation: words, for zh: the library jieba is not installed. Run: pip install"
        " 'raxalign[segment]'",
    )
    for stage in found.stages.values():
        if stage.kind == "bitext":
            storage.artifacts.make(stage.kind, stage.key, lambda folder: {})
    assert not any("jieba" in fault for fault in LocalData(found).obstacles(storage))


def test_packed_files_that_grow_as_no_text_does_are_refused_before_they_are_read(
    plan, tmp_path, monkeypatch
):
    for lang in ("de", "fr"):
        for side in (lang, "en"):
            packed = gzip.compress(b"\n" * 20_000_000)
            (tmp_path / f"{lang}-en.{side}.gz").write_bytes(packed)
    made, storage = plan("moses, path: '{lang}-{pivot}'"), Storage(str(tmp_path / "storage"))
    monkeypatch.setattr(bitexts, "read_through", None)
    faults = [str(fault) for entry in LocalData(made).bitexts(storage) for fault in entry.faults]
    assert len(faults) == 4
    assert all(": unpacks from " in fault for fault in faults)
    assert set(faults) <= set(LocalData(made).obstacles(storage))


def test_lines_of_both_sides_are_compared_in_every_part_and_counted_once(plan, tmp_path):
    for lang in ("de", "fr"):
        for part, n_lines in (("train", 9), ("dev", 2), ("test", 3)):
            for side in (lang, "en"):
                more = (part, lang, side) == ("test", "fr", "en")
                text = gzip.compress(b"x\n" * (n_lines + more))
                (tmp_path / f"{part}.{lang}.{side}.gz").write_bytes(text)
    paths = ", ".join(f"{part}: '{part}.{{lang}}'" for part in ("train", "dev", "test"))
    text = GRID.replace(", split: {{test: 2, dev: 1}}", ", split: files, shortage: use-all")
    (tmp_path / "grid.yaml").write_text(
        text.format(source=f"moses, path: {{{paths}}}", sentences=3), encoding="utf-8"
    )
    made, storage = expand(load(tmp_path / "grid.yaml")), Storage(str(tmp_path / "storage"))
    (told,) = LocalData(made).obstacles(storage)
    assert f"test.fr.fr.gz has 3 lines and {tmp_path}/test.fr.en.gz has 4" in told
    for file in tmp_path.glob("*.gz"):
        file.write_bytes(b"")  # what is remembered needs no file
    assert LocalData(made).obstacles(storage) == (told,)


def test_what_training_leaves_out_is_counted_by_doctor(found, tmp_path):
    for lang in ("de", "fr"):
        (tmp_path / f"{lang}-en.{lang}").write_text("x\n" * 5 + "\n" * 3 + "y\n" * 4)
        (tmp_path / f"{lang}-en.en").write_text("x\n" * 11 + "z " * 200 + "\n")
    told = [
        str(remark) for entry in found("moses, path: '{lang}-{pivot}'") for remark in entry.remarks
    ]
    assert told == [
        f"{tmp_path}/{lang}-en.{lang}: training leaves out 3 pairs with a blank side and 1 pair"
        " with over 128 words"
        for lang in ("de", "fr")
    ]
