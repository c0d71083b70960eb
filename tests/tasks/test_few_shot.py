"""Few examples of target languages, and averages of weights, on toys of each kind of task."""

from functools import cache, cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import torch
from safetensors.torch import load_file

from raxalign.config.grid import load
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.errors import DataError
from raxalign.measured import parted
from raxalign.plan.expansion.expand import expand
from raxalign.plan.metrics import by_language
from raxalign.report.paper.references import cited
from raxalign.tasks.base import TaskInputs
from raxalign.tasks.mlqa import Mlqa
from raxalign.tasks.ner import Ner
from raxalign.tasks.transfer.shots import drawn
from raxalign.tasks.transfer.trained import mean_of_weights
from raxalign.tasks.transfer.training import DevSets, TrainingRun, Tuning, fit_epochs, fit_steps
from raxalign.tasks.xnli import Xnli
from raxalign.train.chance import RUNS, mix
from raxalign.train.runtime import Runtime
from tests.every import in_turn
from tests.grids import write_grid
from tests.tasks import word_ner, word_nli, word_qa
from tests.tasks.outcomes import static, trained

TOYS = {"nli": word_nli, "ner": word_ner, "qa": word_qa}
TWO_RUNS = {"average": "runs 2", "selection": "last"}
USED = {"shots": [0, 10], "average": "last 2 runs 3"}
PHRASEBOOK = {"data": "phrasebook", "phrasebook": {"train": 30, "dev": 6, "test": 6}}


def write_files(toy, root):
    """All files of a toy with a training file of each language; their path templates."""
    files = toy.write_all(root)
    target = word_nli.at(files["train"], "de")
    if not target.exists():
        toy.write(target, "de", 60, 7)
    return {**files, "train": files["train"].replace("{pivot}", "{lang}")}


class Bench:
    """One toy, trained once on English; evaluations after few examples."""

    def __init__(self, name, root, encoder):
        self.toy, self.root = TOYS[name], root
        self.files, self.plain = write_files(self.toy, root / "files"), AlignedEncoder(encoder)
        self.zero, self.notes = trained(self.task(), self.plain, root / "tuned")

    @cached_property
    def few(self):
        return self.evaluate(shots=[4, 12], draws=2)

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


@pytest.fixture(scope="module")
def benches(tmp_path_factory, tiny):
    """Benches by name, each made once."""
    return cache(lambda name: Bench(name, tmp_path_factory.mktemp("few"), tiny(TOYS[name].WORDS)))


@pytest.fixture(params=["nli", "ner", pytest.param("qa", marks=pytest.mark.slow)])
def bench(request, benches):
    return benches(request.param)


@pytest.fixture
def few(bench):
    """The evaluation of a bench after 0, 4 and 12 examples, two draws of each."""
    return bench.few


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


@pytest.mark.parametrize("bench", in_turn(TOYS, 0), indirect=True)
def test_shots_share_the_training_of_the_pivot(bench):
    zero, some = bench.task(), bench.task(shots=[0, 4], draws=2, shot_learning_rate=1e-4)
    assert some.training() == zero.training()
    assert some.training_languages(("de",), "en") == ("en",)
    assert zero.canonical() == bench.task(shots=0).canonical() != some.canonical()
    assert "train" not in zero.sources("de", "en")
    assert "train" in some.sources("de", "en")


def test_the_trainings_of_a_grid_are_the_same_with_and_without_shots(tmp_path):
    keys = []
    for number, more in enumerate(("", ", shots: [5, 9], draws: 3", ", average: runs 2")):
        sizes = "phrasebook: {train: 30, dev: 6, test: 6}"
        xnli = f"data: phrasebook, {sizes}, selection: last{more}"
        file = write_grid(tmp_path, tasks=(f"xnli: {{{xnli}}}",), name=f"{number}.yaml")
        keys.append({k for k, stage in expand(load(file)).stages.items() if stage.kind == "tuned"})
    assert keys[0] == keys[1]
    assert not keys[0] & keys[2]


def test_papers_are_cited_where_their_options_are_used():
    cites = {name: {*cited(Xnli.papers, {name: value})} for name, value in USED.items()}
    assert cites["shots"] >= {"lauscher2020", "zhao2021shots"}
    assert cites["average"] >= {"schmidt2023", "wortsman2022"}
    assert not {"lauscher2020", "schmidt2023"} & {*cited(Xnli.papers, {"shots": [0]})}


