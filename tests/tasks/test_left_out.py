"""What a reader leaves out of a task's data is remarked on before anything runs, and beside the
results: by every task with files of its own, and of each kind of row that is left out.
"""

import json
from pathlib import Path

import datasets
import numpy as np
import pytest

from raxalign.caveats import Caveats, LeftOut
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.tasks.answers.rows import Answer, Question, Questions, WindowSizes
from raxalign.tasks.base import TaskInputs
from raxalign.tasks.mlqa import Mlqa
from tests.tasks import word_qa
from tests.tasks.outcomes import evaluated, made, static, trained, values, write_hub
from tests.tasks.word_qa import squad

SPLITS = ("train", "dev", "test")
ASKED = [("Anna came.", ("a", "who?", ("Anna", 0)), ("b", "why?"), ("c", "when?"))]
TSV = "sentence1\tsentence2\tlabel\nA {0}\tB\t1\nC {0}\t \t0\nD\tE\t-\nF\tG\t-\n"
PLAIN = "text\tlabel\nA {0}\tyes\n \tno\nD\t\nB {0}\tno\n"
TAGGED = "utterance\tslot_labels\na {0}\tO O\nc d\tO\n"
HIDDEN = "3 of 4 rows are left out: 1 without a text, 2 without a label"
READERS = {
    "pawsx": ("tsv", TSV, {}, HIDDEN),
    "xnli": ("tsv", TSV.replace("sentence1\tsentence2", "premise\thypothesis"), {}, HIDDEN),
    "classification": (
        "tsv",
        PLAIN,
        {"columns": {"first": "text"}, "labels": ["no", "yes"]},
        "2 of 4 rows are left out: 1 without a text, 1 without a label",
    ),
    "mlqa": ("json", squad(*ASKED), {}, "2 of 3 questions are left out: without an answer"),
    "spans": ("json", squad(*ASKED), {}, "2 of 3 questions are left out: without an answer"),
    "slots": (
        "tsv",
        TAGGED,
        {"mismatched": "drop"},
        "1 of 2 sentences is left out: with other numbers of words and of tags",
    ),
}


def remarks(task, languages=("de",)):
    """The remarks on each file that a task reads before anything runs, and no fault."""
    read = list(task.read_files(languages, "en"))
    assert not [fault for entry in read for fault in entry.faults]
    found = [(entry.path.name, str(remark)) for entry in read for remark in entry.remarks]
    return [(name, told.split(": ", 1)[1]) for name, told in found]


@pytest.mark.parametrize("kind", READERS)
def test_rows_that_a_transfer_task_leaves_out_are_told_of_each_split(kind, tmp_path):
    suffix, text, options, said = READERS[kind]
    for split in SPLITS:
        for lang in ("en", "de"):
            own = text.replace("{0}", split + lang)
            own = own.replace("Anna", split.title() + lang) if suffix == "json" else own
            own = own.replace('"a"', f'"{split}"')
            (tmp_path / f"{split}.{lang}").write_text(own, encoding="utf-8")
    files = {split: str(tmp_path / f"{split}.{{lang}}") for split in SPLITS}
    task = made(kind, data={**files, "train": files["train"].replace("lang", "pivot")}, **options)
    names = ["train.en", "dev.en", "dev.de", "test.en", "test.de"]
    assert remarks(task) == [(name, said) for name in names]
    head = task.head(TaskInputs("en"))
    held_out = head.evaluated(("en", "de"), np.zeros(0, np.int64))
    assert {held.place: held.note for held in held_out} == {
        f"{lang}/{split}": {"warning": said} for lang in ("en", "de") for split in SPLITS[1:]
    }
    assert head.data.training("en").note == {"warning": said}


ENCODER = static({"de": {"a": [1, 0], "b": [0, 1]}, "en": {"A": [1, 0], "B": [0, 1]}})


def written(folder, **texts):
    for name, text in texts.items():
        (folder / name.replace("_", ".")).write_text(text, encoding="utf-8")
    return {
        f"{split}_{side}": {"de": folder / f"{split}.{lang}"}
        for split in dict.fromkeys(name.split("_")[0] for name in texts)
        for side, lang in (("source", "de"), ("target", "en"))
    }


@pytest.mark.parametrize("measure", ["cosine", "nnn"])
@pytest.mark.parametrize("pool", ["bilingual", "mixed"])
def test_blank_sentences_of_a_retrieval_are_told_also_of_the_bank(tmp_path, measure, pool):
    texts = {"dev_de": "a\n\nb\n", "dev_en": "A\nB\nB\n", "test_de": "a\nb\n \n \n"}
    inputs = written(tmp_path, **texts, test_en="A\nB\nB\nA\n")
    data = {split: f"{tmp_path}/{split}" for split in ("dev", "test")}
    task = made("sentence_retrieval", data=data, measure=measure, pool=pool, k=1)
    dev, test = (
        f"{n} of {of} sentence pairs {are} left out: with a blank side"
        for n, of, are in ((1, 3, "is"), (2, 4, "are"))
    )
    assert remarks(task) == [("dev.de", dev), ("test.de", test)]
    outcome = evaluated(task, ENCODER, files=inputs)
    bank = " bank" if measure == "nnn" else ""
    assert Caveats.thin_support("pairs", outcome.notes) == {
        f"pairs de-en {'test' + bank if bank else 'dev'}": dev,
        "pairs de-en test": test,
    }
    assert values(outcome)["accuracy_pairs"] == 2


