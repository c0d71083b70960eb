"""Reading all files of a task before anything is trained: what training and evaluation would refuse
is found, and nothing else.
"""

import pytest

from raxalign.tasks.dictionary_retrieval import DictionaryRetrieval
from raxalign.tasks.mlqa import Mlqa
from raxalign.tasks.ner import Ner
from raxalign.tasks.pos import Pos
from raxalign.tasks.slots import Slots
from raxalign.tasks.xnli import Xnli
from tests.tasks import word_qa


@pytest.fixture
def write(tmp_path):
    """Writes files, and returns the paths of their splits; `train` is the pivot's."""

    def write_(**files):
        for name, text in files.items():
            (tmp_path / name.replace("_", ".")).write_text(text, encoding="utf-8")
        given = {name.partition("_")[0] for name in files}
        paths = {split: str(tmp_path / f"{split}.{{lang}}") for split in given}
        return paths | {"train": str(tmp_path / "train.{pivot}")}

    return write_


def told(task, languages=("de",)):
    """What is found, by file: (name, rows, faults without their folder)."""
    found = []
    for read in task.read_files(languages, "en"):
        faults = [str(fault).replace(f"{read.path.parent}/", "") for fault in read.faults]
        found.append((read.path.name, read.rows, faults))
    return found


def faults(kind, data, **params):
    """All faults, each without its remedy."""
    task = kind(kind.Params(data=data, **params))
    return [fault.split(". ")[0] for _, _, found in told(task) for fault in found]


def squad(*ids, context="Ada was here."):
    return word_qa.squad((context, *((name, f"Who {name}?", ("Ada", 0)) for name in ids)))


def test_data_that_is_not_local_is_not_read():
    for kind in (Xnli, Ner, Mlqa):
        assert told(kind(kind.Params())) == []
    assert faults(Slots, "hub") == faults(Xnli, "phrasebook") == []


def test_every_split_of_every_language_of_xnli_is_read_and_every_fault_is_found(write):
    train, dev_de = "A\tB\t0\nC\tD\t1\n", "G\tH\tmaybe\nI\tJ\t1\nK\n"
    dev = {"dev_en": "E\tF\t0\n", "dev_de": dev_de}
    data = write(train_en=train, **dev, test_en="L\tM\t0\n", test_de="")
    unknown = (
        "dev.de:1: unknown label 'maybe'. Labels are entailment, neutral, contradiction, or 0, 1,"
        " 2. If it is a header's: a file needs premise, hypothesis and label (or sentence1,"
        " sentence2 and gold_label; sentence1_de for the texts of one language)"
    )
    assert told(Xnli(Xnli.Params(data=data))) == [
        ("train.en", 2, []),
        ("dev.en", 1, []),
        ("dev.de", 1, [unknown, "dev.de:3: 1 column, expected 3 (premise, hypothesis, label)"]),
        ("test.en", 1, []),
        ("test.de", 0, ["test.de: the file is empty"]),
    ]


def test_rows_that_are_evaluated_and_trained_on_are_found_but_not_those_that_max_train_leaves_out(
    write,
):
    data = write(train_en="A\tB\t0\nC\tD\t1\n", dev_en="c\td\t0\n", dev_de="X\tY\t0\n")
    told_ = "dev.en:1: 1 of 1 rows are training rows too (the same text)"
    assert faults(Xnli, data) == [told_]
    assert faults(Xnli, data, max_train=1) == []


def test_a_file_of_all_languages_without_a_column_that_says_which_is_found(write, tmp_path):
    data = write(train_en="A\tB\t0\n", dev="E\tF\t0\n")
    found = told(Xnli(Xnli.Params(data={"train": data["train"], "dev": str(tmp_path / "dev")})))
    fault = (
        "dev:1: is given for all languages, but has no `language` column. Write {lang} in the"
        " task's `data.dev` in the grid, or add the column"
    )
    assert found[1:] == [("dev", 1, []), ("dev", 0, [fault])]


def test_translations_that_are_not_parallel_are_found_where_languages_are_mixed(write, tmp_path):
    train = {"train_en": "A\tB\t0\nC\tD\t1\n", "train_de": "E\tF\t0\nG\tH\t2\n"}
    data = write(**train, dev_en="I\tJ\t0\n", dev_de="K\tL\t0\n")
    data["train"] = str(tmp_path / "train.{lang}")
    assert faults(Xnli, data, setting="translate-train") == []
    (fault,) = faults(Xnli, data, setting="translate-train", code_switching="sentence")
    assert fault.startswith("train.de:2: the label is contradiction, but")


