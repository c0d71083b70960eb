"""What holds for each kind of transfer task (labels, tags, answers), end to end on a tiny BERT."""

import json
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from safetensors.torch import load_file

from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.encoders.models.transforms import Affine, Transform
from raxalign.errors import DataError, RaxalignError
from raxalign.options.sources import LocalFile, RemoteData
from raxalign.tasks.base import Score, TaskInputs, means
from raxalign.tasks.mlqa import Mlqa
from raxalign.tasks.ner import Ner
from raxalign.tasks.pos import Pos
from raxalign.tasks.slots import Slots
from raxalign.tasks.taggers.scheme import UPOS
from raxalign.tasks.transfer.rows import among
from raxalign.tasks.transfer.training import Trained, choose
from raxalign.tasks.xnli import Xnli
from raxalign.train.runtime import Runtime
from tests.every import in_turn
from tests.host_reads import host_reads
from tests.tasks import word_ner, word_nli, word_qa
from tests.tasks.outcomes import scores, trained
from tests.tiny import tiny_bert
from tests.train.workers import run_workers

TOYS = {"nli": word_nli, "ner": word_ner, "qa": word_qa}
ENOUGH = {"nli": {}, "ner": {"epochs": 4}, "qa": {}}
"""Options with which the answers are learnt."""
TURN = torch.linalg.qr(torch.randn(32, 32, generator=torch.Generator().manual_seed(0)))[0]


@pytest.fixture(scope="session")
def encoders(tiny):
    return {name: tiny(toy.WORDS) for name, toy in TOYS.items()}


class Bench:
    """One toy with its files and its encoder."""

    def __init__(self, name, root, encoder):
        self.name, self.root, self.toy = name, root, TOYS[name]
        self.encoder, self.files = encoder, self.toy.write_all(root / "files")
        self.plain = AlignedEncoder(self.encoder)

    def file(self, split, lang):
        template = self.files[split].replace("{pivot}", "{lang}")
        return self.root / template.replace("{lang}", lang)

    def run(self, *, folder="tuned", start=None, runtime=None, files=None, aligned=None, **params):
        """The outcome and the notes of a training, and its folder."""
        task, place = self.toy.task(files or self.files, **params), self.root / folder
        outcome, notes = trained(task, aligned or self.plain, place, start=start, runtime=runtime)
        return SimpleNamespace(outcome=outcome, notes=notes, folder=place, task=task)


@pytest.fixture(params=TOYS)
def bench(request, tmp_path, encoders):
    return Bench(request.param, tmp_path, encoders[request.param])


@pytest.fixture(scope="module", params=TOYS)
def tuned(request, tmp_path_factory, encoders):
    """A bench and the run of a training with all defaults."""
    made = Bench(request.param, tmp_path_factory.mktemp("whole"), encoders[request.param])
    return made, made.run(**ENOUGH[request.param])


def weights(folder):
    (file,) = folder.glob("*.[0-9]*.safetensors")
    return torch.cat([tensor.flatten() for tensor in load_file(file).values()])


def towards(*langs):
    """Transforms that move the pivot toward each language."""
    return tuple(
        Transform("en", 2, steps=(Affine(weight=-torch.eye(32)),), toward=lang) for lang in langs
    )


def test_the_task_is_learnt_and_the_encoder_is_left_alone(tuned, tmp_path):
    made, run = tuned
    again = tiny_bert(tmp_path / "again", made.toy.WORDS, positions=32)
    before = dict(TransformerEncoder.from_folder(again).model.named_parameters())
    found = scores(run.outcome, run.task.main_metric)
    assert found["en", "test"] > 0.9
    assert {*found} == {*product(("en", "de", "avg", "avg_zero_shot"), ("dev", "test"))}
    assert found["avg", "test"] == pytest.approx((found["en", "test"] + found["de", "test"]) / 2)
    assert found["avg_zero_shot", "test"] == found["de", "test"]
    declared = {entry.name for entry in run.task.metrics}
    assert {s.metric for s in run.outcome.scores} == declared
    assert all(torch.equal(p, before[n]) for n, p in made.encoder.model.named_parameters())


