"""MLQA end to end on a tiny BERT: the answer is the one word of the context that can be one."""

import json
from pathlib import Path

import datasets
import numpy as np
import pytest
import torch

from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.transforms import Affine, Transform
from raxalign.errors import DataError
from raxalign.options.sources import RemoteData
from raxalign.tasks.answers.head import span_loss
from raxalign.tasks.answers.task import HubSets, exact_match, f1
from raxalign.tasks.base import TaskInputs
from raxalign.tasks.mlqa import Mlqa
from raxalign.tasks.transfer.training import Tuning
from raxalign.tasks.tydiqa import Tydiqa
from raxalign.train.objective import Step
from tests.tasks.outcomes import scores, trained
from tests.tasks.word_nli import translated
from tests.tasks.word_qa import ASKED, WORDS, questions, task, write, write_all

FEW = {"epochs": 1, "max_train": 24}


@pytest.fixture
def encoder(tiny):
    return tiny(WORDS)


@pytest.fixture
def files(tmp_path):
    return write_all(tmp_path / "files")


def changed(path, change):
    """Change each paragraph of a file."""
    document = json.loads(Path(path).read_text(encoding="utf-8"))
    for number, paragraph in enumerate(document["data"][0]["paragraphs"]):
        change(number, paragraph["qas"][0]["answers"][0])
    Path(path).write_text(json.dumps(document), encoding="utf-8")


def test_rules_change_what_answers_are_worth_and_no_training(tmp_path, encoder, files):
    """Gold answers begin with a German article, which no prediction has: a token by SQuAD's rules,
    and none by MLQA's.
    """
    changed(
        files["test"].replace("{lang}", "de"),
        lambda _, answer: answer.update(text="der " + answer["text"]),
    )
    by_squad, plain, answers = task(files), task(files), []
    by_squad.rules = "squad"
    assert by_squad.training().options == plain.training().options
    assert by_squad.canonical() != plain.canonical()
    for rules in ("mlqa", "squad"):
        mlqa = task(files, **FEW)
        mlqa.rules = rules
        outcome, notes = trained(mlqa, AlignedEncoder(encoder), tmp_path / rules)
        assert notes["rows"] == {"en": 24}
        assert outcome.notes["rules"] == rules
        rows = outcome.predictions.to_pylist()
        assert len(rows) == 2 * (20 + 24)
        for row in rows:
            said = row["prediction"], row["answer"], row["context_lang"], rules
            assert (row["f1"], row["exact_match"]) == (f1(*said), exact_match(*said))
            german = (row["lang"], row["split"]) == ("de", "test")
            assert not (german and rules == "squad" and row["exact_match"])
        answers.append([row["prediction"] for row in rows])
    assert answers[0] == answers[1]


def test_every_language_asks_on_every_languages_contexts(tmp_path, encoder, files):
    mlqa, spoken = task(files, setting="g-xlt", **FEW), ("en", "de", "es")
    outcome, _ = trained(mlqa, AlignedEncoder(encoder), tmp_path / "tuned", spoken[1:])
    pairs = [f"{q}-{c}" for q in spoken for c in spoken]
    found = scores(outcome, "f1")
    assert {lang for lang, _ in found} == {*pairs, "avg", "avg_zero_shot"}
    for name, over in (("avg", pairs), ("avg_zero_shot", pairs[1:])):
        assert found[name, "dev"] == pytest.approx(np.mean([found[pair, "dev"] for pair in over]))
    asked = {"lang": "de-es", "split": "test", "id": "test3"}
    (row,) = [r for r in outcome.predictions.to_pylist() if r.items() >= asked.items()]
    spanish = task(files).head(TaskInputs("en")).data.rows("test", "es").rows
    (gold,) = [r for r in spanish if r.id == "test3"]
    assert (row["question_lang"], row["context_lang"]) == ("de", "es")
    assert row["answer"] == gold.answers[0].text
    assert row["prediction"] in gold.context


def test_g_xlt_shares_its_training_with_xlt(files):
    assert task(files, setting="g-xlt").training().options == task(files).training().options
    assert task(files, setting="g-xlt").canonical() != task(files).canonical()
    both = task(translated(files), setting="translate-train")
    assert both.training().options != task(files).training().options


