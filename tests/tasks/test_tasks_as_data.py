"""Tasks whose data, columns and labels a grid names: they are the tasks that say the same in code,
bit for bit, and what is wrong with their options is said in the plan.
"""

from __future__ import annotations

import re

import pytest

from raxalign.catalog import catalog
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.errors import DataError, RaxalignError
from raxalign.plan.load import open_grid
from raxalign.tasks.base import TaskInputs
from tests.grids import write_grid
from tests.tasks.outcomes import trained
from tests.tasks.test_outside_tasks import FAST, WORDS, write_names, write_pairs

PAWSX = {"first": "sentence1", "second": "sentence2"}
SPLITS = (("train", 24), ("dev", 9), ("test", 9))


def made(kind, **options):
    task = catalog("tasks")[kind]
    return task(task.Params.model_validate(options))


def write_tsv(folder, heads, labels, name="{split}.{lang}.tsv"):
    for shift, (split, n) in enumerate(SPLITS):
        for lang in ("en", "de"):
            rows = ["\t".join(heads)]
            for i in range(n):
                words = [WORDS[(7 * i + 5 * shift + k + len(lang)) % len(WORDS)] for k in range(4)]
                first, second = f"{split[0]} {' '.join(words)} w{i}", f"{lang} {words[i % 3]}"
                rows.append(f"{first}\t{second}\t{labels[i % len(labels)]}")
            file = folder / name.format(split=split, lang=lang)
            file.write_text("\n".join(rows) + "\n", encoding="utf-8")
    paths = {split: f"{folder}/{name.format(split=split, lang='{lang}')}" for split, _ in SPLITS}
    return {**paths, "train": paths["train"].replace("{lang}", "{pivot}")}


def xnli(folder):
    labels = ["entailment", "neutral", "contradiction"]
    data = write_tsv(folder, ["premise", "hypo", "label"], labels)
    columns = {"first": "premise", "second": "hypo"}
    return {"data": data}, {"columns": columns, "labels": labels}


def pawsx(folder):
    data = write_tsv(folder, ["sentence1", "sentence2", "label"], "01")
    return {"data": data}, {"columns": PAWSX, "labels": ["different", "paraphrase"]}


def ner(folder):
    options = {"data": write_names(folder), "codes": {"en": "eng", "de": "swa"}}
    return {**options, "columns": {"word": 0, "tag": 1}}, {}


@pytest.mark.parametrize(
    ("kind", "given", "data"),
    [
        ("xnli", "classification", xnli),
        ("pawsx", "classification", pawsx),
        ("ner", "tagging", ner),
    ],
)
def test_a_task_given_as_data_equals_the_task_in_code_bit_for_bit(
    tmp_path, tiny, kind, given, data
):
    options, named = data(tmp_path)
    options |= {**FAST, "epochs": 2}
    tasks = made(kind, **options), made(given, **options, **named)
    encoder = AlignedEncoder(tiny([*WORDS, "t", "d", "en", "de"]))
    one, other = (trained(task, encoder, tmp_path / f"tuned{i}")[0] for i, task in enumerate(tasks))
    assert [*one.scores] == [*other.scores]
    names = [{"premise": "group"}.get(name, name) for name in one.predictions.column_names]
    assert one.predictions.rename_columns(names).equals(other.predictions)
    assert tasks[1].guessing == tasks[0].guessing
    assert tasks[1].main_metric == tasks[0].main_metric


def test_spans_given_as_data_have_the_training_and_the_values_of_mlqa():
    data = {"train": "a.{pivot}", "dev": "b.{lang}", "test": "c.{lang}"}
    one, other = made("mlqa", data=data), made("spans", data=data, rules="mlqa")
    assert one.training() == other.training()
    assert one.canonical() == other.canonical()
    assert made("spans", data=data).params.rules == "squad"


