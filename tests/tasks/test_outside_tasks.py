"""Tasks outside the package: a few lines that say what labels and columns are, from the files of a
data set to scores, predictions and samples.
"""

import json
import re
from pathlib import Path

import datasets
import numpy as np
import pytest
from sklearn.metrics import f1_score

from raxalign.catalog import PluginFault, PluginFile, catalog
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.errors import DataError
from raxalign.tasks.base import TaskInputs
from raxalign.values.predictions import samples_of
from raxalign.values.results import rows as results
from tests.grids import write_grid
from tests.ran import ran
from tests.tasks.outcomes import trained, write_hub

DOCS = Path(__file__).parents[2] / "docs" / "how-to" / "plugins.md"
FILLERS = [f"w{i}" for i in range(20)]
ASKED = {"wake": "alarm", "sing": "music", "rain": "weather"}
NAMES = {"anna": "PER", "rome": "LOC", "acme": "ORG", "monday": "DATE"}
WORDS = [*FILLERS, *ASKED, *NAMES, "same", "other"]
FAST = {"learning_rate": 1e-2, "batch_size": 24, "max_length": 16}
PAIRS = '''
from raxalign.tasks.classifiers.scheme import Columns
from raxalign.tasks.classifiers.task import ClassificationTask


class Pairs(ClassificationTask):
    """Whether two sentences say the same."""

    VERSION = 1
    labels = ("different", "paraphrase")
    columns = Columns(first="question1", second="question2", label="is_duplicate")
'''


@pytest.fixture
def encoder(tiny):
    return tiny(WORDS)


def documented(name):
    """The code of docs/how-to/plugins.md that has a class of that name."""
    blocks = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    return next(block for block in blocks if f"class {name}(" in block)


def outside(folder, name, code):
    """The class of a file outside the package."""
    path = folder / f"{name}.py"
    path.write_text(code, encoding="utf-8")
    return catalog("tasks")[PluginFile.open(path).kind]


def filler(seed, n):
    generator = np.random.default_rng(seed)
    return (" ".join(generator.choice(FILLERS, 4)) for _ in range(n))


def write_intents(folder):
    """One file of a language with all its splits, as MASSIVE has them, and a second language."""
    for k, lang in enumerate(("en-US", "de-DE")):
        with (folder / f"{lang}.jsonl").open("w", encoding="utf-8") as file:
            for split, n in (("train", 90), ("dev", 30), ("test", 30)):
                for i, text in enumerate(filler(10 * k + n, n)):
                    word = list(ASKED)[i % 3]
                    entry = {"id": i, "locale": lang, "partition": split, "utt": f"{text} {word}"}
                    file.write(json.dumps({**entry, "intent": ASKED[word]}) + "\n")
    paths = dict.fromkeys(("dev", "test"), f"{folder}/{{lang}}.jsonl")
    return {"train": f"{folder}/{{pivot}}.jsonl", **paths}


MASSIVE = 'columns = Columns(first="utt", label="intent", language="locale", split="partition")'


def massive():
    """The documented task with the columns of MASSIVE's files."""
    return re.sub(r"columns = .*", MASSIVE, documented("Intents"))


