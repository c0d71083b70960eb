"""Reading premise, hypothesis and label, with the traps of the files that circulate."""

import json
import re

import numpy as np
import pytest

from raxalign.errors import DataError
from raxalign.tasks.base import TaskInputs
from raxalign.tasks.classifiers.examples import ExampleFile, Examples
from raxalign.tasks.pawsx import Pawsx
from raxalign.tasks.transfer.head import HeldOut
from raxalign.tasks.transfer.params import HubSet
from raxalign.tasks.xnli import Xnli
from tests.tasks.outcomes import write_parquet

XNLI = Xnli(Xnli.Params()).scheme()


def write(tmp_path, text, name="dev-de.tsv"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def read(path, lang="de", one_language=True):
    return ExampleFile(path, lang, "dev", XNLI, alone=one_language).read()


def plain(rows):
    return [(row.first, row.second, XNLI.labels.index(row.label)) for row in rows.rows]


@pytest.mark.parametrize(
    ("text", "expected", "lines"),
    [
        (
            'Ja "so\tNein\tneutral\nA\tB\tentailment\n',
            [('Ja "so', "Nein", 1), ("A", "B", 0)],
            [1, 2],
        ),
        ("premise\thypothesis\tlabel\nA\tB\tcontradiction\n", [("A", "B", 2)], [2]),
        ("label\thypo\tpremise\ncontradictory\tB\tA\n", [("A", "B", 2)], [2]),
        (
            b"\xef\xbb\xbfA\tB\t0\r\nC\xe2\x80\xa8D\tE\t2\r\n\r\n",
            [("A", "B", 0), ("C\u2028D", "E", 2)],
            [1, 2],
        ),
    ],
    ids=["no header", "header", "other names and order", "byte order mark and line ends"],
)
def test_rows_are_read_with_and_without_a_header(tmp_path, text, expected, lines):
    rows = read(write(tmp_path, text))
    assert plain(rows) == expected
    assert [row.line for row in rows.rows] == lines


def test_the_official_file_of_all_languages(tmp_path):
    head = "language\tgold_label\tsentence1\tsentence2\tpairID\n"
    path = write(tmp_path, head + "ar\tneutral\tx\ty\t1\nde\tentailment\tA\tB\t1\nde\t-\tC\tD\t2\n")
    rows = read(path, one_language=False)
    assert plain(rows) == [("A", "B", 0)]
    assert (rows.rows[0].id, rows.rows[0].line, rows.left_out.total()) == ("1", 3, 1)


PARSES = [f"sentence{i}_{name}" for name in ("binary_parse", "parse") for i in (1, 2)]
IDS = ["sentence1", "sentence2", "promptID", "pairID", "genre"]
MORE = [*(f"label{i}" for i in range(1, 6)), "sentence1_tokenized", "sentence2_tokenized", "match"]
OFFICIAL = ["language", "gold_label", *PARSES, *IDS, *MORE]


def official(**cells):
    return "\t".join(str(cells.get(name, "x")) for name in OFFICIAL) + "\n"


def test_all_columns_of_the_official_file(tmp_path):
    first = official(
        language="de", gold_label="neutral", sentence1="A", sentence2="B", promptID=7, pairID=12
    )
    other = official(language="fr", gold_label="entailment", sentence1="C", sentence2="D")
    path = write(
        tmp_path, "\t".join(OFFICIAL) + "\n" + first + other + "fr\tdamaged\n", "xnli.test.tsv"
    )
    rows = read(path, one_language=False)
    assert plain(rows) == [("A", "B", 1)]
    assert (rows.rows[0].id, rows.rows[0].group) == ("12", "7")


def test_one_json_object_per_line(tmp_path):
    first = {"language": "de", "gold_label": "neutral", "sentence1": 'A\t"a"', "sentence2": "B"}
    entries = [
        {**first, "promptID": 7, "pairID": 12},
        {"gold_label": "-", "sentence1": "C", "sentence2": "D", "language": "de"},
        {"language": "ar", "gold_label": "entailment", "sentence1": "E", "sentence2": "F"},
        {"premise": "G", "hypothesis": "H", "label": 2, "language": "de"},
        {"premise": "I", "hypothesis": "J", "label": None, "language": "de"},
    ]
    path = write(tmp_path, "\n\n".join(map(json.dumps, entries)) + "\n", "xnli.dev.jsonl")
    rows = read(path, one_language=False)
    assert plain(rows) == [('A\t"a"', "B", 1), ("G", "H", 2)]
    assert [(row.id, row.group, row.line) for row in rows.rows] == [("12", "7", 1), (None, None, 7)]
    assert rows.left_out.total() == 2


def test_columns_of_one_language_among_those_of_two(tmp_path):
    head = "genre\tlabel\tsentence1_en\tsentence2_en\tsentence1_my\tsentence2_my\n"  # myXNLI's
    path = write(tmp_path, head + "face\tneutral\tA\tB\tC\tD\n")
    assert plain(read(path, "my", one_language=False)) == [("C", "D", 1)]
    assert plain(read(path, "en", one_language=False)) == [("A", "B", 1)]
    told = r":1: names no premise and no hypothesis for de .*sentence1_de"
    with pytest.raises(DataError, match=told):
        read(path, "de")


def test_reading_goes_on_after_a_fault_where_faults_are_collected(tmp_path):
    path, faults = write(tmp_path, "A\tB\tmaybe\nC\tD\t0\nE\tF\nG\tH\t7\n"), []
    rows = ExampleFile(path, "de", "dev", XNLI, alone=True).read(faults.append).rows
    assert [row.first for row in rows] == ["C"]
    assert [fault.line for fault in faults] == [1, 3, 4]


def test_rows_of_one_prompt_are_one_unit_or_else_those_of_one_premise(tmp_path):
    head = "label\tsentence1\tsentence2\tpromptID\n"
    for name, text, units in (
        ("a", head + "0\tA\tB\t1\n0\tA.\tC\t1\n0\tA\tD\t2\n", [0, 0, 1]),
        ("b", "A\tB\t0\nA.\tC\t0\nA\tD\t0\n", [0, 1, 0]),
    ):
        rows = read(write(tmp_path, text, name))
        held = HeldOut("de", "test", rows, np.zeros(3, dtype=bool), ("de", "de"))
        head = Xnli(Xnli.Params()).head(TaskInputs("en"))
        head.labels = XNLI.labels
        columns = head.columns(held, np.full((3, 3), 1 / 3, dtype=np.float32))
        assert columns["premise"].to_pylist() == units


def test_text_without_spaces_is_one_word_for_the_tokenizer_to_divide(tmp_path):
    rows = read(write(tmp_path, "他说 ，好\t是\t0\n"))
    assert [list(rows.texts(name)) for name in rows.text_names] == [[["他说", "，好"]], [["是"]]]


NO_ROWS, NO_TEXTS = "has no labelled rows", "names no premise and no hypothesis for de among"
NEEDS = "a file needs premise"
BAD_TSV = [
    ("A\tB\nC\tD\n", ":1: no labels: 2 columns"),
    ("sentence1\tsentence2\nC\tD\n", ":1: no labels: .*sentence1, sentence2"),
    (
        "sentence1\tsentence2\tgold_label\nA\tB\t-\nC\tD\t\n",
        f":2: {NO_ROWS} for de: each of its 2 labels",
    ),
    ("A\tB\tC\tneutral\n", ":1: 4 columns, expected 3 .*need a header"),
    (
        "language\tlabel\tpremise\thypothesis\nar\t0\tA\tB\n",
        f": {NO_ROWS} for de; its column `language` has ar",
    ),
    ("A\tB\tneutral\nA\tB\n", ":2: 2 columns"),
    ("A\tB\tneutral\nA\tB\tperhaps\n", ":2: unknown label 'perhaps'"),
    ("A\tB\tC\nA\tB\tneutral\n", rf":1: unknown label 'C'\. .*If it is a header's: {NEEDS}"),
    ("", ": the file is empty"),
    ("premise\thypothesis\tlabel\n", f": {NO_ROWS}"),
    (b"A\tB\tneutral\nA\xff\tB\tneutral\n", ":2: invalid UTF-8"),
    ("A\tB\tneutral\nA\0\tB\tneutral\n", ":2: has a NUL byte"),
]
BAD_JSONL = [
    ('{"label": 0, "premise": "A", "hypothesis": "B"}\n{"label"\n', ":2: is not JSON"),
    ("[1]\n", ":1: is not a JSON object"),
    ('{"premise": "A", "hypothesis": "B"}\n', ":1: no labels: .*premise, hypothesis"),
    ('{"label": 0, "text": "A"}\n', f":1: {NO_TEXTS} label, text"),
    ("", ": the file is empty"),
]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [(n, *bad) for n, all_ in (("a.tsv", BAD_TSV), ("a.jsonl", BAD_JSONL)) for bad in all_],
)
def test_bad_files_are_errors_with_their_line(tmp_path, name, text, message):
    with pytest.raises(DataError, match=re.escape(name) + message):
        read(write(tmp_path, text, name))
    with pytest.raises(DataError, match="no such file"):
        read(tmp_path / "none.tsv")