def test_the_metric_that_is_asked_for_is_the_main_one(tmp_path, tiny):
    data, columns = write_pairs(tmp_path), {"first": "question1", "second": "question2"}
    columns["label"] = "is_duplicate"
    task = made("classification", data=data, columns=columns, metric="macro_f1", epochs=1, **FAST)
    outcome, _ = trained(task, AlignedEncoder(tiny(WORDS)), tmp_path / "tuned")
    assert {score.metric for score in outcome.scores} == {"accuracy", "macro_f1"}
    assert (task.main_metric, task.guessing) == ("macro_f1", None)
    options = f"{{kind: classification, data: {{train: '{data['train']}', dev: '{data['dev']}'}}"
    options += ", columns: {first: question1, second: question2, label: is_duplicate}"
    tasks = f"same: {options}, metric: macro_f1}}", f"plain: {options}}}"
    grid = write_grid(tmp_path, languages="{each: [de]}", tasks=tasks)
    plan = open_grid(grid, storage=str(tmp_path / "storage")).plan
    assert (plan.main_metric("same"), plan.main_metric("plain")) == ("macro_f1", "accuracy")


def test_plain_tags_have_accuracy_alone():
    task = made("tagging", data="hub", dataset="x", tags="plain", labels=["A", "B"])
    assert (task.main_metric, task.scheme().entities, task.scheme().knows("A")) == (
        "accuracy",
        False,
        True,
    )


FILES = "data: {train: 'train.{pivot}.tsv', dev: 'dev.{lang}.tsv'}"


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("x: {kind: clasification}", r"did you mean classification\?"),
        ("sib20: {}", r"did you mean sib200\?"),
        (
            f"x: {{kind: classification, {FILES}, columns: {{first: a, second: a}}}}",
            r"line \d+: .*two of first, second and label are 'a'",
        ),
        (
            f"x: {{kind: classification, {FILES}, columns: {{first: a}}, labels: [yes]}}",
            r"line \d+: .*labels are yes: write two or more different ones",
        ),
        (
            f"x: {{kind: classification, {FILES}, columns: {{frist: a}}}}",
            r"line \d+: .*frist.*did you mean first\?",
        ),
        (
            f"x: {{kind: classification, {FILES}, columns: {{first: a}}, aliases: {{b: c}}}}",
            r"line \d+: .*c is not among `labels`",
        ),
    ],
)
def test_what_is_wrong_with_options_is_said_with_its_line(tmp_path, task, message):
    with pytest.raises(RaxalignError) as told:
        open_grid(write_grid(tmp_path, tasks=(task,)), storage=str(tmp_path / "storage"))
    assert re.search(message, str(told.value)), str(told.value)


def faults_in(task):
    return [str(fault) for read in task.read_files(("de",), "en") for fault in read.faults]


def test_columns_and_labels_that_the_files_lack_are_said_with_file_and_line(tmp_path):
    data = write_tsv(tmp_path, ["sentence1", "sentence2", "label"], "01")
    lacking = made("classification", data=data, columns={"first": "text", "label": "label"})
    assert any(re.search(r"train\.en\.tsv:1: .*text", fault) for fault in faults_in(lacking))
    text = (tmp_path / "test.de.tsv").read_text(encoding="utf-8")
    other = re.sub(r"[01]$", "ja", text, flags=re.MULTILINE)
    (tmp_path / "test.de.tsv").write_text(other, encoding="utf-8")
    (fault,) = faults_in(made("classification", data=data, columns=PAWSX))
    assert re.search(
        r"test\.de\.tsv:2: has the labels ja, but the training data has 0, 1\. Labels are the same",
        fault,
    )
    (tmp_path / "train.en.tsv").write_text("sentence1\tsentence2\tlabel\na\tb\t1\n", "utf-8")
    task = made("classification", data=data, columns=PAWSX)
    head = task.head(TaskInputs("en"))
    rows = [head.rows("train", "en")]
    with pytest.raises(DataError, match=r"train\.en\.tsv: has the label 1 alone"):
        head.labels_of(rows)