def test_the_pivots_best_weights_are_kept(tuned):
    _, run = tuned
    record = json.loads((run.folder / "training.json").read_text())["models"][0]
    found = scores(run.outcome, run.task.main_metric)
    assert len(record["files"]) == 1
    assert found["en", "dev"] == pytest.approx(max(record["pivot_dev"]))


@pytest.mark.slow
def test_a_killed_training_goes_on_to_the_same_result_and_another_seed_to_another(bench):
    class Killed(Exception):
        pass

    def die(metrics, step):
        if step >= 6:
            raise Killed

    options = {"selection": "mean-dev", "epochs": 2}
    whole = bench.run(folder="whole", **options)
    saves = {"checkpoints": bench.root / "checkpoints", "checkpoint_every": 4}
    with pytest.raises(Killed):
        bench.run(folder="killed", runtime=Runtime(report=die, **saves), **options)
    resumed = bench.run(folder="resumed", runtime=Runtime(**saves), **options)
    assert resumed.outcome.predictions.equals(whole.outcome.predictions)
    assert resumed.outcome.notes == whole.outcome.notes
    first, other = (
        weights(bench.run(folder=f"seed-{seed}", runtime=Runtime(seed=seed), epochs=1).folder)
        for seed in (0, 1)
    )
    assert not torch.equal(first, other)


@pytest.mark.slow
def test_mean_dev_and_target_dev_pick_by_development_sets(bench):
    if bench.name == "ner":
        pytest.skip("tags are chosen while they are trained")
    for rule in ("mean-dev", "target-dev"):
        run = bench.run(selection=rule, folder=rule, epochs=2)
        chosen, by_epoch = run.outcome.notes["models"]["all"].values()
        found = scores(run.outcome, run.task.main_metric)
        means = np.mean([by_epoch["en"], by_epoch["de"]], axis=0)
        for lang in ("en", "de"):
            curve = means if rule == "mean-dev" else by_epoch[lang]
            assert chosen[lang] == 1 + int(np.argmax(curve))
            assert found[lang, "dev"] == by_epoch[lang][chosen[lang] - 1]
        assert ("warning" in run.outcome.notes) is (rule == "target-dev")


@pytest.mark.parametrize("bench", in_turn(TOYS, 1), indirect=True)
def test_a_split_that_is_not_given_is_not_reported(bench):
    few = {"epochs": 1, "max_train": 20}
    for split, rule in (("dev", "pivot-dev"), ("test", "last")):
        files = {name: bench.files[name] for name in ("train", split)}
        run = bench.run(files=files, selection=rule, folder=split, **few)
        assert {score.split for score in run.outcome.scores} == {split}
        if bench.name == "ner" and rule == "last":
            assert run.outcome.notes["steps"]["all"] == {"en": 1, "de": 1}


def test_training_rows_that_are_evaluated_are_refused(bench):
    for split in ("dev", "test"):
        files = {**bench.files, split: bench.files["train"].replace("{pivot}", "{lang}")}
        with pytest.raises(DataError, match=r"(\d+) of \1 (\w+) are training \2 too"):
            bench.run(files=files, folder=split, epochs=1)


@pytest.mark.parametrize("bench", in_turn(TOYS, 0), indirect=True)
def test_readouts_apply_to_the_language_they_are_for(bench):
    """A readout for German alone changes German only, and needs no training of its own."""
    turned = AlignedEncoder(bench.encoder, (Transform("de", 2, steps=(Affine(weight=TURN),)),))
    few = {"epochs": 1, "max_train": 24}
    before = bench.run(folder="plain", **few)
    after = bench.run(aligned=turned, start=bench.plain, folder="turned", **few)
    column = {"nli": "neutral", "ner": "predicted", "qa": "prediction"}[bench.name]
    for lang, same in (("en", True), ("de", False)):
        one, other = (
            [row[column] for row in run.outcome.predictions.to_pylist() if row["lang"] == lang]
            for run in (before, after)
        )
        assert (one == other) is same