def test_every_target_language_is_scored_after_every_number_of_shots(bench, few):
    main = bench.task().main_metric
    found = {(s.lang, s.metric) for s in few.scores if parted(s.metric)[0] and s.split == "test"}
    assert {lang for lang, _ in found} == {"de", "avg"}  # the pivot has no shots
    assert {metric for _, metric in found} >= {f"shots4_{main}", f"shots12_{main}"}
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


def test_added_metrics_are_of_the_model_as_it_is(bench, few):
    rows = pa.concat_tables([part for _, _, part in by_language(few.predictions)])
    assert len(rows) == len(bench.zero.predictions)
    assert set(rows["shots"].to_pylist()) == {0}


@pytest.mark.parametrize("bench", in_turn(TOYS, 1), indirect=True)
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


def test_the_mean_of_equal_weights_is_the_same_bits(bench, tmp_path):
    (file,) = (bench.root / "tuned").glob("*.[0-9]*.safetensors")
    for n in (2, 3, 7):
        mean, own = load_file(mean_of_weights([file] * n, tmp_path / "mean")), load_file(file)
        assert all(torch.equal(mean[name], own[name]) for name in own)


def by_hand(task, plain, runs):
    """The weights of a task's trainings in their folders, by the parts of the package."""
    head, found = task.head(TaskInputs("en")), []
    rows = head.training_rows("en")
    head.labels = head.labels_of([rows])
    for run in runs:
        model = head.new_model(plain, 0)
        tuning = Tuning(model, head.batches(model, {"en": rows}), DevSets(head, model, {}, {}))
        fit = fit_steps if head.point == "step" else fit_epochs
        (file,) = fit(tuning, head.settings(model), run)[0].values()
        found.append(load_file(file))
    return found


def mean(found):
    """The mean of weights, in NumPy."""
    return {name: np.mean([w[name].double().numpy() for w in found], 0) for name in found[0]}


def same(file_or_weights, expected):
    return all(np.array_equal(file_or_weights[n], np.float32(expected[n])) for n in expected)


def weights(folder):
    (file,) = folder.glob("*.[0-9]*.safetensors")
    return load_file(file)


@pytest.mark.parametrize("bench", in_turn(TOYS, 2), indirect=True)
def test_last_is_the_mean_of_the_last_epochs(bench, tmp_path):
    options = {"epochs": 2, "selection": "last", "max_train": 24}
    task = bench.task(**options, average="last 2")
    trained(task, bench.plain, tmp_path / "mean")
    trained(bench.task(**options), bench.plain, tmp_path / "plain")
    (tmp_path / "keep").mkdir()
    by_hand(task, bench.plain, [TrainingRun(Runtime(), task.name, tmp_path / "keep")])
    epochs = [load_file(tmp_path / "keep" / f"averaged-{n}.safetensors") for n in (1, 2)]
    assert same(epochs[1], weights(tmp_path / "plain"))
    assert not same(epochs[0], epochs[1])
    assert same(weights(tmp_path / "mean"), mean(epochs))


@pytest.mark.parametrize("bench", in_turn(TOYS, 0), indirect=True)
def test_runs_is_the_mean_of_trainings_that_begin_with_one_head(bench, tmp_path):
    task = bench.task(**TWO_RUNS, max_train=24)
    outcome, _ = trained(task, bench.plain, tmp_path / "mean")
    runs = []
    for number, seed in enumerate((0, mix(0, 1, RUNS))):
        (tmp_path / f"{number}").mkdir()
        runs.append(TrainingRun(Runtime(seed=seed), f"run{number}", tmp_path / f"{number}"))
    first, second = by_hand(bench.task(selection="last", max_train=24), bench.plain, runs)
    assert not same(first, second)
    assert same(weights(tmp_path / "mean"), mean([first, second]))
    assert outcome.notes["average"] == "runs 2"


def test_a_training_with_a_mean_is_another_training(bench):
    plain, some = bench.task(selection="last"), bench.task(selection="last", average="runs  2")
    assert some.training() == {**plain.training(), "average": "runs 2"}
    assert some.accepts == plain.accepts - {"static"}