def test_tags_and_copies_of_the_training_set_are_found(write):
    dev = {"dev_en": "a O\n", "dev_de": "c X-y\n\nd O\ne\n"}
    data = write(train_en="a O\n\nb B-x\n", **dev, test_en="f O\n", test_de="g O\n")
    assert faults(Ner, data) == [
        "dev.en:1: 1 of 1 sentences are training sentences too (the same text)",
        "dev.de:1: unknown tag 'X-y'",
        "dev.de:4: 1 column, expected 2 as in the lines before",
    ]
    assert [rows for _, rows, found in told(Ner(Ner.Params(data=data))) if not found] == [2, 1, 1]
    assert all("10 of CoNLL-U" in fault for fault in faults(Pos, data))


def test_files_may_be_named_by_codes_in_capitals(write, tmp_path):
    train = "id\tutterance\tslot_labels\na\tb c\tO O\n"
    write(train_EN=train, dev_EN="d O\n", dev_DE="e O\n\nf O\n")
    paths = {"train": str(tmp_path / "train.{PIVOT}"), "dev": str(tmp_path / "dev.{LANG}")}
    task = Slots(Slots.Params(data=paths))
    assert task.check(("de",), "en") == []
    assert told(task) == [("train.EN", 1, []), ("dev.EN", 1, []), ("dev.DE", 2, [])]
    swapped = Slots(Slots.Params(data={"train": "train.{LANG}", "dev": "dev.{PIVOT}"}))
    told_ = [fault.split(" ")[0] for fault in swapped.check(("de",), "en")]
    assert told_ == ["data.train", "data.dev"]


def test_questions_that_are_trained_on_or_come_twice_are_found(write):
    dev = {"dev_en": squad("3", "3"), "dev_de": squad("2", context="Ada!")}
    data = write(train_en=squad("1", "2"), **dev, test_en="{", test_de=squad("4"))
    assert [rows for _, rows, _ in told(Mlqa(Mlqa.Params(data=data)))] == [2, 1, 0, 0, 1]
    assert faults(Mlqa, data) == [
        "dev.en: two questions have the id 3",
        "dev.de: 1 of 1 questions are training questions too (the same id), 2 the first",
        "test.en:1: is not JSON (Expecting property name enclosed in double quotes)",
    ]


def test_questions_whose_answers_were_removed_are_refused_before_anything_is_trained(write):
    """As XTREME has its test sets: every answer is there, and empty."""
    blank = squad("3", "4", "5").replace('"Ada", "answer_start"', '"", "answer_start"')
    data = write(train_en=squad("1"), dev_en=squad("3"), dev_de=blank)
    fault = (
        "dev.de: 3 of 3 questions have an empty answer, 3 the first. Take the data set's own file,"
        " which has the answers (XTREME's test files have them removed)"
    )
    assert told(Mlqa(Mlqa.Params(data=data)))[2] == ("dev.de", 0, [fault])


def test_training_needs_no_ids_but_where_questions_are_found_in_two_languages(write, tmp_path):
    """XTREME's TyDiQA has the last part of an id alone, which many questions share."""
    dev = {"dev_en": squad("1", context="Ada!"), "dev_de": squad("2", context="Ada?")}
    data = write(train_en=squad("1", "1", "2"), train_de=squad("1", "2"), **dev)
    assert told(Mlqa(Mlqa.Params(data=data)))[0] == ("train.en", 3, [])
    assert faults(Mlqa, data) == []
    mixed = {"setting": "translate-train", "code_switching": "sentence"}
    data["train"] = str(tmp_path / "train.{lang}")
    assert faults(Mlqa, data, **mixed)[0] == "train.en: two questions have the id 1"


def test_files_of_questions_that_share_no_id_are_found_where_they_are_crossed(write):
    data = write(train_en=squad("1"), dev_en=squad("3"), dev_de=squad("4"))
    assert faults(Mlqa, data) == []
    crossed = faults(Mlqa, data, setting="g-xlt")
    assert ["shares no question's id with" in fault for fault in crossed] == [True, True]


def test_training_answers_that_stand_nowhere_are_found(write):
    data = write(train_en=squad("1", context="Nobody."), dev_en=squad("3"), dev_de=squad("3"))
    assert "no answer stands at its `answer_start`" in faults(Mlqa, data)[0]


def test_dictionaries_are_read(tmp_path):
    (tmp_path / "de.txt").write_text("Haus house\n\nder the big\n", encoding="utf-8")
    params = DictionaryRetrieval.Params(dictionary=str(tmp_path / "{lang}.txt"))
    fault = "de.txt:3: 3 words; an entry is two, divided by a space or a tab"
    assert told(DictionaryRetrieval(params)) == [("de.txt", 0, [fault])]