def test_blank_sentences_of_a_set_of_the_hub_are_told(tmp_path):
    columns = {"source_sentence": ["a", "", "b"], "target_sentence": ["A", "B", "B"]}
    types = dict.fromkeys(columns, datasets.Value("string"))
    write_hub(tmp_path / "set", "tatoeba.deu", "validation", columns, types)
    task = made("sentence_retrieval", data="tatoeba", dataset=str(tmp_path / "set"))
    outcome = evaluated(task, ENCODER, downloads=tmp_path)
    told = "1 of 3 sentence pairs is left out: with a blank side"
    assert outcome.notes["de-en"]["test"]["warning"] == told


def test_sentence_pairs_that_nobody_has_linked_are_told(tmp_path):
    (tmp_path / "text").write_text("a ||| A\nb ||| B\na b ||| A\n", encoding="utf-8")
    (tmp_path / "links").write_text("1 1 1\n2 1 1\n2 0 1\n", encoding="utf-8")
    files = {"text": f"{tmp_path}/text", "links": f"{tmp_path}/links"}
    task = made("word_alignment", data={"test": files}, format="naacl")
    told = "1 of 3 sentence pairs is left out: without a line in the file of links"
    null = "1 of 3 links is left out: of a word with the null word"
    assert remarks(task) == [("links", told), ("links", null)]
    given = {f"test_{name}": {"de": Path(path)} for name, path in files.items()}
    outcome = evaluated(task, ENCODER, files=given)
    both = f"{told}; {null}"
    assert Caveats.thin_support("aer", outcome.notes) == {"aer de-en test": both}


def test_equal_sentences_of_comparable_text_are_told(tmp_path):
    side, gold = {"de": "1\ta\n2\tb\n3\ta\n", "en": "1\tA\n2\tB\n"}, "1\t1\n2\t2\n"
    for name, text in {**side, "gold": gold}.items():
        (tmp_path / f"t.{name}").write_text(text, encoding="utf-8")
    part = {"text": f"{tmp_path}/t.{{side}}", "gold": f"{tmp_path}/t.gold"}
    told = "1 of 5 sentences is left out: of de like an earlier one"
    task = made("bitext_mining", data={"dev": part, "test": part}, k=1)
    assert remarks(task) == [("t.gold", told)] * 2


def test_rows_of_xnli_that_are_translated_are_told_of_both_languages(tmp_path):
    for lang in ("de", "en"):
        text = f"{lang}\tA\t0\nB\t \t1\nC\tD\t-\n"
        (tmp_path / f"test.{lang}").write_text(text, encoding="utf-8")
    task = made("token_translation", data={"test": f"{tmp_path}/test.{{lang}}"})
    told = "2 of 3 rows are left out: 1 without a text, 1 without a label"
    assert remarks(task) == [("test.en", told), ("test.de", told)]
    inputs = {name: {"de": source.path} for name, source in task.sources("de", "en").items()}
    ((_, pairs),) = task._pairs(TaskInputs("en", files=inputs), "de")
    assert pairs.remarks == (f"de: {told}", f"en: {told}")


@pytest.fixture
def files(tmp_path):
    return word_qa.write_all(tmp_path / "files")


def test_training_rows_of_the_phrasebook_that_are_evaluated_too_are_told():
    head = made("xnli", data="phrasebook").head(TaskInputs("en"))
    rows = head.data.training("en")
    assert rows.remarks == LeftOut(rows.left_out).remarks("rows", len(rows))
    asked = head.params.identity()["phrasebook"]["train"]
    assert len(rows) + rows.left_out["in a split that is evaluated too"] == asked


def test_rows_beyond_those_that_were_asked_for_are_not_left_out():
    rows = Questions("q", [None] * 10, LeftOut({Questions.UNANSWERED: 2}))
    assert rows.first(4).remarks == rows.remarks
    assert rows.first(20).remarks == rows.remarks


def crossing(tmp_path):
    """German and English questions of one set, of which each language lacks one, and one without an
    answer.
    """
    both = [("Ada was here.", (name, f"Who {name}?", ("Ada", 0))) for name in "ab"]
    texts = {
        "en": (*both, ("x", ("c", "?", ("x", 0)), ("e", "?"))),
        "de": (*both, ("x", ("d", "?", ("x", 0)))),
    }
    for lang, found in texts.items():
        (tmp_path / f"test.{lang}").write_text(squad(*found), encoding="utf-8")
    (tmp_path / "train.en").write_text(squad(("Bo.", ("t", "?", ("Bo", 0)))), encoding="utf-8")
    data = {"train": f"{tmp_path}/train.{{pivot}}", "test": f"{tmp_path}/test.{{lang}}"}
    return Mlqa(Mlqa.Params(data=data, setting="g-xlt", selection="last"))


