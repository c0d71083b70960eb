"""Data sets by name: small copies in their published layouts are read as they are, and what a set
does not have is a fault of the plan.
"""

import json
import re
from dataclasses import replace

import datasets
import numpy as np
import pytest

from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.errors import DataError
from raxalign.grid.load import open_grid
from raxalign.options.sources import LocalFile
from raxalign.tasks import belebele
from raxalign.tasks.base import TaskInputs
from raxalign.tasks.classifiers.head import ChoiceHead, read_choices
from raxalign.tasks.transfer.params import HubSet
from tests.grids import write_grid
from tests.tasks.outcomes import made, scores, trained, write_hub, write_parquet

TEXT = datasets.Value("string")
WORDS = [f"w{i}" for i in range(24)]
OWN = {
    "massive_slots": "AmazonScience/massive/de-DE@refs/convert/parquet",
    "belebele": "facebook/belebele/deu_Latn@main",
}


def read(folder, task, split, lang, pivot="en"):
    return task.head(TaskInputs(pivot, downloads=folder / "cache")).data.rows(split, lang)


@pytest.mark.parametrize("kind", OWN)
def test_a_preset_names_its_data_set_by_the_sets_own_code(kind):
    assert made(kind).sources("de", "en")["hub"].name == f"hub:{OWN[kind]}"
    assert made(kind, data="hub").check(("de",), "en") == []


def test_requests_have_slots_in_brackets(tmp_path):
    names = datasets.ClassLabel(names=["alarm_set", "play_music"])
    types = {"id": TEXT, "locale": TEXT, "utt": TEXT, "annot_utt": TEXT, "intent": names}
    for locale, utt, annotated in (
        ("de-DE", "weck mich um neun", "weck mich um [time : neun uhr]"),
        ("ja-JP", "明日 wake up", "[date : 明日] wake up"),
    ):
        columns = {"id": ["0"], "locale": [locale], "utt": [utt], "annot_utt": [annotated]}
        write_hub(tmp_path / "massive", locale, "test", {**columns, "intent": [0]}, types)
    slots = made("massive_slots", dataset=str(tmp_path / "massive"))
    (row,) = read(tmp_path, slots, "test", "de").rows
    assert row.words == ("weck", "mich", "um", "neun", "uhr")
    assert row.tags == ("O", "O", "O", "B-time", "I-time")
    (row,) = read(tmp_path, slots, "test", "ja").rows
    assert (row.words, row.tags[:2]) == (("明", "日", "wake", "up"), ("B-date", "I-date"))


def test_questions_of_a_language_are_picked_by_their_ids(tmp_path):
    columns = {"id": ["english-1", "finnish-1"], "context": ["red house"] * 2}
    answers = [{"text": ["red"], "answer_start": [0]}] * 2
    columns |= {"question": ["what"] * 2, "answers": answers}
    folder = tmp_path / "tydi"
    for split in ("train", "validation"):
        write_parquet(folder / "secondary_task" / split / "0000.parquet", **columns)
    task = made("tydiqa")
    task.sets = replace(task.sets, dataset=str(folder), train_dataset=str(folder))
    assert [row.id for row in read(tmp_path, task, "test", "fi").rows] == ["finnish-1"]
    assert [row.id for row in read(tmp_path, task, "train", "en").rows] == ["english-1"]
    assert set(task.sources("fi", "en").values()) == {
        LocalFile(path) for path in folder.rglob("*.parquet")
    }
    task = made("tydiqa")
    names = {lang: task.sources(lang, "en")["hub"].name for lang in ("fi", "ko")}
    assert len({*names.values()}) == 2  # each has its own rows in keys


@pytest.mark.parametrize("kind", ["belebele", "massive_slots", "tydiqa"])
def test_a_language_that_a_set_lacks_is_said_in_the_plan(kind):
    (fault,) = made(kind).check(("tlh",), "en")
    assert "has no tlh" in fault
    assert fault.endswith("or its own code in `codes`")
    assert made(kind, codes={"tlh": "own"}).check(("tlh",), "en") == []


# Multiple choice


