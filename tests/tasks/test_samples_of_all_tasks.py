"""Stored predictions of every task of the package, on tiny data: each value that a table shows is
tested, and the sample that is tested is of that value.
"""

import json
from pathlib import Path

import pytest

from raxalign.analysis.cells import MEANS
from raxalign.catalog import catalog
from raxalign.plan.load import open_grid
from raxalign.plan.values.comparisons import NO_PREDICTIONS, comparisons
from raxalign.plan.values.results import rows
from raxalign.report.cells.results import Results
from raxalign.stages import Workshop, run_trial
from raxalign.train.runtime import Runtime
from tests.grids import ENCODER, write_grid
from tests.tasks.conftest import UNTESTED

pytestmark = pytest.mark.slow
OWN_MTEB_TASKS = Path(__file__).with_name("own_mteb_tasks.py")
PHRASEBOOK = "data: phrasebook, phrasebook: {train: 40, dev: 12, test: 12}, epochs: 1"
CODES = "codes: {en: en, de: de}, epochs: 1"
TASKS = (
    f'belebele: {{data: {{train: "asked.{{pivot}}.jsonl", dev: "read.{{lang}}.jsonl"}}, {CODES}}}',
    'bitext_mining: {data: {dev: {text: "mined.{side}", gold: mined.gold},'
    ' test: {text: "mined.{side}", gold: mined.gold}}}',
    "classification: {columns: {first: sentence1, second: sentence2}, epochs: 1,"
    ' data: {train: "train.{pivot}", dev: "rows.{lang}"}}',
    'dictionary_retrieval: {dictionary: "words.{lang}"}',
    f'massive_slots: {{data: {{train: "tags.{{pivot}}", dev: "tagged.{{lang}}"}}, {CODES}}}',
    f"mlqa: {{{PHRASEBOOK}}}",
    f"mteb: {{tasks: [OwnPairs, OwnTopics], definitions: {OWN_MTEB_TASKS}}}",
    f"ner: {{{PHRASEBOOK}}}",
    'pawsx: {data: {train: "train.{pivot}", dev: "rows.{lang}"}, epochs: 1}',
    f"pos: {{{PHRASEBOOK}}}",
    "representation: {}",
    "retrieval: {}",
    "sentence_retrieval: {}",
    f"slots: {{{PHRASEBOOK}}}",
    'spans: {data: {train: "questions.{pivot}", dev: "asked.{lang}"}, epochs: 1}',
    'tagging: {data: {train: "tags.{pivot}", dev: "tagged.{lang}"}, epochs: 1}',
    "token_translation: {}",
    f'tydiqa: {{data: {{train: "questions.{{pivot}}", test: "asked.{{lang}}"}}, {CODES}}}',
    'word_alignment: {data: {test: {text: "gold.{lang}", links: "links.{lang}"}}}',
    f"xnli: {{setting: zero-shot, {PHRASEBOOK}}}",
)
ENTRIES = (
    "haus house\nhund dog\nkatze cat\nbaum tree\nbuch book\nmann man\nfrau woman\nkind child\n"
)


def write_questions(path, part):
    """Write questions in SQuAD's format, whose answers stand in their contexts."""
    paragraphs = [
        {
            "context": f"The {word} {part} is here.",
            "qas": [
                {
                    "id": f"{part}{i}",
                    "question": f"What {part} is it?",
                    "answers": [{"text": word, "answer_start": 4}],
                }
            ],
        }
        for i, word in enumerate(ENTRIES.split())
    ]
    path.write_text(json.dumps({"data": [{"title": "t", "paragraphs": paragraphs}]}))


def write_files(folder):
    """Write the files that the tasks name; gold links are sure and possible ones."""
    for name in ("train.en", "rows.en", "rows.de"):
        lines = [
            f"{i}\tThe {word} is {name}.\tHere is the {word} {name}.\t{i % 2}"
            for i, word in enumerate(ENTRIES.split())
        ]
        text = "id\tsentence1\tsentence2\tlabel\n" + "\n".join(lines) + "\n"
        (folder / name).write_text(text, encoding="utf-8")
        for part in ("tags", "tagged"):
            (folder / f"{part}.{name[-2:]}").write_text(
                "\n".join(f"{word}\tB-X\nis\tO\n{part}\tO\n" for word in ENTRIES.split())
            )
        for part in ("questions", "asked"):
            write_questions(folder / f"{part}.{name[-2:]}", part)
        for part in ("asked", "read"):
            choices = [
                {
                    "flores_passage": f"The {word} {part} is here.",
                    "question": "What is it?",
                    **{f"mc_answer{k}": word if k == 1 + i % 4 else f"no {k}" for k in range(1, 5)},
                    "correct_answer_num": str(1 + i % 4),
                }
                for i, word in enumerate(ENTRIES.split())
            ]
            lines = "\n".join(map(json.dumps, choices))
            (folder / f"{part}.{name[-2:]}.jsonl").write_text(lines, encoding="utf-8")
        sentences = [f"{i}\t{word} {name[-2:]}" for i, word in enumerate(ENTRIES.split())]
        (folder / f"mined.{name[-2:]}").write_text("\n".join(sentences), encoding="utf-8")
    (folder / "mined.gold").write_text("0\t1\n2\t3\n", encoding="utf-8")
    (folder / "words.de").write_text(ENTRIES, encoding="utf-8")
    (folder / "gold.de").write_text("das haus ist alt ||| the house is old\nein hund ||| a dog\n")
    (folder / "links.de").write_text("0-0 1p1 2-2 3p3\n0-0 1p1 1p0\n", encoding="utf-8")


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    folder = tmp_path_factory.mktemp("all")
    write_files(folder)
    file = write_grid(
        folder,
        encoder=ENCODER.replace("steps: 30", "steps: 2"),
        languages="{together: [de]}",
        sentences="[100]",
        methods=("none: {}", "rotation: {}"),
        tasks=TASKS,
    )
    opened = open_grid(file, storage=str(folder / "storage"))
    workshop = Workshop(opened.plan, opened.storage, Runtime())
    for trial in opened.plan.trials:
        run_trial(workshop, trial.key)
    return opened, workshop.ledger


def test_no_task_of_the_package_is_missing():
    assert [task.partition(":")[0] for task in TASKS] == list(catalog("tasks"))


def test_every_value_of_a_table_that_is_compared_has_predictions(ran):
    opened, ledger = ran
    results = Results.of(rows(opened.plan, ledger), opened.plan)
    found = comparisons(results.cells, opened.plan, ledger)
    assert {entry.name[0] for entry in found} == set(catalog("tasks"))
    untested = {
        entry.name[2]
        for entry in found
        if entry.untested == NO_PREDICTIONS and entry.name[1] not in MEANS
    }
    neutral = {entry.name[2] for entry in found if not entry.measured.sign}
    assert untested == UNTESTED | neutral