def test_ids_of_training_questions_are_not_evaluated_in_another_language(tmp_path, encoder, files):
    write(Path(files["dev"]).parent / "test-de.json", "de", 24, 99, "train")
    with pytest.raises(DataError, match=r"test-de\.json: 24 of 24 questions .*the same id"):
        trained(task(files, epochs=1), AlignedEncoder(encoder), tmp_path / "ids")


def of(lang, *rows):
    return questions(lang, *((i, ASKED[lang], context, a) for i, context, a in rows))


GIVEN = {
    "en": of("en", ("a", "here w1 w2", "w1"), ("b", "w3 " * 30 + "here w4", "w4")),
    "de": of("de", ("b", "hier w5", "w5"), ("a", "w6 hier w7", "w7")),
}


def tuning(files, encoder, given=GIVEN, **params):
    turned = AlignedEncoder(encoder, (Transform("de", 2, steps=(Affine(shift=torch.ones(32)),)),))
    head = task(files, setting="translate-train", **params).head(TaskInputs("en"))
    model = head.new_model(turned, 0)
    return Tuning(model, head.batches(model, given))


def units_of(made):
    """The rows of each unit, with the places of their answers."""
    entries, gold = made.batches.entries, made.batches.gold.tolist()
    units = np.split(made.batches.members, made.batches.offsets[1:-1])
    return [[(entries[i], gold[i]) for i in unit] for unit in units]


def spoken(row):
    """The languages of the question and of the context of one row."""
    return tuple(row.languages[row.langs[first]] for first in row.first_RK[0])


def test_each_question_is_mixed_with_the_pivot_both_ways_window_by_window(files, encoder):
    words = encoder.tokenizer.convert_ids_to_tokens
    made = units_of(tuning(files, encoder, code_switching="sentence"))
    n_long = sum(spoken(unit[0][0]) == ("en", "en") for unit in made) - 1
    assert n_long >= 2  # the pivot's long context has several windows
    german = made[1 + n_long :]
    assert [(spoken(row), target != [0, 0]) for row, target in made[0]] == [(("en", "en"), True)]
    assert [spoken(row) for row, _ in german[0]] == [("de", "en"), ("en", "de")]
    assert all([spoken(row) for row, _ in unit] == [("de", "en")] for unit in german[1:n_long])
    assert [words(row.ids.tolist()) for row, _ in german[-1]] == [
        ["[CLS]", "wer", "[SEP]", "here", "w1", "w2", "[SEP]"],
        ["[CLS]", "who", "[SEP]", "w6", "hier", "w7", "[SEP]"],
    ]
    assert len(german) == n_long + 1
    plain = units_of(tuning(files, encoder))
    assert [spoken(unit[0][0]) for unit in plain[-2:]] == [("de", "de")] * 2
    assert all(len(unit) == 1 for unit in plain)


def test_questions_that_the_pivot_lacks_cannot_be_mixed(files, encoder):
    given = {**GIVEN, "de": of("de", ("z", "hier w5", "w5"))}
    with pytest.raises(DataError, match="1 of 1 questions are not in en, as z"):
        tuning(files, encoder, given, code_switching="sentence")


def test_micro_batches_sum_to_the_loss_of_the_batch(files, encoder):
    made = tuning(files, encoder, code_switching="sentence")
    made.module.eval()
    units = units_of(made)
    last = len(units) - 1
    step = Step(0, 0, np.array([last, 0, 1]))
    made.begin(step)
    with torch.no_grad():
        whole = float(made.loss(step, np.arange(3)))
        parts = sum(float(made.loss(step, np.array([k]))) for k in range(3))
        places = np.split(made.batches.members, made.batches.offsets[1:-1])
        chosen = np.concatenate([places[k] for k in (last, 0, 1)])
        targets = [target for k in (last, 0, 1) for _, target in units[k]]
        by_hand = span_loss(made.model(made.batches.entries, chosen), torch.tensor(targets)) / 4
    assert whole == pytest.approx(parts, abs=1e-5)
    assert whole == pytest.approx(float(by_hand), abs=1e-5)


