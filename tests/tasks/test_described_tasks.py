"""Tasks that a grid file describes: they equal the shipped ones, and presets read what is published
in its own layout.
"""

import json
from pathlib import Path

import datasets
import pytest

from raxalign.catalog import catalog
from raxalign.errors import GridError
from raxalign.plan.load import open_grid
from raxalign.stages import Workshop, run_trial
from raxalign.tasks.base import TaskInputs
from raxalign.tasks.classification import PRESETS as LABELLED
from raxalign.tasks.classification import Classification
from raxalign.tasks.spans import PRESETS as ASKED
from raxalign.tasks.spans import SpanAnswers
from raxalign.tasks.tagging import PRESETS as TAGGED
from raxalign.tasks.tagging import Tagging
from raxalign.tasks.vectors.sentence_sets import SETS
from raxalign.train.runtime import Runtime
from tests.grids import TINY, write_grid

LABELS = ("entailment", "neutral", "contradiction")


def write_rows(folder):
    """Premises, tagged words and questions of two languages."""
    for name in ("train.en", "dev.en", "dev.de"):
        part, lang = name.split(".")
        lines = ["sentence1\tsentence2\tgold_label"]
        lines += [f"{part} {lang} {i}.\tIt is {i}.\t{LABELS[i % 3]}" for i in range(9)]
        (folder / f"{name}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        tags = [f"Ada{i} B-PER\nsees O\n{part}{lang} B-LOC\n" for i in range(6)]
        (folder / f"{name}.conll").write_text("\n".join(tags), encoding="utf-8")
        asked = [
            {
                "context": f"Ada{i} sees {part} {lang}.",
                "qas": [
                    {
                        "id": f"{part}{i}",
                        "question": "Who sees it?",
                        "answers": [{"text": f"Ada{i}", "answer_start": 0}],
                    }
                ],
            }
            for i in range(6)
        ]
        data = {"data": [{"title": "t", "paragraphs": asked}]}
        (folder / f"{name}.json").write_text(json.dumps(data), encoding="utf-8")


def files(suffix):
    return f"data: {{train: 'train.{{pivot}}.{suffix}', dev: 'dev.{{lang}}.{suffix}'}}, epochs: 2"


SAME = {
    "xnli": (
        f"{{setting: zero-shot, {files('tsv')}}}",
        "{kind: classification, labels: [entailment, neutral, contradiction], columns: {first:"
        f" sentence1, second: sentence2, label: gold_label}}, {files('tsv')}}}",
    ),
    "pawsx": (
        f"{{{files('paws')}}}",
        "{kind: classification, labels: [different, paraphrase], columns: {first: sentence1,"
        f" second: sentence2}}, {files('paws')}}}",
    ),
    "ner": (f"{{{files('conll')}}}", f"{{kind: tagging, {files('conll')}}}"),
    "mlqa": (f"{{{files('json')}}}", f"{{kind: spans, rules: mlqa, {files('json')}}}"),
}


@pytest.mark.slow
def test_a_task_that_yaml_describes_equals_the_shipped_one_bit_for_bit(tmp_path):
    write_rows(tmp_path)
    for name in ("train.en", "dev.en", "dev.de"):
        lines = [f"{i}\tA {name} {i}.\tB {name} {i}.\t{i % 2}" for i in range(8)]
        text = "id\tsentence1\tsentence2\tlabel\n" + "\n".join(lines) + "\n"
        (tmp_path / f"{name}.paws").write_text(text, encoding="utf-8")
    tasks = [f"{name}: {shipped}" for name, (shipped, _) in SAME.items()]
    tasks += [f"as_{name}: {described}" for name, (_, described) in SAME.items()]
    options = {"languages": "{together: [de]}", "size": 200, "sentences": "[60]"}
    path = write_grid(tmp_path, encoder=TINY, methods=("none: {}",), tasks=tuple(tasks), **options)
    opened = open_grid(path, storage=str(tmp_path / "storage"))
    (trial,) = opened.plan.trials
    run_trial(Workshop(opened.plan, opened.storage, Runtime()), trial.key)
    ledger = opened.storage.ledger
    for name in SAME:
        one, other = (trial.evaluations[task] for task in (name, f"as_{name}"))
        assert one != other
        assert ledger.read(one)["scores"] == ledger.read(other)["scores"]
        tables = [ledger.predictions(key).drop_columns("lang") for key in (one, other)]
        renamed = ["group" if name == "premise" else name for name in tables[0].column_names]
        assert tables[0].rename_columns(renamed).equals(tables[1])


def write(path, **columns):
    path.parent.mkdir(parents=True, exist_ok=True)
    datasets.Dataset.from_dict(columns).to_parquet(path)


def test_sib200_is_read_as_it_is_published_by_codes_of_flores(tmp_path):
    write(
        tmp_path / "deu_Latn" / "validation.parquet",
        index_id=[1, 2],
        category=["geography", "science/technology"],
        text=["Ein Berg.", "Ein Rechner."],
    )
    task = Classification(Classification.Params(preset="sib200", dataset=str(tmp_path)))
    assert task.sources("de", "en")["hub"].name == f"hub:{tmp_path}/deu_Latn@main"
    rows = task.head(TaskInputs("en", downloads=tmp_path / "cache")).rows("dev", "de").rows
    assert [(row.first, row.label) for row in rows] == [
        ("Ein Berg.", "geography"),
        ("Ein Rechner.", "science/technology"),
    ]
    assert task.guessing == 1 / 7


def test_intents_of_massive_have_the_labels_of_their_training_data(tmp_path):
    columns = {"id": ["1"], "label": [3], "label_text": ["alarm_set"], "text": ["weck mich"]}
    write(tmp_path / "zh-CN" / "test.parquet", **columns, lang=["zh-CN"])
    task = Classification(Classification.Params(preset="massive_intents", dataset=str(tmp_path)))
    rows = task.head(TaskInputs("en", downloads=tmp_path / "cache")).rows("test", "zh").rows
    assert [(row.first, row.label) for row in rows] == [("weck mich", "alarm_set")]
    assert task.guessing is None


def test_mldoc_is_read_from_the_files_that_its_program_writes(tmp_path):
    (tmp_path / "dev.de").write_text("ECAT\tDie Zinsen.\nMCAT\tDer Markt.\n", encoding="utf-8")
    params = {
        "preset": "mldoc",
        "data": {"train": "train.{lang}", "dev": f"{tmp_path}/dev.{{lang}}"},
    }
    task = Classification(Classification.Params.model_validate(params))
    rows = task.head(TaskInputs("en")).rows("dev", "de").rows
    assert [(row.first, row.label) for row in rows] == [
        ("Die Zinsen.", "ECAT"),
        ("Der Markt.", "MCAT"),
    ]


def test_names_of_masakhaner_are_on_the_branch_of_converted_files(tmp_path):
    task = Tagging(Tagging.Params(preset="masakhaner"))
    assert task.sources("sw", "yo")["hub"].name == (
        "hub:masakhane/masakhaner2/swa@refs/convert/parquet"
    )
    names = datasets.ClassLabel(names=["O", "B-PER", "I-PER"])
    path = tmp_path / "swa" / "test" / "0000.parquet"
    path.parent.mkdir(parents=True)
    types = {"tokens": datasets.Sequence(datasets.Value("string"))}
    datasets.Dataset.from_dict(
        {"tokens": [["Ana", "anaona"]], "ner_tags": [[1, 0]]},
        features=datasets.Features({**types, "ner_tags": datasets.Sequence(names)}),
    ).to_parquet(path)
    task = Tagging(Tagging.Params(preset="masakhaner", dataset=str(tmp_path)))
    (row,) = task.head(TaskInputs("yo", downloads=tmp_path / "cache")).rows("test", "sw").rows
    assert (row.words, row.tags) == (("Ana", "anaona"), ("B-PER", "O"))
    panx = Tagging(Tagging.Params(preset="panx"))
    assert panx.sources("gsw", "en")["hub"].name == "hub:unimelb-nlp/wikiann/als@main"


def test_plain_tags_are_scored_by_the_accuracy_of_words():
    plain = Tagging(Tagging.Params(scheme="plain", labels=("A", "B"), dataset="x/y"))
    assert (plain.main_metric, plain.scheme().entities) == ("accuracy", False)
    assert Tagging(Tagging.Params(dataset="x/y")).main_metric == "f1"


def test_xquad_names_its_sets_and_rules(tmp_path):
    task = SpanAnswers(SpanAnswers.Params.model_validate({"preset": "xquad"}))
    assert task.params.rules == "squad"
    assert [source.name for source in task.sources("el", "en").values()] == [
        "hub:google/xquad/xquad.el@main"
    ]
    given = {"dataset": "google/xquad", "config": "xquad.{lang}", "dev": None}
    given |= {"test": "validation", "revision": "main"}
    named = SpanAnswers(SpanAnswers.Params.model_validate({"hub": given, "rules": "squad"}))
    assert named.canonical() == task.canonical()


@pytest.mark.parametrize(
    ("task", "says"),
    [
        ("{kind: classification, preset: sib20}", "sib200"),
        ("{kind: clasification}", "classification"),
        ("{kind: classification, labels: [yes]}", "write two or more different ones, or none"),
        (
            "{kind: classification, dataset: x/y, columns: {first: text, second: text}}",
            "the column 'text' is named twice",
        ),
        ("{kind: classification}", "data: hub needs the name of a data set"),
        ("{kind: classification, preset: mldoc}", "preset: mldoc is not on the hub"),
        (
            "{kind: classification, preset: massive_intents, languages: [de, eu]}",
            "data: mteb/amazon_massive_intent has no eu; name others in `languages`",
        ),
        (
            "{kind: tagging, preset: masakhaner, languages: [sw]}",
            "data: masakhane/masakhaner2 has no en",
        ),
        ("{kind: spans}", "data: hub needs its sets: give a `preset`"),
        ("{kind: spans, preset: xquad, languages: [fr]}", "data: google/xquad has no fr"),
    ],
)
def test_what_is_wrong_with_a_description_is_told_with_its_line(tmp_path, task, says):
    path = write_grid(tmp_path, tasks=(f"t: {task}",))
    with pytest.raises(GridError) as caught:
        open_grid(path, storage=str(tmp_path / "storage"))
    assert says in str(caught.value)
    assert "grid.yaml:" in str(caught.value)


def test_the_page_of_presets_has_every_one_with_its_name_on_the_hub_and_its_licence():
    page = (Path(__file__).parents[2] / "docs" / "reference" / "presets.md").read_text()
    lines = [line for line in page.splitlines() if line.startswith("| [")]
    known = {name: (kind.dataset, kind.licence) for name, kind in LABELLED.items()}
    known |= {name: (kind.dataset, kind.licence) for name, kind in TAGGED.items()}
    known |= {f"data: {name}": (kind.dataset, kind.licence) for name, kind in SETS.items()}
    known |= {name: (hub.dataset, "") for name, (hub, _) in ASKED.items()}
    for kind, field in (("belebele", "dataset"), ("massive_slots", "dataset"), ("tydiqa", "hub")):
        task = catalog("tasks")[kind]
        default = task.Params.model_fields[field].get_default()
        known[f"kind: {kind}"] = (getattr(default, "dataset", default), task.licence)
    assert len(lines) == len(known)
    for name, (dataset, licence) in known.items():
        (line,) = [line for line in lines if f"| `{name}` |" in line]
        assert f"`{dataset}`" in line or not dataset, name
        assert licence in line, name