def write_pairs(folder):
    for split, n in (("train", 80), ("dev", 24), ("test", 24)):
        for k, lang in enumerate(("en", "de")):
            lines = ["id\tquestion1\tquestion2\tis_duplicate"]
            for i, text in enumerate(filler(100 * k + n + len(split), n)):
                lines.append(f"{i}\t{text}\t{('other', 'same')[i % 2]} w1\t{i % 2}")
            (folder / f"{split}.{lang}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    paths = {split: f"{folder}/{split}.{{lang}}.tsv" for split in ("dev", "test")}
    return {"train": f"{folder}/train.{{pivot}}.tsv", **paths}


def write_names(folder):
    """Columns word, tag and where the sentence is from; folders by the data set's own codes."""
    for lang in ("eng", "swa"):
        (folder / lang).mkdir()
        for split, n in (("train", 80), ("dev", 20), ("test", 20)):
            lines = []
            for i, text in enumerate(filler(len(lang) + n + ord(lang[0]), n)):
                name = list(NAMES)[i % 4]
                lines += [f"{word} O news" for word in text.split()]
                lines += [f"{name} B-{NAMES[name]} news", ""]
            (folder / lang / f"{split}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return {
        split: f"{folder}/{{{of}}}/{split}.txt"
        for split, of in (("train", "pivot"), ("dev", "lang"), ("test", "lang"))
    }


def names_task():
    """The documented tagger, with English."""
    return documented("MasakhaNer").replace('{"sw": "swa",', '{"en": "eng", "sw": "swa",')


def run(task, encoder, folder, lang="de"):
    """Trains on English, and evaluates English and another language."""
    assert task.check((lang,), "en") == []
    assert [fault for read in task.read_files((lang,), "en") for fault in read.faults] == []
    return trained(task, AlignedEncoder(encoder), folder / "tuned", (lang,), downloads=folder)[0]


def score(outcome, lang, metric):
    name = (lang, metric, "test")
    (found,) = [s.value for s in outcome.scores if (s.lang, s.metric, s.split) == name]
    return found


def test_intents_of_single_sentences_have_the_labels_of_their_training_data(tmp_path, encoder):
    kind = outside(tmp_path, "intents", massive())
    task = kind(kind.Params(data=write_intents(tmp_path), epochs=4, **FAST))
    outcome = run(task, encoder, tmp_path)
    assert score(outcome, "en", "accuracy") > 0.9
    assert outcome.notes["labels"] == ["alarm", "music", "weather"]
    assert outcome.notes["rows"] == dict.fromkeys(("en/dev", "en/test", "de/dev", "de/test"), 30)
    assert kind.guessing is None
    table = outcome.predictions
    assert {"seen", "group", "alarm", "music", "weather"} <= {*table.column_names}
    for lang in ("en", "de"):
        chosen = [row for row in table.to_pylist() if (row["lang"], row["split"]) == (lang, "test")]
        gold, found = ([row[name] for row in chosen] for name in ("label", "predicted"))
        expected = f1_score(gold, found, average="macro")
        assert score(outcome, lang, "macro_f1") == pytest.approx(expected, abs=1e-12)
        wanted = [(lang, metric, "test") for metric in ("macro_f1", "accuracy")]
        for (_, metric, _), sample in samples_of(kind.metrics, table, wanted).items():
            assert sample.value == pytest.approx(score(outcome, lang, metric), abs=1e-12)


def test_pairs_with_two_labels_and_columns_of_their_own_are_learnt(tmp_path, encoder):
    kind = outside(tmp_path, "pairs", PAIRS)
    task = kind(kind.Params(data=write_pairs(tmp_path), epochs=4, **FAST))
    outcome = run(task, encoder, tmp_path)
    assert score(outcome, "en", "accuracy") > 0.9
    assert (kind.guessing, kind.main_metric) == (0.5, "accuracy")
    assert {*outcome.predictions["label"].to_pylist()} == {"different", "paraphrase"}
    sample = samples_of(kind.metrics, outcome.predictions, [("de", "accuracy", "test")])
    assert sample["de", "accuracy", "test"].value == score(outcome, "de", "accuracy")
    (tmp_path / "dev.en.tsv").write_text("question1\tquestion2\tis_duplicate\nA\tB\t2\n")
    told = r"en\.tsv:2: unknown label '2'\. Labels are different, paraphrase, or 0, 1"
    with pytest.raises(DataError, match=told):
        task.head(TaskInputs("en")).data.rows("dev", "en")


def test_a_tagger_of_dates_reads_its_own_columns_and_language_names(tmp_path, encoder):
    kind = outside(tmp_path, "masakhaner", names_task())
    few = {"learning_rate": 3e-3, "batch_size": 8}
    task = kind(kind.Params(data=write_names(tmp_path), epochs=8, **{**FAST, **few}))
    assert task.sources("sw", "en")["dev"].path == tmp_path / "swa" / "dev.txt"
    outcome = run(task, encoder, tmp_path, "sw")
    assert score(outcome, "sw", "f1") > 0.9
    tags = {tag for row in outcome.predictions["predicted"].to_pylist() for tag in row}
    assert {"O", "B-PER", "B-LOC", "B-ORG", "B-DATE"} <= tags
    sample = samples_of(kind.metrics, outcome.predictions, [("sw", "f1", "test")])[
        "sw", "f1", "test"
    ]
    assert sample.value == pytest.approx(score(outcome, "sw", "f1"))
    (tmp_path / "swa" / "dev.txt").write_text("a O x\nb B-TIME x\n")
    told = r"dev\.txt:2: unknown tag 'B-TIME'.*types are PER, LOC, ORG, DATE, in column 2"
    with pytest.raises(DataError, match=told):
        task.head(TaskInputs("en")).data.rows("dev", "sw")


def test_data_sets_of_the_hub_are_read_by_columns_configurations_and_names_of_labels(tmp_path):
    text, labels = datasets.Value("string"), datasets.ClassLabel(names=["music", "alarm"])
    columns = {"utterance": ["a", "b", "c"], "intent": [1, -1, 0]}
    types = {"utterance": text, "intent": labels}
    write_hub(tmp_path / "massive", "de-DE", "test", columns, types)
    kind = outside(tmp_path, "intents", documented("Intents"))
    task = kind(kind.Params(data="hub", dataset=str(tmp_path / "massive")))
    assert {name.split("/")[:2] == ["hub", "de-DE"] for name in task.sources("de", "en")} == {True}
    found = task.head(TaskInputs("en", downloads=tmp_path)).data.rows("test", "de")
    rows = [(row.first, row.second, row.label) for row in found.rows]
    assert rows == [("a", None, "alarm"), ("c", None, "music")]
    assert found.remarks == ("1 of 3 rows is left out: without a label",)
    tags = datasets.Sequence(datasets.ClassLabel(names=["O", "B-DATE", "I-DATE"]))
    columns = {"tokens": [["a", "b"]], "ner_tags": [[1, 2]]}
    types = {"tokens": datasets.Sequence(text), "ner_tags": tags}
    write_hub(tmp_path / "names", "swa", "test", columns, types)
    kind = outside(tmp_path, "masakhaner", names_task())
    task = kind(kind.Params(data="hub", dataset=str(tmp_path / "names")))
    (row,) = task.head(TaskInputs("en", downloads=tmp_path)).data.rows("test", "sw").rows
    assert (row.words, row.tags) == (("a", "b"), ("B-DATE", "I-DATE"))


def test_what_a_task_cannot_do_is_reported_when_it_is_planned(tmp_path):
    kind = outside(tmp_path, "intents", massive())
    files = {"data": {"train": "{lang}.tsv", "dev": "{lang}.dev"}}
    mixed = {"setting": "translate-train", "code_switching": "sentence", **files}

    class Mixing(kind):
        class Params(kind.Params):
            code_switching: str = "none"

    no_rows = "has no rows for this task; name files, or a set of the hub"
    for task, options, told in (
        (kind, {}, "data: hub needs the name of a data set (dataset)"),
        (kind, {"data": "phrasebook"}, f"data: phrasebook {no_rows}"),
        (Mixing, mixed, "code_switching mixes the two texts of an example: this task has one"),
    ):
        assert task(task.Params(**options)).check(("de",), "en") == [told]
    for wrong, message in (
        ('main_metric = "f1"', r"main_metric is 'f1'; write accuracy or macro_f1"),
        ('labels = ("a",)', r"labels are \('a',\); write two or more different ones, or none"),
    ):
        (tmp_path / "wrong.py").write_text(f"{PAIRS}    {wrong}\n", encoding="utf-8")
        with pytest.raises(PluginFault, match=message):
            PluginFile.open(tmp_path / "wrong.py")


def test_requests_that_come_again_are_marked_and_a_training_file_is_refused(tmp_path, encoder):
    kind = outside(tmp_path, "intents", massive())
    files = write_intents(tmp_path)
    path = tmp_path / "en-US.jsonl"
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    lines[-1] |= {name: lines[0][name] for name in ("utt", "intent")}
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    outcome = run(kind(kind.Params(data=files, epochs=1, **FAST)), encoder, tmp_path)
    assert outcome.notes["seen_in_training"] == {"en/test": 1}
    seen = [row for row in outcome.predictions.to_pylist() if row["seen"]]
    assert [(row["lang"], row["split"], row["id"]) for row in seen] == [("en", "test", 29)]
    for own, tested in zip(lines[:16], lines[-30:], strict=False):
        tested["utt"] = own["utt"]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    read = kind(kind.Params(data=files)).read_files(("de",), "en")
    assert [str(fault) for entry in read for fault in entry.faults] == [
        f"{path}:121: 17 of 30 rows are training rows too (the same text). Take them out of the"
        " training file, or evaluate on another one"
    ]


def test_labels_that_training_lacks_are_counted_as_errors_and_noted(tmp_path, encoder):
    kind = outside(tmp_path, "intents", massive())
    files = write_intents(tmp_path)
    path = tmp_path / "de-DE.jsonl"
    text = path.read_text(encoding="utf-8").replace('"weather"', '"news"')
    path.write_text(text.replace('"music"', '"jokes"'), encoding="utf-8")
    outcome = run(kind(kind.Params(data=files, epochs=1, **FAST)), encoder, tmp_path)
    unknown = ["jokes", "news"]
    assert outcome.notes["labels_not_in_training"] == {"de/dev": unknown, "de/test": unknown}
    assert score(outcome, "de", "accuracy") <= 1 / 3
    (sample,) = samples_of(kind.metrics, outcome.predictions, [("de", "macro_f1", "test")]).values()
    assert sample.value == pytest.approx(score(outcome, "de", "macro_f1"))


def test_pawsx_reads_the_published_files(tmp_path):
    kind = catalog("tasks")["pawsx"]
    head = "id\tsentence1\tsentence2\tlabel\n"
    (tmp_path / "train.tsv").write_text(head + "1\tA b\tb A\t0\n2\tC d\td C\t1\n")
    (tmp_path / "dev.de.tsv").write_text(head + "1\tE f\tf E\t1\n")
    (tmp_path / "dev.en.tsv").write_text("G h\th G\t0\n")  # as XTREME has them
    data = {"train": f"{tmp_path}/train.tsv", "dev": f"{tmp_path}/dev.{{lang}}.tsv"}
    task = kind(kind.Params(data=data))
    assert kind.guessing == 0.5
    read = [(read.rows, read.faults) for read in task.read_files(("de",), "en")]
    assert read == [(2, ()), (1, ()), (1, ())]
    examples = task.head(TaskInputs("en")).data.rows("train", "en")
    rows = [(row.first, row.second, row.label) for row in examples.rows]
    assert rows == [("A b", "b A", "different"), ("C d", "d C", "paraphrase")]


@pytest.mark.slow
def test_a_grid_runs_a_task_from_a_file_that_it_names(tmp_path):
    (tmp_path / "intents.py").write_text(massive(), encoding="utf-8")
    files = json.dumps(write_intents(tmp_path))
    grid = write_grid(
        tmp_path,
        languages="{each: [de]}",
        sentences="100",
        methods=("none: {}", "rotation: {}"),
        tasks=(f"intents: {{data: {files}, epochs: 1, max_length: 32}}",),
        more="plugins: [intents.py]\n",
    )
    opened = ran(grid)
    found = {
        (row["lang"], row["split"], row["method"], row["metric"])
        for row in results(opened.plan, opened.storage.ledger)
    }
    assert ("de", "test", "none", "macro_f1") in found