@pytest.mark.parametrize("bench", in_turn(TOYS, 1), indirect=True)
def test_where_the_pivot_moves_each_language_has_its_model(bench):
    for lang in ("fr", "el"):
        for k, split in enumerate(("dev", "test")):
            bench.toy.write(bench.file(split, lang), "de", 12, 40 + k)
    aligned = AlignedEncoder(bench.encoder, towards("de", "fr"))
    task, inputs = bench.toy.task(bench.files, epochs=1, max_train=24), TaskInputs("en")
    folder = bench.root / "tuned"
    folder.mkdir()
    task.train(aligned, ("en",), inputs, Runtime(), folder)
    assert [model.toward for model in Trained.read(folder).models] == ["de", "fr"]
    outcome = task.evaluate(aligned, ("en", "de", "fr"), inputs, Runtime(), folder)
    rows = outcome.predictions.to_pylist()
    own = {("en", "de"), ("en", "fr"), ("de", "de"), ("fr", "fr")}
    assert {(row["lang"], row["toward"]) for row in rows} == own
    with pytest.raises(DataError, match="no model for el, en"):
        task.evaluate(aligned, ("en", "el"), inputs, Runtime(), folder)


@pytest.mark.parametrize("tuned", in_turn(TOYS, 0), indirect=True)
def test_weights_of_another_encoder_are_refused(tuned, tiny):
    made, run = tuned
    deeper = AlignedEncoder(tiny(made.toy.WORDS, layers=3))
    with pytest.raises(RaxalignError, match="trained on another encoder"):
        run.task.evaluate(deeper, ("en", "de"), TaskInputs("en"), Runtime(), run.folder)


@pytest.mark.parametrize("bench", in_turn(TOYS, 2), indirect=True)
def test_no_step_of_the_training_waits_for_the_device(bench):
    with host_reads() as steps:
        bench.run(epochs=1, max_train=24, batch_size=8)
    assert len(steps) > 2
    assert [name for found in steps[1:] for name in found] == []


FILES = {"train": "train-{pivot}", "dev": "dev-{lang}", "test": "test-{lang}"}


@pytest.mark.parametrize("toy", TOYS.values(), ids=TOYS)
def test_faults_that_only_the_params_show(toy):
    def faults(given=FILES, **params):
        return "\n".join(toy.task(given, **params).check(("de", "zh"), "en"))

    assert faults() == faults(readout="refit") == faults(readout="refit", selection="last") == ""
    assert "selection: pivot-dev" in faults(readout="refit", selection="mean-dev")
    assert "zero-shot training reads the pivot" in faults({**FILES, "train": "train-{lang}"})
    assert "selection: pivot-dev needs" in faults({"train": "t", "test": "x-{lang}"})
    assert "nothing to evaluate" in faults({"train": "t"}, selection="last")
    assert "phrasebook has no zh" in faults("phrasebook")
    if toy is word_ner:
        assert "tagger: linear" in faults(tagger="bilstm_crf", readout="refit", selection="last")
        assert "dataset" in faults("hub", dataset="")
    else:
        assert "zero-shot training run keeps" in faults(readout="refit", setting="translate-train")
    alone = faults({**FILES, "dev": "dev"})
    assert ("one file per language: put {lang} in" in alone) is (toy is not word_nli)


@pytest.mark.parametrize("toy", TOYS.values(), ids=TOYS)
def test_what_is_read_of_each_language(toy):
    task = toy.task(FILES)
    assert task.languages(("de", "fr"), "en") == ("en", "de", "fr")
    assert task.training().languages(("de",), "en") == ("en",)
    assert set(task.sources("en", "en")) == {"train", "dev", "test"}
    assert set(task.sources("de", "en")) == {"dev", "test"}
    assert isinstance(task.sources("de", "en")["dev"], LocalFile)
    assert task.sources("de", "en")["dev"].path.name == "dev-de"
    assert toy.task("phrasebook").sources("de", "en") == {}
    assert not any(path in json.dumps(task.canonical()) for path in FILES.values())
    assert "phrasebook" not in task.canonical()


