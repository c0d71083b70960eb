"""MultiATIS++'s files, as they are published."""

from __future__ import annotations

import pytest

from raxalign.errors import DataError
from raxalign.tasks.base import TaskInputs
from raxalign.tasks.slots import Slots
from raxalign.tasks.tagging.multiatis import is_atis, read_atis

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
    rows = read_atis(write(tmp_path, HEAD + ROWS)).rows
    assert [(row.words, row.tags, row.line) for row in rows] == [
        (
            ("flights", "from", "new", "york"),
            ("O", "O", "B-fromloc.city_name", "I-fromloc.city_name"),
            2,
        ),
        (("zeig", "flüge"), ("O", "O"), 3),
    ]


def test_the_header_tells_it_from_columns_of_words(tmp_path):
    assert is_atis(write(tmp_path, "Intent\tUtterance\tslot_labels\n"))
    for text in ("play\tO\n", "", "utterance\tO\n"):
        assert not is_atis(write(tmp_path, text))
    data = Slots(Slots.Params(data={"train": str(tmp_path / "{pivot}.tsv")})).data(TaskInputs("en"))
    write(tmp_path, HEAD + ROWS, "en.tsv")
    assert len(data.sentences("train", "en")) == 2
    write(tmp_path, "play O\nvivaldi B-artist\n", "en.tsv")
    assert data.sentences("train", "en").rows[0].tags == ("O", "B-artist")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("3\ta b\tO O O\tx\n", r"dev_de\.tsv:4: 2 words, but 3 labels"),
        ("3\ta b\tO x\tx\n", r"dev_de\.tsv:4: unknown label 'x'"),
        ("3\ta b\tO O\n", r"dev_de\.tsv:4: 3 columns, the header has 4"),
        ("3\t\t\tx\n", r"dev_de\.tsv:4: the request is empty"),
    ],
)
def test_faults_have_their_line(tmp_path, row, message):
    with pytest.raises(DataError, match=message):
        read_atis(write(tmp_path, HEAD + ROWS + row))


def test_a_header_alone_is_refused(tmp_path):
    with pytest.raises(DataError, match="no requests after its header"):
        read_atis(write(tmp_path, HEAD))