def test_training_rows_that_are_evaluated_are_refused(tmp_path):
    train = read(write(tmp_path, "Ein  Satz\tB\t0\nC\tD\t1\n", "train.tsv"))
    read(write(tmp_path, "C\tB\t0\nA\tD\t0\n")).seen_in(train.fingerprints())
    told = r"dev-de\.tsv:2: 1 of 2 rows are training rows too \(the same text\)"
    with pytest.raises(DataError, match=told):
        read(write(tmp_path, "C\tB\t0\nein satz\tb\t2\n")).seen_in(train.fingerprints())


def test_training_ids_that_are_evaluated_are_refused(tmp_path):
    head = "label\tsentence1\tsentence2\tpairID\n"
    train = read(write(tmp_path, head + "0\tA\tB\t17\n", "train.tsv"))
    other = read(write(tmp_path, head + "0\tX\tY\t\n0\tE\tF\t17\n"))
    with pytest.raises(DataError, match=r"dev-de\.tsv:3: 1 of 2 rows .*the same id"):
        other.seen_in(train.fingerprints())


def test_a_local_copy_of_the_hub_is_read(tmp_path):
    repository = tmp_path / "xnli"

    def of_hub(lang, split):
        return Examples.of_hub(
            HubSet(str(repository), lang, "main"), split, XNLI, tmp_path / "cache"
        )

    bare = {"premise": ["A", "C"], "label": [2, -1]}
    file = repository / "de" / "validation-00000-of-00001.parquet"
    write_parquet(file, **bare, hypothesis=["B", "D"])
    card = "- config_name: de\n  data_files:\n  - split: validation\n    path: de/validation-*\n"
    (repository / "README.md").write_text(f"---\nconfigs:\n{card}---\n")
    rows = of_hub("de", "dev")
    assert plain(rows) == [("A", "B", 2)]
    assert rows.left_out.total() == 1
    with pytest.raises(DataError, match="cannot be loaded"):
        of_hub("fr", "dev")
    write_parquet(repository / "es" / "test" / "0000.parquet", **bare)
    (repository / "README.md").unlink()
    with pytest.raises(DataError, match="has no column hypothesis; its columns are premise, label"):
        of_hub("es", "test")