@pytest.mark.parametrize("kind", [Xnli, Ner, Pos, Slots, Mlqa])
def test_the_phrasebook_says_the_same_in_every_language_and_shares_nothing_between_splits(kind):
    sizes = {"train": 60, "dev": 12, "test": 12}
    head = kind(kind.Params(data="phrasebook", phrasebook=sizes)).head(TaskInputs("en"))
    train = head.data.rows("train", "en")
    for split in ("dev", "test"):
        assert not head.data.rows(split, "en").seen_in(train.fingerprints()).any()
        found = [list(head.data.rows(split, lang).rows) for lang in ("en", "de", "el")]
        said = [[meaning(row) for row in rows] for rows in found]
        assert said[0] == said[1] == said[2]
        assert len(said[0]) == 12


def meaning(row):
    """What a row is in every language: its label, its entities by kind, or its name."""
    tags = getattr(row, "tags", ())
    assert {*tags} <= {*UPOS} or {tag[:2] for tag in tags} <= {"O", "B-", "I-"}
    kinds = sorted(tag[2:] for tag in tags if tag.startswith("B-"))
    return kinds or getattr(row, "label", None) or row.id


def test_a_branch_of_the_hub_is_not_a_pin():
    found = Xnli(Xnli.Params()).sources("de", "en")
    assert found == {"hub": RemoteData("hub:facebook/xnli/de@main")}
    found = Ner(Ner.Params(codes={"de": "de_x"})).sources("de", "en")
    assert found == {"hub": RemoteData("hub:unimelb-nlp/wikiann/de_x@main")}
    for task in (Xnli, Ner):
        assert task(task.Params(revision="a" * 40)).sources("de", "en")["hub"].pin == "a" * 40


ACCURACIES = {
    0: {"en": 0.6, "de": 0.5, "fr": 0.9},
    1: {"en": 0.95, "de": 0.4, "fr": 0.4},
    2: {"en": 0.7, "de": 0.6, "fr": 0.4},
}


def test_rules_pick_the_epochs_that_they_keep():
    assert choose("mean-dev", ACCURACIES) == {"*": 0}  # 2.0, 1.75, 1.7 over 3
    assert choose("target-dev", ACCURACIES) == {"en": 1, "de": 2, "fr": 0}
    assert choose("target-dev", {1: {"en": 0.5}, 2: {"en": 0.7}, 3: {"en": 0.7}}) == {"en": 2}
    rules = ("pivot-dev", "last", "mean-dev", "target-dev")
    found = [Xnli(Xnli.Params(selection=rule)).kept() for rule in rules]
    assert found == ["pivot-dev", "last", "every", "every"]


def test_means_are_over_all_languages_or_are_not_there():
    both = [Score("en", "f1", "test", 0.5), Score("th", "f1", "test", 0.25)]
    avg, dev = Score("avg", "f1", "test", 0.375), ("f1", "dev", 0.5)
    found = means([Score("en", *dev), *both], ["en", "th"], "en")
    assert found == [avg, Score("avg_zero_shot", "f1", "test", 0.25)]
    assert means([*both, Score("th", *dev)]) == [avg]
    assert means([], ["de-en"]) == means([]) == means(both, metrics=["mrr"]) == []


HASHES = st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 3), max_size=8)


@given(HASHES, HASHES)
@example([5, 2**63 - 1], [1, 4])
def test_a_hash_is_found_among_those_that_are_known_in_any_order(found, known):
    asked = np.array(found, np.int64)
    expected = [entry in known for entry in found]
    assert among(asked, np.array(known, np.int64)).tolist() == expected
    assert among(asked, np.array(sorted(known), np.int64)).tolist() == expected


