"""Few examples of target languages, and averages of weights, on toys of each kind of task."""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc
import pytest

from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.tasks.base import TaskInputs
from raxalign.tasks.transfer.few_shot import parted
from raxalign.tasks.transfer.shots import drawn
from raxalign.train.runtime import Runtime
from tests.tasks import word_ner, word_nli, word_qa
from tests.tasks.outcomes import trained

TOYS = {"nli": word_nli, "ner": word_ner, "qa": word_qa}
PHRASEBOOK = {"data": "phrasebook", "phrasebook": {"train": 30, "dev": 6, "test": 6}}


def write_files(toy, root):
    """All files of a toy with a training file of each language; their path templates."""
    files = toy.write_all(root)
    target = root / files["train"].rpartition("/")[2].replace("{pivot}", "de")
    if not target.exists():
        toy.write(target, "de", 60, 7)
    return {**files, "train": files["train"].replace("{pivot}", "{lang}")}


class Bench:
    """One toy, trained once on English; evaluations after few examples."""

    def __init__(self, name, root, encoder):
        self.toy, self.root = TOYS[name], root
        self.files, self.plain = write_files(self.toy, root / "files"), AlignedEncoder(encoder)
        self.zero, self.notes = trained(self.task(), self.plain, root / "tuned")

    def task(self, **params):
        few = params.get("shots")
        files = self.files if few else {**self.files, "train": self.train("en")}
        return self.toy.task(files, **{"epochs": 1, "shot_epochs": 2, **params})

    def train(self, lang):
        return self.files["train"].replace("{lang}", lang)

    def evaluate(self, seed=0, **params):
        task = self.task(**params)
        given, langs = TaskInputs("en"), ("en", "de")
        return task.evaluate(self.plain, langs, given, Runtime(seed=seed), self.root / "tuned")


@pytest.fixture(scope="module", params=TOYS)
def bench(request, tmp_path_factory, tiny):
    root, words = tmp_path_factory.mktemp("few"), TOYS[request.param].WORDS
    return Bench(request.param, root, tiny(words))


@pytest.fixture(scope="module")
def few(bench):
    """The evaluation of a bench after 0, 4 and 12 examples, two draws of each."""
    return bench.evaluate(shots=[4, 12], draws=2)


def plain(outcome):
    """The scores and the rows of the model as it is."""
    rows = outcome.predictions
    if "shots" in rows.column_names:
        rows = rows.filter(pc.equal(rows["shots"], 0)).drop_columns(["shots", "draw"])
    return [score for score in outcome.scores if not parted(score.metric)[0]], rows


def test_zero_shots_are_the_zero_shot_result_bit_for_bit(bench, few):
    scores, rows = plain(few)
    assert scores == list(bench.zero.scores)
    assert rows.combine_chunks().equals(bench.zero.predictions.combine_chunks())


def test_shots_share_the_training_of_the_pivot(bench):
    zero, some = bench.task(), bench.task(shots=[0, 4], draws=2, shot_learning_rate=1e-4)
    assert some.training() == zero.training()
    assert some.training_languages(("de",), "en") == ("en",)
    assert zero.canonical() == bench.task(shots=0).canonical() != some.canonical()
    assert "train" not in zero.sources("de", "en")
    assert "train" in some.sources("de", "en")


def test_every_target_language_is_scored_after_every_number_of_shots(bench, few):
    main = bench.task().main_metric
    found = {(s.lang, s.metric) for s in few.scores if parted(s.metric)[0] and s.split == "test"}
    assert {lang for lang, _ in found} == {"de", "avg"}  # the pivot has no shots
    assert {metric for lang, metric in found if metric.endswith(main)} >= {
        f"shots4_{main}",
        f"shots12_{main}",
    }
    rows = few.predictions.filter(pc.equal(few.predictions["shots"], 12))
    assert set(rows["draw"].to_pylist()) == {0, 1}
    assert set(rows["lang"].to_pylist()) == {"de"}


def test_a_value_after_shots_is_the_mean_over_its_draws(bench, few):
    name = ("de", f"shots12_{bench.task().main_metric}", "test")
    value = next(s.value for s in few.scores if (s.lang, s.metric, s.split) == name)
    kind, values = type(bench.task()), []
    for draw in (0, 1):
        rows = few.predictions.filter(pc.equal(few.predictions["draw"], draw))
        values.append(kind.samples(rows, [name])[name].value)
    assert value == pytest.approx(np.mean(values), abs=1e-12)


def test_each_seed_draws_examples_of_its_own(bench, few):
    again, other = bench.evaluate(shots=[4, 12], draws=2), bench.evaluate(1, shots=[4, 12], draws=2)
    assert again.predictions.equals(few.predictions)
    assert plain(other)[1].equals(plain(few)[1])
    assert not other.predictions.equals(few.predictions)


def test_examples_are_drawn_nested_and_from_the_labels_in_turn():
    strata = np.repeat([0, 1, 2], [50, 20, 3])
    places = drawn(strata, seed=3)
    assert sorted(places.tolist()) == list(range(73))
    for shots in (3, 6, 9):
        assert np.bincount(strata[places[:shots]]).tolist() == [shots // 3] * 3
    assert np.bincount(strata[places[:13]]).tolist() == [5, 5, 3]  # the third label has no more
    assert drawn(strata, seed=4).tolist() != places.tolist()
    assert sorted(drawn(np.zeros(9, np.int64), seed=3).tolist()) == list(range(9))
