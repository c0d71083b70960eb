"""Tasks that a grid file describes: they equal the shipped ones, and presets read what is published
in its own layout.
"""

from pathlib import Path

import datasets
import pytest

from raxalign.catalog import catalog
from raxalign.errors import GridError
from raxalign.grid.load import open_grid
from raxalign.tasks.base import TaskInputs
from raxalign.tasks.classification import PRESETS as LABELLED
from raxalign.tasks.spans import PRESETS as ASKED
from raxalign.tasks.tagging import PRESETS as TAGGED
from raxalign.tasks.vectors.pairs import SETS
from tests.grids import TINY, write_grid
from tests.ran import ran
from tests.tasks import smallest
from tests.tasks.outcomes import made, write_hub, write_parquet
from tests.tasks.word_qa import squad

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
        names = [f"Ada{i}" for i in range(6)]
        asked = [
            (f"{who} sees {part} {lang}.", (f"{part}{i}", "Who sees it?", (who, 0)))
            for i, who in enumerate(names)
        ]
        (folder / f"{name}.json").write_text(squad(*asked), encoding="utf-8")


def files(suffix):
    return f"{smallest.files(suffix, 'dev')}, epochs: 2"


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
    "mlqa": (f"{{{files('json')}}}", f"{{kind: spans, preset: mlqa, {files('json')}}}"),
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
    opened = ran(path)
    (trial,), ledger = opened.plan.trials, opened.storage.ledger
    for name in SAME:
        one, other = (trial.evaluations[task] for task in (name, f"as_{name}"))
        assert one != other
        assert ledger.read(one)["scores"] == ledger.read(other)["scores"]
        tables = [ledger.predictions(key).drop_columns("lang") for key in (one, other)]
        renamed = ["group" if name == "premise" else name for name in tables[0].column_names]
        assert tables[0].rename_columns(renamed).equals(tables[1])


def test_sib200_is_read_as_it_is_published_by_codes_of_flores(tmp_path):
    topics = {"category": ["geography", "science/technology"], "index_id": [1, 2]}
    file = tmp_path / "deu_Latn" / "validation.parquet"
    write_parquet(file, **topics, text=["Ein Berg.", "Ein Rechner."])
    task = made("classification", preset="sib200", dataset=str(tmp_path))
    (name,) = task.sources("de", "en")
    assert name == "hub/deu_Latn/deu_Latn/validation.parquet"  # of a configuration and its file
    found = [("Ein Berg.", "geography"), ("Ein Rechner.", "science/technology")]
    assert labelled(task, "dev", "de", tmp_path) == found
    assert task.guessing == 1 / 7


def labelled(task, split, lang, folder):
    """The texts of a split with their labels."""
    rows = task.head(TaskInputs("en", downloads=folder / "cache")).data.rows(split, lang).rows
    return [(row.first, row.label) for row in rows]


def test_intents_of_massive_have_the_labels_of_their_training_data(tmp_path):
    columns = {"id": ["1"], "label": [3], "label_text": ["alarm_set"], "text": ["weck mich"]}
    write_parquet(tmp_path / "zh-CN" / "test.parquet", **columns, lang=["zh-CN"])
    task = made("classification", preset="massive_intents", dataset=str(tmp_path))
    assert labelled(task, "test", "zh", tmp_path) == [("weck mich", "alarm_set")]
    assert task.guessing is None


def test_mldoc_is_read_from_the_files_that_its_program_writes(tmp_path):
    (tmp_path / "dev.de").write_text("ECAT\tDie Zinsen.\nMCAT\tDer Markt.\n", encoding="utf-8")
    data = {"train": "train.{lang}", "dev": f"{tmp_path}/dev.{{lang}}"}
    task = made("classification", preset="mldoc", data=data)
    found = [("Die Zinsen.", "ECAT"), ("Der Markt.", "MCAT")]
    assert labelled(task, "dev", "de", tmp_path) == found


def test_names_of_masakhaner_are_on_the_branch_of_converted_files(tmp_path):
    place = made("tagging", preset="masakhaner").sources("sw", "yo")["hub"].name
    assert place == "hub:masakhane/masakhaner2/swa@refs/convert/parquet"
    names = datasets.Sequence(datasets.ClassLabel(names=["O", "B-PER", "I-PER"]))
    types = {"tokens": datasets.Sequence(datasets.Value("string")), "ner_tags": names}
    columns = {"tokens": [["Ana", "anaona"]], "ner_tags": [[1, 0]]}
    write_hub(tmp_path, "swa", "test", columns, types)
    task = made("tagging", preset="masakhaner", dataset=str(tmp_path))
    (row,) = task.head(TaskInputs("yo", downloads=tmp_path / "cache")).data.rows("test", "sw").rows
    assert (row.words, row.tags) == (("Ana", "anaona"), ("B-PER", "O"))
    panx = made("tagging", preset="panx")
    assert panx.sources("gsw", "en")["hub"].name == "hub:unimelb-nlp/wikiann/als@main"


def test_plain_tags_are_scored_by_the_accuracy_of_words():
    plain = made("tagging", scheme="plain", labels=("A", "B"), dataset="x/y")
    assert (plain.main_metric, plain.scheme().entities) == ("accuracy", False)
    assert made("tagging", dataset="x/y").main_metric == "f1"


def test_xquad_names_its_sets_and_rules():
    task = made("spans", preset="xquad")
    assert task.rules == "squad"
    (source,) = task.sources("el", "en").values()
    assert source.name == "hub:google/xquad/xquad.el@main"


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
        ("{kind: spans}", "data: hub needs a `preset`"),
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
    sets = {**LABELLED, **TAGGED, **{f"data: {name}": kind for name, kind in SETS.items()}}
    known = {name: (kind.dataset, kind.licence) for name, kind in sets.items()}
    known |= {name: (hub.dataset, "") for name, (hub, _) in ASKED.items()}
    for kind in ("belebele", "massive_slots", "tydiqa"):
        task = catalog("tasks")[kind]
        known[f"kind: {kind}"] = (task.listed, task.licence)
    assert len(lines) == len(known)
    for name, (dataset, licence) in known.items():
        (line,) = [line for line in lines if f"| `{name}` |" in line]
        assert f"`{dataset}`" in line or not dataset, name
        assert licence in line, name
