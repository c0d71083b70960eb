"""Reading premise, hypothesis and label, with the traps of the files that circulate."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from raxalign.errors import DataError, TransientError
from raxalign.tasks._nli_files import read_file
from raxalign.tasks._nli_rows import read_hub, refuse_overlap


def write(tmp_path, text, name="dev-de.tsv"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def read(path, lang="de", one_language=True):
    return read_file(path, lang, one_language=one_language)


def plain(rows):
    return [(row.premise, row.hypothesis, row.label) for row in rows.rows]


def test_rows_without_a_header_begin_in_the_first_line(tmp_path):
    rows = read(write(tmp_path, 'Ja "so\tNein\tneutral\nA\tB\tentailment\n'))
    assert plain(rows) == [('Ja "so', "Nein", 1), ("A", "B", 0)]
    assert [row.line for row in rows.rows] == [1, 2]


def test_a_header_is_no_row(tmp_path):
    rows = read(write(tmp_path, "premise\thypothesis\tlabel\nA\tB\tcontradiction\n"))
    assert plain(rows) == [("A", "B", 2)]
    assert rows.rows[0].line == 2


def test_columns_are_found_by_name_in_any_order(tmp_path):
    assert plain(read(write(tmp_path, "label\thypo\tpremise\ncontradictory\tB\tA\n"))) == [("A", "B", 2)]


def test_the_official_file_of_all_languages(tmp_path):
    head = "language\tgold_label\tsentence1\tsentence2\tpairID\n"
    path = write(tmp_path, head + "ar\tneutral\tx\ty\t1\nde\tentailment\tA\tB\t1\nde\t-\tC\tD\t2\n")
    rows = read(path, one_language=False)
    assert plain(rows) == [("A", "B", 0)]
    assert (rows.rows[0].id, rows.rows[0].line, rows.unlabelled) == ("1", 3, 1)


def test_numbers_byte_order_marks_line_ends_and_blank_lines(tmp_path):
    rows = read(write(tmp_path, b"\xef\xbb\xbfA\tB\t0\r\nC\xe2\x80\xa8D\tE\t2\r\n\r\n"))
    assert plain(rows) == [("A", "B", 0), ("C\u2028D", "E", 2)]


def test_text_without_spaces_is_one_word_for_the_tokenizer_to_divide(tmp_path):
    assert read(write(tmp_path, "他说 ，好\t是\t0\n")).words() == ([["他说", "，好"]], [["是"]])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A\tB\tneutral\nA\tB\n", r"dev-de\.tsv:2: 2 columns"),
        ("A\tB\tneutral\nA\tB\tperhaps\n", r"dev-de\.tsv:2: unknown label 'perhaps'"),
        ("A\tB\tC\nA\tB\tneutral\n", r"dev-de\.tsv:1: unknown label 'C'"),
        ("", r"dev-de\.tsv: the file is empty"),
        ("premise\thypothesis\tlabel\n", r"dev-de\.tsv: has no labelled rows"),
        (b"A\tB\tneutral\nA\xff\tB\tneutral\n", r"dev-de\.tsv:2: invalid UTF-8"),
        ("A\tB\tneutral\nA\0\tB\tneutral\n", r"dev-de\.tsv:2: has a NUL byte"),
    ],
)
def test_bad_files_are_errors_with_their_line(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        read(write(tmp_path, text))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        read(tmp_path / "dev-de.tsv")


def test_one_file_for_all_languages_needs_a_language_column(tmp_path):
    with pytest.raises(DataError, match="no `language` column"):
        read(write(tmp_path, "A\tB\tneutral\n"), one_language=False)


def test_training_rows_that_are_evaluated_are_refused(tmp_path):
    train = read(write(tmp_path, "Ein  Satz\tB\t0\nC\tD\t1\n", "train.tsv"))
    refuse_overlap(train.fingerprints(), read(write(tmp_path, "C\tB\t0\nA\tD\t0\n")))
    with pytest.raises(DataError, match=r"dev-de\.tsv:2: 1 of 2 rows are training rows too \(the same text\)"):
        refuse_overlap(train.fingerprints(), read(write(tmp_path, "C\tB\t0\nein satz\tb\t2\n")))


def test_training_ids_that_are_evaluated_are_refused(tmp_path):
    head = "label\tsentence1\tsentence2\tpairID\n"
    train = read(write(tmp_path, head + "0\tA\tB\t17\n", "train.tsv"))
    with pytest.raises(DataError, match=r"dev-de\.tsv:3: 1 of 2 rows .*the same id"):
        refuse_overlap(train.fingerprints(), read(write(tmp_path, head + "0\tX\tY\t\n0\tE\tF\t17\n")))


def test_a_local_copy_of_the_hub_is_read(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    repository = tmp_path / "xnli"
    (repository / "de").mkdir(parents=True)
    table = pa.table({"premise": ["A", "C"], "hypothesis": ["B", "D"], "label": [2, -1]})
    pq.write_table(table, repository / "de" / "validation-00000-of-00001.parquet")
    (repository / "README.md").write_text("---\nconfigs:\n- config_name: de\n  data_files:\n  - split: validation\n    path: de/validation-*\n---\n")
    rows = read_hub(str(repository), "de", "dev", None, tmp_path / "cache")
    assert plain(rows) == [("A", "B", 2)]
    assert rows.unlabelled == 1
    with pytest.raises(DataError, match="cannot be loaded"):
        read_hub(str(repository), "fr", "dev", None, tmp_path / "cache")


def test_a_column_that_a_hub_set_lacks_is_named(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    place = tmp_path / "nli" / "de" / "test"
    place.mkdir(parents=True)
    pq.write_table(pa.table({"premise": ["A"], "hypo": ["B"], "label": [2]}), place / "0000.parquet")
    with pytest.raises(DataError, match=r"hub:.*/nli/de:test: has no column hypothesis; its columns are premise, hypo, label"):
        read_hub(str(tmp_path / "nli"), "de", "test", None, tmp_path / "cache")


def test_a_hub_that_is_too_busy_is_asked_again(tmp_path, monkeypatch):
    errors = pytest.importorskip("huggingface_hub.errors")

    def refuse(*_, **__):
        raise errors.HfHubHTTPError("too many", response=SimpleNamespace(status_code=429, headers={}, request=None))

    monkeypatch.setattr("datasets.load_dataset_builder", refuse)
    with pytest.raises(TransientError, match=r"a/nli/de:test"):
        read_hub("a/nli", "de", "test", None, tmp_path)


def test_real_files():
    data = os.environ.get("RAXALIGN_TEST_DATA")
    if not data:
        pytest.skip("RAXALIGN_TEST_DATA names no folder of real data")
    train = read(Path(data, "xnli", "train-en.tsv"), "en")
    assert len(train) == 6000
    for lang in ("de", "en", "th", "zh"):
        rows = read(Path(data, "xnli", f"dev-{lang}.tsv"), lang)
        assert len(rows) == 2490
        assert [sum(row.label == label for row in rows.rows) for label in range(3)] == [830] * 3
        refuse_overlap(train.fingerprints(), rows)
