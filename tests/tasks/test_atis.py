"""MultiATIS++'s files, as they are published."""

from __future__ import annotations

import pytest

from raxalign.errors import DataError
from raxalign.tasks.base import TaskInputs
from raxalign.tasks.slots import Slots
from raxalign.tasks.tagging.reading import read_tagged
from raxalign.tasks.tagging.sentences import left_out

HEAD = "id\tutterance\tslot_labels\tintent\n"
ROWS = (
    "1\tflights from new york\tO O I-fromloc.city_name I-fromloc.city_name\tatis_flight\n2\tzeig"
    " flüge\tO O\tatis_flight\n"
)


def write(tmp_path, text, name="dev_de.tsv"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_words_and_their_labels_in_iob2(tmp_path):
    rows = read_tagged(write(tmp_path, HEAD + ROWS)).rows
    assert [(row.words, row.tags, row.line) for row in rows] == [
        (
            ("flights", "from", "new", "york"),
            ("O", "O", "B-fromloc.city_name", "I-fromloc.city_name"),
            2,
        ),
        (("zeig", "flüge"), ("O", "O"), 3),
    ]


def test_the_header_tells_it_from_columns_of_words(tmp_path):
    data = Slots(Slots.Params(data={"train": str(tmp_path / "{pivot}.tsv")})).head(TaskInputs("en"))
    write(tmp_path, HEAD + ROWS, "en.tsv")
    assert len(data.rows("train", "en")) == 2
    write(tmp_path, "play O\nvivaldi B-artist\n", "en.tsv")
    assert data.rows("train", "en").rows[0].tags == ("O", "B-artist")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("3\ta b\tO O O\tx\n", r"dev_de\.tsv:4: 2 words, but 3 tags"),
        ("3\ta b\tO x\tx\n", r"dev_de\.tsv:4: unknown tag 'x'"),
        ("3\ta b\tO O\n", r"dev_de\.tsv:4: 3 columns, the header has 4"),
        ("3\t\t\tx\n", r"dev_de\.tsv:4: the request is empty"),
    ],
)
def test_faults_have_their_line(tmp_path, row, message):
    with pytest.raises(DataError, match=message):
        read_tagged(write(tmp_path, HEAD + ROWS + row))


def test_rows_of_other_numbers_of_words_and_labels_are_left_out_and_counted(tmp_path):
    for lang in ("en", "de"):
        write(tmp_path, HEAD + ROWS.replace("york", f"york{lang}"), f"{lang}.tsv")
    write(tmp_path, HEAD + ROWS + "3\ta b\tO O O\tx\n4\tc\tO O\tx\n", "dev_de.tsv")
    files = {"train": f"{tmp_path}/{{pivot}}.tsv", "dev": f"{tmp_path}/dev_{{lang}}.tsv"}
    write(tmp_path, HEAD + ROWS, "dev_en.tsv")
    task = Slots(Slots.Params(data=files, mismatched="drop"))
    data = task.head(TaskInputs("en"))
    found = data.rows("dev", "de")
    assert (len(found), found.left_out, found.first(1).left_out) == (2, 2, 2)
    said = "2 rows are left out: the numbers of words and of tags differ"
    assert left_out(found.left_out, "de/dev") == {"de/dev": {"left_out": 2, "warning": said}}
    assert left_out(0, "de/dev") == {}
    read = {entry.path.name: entry for entry in task.read_files(("de",), "en")}
    assert not any(entry.faults for entry in read.values())
    assert [str(remark) for remark in read["dev_de.tsv"].remarks] == [
        f"{tmp_path}/dev_de.tsv: {said}"
    ]
    assert not read["dev_en.tsv"].remarks
    plain = Slots(Slots.Params(data=files))
    (fault, _) = list(plain.read_files(("de",), "en"))[2].faults
    assert "`mismatched: drop` leaves such rows out" in str(fault)
    assert plain.canonical() == {k: v for k, v in task.canonical().items() if k != "mismatched"}


def test_a_header_alone_is_refused(tmp_path):
    with pytest.raises(DataError, match="no requests after its header"):
        read_tagged(write(tmp_path, HEAD))
