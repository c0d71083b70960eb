"""Files in columns as they circulate: with quotation marks that are text, and with those of CSV."""

import pytest

from raxalign.corpora.hub import Hub
from raxalign.corpora.readers.columns import read_columns, read_objects, read_records
from raxalign.corpora.readers.hub import load_rows
from raxalign.errors import DataError
from raxalign.tasks.base import TaskInputs
from raxalign.tasks.belebele import Belebele
from raxalign.tasks.classification import Classification
from tests.corpora.places import placed

OPENED = 'a\tb\n1\t"Come here”, he said.\n2\tNA\n3\tThe "cat" sits.\n4\tnull\n'


def write(folder, text, name="rows.tsv"):
    (folder / name).write_text(text, encoding="utf-8", newline="")
    return folder / name


@pytest.mark.parametrize(
    ("name", "text", "rows"),
    [
        ("a.tsv", OPENED, [line.split("\t") for line in OPENED.splitlines()]),
        ("a.tsv", 'a\tb\n"so"\tc\n', [["a", "b"], ['"so"', "c"]]),  # no program for CSV adds these
        ("a.tsv", 'a\tb\n"so ""x"""\tc\n', [["a", "b"], ['so "x"', "c"]]),
        ("a.tsv", '"a"\t"b"\n"so"\t"c"\n', [["a", "b"], ["so", "c"]]),
        ("a.tsv", 'a\tb\n"x ""y""\nz"\t1\nc\td\n', [["a", "b"], ['x "y"\nz', "1"], ["c", "d"]]),
        ("a.tsv", '"x ""y"""\tb\n"open\tc\n', [['"x ""y"""', "b"], ['"open', "c"]]),
        ("a.tsv", '"x ""y"""\tan "ox"\n', [['"x ""y"""', 'an "ox"']]),
        ("a.csv", '\ufeffa,b\r\n"1, 2","say ""x"""\r\n', [["a", "b"], ["1, 2", 'say "x"']]),
        ("a.csv", 'a\tb\n"1, 2\tc\n', [["a", "b"], ['"1, 2', "c"]]),
        ("a.tsv", "a\u2028b\x0bc\x85d\te\r\nf\tg", [["a\u2028b\x0bc\x85d", "e"], ["f", "g"]]),
    ],
)
def test_a_quotation_mark_is_text_unless_a_program_for_csv_has_written_the_whole_file(
    tmp_path, name, text, rows
):
    assert [row for _, row in read_columns(write(tmp_path, text, name))] == rows


def test_rows_have_the_lines_on_which_they_begin_and_bad_ones_are_named(tmp_path):
    quoted = write(tmp_path, 'a,b\n"x\ny",1\nz,2\n', "a.csv")
    assert [line for line, _ in read_columns(quoted)] == [1, 2, 4]
    with pytest.raises(DataError, match=r"a\.csv:2: is not quoted well \(unexpected end of data\)"):
        list(read_columns(write(tmp_path, 'a,b\n"x,1\ny,2\n', "a.csv")))
    faults = []
    rows = list(read_records(write(tmp_path, "a \tb\n1\n\n3\t4\n"), faults.append))
    assert rows == [(4, {"a": "3", "b": "4"})]
    assert [str(fault) for fault in faults] == [
        f"{tmp_path}/rows.tsv:2: 1 column, the header has 2"
    ]
    objects = write(tmp_path, '{"a": 1}\n \n[]\n{\n', "a.jsonl")
    assert list(read_objects(objects, faults.append)) == [(1, {"a": 1})]
    assert [fault.line for fault in faults] == [2, 3, 4]


def test_files_like_those_of_the_hub_lose_no_line_and_no_word(tmp_path):
    corpus = Hub(Hub.Params(path=str(write(tmp_path, OPENED)), source_field="a", target_field="b"))
    corpus, inputs = placed(corpus, tmp_path)
    texts = ['"Come here”, he said.', "NA", 'The "cat" sits.', "null"]
    assert [pair.target for pair in corpus.read("de", "en", inputs)] == texts
    write(tmp_path, "a\tb\n1\n")
    with pytest.raises(DataError, match=r"rows\.tsv:2: 1 column, the header has 2"):
        list(corpus.read("de", "en", inputs))


def test_a_data_set_of_the_hub_in_columns_loses_no_line_and_no_word(tmp_path):
    for part in ("train", "test"):
        (tmp_path / "set" / "de").mkdir(parents=True, exist_ok=True)
        write(tmp_path / "set" / "de", OPENED if part == "test" else "a\tb\n1\tc\n", f"{part}.tsv")
    for _ in range(2):  # the second time the rows are there
        rows = load_rows(str(tmp_path / "set"), "de", "train+test", None, tmp_path / "cache")
        assert rows["b"][:] == ["c", '"Come here”, he said.', "NA", 'The "cat" sits.', "null"]
        assert rows["a"][:] == ["1", "1", "2", "3", "4"]


def test_tasks_read_the_texts_that_a_program_for_csv_has_quoted(tmp_path):
    text = 'id\tcategory\ttext\n1\tsport\tA.\n2\tnews\t"He said ""no""."\n'
    files = {"train": str(write(tmp_path, text)), "test": str(tmp_path / "rows.tsv")}
    columns = {"first": "text", "label": "category"}
    task = Classification(Classification.Params(data=files, columns=columns))
    assert [row.first for row in task.head(TaskInputs("en")).data.rows("test", "en").rows] == [
        "A.",
        'He said "no".',
    ]
    head = "passage\tquestion\tanswer1\tanswer2\tanswer3\tanswer4\tcorrect_answer_num\n"
    write(tmp_path, head + '"A ""b""\nc."\tWhat?\t1\t2\t3\t4\t2\n')
    choices = Belebele(Belebele.Params(data=files)).head(TaskInputs("en"))
    assert [row.first for row in choices.data.rows("test", "en").rows] == ['A "b"\nc.']


def test_columns_of_a_data_set_of_the_hub_have_the_types_of_its_card(tmp_path):
    (tmp_path / "set" / "de").mkdir(parents=True)
    write(tmp_path / "set" / "de", 'text\tlabel\n"so\t1\nNA\t0\n', "test.tsv")
    named = "{class_label: {names: ['n', 'p']}}"
    card = f"- {{name: text, dtype: string}}\n  - {{name: label, dtype: {named}}}"
    files = "configs:\n- {config_name: de, data_files: [{split: test, path: de/test.tsv}]}\n"
    info = f"dataset_info:\n- config_name: de\n  features:\n  {card}\n"
    (tmp_path / "set" / "README.md").write_text(f"---\n{files}{info}---\n", encoding="utf-8")
    rows = load_rows(str(tmp_path / "set"), "de", "test", None, tmp_path / "cache")
    assert (rows["text"][:], rows["label"][:]) == (['"so', "NA"], [1, 0])
    assert rows.features["label"].names == ["n", "p"]