def questions(folder, name, n, seed):
    """The right answer is one word in all questions."""
    generator = np.random.default_rng(seed)
    lines = []
    for i in range(n):
        answers = list(generator.permutation([WORDS[0], *generator.permutation(WORDS[1:8])[:3]]))
        right = answers.index(WORDS[0])
        passage = f"{answers[right]} {' '.join(generator.choice(WORDS[8:], 4))}"
        row = {"link": f"l{i}", "flores_passage": passage, "question": f"w{8 + i % 4}"}
        row |= {f"mc_answer{k}": answer for k, answer in enumerate(answers, 1)}
        lines.append(json.dumps({**row, "correct_answer_num": str(right + 1)}))
    (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.fixture
def choices(tmp_path):
    questions(tmp_path, "train.jsonl", 48, 0)
    for k, lang in enumerate(("eng_Latn", "deu_Latn")):
        questions(tmp_path, f"{lang}.jsonl", 40, k + 1)
    data = {"train": f"{tmp_path}/train.jsonl", "test": f"{tmp_path}/{{lang}}.jsonl"}
    return {"data": data, "selection": "last", "max_length": 24}


def test_the_right_answer_is_learnt_and_chosen_among_four(tmp_path, tiny, choices):
    task = made("belebele", **choices, epochs=3, learning_rate=1e-2, batch_size=8)
    outcome, notes = trained(task, AlignedEncoder(tiny(WORDS)), tmp_path / "tuned")
    assert notes["rows"] == 48
    table = outcome.predictions
    parts = np.stack([table[name].to_numpy() for name in "1234"], 1)
    assert parts.sum(1) == pytest.approx(np.ones(80), abs=1e-5)
    found = [str(i + 1) for i in parts.argmax(1)]
    assert found == table["predicted"].to_pylist()
    right = [a == b for a, b in zip(found, table["label"].to_pylist(), strict=True)]
    values = scores(outcome, "accuracy")
    assert values["avg", "test"] == pytest.approx(np.mean(right))
    assert values["en", "test"] > 0.9


def test_an_answer_of_a_question_is_scored_as_a_pair_with_its_passage(tmp_path, tiny, choices):
    head = made("belebele", **choices).head(TaskInputs("en"))
    assert isinstance(head, ChoiceHead)
    head.labels = ("1", "2", "3", "4")
    model = head.new_model(AlignedEncoder(tiny(WORDS)), 0, training=False)
    (row,) = read_choices(tmp_path / "deu_Latn.jsonl").rows[:1]
    asked = model.questions([row], "de")
    ids = [model.encoder.tokenizer.convert_ids_to_tokens(part.ids.tolist()) for part in asked]
    for answer, pieces in zip(row.answers, ids, strict=True):
        assert pieces == ["[CLS]", *row.first.split(), "[SEP]", row.question, answer, "[SEP]"]
    flipped = model.questions([row, row], "de")
    assert model.probabilities(flipped)[0].tolist() == model.probabilities(flipped)[1].tolist()


def test_questions_of_race_have_letters_and_a_list(tmp_path, monkeypatch):
    types = {"article": TEXT, "question": TEXT, "answer": TEXT, "options": datasets.Sequence(TEXT)}
    columns = {"article": ["a"], "question": ["b"], "answer": ["C"], "options": [list("wxyz")]}
    for split in ("train", "validation"):
        write_hub(tmp_path / "race", "all", split, columns, types)
    monkeypatch.setattr(belebele, "RACE", HubSet(str(tmp_path / "race"), "all", "main"))
    task = made("belebele")
    for split in ("train", "dev"):
        (row,) = read(tmp_path, task, split, "en").rows
        assert (row.first, row.question, row.answers, row.label) == ("a", "b", tuple("wxyz"), "3")
    assert "train" not in task.sources("de", "en")
    (fault,) = made("belebele", setting="translate-train").check(("de",), "en")
    assert "training questions in English alone" in fault


ASKED = '{"article": "a", "question": "b", '


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"question": "a"}', r"\.jsonl:1: has the columns question\. The columns are flores_pass"),
        (ASKED + '"options": ["x"], "answer": "A"}', r"1: 1 answers, exp"),
        (ASKED + '"options": [1,2,3,4], "answer": "E"}', r"1: 'E' is not"),
        ("{", r"\.jsonl:1: is not JSON"),
    ],
)
def test_a_question_that_is_none_is_refused_with_its_line(tmp_path, text, message):
    (tmp_path / "test.jsonl").write_text(f"{text}\n", encoding="utf-8")
    with pytest.raises(DataError, match=message):
        read_choices(tmp_path / "test.jsonl")


def test_the_chance_level_is_that_of_the_labels_that_are_given(tmp_path):
    for split in ("train", "dev"):
        for lang in ("en", "de"):
            (tmp_path / f"{split}.{lang}").write_text(f"text\tlabel\n{split} {lang}\tx\n", "utf-8")
    options = "kind: classification, data: {train: 'train.{pivot}', dev: 'dev.{lang}'}"
    tasks = f"same: {{{options}}}", f"plain: {{{options}, labels: [x, y]}}"
    grid = write_grid(tmp_path, languages="{each: [de]}", tasks=tasks)
    plan = open_grid(grid, storage=str(tmp_path / "storage")).plan
    assert [plan.guessing(task) for task in ("same", "plain")] == [None, 0.5]


def test_labels_that_differ_between_languages_are_said_with_file_and_line(tmp_path):
    for name, labels in (("train.en", "xy"), ("test.en", "xy"), ("test.de", "ab")):
        lines = [f"{name} {label}\t{label}" for label in labels]
        (tmp_path / name).write_text("\n".join(["text\tlabel", *lines]) + "\n", "utf-8")
    data = {"train": f"{tmp_path}/train.{{pivot}}", "test": f"{tmp_path}/test.{{lang}}"}
    task = made("classification", data=data, selection="last")
    (fault,) = [str(f) for r in task.read_files(("de",), "en") for f in r.faults]
    told = r"test\.de:2: has the labels a, b, but the training data has x, y\. Labels are the same"
    assert re.search(told, fault)