def test_where_the_pivot_moves_each_language_has_its_model(tmp_path, encoder, files):
    away = (Affine(weight=-torch.eye(32)),)
    aligned = AlignedEncoder(
        encoder, tuple(Transform("en", 2, steps=away, toward=lang) for lang in ("de", "es"))
    )
    mlqa, spoken = task(files, setting="g-xlt", epochs=1, max_train=16), ("de", "es")
    outcome, _ = trained(mlqa, aligned, tmp_path / "tuned", spoken)
    answered = {(row["lang"], row["toward"]) for row in outcome.predictions.to_pylist()}
    own = {(pair, lang) for lang in spoken for pair in ("en-en", f"{lang}-{lang}", f"en-{lang}")}
    own |= {("de-en", "de"), ("es-en", "es"), ("es-de", "de"), ("de-es", "es")}
    assert answered == own


def test_faults_that_only_the_params_show(files):
    assert task(translated(files), setting="translate-train").check(("de",), "en") == []
    assert Mlqa(Mlqa.Params()).check(("de",), "en") == []
    assert "selection" in Tydiqa(Tydiqa.Params(selection="pivot-dev")).check(("fi",), "en")[0]
    crossed = task({**files, "test": "test-{pivot}.json"}, setting="g-xlt")
    assert "one file per language: put {lang} in" in crossed.check(("de", "es"), "en")[0]
    alone = task(files, setting="translate-train").check(("de",), "en")
    assert "reads one file per language; put {lang} in" in alone[0]
    assert "translate-train" in task(files, code_switching="sentence").check(("de",), "en")[0]


def test_what_is_read_of_each_language(files):
    both = task(translated(files), setting="translate-train")
    assert both.sources("de", "en")["train"].path.name == "train-de.json"
    assert both.training().languages(("de", "es"), "en") == ("en", "de", "es")
    hub = Mlqa(Mlqa.Params())
    translating = Mlqa(Mlqa.Params(setting="translate-train"))
    mlqa, squad = "hub:facebook/mlqa/mlqa", "hub:rajpurkar/squad/plain_text@main"
    branch = "de@refs/convert/parquet"  # which is not a pin
    assert hub.sources("de", "en") == {"hub": RemoteData(f"{mlqa}.de.{branch}")}
    assert hub.sources("en", "en")["train"] == RemoteData(squad)
    translated_train = RemoteData(f"{mlqa}-translate-train.{branch}")
    assert translating.sources("de", "en")["train"] == translated_train
    assert "hub" not in task(files).canonical()
    assert "hub" in hub.canonical()


def test_languages_of_the_hub_are_read_on_the_splits_that_they_have(tmp_path):
    row = {"question": "?", "context": "Rom.", "answers": {"text": ["Rom"], "answer_start": [0]}}
    for lang in ("en", "th"):
        for split in ("test",) if lang == "th" else ("validation", "test"):
            place = tmp_path / "mlqa" / f"mlqa.{lang}.{lang}" / split / "0000.parquet"
            datasets.Dataset.from_list([{"id": split, **row}]).to_parquet(place)

    def sets(**params):
        test = params.pop("test", "test")
        mlqa = Mlqa(Mlqa.Params(**params))
        mlqa.sets = HubSets(dataset=str(tmp_path / "mlqa"), test=test)
        head = mlqa.head(TaskInputs("en", downloads=tmp_path))
        found = head.evaluated(("en", "th"), np.zeros(0, np.int64))
        return {(held.label, held.split) for held in found}

    assert sets() == {("en", "dev"), ("en", "test"), ("th", "test")}
    crossings = {(f"{a}-{b}", "test") for a in ("en", "th") for b in ("en", "th")}
    assert sets(setting="g-xlt") == crossings | {("en-en", "dev")}
    for refused in (
        {"selection": "mean-dev"},
        {"selection": "last", "test": None},  # a language without any split
    ):
        with pytest.raises(DataError, match=r"mlqa\.th\.th:validation: has no split validation"):
            sets(**refused)