def test_questions_that_one_of_two_languages_lacks_are_told(tmp_path):
    task = crossing(tmp_path)
    unanswered = "1 of 4 questions is left out: without an answer"
    apart = "questions in one of the two languages alone are left out: 2 with"
    assert remarks(task) == [
        ("test.en", unanswered),
        ("test.en", f"{apart} de"),
        ("test.de", f"{apart} en"),
    ]
    head = task.head(TaskInputs("en"))
    held_out = head.evaluated(("en", "de"), np.zeros(0, np.int64))
    assert {held.label: len(held.rows) for held in held_out} == {
        f"{asked}-{told}": 3 if asked == told else 2
        for asked in ("en", "de")
        for told in ("en", "de")
    }
    assert {held.label: held.note for held in held_out if held.note} == {
        "en-en": {"warning": unanswered}
    }
    pair = next(held.rows for held in held_out if held.label == "en-de")
    assert pair.remarks == (
        "2 of 4 questions are left out: in one of the two languages alone",
        f"{tmp_path}/test.en: {unanswered}",
    )
    counted = Caveats.counted("", head.notes(held_out, {}))
    assert counted == {
        "questions left out, which are in one of the two languages alone": (
            "2 in en-de/test, 2 in de-en/test"
        )
    }


def test_evaluated_rows_that_were_trained_on_are_told(tmp_path):
    (tmp_path / "train.en").write_text("a O\n\nb O\n", encoding="utf-8")
    (tmp_path / "test.en").write_text("a O\n\nc O\n", encoding="utf-8")
    (tmp_path / "test.de").write_text("d O\n", encoding="utf-8")
    data = {"train": f"{tmp_path}/train.{{pivot}}", "test": f"{tmp_path}/test.{{lang}}"}
    task = made("ner", data=data, selection="last")
    assert remarks(task) == [("test.en", "evaluated sentences that were trained on too: 1 of 2")]
    head = task.head(TaskInputs("en"))
    head.labels = ("O",)
    trained_on = np.sort(head.data.training("en").fingerprints())
    notes = head.notes(head.evaluated(("en", "de"), trained_on), {})
    assert Caveats.counted("", notes) == {
        "evaluated rows that were trained on too": "1 of 2 in en/test"
    }


WORDS = ("who", "came", "Anna", "Rom", "alt", "ist", ".", "?")
SIZES = WindowSizes(question=3, stride=6, answer=2)


def asked(*rows):
    """Questions of (question, context, answer) each."""
    found = [
        Question(str(n), q, c, n, (Answer(a, c.index(a)),)) for n, (q, c, a) in enumerate(rows)
    ]
    return Questions("q", found)


def test_what_windows_cut_of_questions_and_answers_is_told(tiny):
    encoder = tiny(WORDS, positions=12)
    rows = asked(
        ("who who who", "Anna came", "Anna"),
        ("who came who came", "Rom ist alt", "Rom"),
        ("who", "Rom ist alt . Anna came", "ist alt ."),
    )
    with Caveats.collecting() as found:
        for _ in range(2):  # each question is counted once
            rows.windows(encoder, ("de", "en"), SIZES).report_long("de-en", SIZES.answer)
    assert found.notes()["partial"] == {
        "texts cut at the 3 subword tokens of a question": "1 of de",
        "answers of more than 2 subword tokens, which no prediction has": "1 of de-en",
    }


def test_training_questions_whose_answer_no_window_holds_are_counted(tiny):
    encoder = tiny(WORDS, positions=12)
    long = "Anna came . " * 4
    rows = asked(("who", "Anna came", "Anna"), ("who", long, long.strip()))
    found = rows.training_windows(encoder, "en", SIZES)
    assert (found.answered(), found.unanswered()) == (1, 1)


def test_a_training_counts_what_it_reads_as_without_an_answer(tmp_path, tiny, files):
    path = Path(files["train"].format(lang="en", pivot="en"))
    content = json.loads(path.read_text(encoding="utf-8"))
    first = content["data"][0]["paragraphs"][0]
    first["context"] = " ".join(["w1"] * 60)
    first["qas"][0]["answers"] = [{"text": first["context"], "answer_start": 0}]
    path.write_text(json.dumps(content), encoding="utf-8")
    task = Mlqa(Mlqa.Params(data=files, epochs=1, max_train=8, max_length=24))
    encoder = AlignedEncoder(tiny(word_qa.WORDS))
    _, notes = trained(task, encoder, tmp_path / "tuned", ("de",))
    assert notes["questions_unanswered"] == 1
    told = "questions trained on as if they had no answer, since no window has it whole"
    assert Caveats.counted("", notes) == {told: "1"}
