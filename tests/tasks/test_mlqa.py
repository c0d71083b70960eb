"""MLQA end to end on a tiny BERT: the answer is the one word of the context that can be one."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import torch

from raxalign.config.sources import RemoteData
from raxalign.encoders.models.aligned import Affine, AlignedEncoder, Transform
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.errors import DataError
from raxalign.tasks.base import TaskInputs
from raxalign.tasks.mlqa import Mlqa
from raxalign.tasks.spans.metrics import exact_match, f1
from raxalign.tasks.spans.model import span_loss
from raxalign.tasks.spans.rows import Answer, Question, Questions
from raxalign.tasks.transfer.head import Given
from raxalign.tasks.transfer.training import Tuning
from raxalign.train.objective import Step
from raxalign.train.runtime import Runtime
from tests.tasks.word_qa import ASKED, WORDS, task, write, write_all
from tests.tiny import tiny_bert


@pytest.fixture(scope="module")
def read_encoder(tmp_path_factory):
    torch.set_num_threads(1)
    folder = tiny_bert(tmp_path_factory.mktemp("tiny"), WORDS, positions=32)
    return TransformerEncoder.from_folder(folder)


@pytest.fixture
def encoder(read_encoder):
    return deepcopy(read_encoder)


@pytest.fixture
def files(tmp_path):
    return write_all(tmp_path / "files")


def translated(files):
    return {**files, "train": files["train"].replace("{pivot}", "{lang}")}


def run(
    tmp_path, aligned, files, *, languages=("de",), seed=0, name="tuned", runtime=None, **params
):
    mlqa, inputs, runtime = task(files, **params), TaskInputs("en"), runtime or Runtime(seed=seed)
    folder = tmp_path / name
    folder.mkdir()
    notes = mlqa.train(aligned, mlqa.training_languages(languages, "en"), inputs, runtime, folder)
    return mlqa.evaluate(aligned, mlqa.languages(languages, "en"), inputs, runtime, folder), notes


def values(outcome, metric="f1"):
    return {(s.lang, s.split): s.value for s in outcome.scores if s.metric == metric}


@pytest.fixture(scope="module")
def tuned(tmp_path_factory, read_encoder):
    """The outcome and the notes of a training with all defaults."""
    root = tmp_path_factory.mktemp("whole")
    return run(root, AlignedEncoder(deepcopy(read_encoder)), write_all(root / "files"))


def test_predictions_recompute_to_the_scores(tuned):
    outcome, notes = tuned
    assert notes["rows"] == {"en": 96}
    rows = outcome.predictions.to_pylist()
    assert len(rows) == 2 * (20 + 24)
    for row in rows:
        answers = row["prediction"], row["answer"], row["context_lang"]
        assert (row["f1"], row["exact_match"]) == (f1(*answers), exact_match(*answers))


def test_rules_change_what_answers_are_worth_and_no_training(tmp_path, encoder, files):
    """Gold answers begin with a German article, which no prediction has: a token by SQuAD's rules,
    and none by MLQA's.
    """
    document = json.loads(Path(files["test"].replace("{lang}", "de")).read_text(encoding="utf-8"))
    for paragraph in document["data"][0]["paragraphs"]:
        for answer in paragraph["qas"][0]["answers"]:
            answer["text"] = "der " + answer["text"]
    Path(files["test"].replace("{lang}", "de")).write_text(json.dumps(document), encoding="utf-8")
    assert task(files, rules="squad").training() == task(files).training()
    assert task(files, rules="squad").canonical() != task(files).canonical()
    outcomes = {
        rules: run(tmp_path, AlignedEncoder(encoder), files, name=rules, epochs=1, rules=rules)[0]
        for rules in ("mlqa", "squad")
    }
    answers = [outcome.predictions["prediction"].to_pylist() for outcome in outcomes.values()]
    for rules, outcome in outcomes.items():
        assert outcome.notes["rules"] == rules
        rows = [
            row
            for row in outcome.predictions.to_pylist()
            if (row["lang"], row["split"]) == ("de", "test")
        ]
        assert [row["f1"] for row in rows] == [
            f1(row["prediction"], row["answer"], "de", rules) for row in rows
        ]
        assert rules == "mlqa" or not any(row["exact_match"] for row in rows)
    assert answers[0] == answers[1]


def test_every_language_asks_on_every_languages_contexts(tmp_path, encoder, files):
    outcome, _ = run(
        tmp_path, AlignedEncoder(encoder), files, languages=("de", "es"), setting="g-xlt", epochs=1
    )
    pairs = [f"{q}-{c}" for q in ("en", "de", "es") for c in ("en", "de", "es")]
    found = values(outcome)
    assert {lang for lang, _ in found} == {*pairs, "avg", "avg_zero_shot"}
    assert found["avg", "dev"] == pytest.approx(np.mean([found[pair, "dev"] for pair in pairs]))
    assert found["avg_zero_shot", "dev"] == pytest.approx(
        np.mean([found[pair, "dev"] for pair in pairs[1:]])
    )
    (row,) = [
        r
        for r in outcome.predictions.to_pylist()
        if (r["lang"], r["split"], r["id"]) == ("de-es", "test", "test3")
    ]
    (gold,) = [
        r for r in task(files).head(TaskInputs("en")).rows("test", "es").rows if r.id == "test3"
    ]
    assert (row["question_lang"], row["context_lang"], row["answer"]) == (
        "de",
        "es",
        gold.answers[0].text,
    )
    assert row["prediction"] in gold.context


def test_g_xlt_shares_its_training_with_xlt(files):
    assert task(files, setting="g-xlt").training() == task(files).training()
    assert task(files, setting="g-xlt").canonical() != task(files).canonical()
    both = task(translated(files), setting="translate-train")
    assert both.training() != task(files).training()


def test_training_questions_that_are_evaluated_are_refused(tmp_path, encoder, files):
    with pytest.raises(DataError, match="20 of 20 questions are training questions too"):
        run(
            tmp_path,
            AlignedEncoder(encoder),
            {**files, "train": files["dev"].replace("{lang}", "{pivot}")},
        )
    folder = Path(files["dev"]).parent
    write(
        folder / "test-de.json", "de", 24, 99, "train"
    )  # the ids of training questions, in another language
    with pytest.raises(DataError, match=r"test-de\.json: 24 of 24 questions .*the same id"):
        run(tmp_path, AlignedEncoder(encoder), files, name="ids", epochs=1)


def test_misplaced_answers_are_left_out_of_training_and_counted(tmp_path, encoder, files):
    path = Path(files["train"].replace("{pivot}", "en"))
    document = json.loads(path.read_text())
    for paragraph in document["data"][0]["paragraphs"][:5]:
        paragraph["qas"][0]["answers"][0]["answer_start"] += 1
    path.write_text(json.dumps(document))
    mlqa = task(files, epochs=1, max_train=50)
    (tmp_path / "few").mkdir()
    notes = mlqa.train(
        AlignedEncoder(encoder), ("en",), TaskInputs("en"), Runtime(), tmp_path / "few"
    )
    assert (notes["rows"], notes["misplaced"]) == ({"en": 45}, {"en": 5})


def of(lang, *rows):
    return Questions(
        lang,
        [
            Question(i, ASKED[lang], c, n, (Answer(a, c.index(a)),))
            for n, (i, c, a) in enumerate(rows)
        ],
    )


GIVEN = {
    "en": of("en", ("a", "here w1 w2", "w1"), ("b", "w3 " * 30 + "here w4", "w4")),
    "de": of("de", ("b", "hier w5", "w5"), ("a", "w6 hier w7", "w7")),
}


def tuning(files, encoder, given=GIVEN, **params):
    turned = AlignedEncoder(encoder, (Transform("de", 2, steps=(Affine(shift=torch.ones(32)),)),))
    head = task(files, setting="translate-train", **params).head(TaskInputs("en"))
    model = head.new_model(turned, (), 0)
    return Tuning(model, head.batches(model, Given(given, "en")))


def units_of(made):
    """The rows of each unit, with the places of their answers."""
    entries, gold = made.batches.entries, made.batches.gold.tolist()
    units = np.split(made.batches.members, made.batches.offsets[1:-1])
    return [[(entries[i], gold[i]) for i in unit] for unit in units]


def test_each_question_is_mixed_with_the_pivot_both_ways_window_by_window(files, encoder):
    words = encoder.tokenizer.convert_ids_to_tokens
    made = units_of(tuning(files, encoder, code_switching="sentence"))
    units = [[(row.languages, target != [0, 0]) for row, target in unit] for unit in made]
    n_long = sum(unit[0][0].languages == ("en", "en") for unit in made) - 1
    assert n_long >= 2  # the pivot's long context has several windows
    german = made[1 + n_long :]
    assert units[0] == [(("en", "en"), True)]
    assert [row.languages for row, _ in german[0]] == [("de", "en"), ("en", "de")]
    assert all([row.languages for row, _ in unit] == [("de", "en")] for unit in german[1:n_long])
    assert [words(row.ids.tolist()) for row, _ in german[-1]] == [
        ["[CLS]", "wer", "[SEP]", "here", "w1", "w2", "[SEP]"],
        ["[CLS]", "who", "[SEP]", "w6", "hier", "w7", "[SEP]"],
    ]
    assert len(german) == n_long + 1
    plain = units_of(tuning(files, encoder))
    assert [unit[0][0].languages for unit in plain[-2:]] == [("de", "de")] * 2
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
        assert whole == pytest.approx(
            sum(float(made.loss(step, np.array([k]))) for k in range(3)), abs=1e-5
        )
        windows = [*units[last], *units[0], *units[1]]
        rows, targets = zip(*windows, strict=True)
        by_hand = span_loss(made.model(rows), torch.tensor(targets)) / 4
    assert whole == pytest.approx(float(by_hand), abs=1e-5)


@pytest.mark.slow
def test_translate_train_learns_from_every_language(tmp_path, encoder, files):
    for switching in ("none", "sentence"):
        options = {"setting": "translate-train", "code_switching": switching, "name": switching}
        outcome, notes = run(tmp_path, AlignedEncoder(encoder), translated(files), **options)
        assert notes["rows"] == {"en": 96, "de": 96}
        assert notes["windows"] == (192 if switching == "none" else 288)
        assert min(values(outcome)[lang, "test"] for lang in ("en", "de")) > 0.8


def test_where_the_pivot_moves_each_language_has_its_model(tmp_path, encoder, files):
    towards = tuple(
        Transform("en", 2, steps=(Affine(weight=-torch.eye(32)),), toward=lang)
        for lang in ("de", "es")
    )
    outcome, _ = run(
        tmp_path,
        AlignedEncoder(encoder, towards),
        files,
        languages=("de", "es"),
        setting="g-xlt",
        epochs=1,
        max_train=16,
    )
    answered = {(row["lang"], row["toward"]) for row in outcome.predictions.to_pylist()}
    of_german = {
        ("en-en", "de"),
        ("de-de", "de"),
        ("en-de", "de"),
        ("de-en", "de"),
        ("es-de", "de"),
    }
    of_spanish = {
        ("en-en", "es"),
        ("es-es", "es"),
        ("en-es", "es"),
        ("es-en", "es"),
        ("de-es", "es"),
    }
    assert answered == of_german | of_spanish


def test_faults_that_only_the_params_show(files):
    assert task(translated(files), setting="translate-train").check(("de",), "en") == []
    (fault,) = task(files, setting="translate-train").check(("de",), "en")
    assert "reads one file per language; put {lang} in the path" in fault
    assert "translate-train" in task(files, code_switching="sentence").check(("de",), "en")[0]
    assert Mlqa(Mlqa.Params()).check(("de",), "en") == []
    assert "selection" in Mlqa(Mlqa.Params(hub={"dev": None})).check(("de",), "en")[0]


def test_one_file_that_all_languages_would_be_scored_on_is_a_fault(files):
    for split in ("dev", "test"):
        (fault,) = task({**files, split: f"{split}.json"}).check(("de", "es"), "en")
        assert "one file per language: put {lang} in" in fault
    assert (
        "one file per language: put {lang} in"
        in task({**files, "test": "test-{pivot}.json"}, setting="g-xlt").check(("de",), "en")[0]
    )


def test_what_is_read_of_each_language(files):
    both = task(translated(files), setting="translate-train")
    assert both.sources("de", "en")["train"].path.name == "train-de.json"
    assert both.training_languages(("de", "es"), "en") == ("en", "de", "es")
    hub = Mlqa(Mlqa.Params(hub={"train_revision": "a" * 40}))
    assert hub.sources("de", "en") == {
        "hub": RemoteData("hub:facebook/mlqa/mlqa.de.de@refs/convert/parquet")
    }
    assert hub.sources("en", "en")["train"] == RemoteData(
        f"hub:rajpurkar/squad/plain_text@{'a' * 40}", "a" * 40
    )
    translating = Mlqa(Mlqa.Params(setting="translate-train"))
    assert hub.sources("de", "en")["hub"].pin is None  # a branch is not a pin
    assert translating.sources("de", "en")["train"] == RemoteData(
        "hub:facebook/mlqa/mlqa-translate-train.de@refs/convert/parquet"
    )
    assert "hub" not in task(files).canonical()
    assert "hub" in hub.canonical()


def test_languages_of_the_hub_are_read_on_the_splits_that_they_have(tmp_path):
    import datasets

    for config, splits in (
        ("mlqa.en.en", ("validation", "test")),
        ("mlqa.de.de", ("validation", "test")),
        ("mlqa.th.th", ("test",)),
    ):
        for split in splits:
            row = {
                "id": split,
                "question": "?",
                "context": "Rom.",
                "answers": {"text": ["Rom"], "answer_start": [0]},
            }
            datasets.Dataset.from_list([row]).to_parquet(
                tmp_path / "mlqa" / config / split / "0000.parquet"
            )

    def sets(**params):
        given = Mlqa.Params(hub={"dataset": str(tmp_path / "mlqa")}, **params)
        return {
            (s.label, s.split)
            for s in Mlqa(given)
            .head(TaskInputs("en", downloads=tmp_path))
            .crossed_sets(("en", "de", "th"), np.zeros(0, np.int64))
        }

    assert sets() == {("en", "dev"), ("de", "dev"), ("en", "test"), ("de", "test"), ("th", "test")}
    crossings = {(f"{a}-{b}", "dev") for a in ("en", "de") for b in ("en", "de")}
    assert sets(setting="g-xlt") == crossings | {
        (f"{a}-{b}", "test") for a in ("en", "de", "th") for b in ("en", "de", "th")
    }
    with pytest.raises(
        DataError, match=r"mlqa\.th\.th:validation: has no split validation; its splits are test"
    ):
        sets(selection="target-dev")


def test_the_phrasebook_is_answered_in_every_language(tmp_path, encoder):
    sizes = {"train": 24, "dev": 6, "test": 6}
    outcome, notes = run(
        tmp_path,
        AlignedEncoder(encoder),
        "phrasebook",
        phrasebook=sizes,
        epochs=1,
        setting="g-xlt",
        max_length=32,
    )
    assert {row["id"] for row in outcome.predictions.to_pylist()} == {
        f"{split}-{i}" for split in ("dev", "test") for i in range(6)
    }
    assert notes["misplaced"] == {}
    assert 0 < notes["windows_with_answer"] <= notes["windows"]