def test_rows_without_a_translation_are_left_out_and_counted(tmp_path):
    """PAWS-X has the placeholder NS, and blank sentences."""
    text = "id\tsentence1\tsentence2\tlabel\n1\tA\tB\t1\n2\tNS\tB\t0\n3\tA\t \t1\n4\tA\tB NS\t0\n"
    files = {"train": f"{tmp_path}/en.tsv", "dev": f"{tmp_path}/{{lang}}.tsv"}
    write(tmp_path, text.replace("NS", "C").replace(" \t1", "C\t1"), "en.tsv")
    write(tmp_path, text.replace("\tB", "\tD"), "de.tsv")
    task = Pawsx(Pawsx.Params(data=files))
    rows = task.head(TaskInputs("en")).data.rows("dev", "de")
    assert [row.line for row in rows.rows] == [2, 5]
    said = "2 of 4 rows are left out: without a text"
    assert rows.note == {"warning": said}
    files = {entry.path.name: entry for entry in task.read_files(("de",), "en")}
    assert [str(remark) for remark in files["de.tsv"].remarks] == [f"{tmp_path}/de.tsv: {said}"]
    write_parquet(
        tmp_path / "hub" / "de" / "test" / "0000.parquet",
        sentence1=["A", "NS", None],
        sentence2=["B", "B", "B"],
        label=[0, 1, 1],
    )
    found = Examples.of_hub(
        HubSet(f"{tmp_path}/hub", "de", "main"), "test", task.scheme(), tmp_path
    )
    said = "2 of 3 rows are left out: without a text"
    assert (len(found), found.remarks) == (1, (said,))
    assert len(read(write(tmp_path, "NS\tA\tneutral\n"))) == 1  # elsewhere it is text