@pytest.mark.parametrize(
    ("kind", "options", "told"),
    [
        (Xnli, {"shots": [31]}, "shots: 31 is more than the 30 training rows of a language"),
        (Ner, {"shots": 9, "max_train": 8}, "raise `max_train`"),
        (Xnli, {"shots": 9, "setting": "translate-train"}, "shots: need `setting: zero-shot`"),
        (Mlqa, {"shots": 9, "setting": "g-xlt"}, "shots: need `setting: zero-shot`, not g-xlt"),
        (Ner, {"shots": 9, "selection": "target-dev"}, "more than few examples"),
        (Xnli, {"average": "last 2"}, "leaves nothing to `selection: pivot-dev`"),
        (Mlqa, {"average": "runs 2", "selection": "mean-dev"}, "write `selection: last`"),
        (Xnli, {"average": "last 5", "selection": "last"}, "last 5 is more than the 3 epochs"),
        (Ner, {"average": "last 11", "selection": "last"}, "more than the 10 epochs"),
        (Ner, {**TWO_RUNS, "tagger": "bilstm_crf"}, "a BiLSTM begins at random"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_trained(kind, options, told):
    (fault,) = kind(kind.Params(**PHRASEBOOK, **options)).check(("de",), "en")
    assert told in fault


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"shots": [10, 10]}, "10 is there twice; write each number once"),
        ({"shots": [-1]}, "greater than or equal to 0"),
        ({"average": "runs"}, "write `last 3`, `runs 3` or `last 3 runs 3`"),
        ({"average": "last 1"}, "write `last 3`"),
    ],
)
def test_options_of_another_form_are_refused(options, told):
    with pytest.raises(ValueError, match=told):
        Xnli.Params(**options)


def test_shots_need_a_training_file_of_each_language(bench):
    one = {**bench.files, "train": bench.train("en")}
    assert bench.task(shots=4).check(("de",), "en") == []
    (fault,) = bench.toy.task(one, shots=4).check(("de",), "en")
    assert "shots are drawn from one training file per language" in fault


@pytest.mark.parametrize("bench", in_turn(TOYS, 1), indirect=True)
def test_more_shots_than_rows_are_refused_before_and_in_the_evaluation(bench):
    task, told = bench.task(shots=900), "fewer than `shots: 900`"
    faults = [str(f) for file in task.read_files(("de",), "en") for f in file.faults]
    assert len(faults) == 1
    assert told in faults[0]
    with pytest.raises(DataError, match=told):
        bench.evaluate(shots=900)


@pytest.mark.parametrize("bench", in_turn(TOYS, 0), indirect=True)
def test_examples_that_are_evaluated_are_refused(bench, tmp_path):
    toy = bench.toy
    files = write_files(toy, tmp_path / "files")
    for split in ("train", "test"):
        toy.write(word_nli.at(files[split], "de"), "de", 12, 3)
    task, spoken = toy.task(files, shots=12, epochs=1), ("en", "de")
    with pytest.raises(DataError, match="are training"):
        task.evaluate(bench.plain, spoken, TaskInputs("en"), Runtime(), bench.root / "tuned")


def test_examples_with_unknown_labels_are_not_drawn(tiny, tmp_path):
    files = write_files(word_ner, tmp_path / "files")
    word_ner.write(tmp_path / "files" / "train-de", "de", 10, 3, unknown=True)
    plain = AlignedEncoder(tiny(word_ner.WORDS))
    few = {"epochs": 1, "max_train": 24, "shot_epochs": 1}
    outcome, _ = trained(word_ner.task(files, shots=9, **few), plain, tmp_path / "nine")
    note = outcome.notes["de/shots"]
    assert note["left_out"] == 1
    assert note["warning"].startswith("1 of 10 sentences are not drawn as shots: the pivot's")
    given = ("en", "de"), TaskInputs("en"), Runtime(), tmp_path / "nine"
    with pytest.raises(DataError, match="has 9 sentences with labels that the pivot has too"):
        word_ner.task(files, shots=10, **few).evaluate(plain, *given)


def test_a_classifier_of_word_vectors_learns_from_few_examples(tmp_path):
    vectors = np.random.default_rng(0).normal(size=(len(word_nli.WORDS), 16))
    spaces = {"en": dict(zip(word_nli.WORDS, vectors, strict=True))}
    spaces["de"] = {word: -vector for word, vector in spaces["en"].items()}
    files = write_files(word_nli, tmp_path / "files")
    head, options = {"hidden": 32, "learning_rate": 1e-2}, {"epochs": 10, "selection": "last"}
    task = word_nli.task(files, shots=60, shot_epochs=20, static_head=head, **options)
    outcome, _ = trained(task, static(spaces), tmp_path / "tuned")
    found = {(s.lang, s.metric): s.value for s in outcome.scores if s.split == "test"}
    assert found["de", "shots60_accuracy"] > 0.9 > 0.6 > found["de", "accuracy"]