@pytest.mark.parametrize("toy", [word_nli, word_qa])
def test_rules_that_keep_the_same_epochs_share_a_training(toy):
    rules = ("pivot-dev", "mean-dev", "target-dev", "last")
    training = {rule: toy.task("phrasebook", selection=rule).training().options for rule in rules}
    assert toy.task("phrasebook", readout="refit").training().options == training["pivot-dev"]
    assert training["mean-dev"] == training["target-dev"]
    assert len({json.dumps(value, sort_keys=True) for value in training.values()}) == 3
    plain, last = (toy.task("phrasebook", selection=rule) for rule in ("pivot-dev", "last"))
    assert plain.canonical() != last.canonical()


WORDS = [*word_nli.WORDS, *word_qa.WORDS, *word_ner.WORDS]


def encoder_of(folder):
    encoder = TransformerEncoder.from_folder(folder / "tiny")
    encoder.batch_tokens = 48  # so that there are several batches
    return AlignedEncoder(encoder)


class Heard:
    """A watch that keeps what it hears."""

    languages = ("de",)

    def __init__(self, metric):
        self.metric, self.scores = metric, list[float]()

    def ends(self, scores, at):
        self.scores.append(scores["de"])
        return False


def trainings(folder):
    """Tasks over files, each with the metric that is watched."""
    nli, ner, qa = (
        {split: f"{folder}/{name}/{file}" for split, file in FILES.items()}
        for name in ("nli", "ner", "qa")
    )
    nli = {split: f"{path}.tsv" for split, path in nli.items()}
    return {
        "nli": (word_nli.task(nli, selection="mean-dev", epochs=2), "accuracy"),
        "ner": (word_ner.task(ner, selection="target-dev"), "f1"),
        "crf": (word_ner.task(ner, "bilstm_crf", selection="target-dev"), "f1"),
        "qa": (word_qa.task(qa, selection="mean-dev", epochs=2), "f1"),
    }


def train(rank, folder):
    """One of two workers, which train each task; the first one writes what was heard."""
    for name, (task, metric) in trainings(folder).items():
        watch = Heard(metric)
        runtime = Runtime(rank=rank, world_size=2, watch=watch)
        made = folder / f"{name}-{rank}"
        made.mkdir()
        tags = name in ("ner", "crf")
        languages = ("en", "de") if tags else ("en",)  # whose dev sets choose, or train
        task.train(encoder_of(folder), languages, TaskInputs("en"), runtime, made)
        assert bool(watch.scores) == (rank == 0), "the first worker alone asks the watch"
        if rank == 0:
            (folder / f"{name}.json").write_text(json.dumps(watch.scores), encoding="utf-8")
        else:
            assert list(made.iterdir()) == [], "the first worker alone writes"


@pytest.mark.slow
def test_scores_of_a_group_are_those_that_one_worker_finds_for_the_weights_that_it_kept(tmp_path):
    torch.set_num_threads(1)
    tiny_bert(tmp_path / "tiny", WORDS, positions=32)
    word_nli.write_all(tmp_path / "nli")
    for name in ("qa", "ner"):
        (tmp_path / name).mkdir()
    for k, lang in enumerate(("en", "de")):
        for seed, split in ((k, "train"), (k + 10, "dev"), (k + 20, "test")):
            word_qa.write(tmp_path / f"qa/{split}-{lang}", lang, 24, seed, split)
            word_ner.write(tmp_path / f"ner/{split}-{lang}", lang, 24, seed)
    run_workers(train, 2, tmp_path)
    for name, (task, metric) in trainings(tmp_path).items():
        heard = json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8"))
        record = json.loads((tmp_path / f"{name}-0" / "training.json").read_text(encoding="utf-8"))
        given = encoder_of(tmp_path), ("en", "de"), TaskInputs("en"), Runtime()
        outcome = task.evaluate(*given, tmp_path / f"{name}-0")
        (model,) = record["models"]
        dev = {(s.lang, s.metric): s.value for s in outcome.scores if s.split == "dev"}
        if name in ("ner", "crf"):
            assert [curve["de"] for curve in model["dev"].values()] == heard
            assert dev["de", "f1"] == max(heard)
            continue
        assert dev["de", metric] in heard
        assert dev["en", metric] in model["pivot_dev"]
