import json
from dataclasses import dataclass, field, replace

import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from raxalign.caveats import Caveats
from raxalign.errors import RaxalignError, TrainingDiverged, TransientError
from raxalign.train.loop import KeepBest, fit
from raxalign.train.options import TrainSettings
from raxalign.train.runtime import Moment, Pruned, Runtime
from tests.train.problems import Regression, dies_at, weights

SETTINGS = TrainSettings(learning_rate=0.05, batch_size=4, epochs=3, warmup=0.1)


def trained(settings=SETTINGS, runtime=None, **options):
    objective = Regression(**options)
    return objective, fit(objective, len(objective.x), settings, runtime or Runtime())


def test_every_epoch_sees_each_row_once():
    objective, fitted = trained()
    assert len(fitted.losses) == 18
    for epoch in range(3):
        rows = [row for number, part in objective.seen if number // 6 == epoch for row in part]
        assert sorted(rows) == list(range(22))
    assert [part for _, part in objective.seen[:6]] != [part for _, part in objective.seen[6:12]]


def test_without_shuffle_rows_come_in_their_order():
    objective, _ = trained(replace(SETTINGS, shuffle=False, epochs=1))
    assert [row for _, part in objective.seen for row in part] == list(range(22))


def test_one_seed_gives_one_result_and_another_another():
    first, second, other = (
        weights(trained(dropout=0.3, runtime=Runtime(seed=seed))[0]) for seed in (1, 1, 2)
    )
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


def test_training_leaves_the_callers_chance_alone():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    trained(dropout=0.3)
    assert torch.equal(torch.rand(3), expected)


def test_running_out_of_memory_halves_the_micro_batch_and_goes_on():
    whole, plain = trained()
    small, fitted = trained(limit=1)
    assert fitted.micro == 1
    assert set(small.micros) == {1}
    assert fitted.losses == pytest.approx(plain.losses, rel=1e-5)
    assert torch.allclose(weights(small), weights(whole), atol=1e-5)


@pytest.mark.parametrize(
    ("on", "limit", "cut"), [(True, 1, ["train"]), (True, 9, []), (False, 1, [])]
)
def test_batches_that_memory_cut_are_recorded_where_dropout_draws_for_each_part(on, limit, cut):
    with Caveats.collecting() as found:
        trained(replace(SETTINGS, dropout=on), limit=limit, dropout=0.3)
    assert found.notes().get("cut_batches", []) == cut


def test_dropout_draws_by_share_also_after_resuming(tmp_path):
    """The same shares give the same weights, however often the training ended in between, and
    other shares give others.
    """
    runs = (trained(runtime=Runtime(shares=shares), dropout=0.3)[0] for shares in range(4))
    none, *whole = map(weights, runs)
    assert torch.equal(none, whole[0])
    assert len({tuple(found.tolist()) for found in whole}) == 3

    runtime = Runtime(shares=3, checkpoints=tmp_path, checkpoint_every=4)
    with pytest.raises(KeyboardInterrupt):
        fit(dies_at(9, Regression(dropout=0.3)), 22, SETTINGS, runtime)
    resumed, _ = trained(runtime=runtime, dropout=0.3)
    assert resumed.seen[0][0] == 8
    assert torch.equal(weights(resumed), whole[2])


def test_memory_that_does_not_hold_the_moments_of_adam_is_an_error_that_says_so():
    def full(*_):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 352.00 MiB")

    hook = register_optimizer_step_pre_hook(full)
    try:
        with pytest.raises(RaxalignError, match=r"in Adam's step.* GiB, whatever the batch"):
            fit(Regression(), 22, SETTINGS, Runtime())
    finally:
        hook.remove()


def test_a_loss_that_is_no_number_names_the_step_and_is_not_retried():
    objective = Regression()
    objective.y[7] = float("nan")
    told = r"diverged at step 2 of 18: loss nan \(1\.276 at the start\), learning_rate 0\.05\."
    with pytest.raises(TrainingDiverged, match=told) as caught:
        fit(objective, 22, replace(SETTINGS, shuffle=False), Runtime())
    assert not isinstance(caught.value, TransientError)


def test_a_loss_that_explodes_ends_the_training_soon():
    told = r"diverged at step 4 of 18: loss \S+ \(1\.276 at the start\), learning_rate 1000"
    with pytest.raises(TrainingDiverged, match=told) as caught:
        trained(replace(SETTINGS, learning_rate=1e3, warmup=0.0, shuffle=False))
    assert not isinstance(caught.value, TransientError)


def test_weights_that_the_last_step_broke_are_not_given_back():
    class Broken(Regression):
        def end(self, step):
            if step.number == 17:
                self.body[0].weight.fill_(float("inf"))

    told = r"diverged at step 18 of 18: .*the weights are not finite"
    with pytest.raises(TrainingDiverged, match=told):
        fit(Broken(), 22, SETTINGS, Runtime())


def test_a_gradient_that_is_no_number_is_named_where_it_is_clipped():
    class Steep(Regression):
        def loss(self, step, positions):
            return (
                super().loss(step, positions) + (0 * self.module["body"][0].weight).sqrt().sum()
            )  # the slope of sqrt at 0

    with pytest.raises(TrainingDiverged, match=r"at step 1 of 18: loss .*, gradient norm nan"):
        fit(Steep(), 22, replace(SETTINGS, clip=1.0), Runtime())


def test_a_training_that_did_not_lower_its_loss_is_noted_for_whoever_collects():
    with Caveats.collecting() as found:
        trained(replace(SETTINGS, epochs=20))
    assert found.not_lowered == {}
    with Caveats.collecting() as found:
        _, fitted = trained(replace(SETTINGS, learning_rate=0.5, warmup=0.0))
    assert found.not_lowered == {"train": (fitted.losses[0], fitted.losses[-1])}


def test_nothing_to_train_on_is_an_error():
    with pytest.raises(RaxalignError, match="no rows"):
        fit(Regression(), 0, SETTINGS, Runtime())


def test_curves_have_at_most_a_hundred_points_and_the_last():
    points = []
    runtime = Runtime(report=lambda metrics, step: points.append((step, metrics["train/loss"])))
    _, fitted = trained(replace(SETTINGS, steps=101), runtime)
    assert points[0] == (2, pytest.approx(sum(fitted.losses[:2]) / 2))
    assert points[-1] == (101, pytest.approx(fitted.losses[100]))
    assert len(points) == 51


class Killed(Exception):
    pass


def stop_at(step, **options):
    def report(_, number):
        if number == step:
            raise Killed

    return Runtime(report=report, **options)


@pytest.mark.parametrize("died", [5, 8, 13])
def test_a_resumed_training_equals_an_uninterrupted_one_bit_for_bit(tmp_path, died):
    whole, expected = trained(dropout=0.3)
    kept = {"checkpoints": tmp_path, "checkpoint_every": 4}
    with pytest.raises(Killed):
        trained(dropout=0.3, runtime=stop_at(died, **kept))
    objective, fitted = trained(dropout=0.3, runtime=Runtime(**kept))
    assert objective.seen[0][0] == (died - 1) // 4 * 4
    assert fitted.losses == expected.losses
    assert torch.equal(weights(objective), weights(whole))


def test_the_mode_is_set_at_the_start_and_after_each_selection_and_holds_in_every_step(monkeypatch):
    class Heard(Regression):
        def loss(self, step, positions):
            modes.append((self.module.training, self.body.training))
            return super().loss(step, positions)

    modes, given, objective = [], [], Heard(dropout=0.3)
    objective.body.eval()  # as an encoder is before its training, in a module that is not
    whole = objective.module.train
    monkeypatch.setattr(
        objective.module, "train", lambda mode=True: given.append(mode) or whole(mode)
    )
    fit(objective, 22, SETTINGS, Runtime(), keep=KeepBest(lambda _: 0.0))
    assert set(modes) == {(True, True)}
    assert given.count(True) == SETTINGS.epochs


def test_selection_keeps_the_best_weights_also_after_resuming(tmp_path):
    def run(runtime):
        objective, epochs = Regression(dropout=0.3), []
        scores = {1: 0.2, 2: 0.7, 3: 0.7, 4: 0.1}

        def select(epoch):
            assert not objective.module.training
            epochs.append(epoch)
            return scores[epoch]

        fitted = fit(objective, 22, replace(SETTINGS, epochs=4), runtime, keep=KeepBest(select))
        return weights(objective), fitted, epochs

    best, expected, _ = run(Runtime())
    assert (expected.selected, expected.scores) == (12, [(6, 0.2), (12, 0.7), (18, 0.7), (24, 0.1)])
    stopped, _ = trained(replace(SETTINGS, steps=12, warmup=2.4), dropout=0.3)
    assert torch.equal(best, weights(stopped))
    with pytest.raises(Killed):
        run(stop_at(17, checkpoints=tmp_path, checkpoint_every=5))
    resumed, fitted, epochs = run(Runtime(checkpoints=tmp_path, checkpoint_every=5))
    assert epochs == [3, 4]
    assert (fitted.selected, fitted.scores) == (expected.selected, expected.scores)
    assert torch.equal(resumed, best)


def test_a_checkpoint_of_another_training_is_not_used(tmp_path):
    with pytest.raises(Killed):
        trained(runtime=stop_at(9, checkpoints=tmp_path, checkpoint_every=4))
    kept = Runtime(checkpoints=tmp_path, checkpoint_every=100)
    other, _ = trained(replace(SETTINGS, learning_rate=0.01), kept)
    assert other.seen[0][0] == 0


@pytest.mark.parametrize("file", ["state.safetensors", "state.json"])
def test_a_checkpoint_with_one_flipped_bit_is_passed_over_with_a_warning(tmp_path, file):
    with pytest.raises(Killed):
        trained(runtime=stop_at(9, checkpoints=tmp_path, checkpoint_every=4))
    (folder,) = (tmp_path / "train").glob("step-*")
    data = bytearray((folder / file).read_bytes())
    data[-20] ^= 4
    (folder / file).write_bytes(data)
    with pytest.warns(UserWarning, match="a damaged checkpoint is passed over"):
        objective, _ = trained(runtime=Runtime(checkpoints=tmp_path, checkpoint_every=100))
    assert objective.seen[0][0] == 0


def test_a_checkpoint_is_tensors_and_json_and_only_the_newest_is_kept(tmp_path):
    trained(runtime=Runtime(checkpoints=tmp_path, checkpoint_every=4))
    (folder,) = (tmp_path / "train").iterdir()
    assert folder.name == "step-00000016"
    assert sorted(file.name for file in folder.iterdir()) == ["state.json", "state.safetensors"]
    assert json.loads((folder / "state.json").read_text())["step"] == 16


WATCHED = TrainSettings(learning_rate=0.05, batch_size=4, epochs=4, warmup=0.1)
SCORES = {6: 0.2, 12: 0.7, 18: 0.4, 24: 0.1}


@dataclass
class EndsAt:
    """A watch that ends a training at a step."""

    step: int
    languages: tuple[str, ...] = ("de", "fr")
    metric: str = "accuracy"
    heard: list[tuple[Moment, dict[str, float]]] = field(default_factory=list)

    def ends(self, scores, at):
        self.heard.append((at, dict(scores)))
        return at.step == self.step


def watched_training(runtime):
    """Train on 22 rows: 24 steps, with a selection after each sixth."""
    objective = Regression(dropout=0.3)

    def heard(watch):
        assert not objective.module.training
        return dict.fromkeys(watch.languages, 0.5)

    keep = KeepBest(lambda epoch: SCORES[6 * epoch], watched=heard)
    return objective, fit(objective, 22, WATCHED, runtime, keep=keep)


def test_a_watched_training_that_goes_on_is_the_same_training():
    plain, expected = watched_training(Runtime())
    watch = EndsAt(-1)
    watched, fitted = watched_training(Runtime(watch=watch))
    assert fitted == expected
    assert torch.equal(weights(watched), weights(plain))
    steps = [Moment(step, 24) for step in (6, 12, 18, 24)]
    assert watch.heard == [(at, {"de": 0.5, "fr": 0.5}) for at in steps]


@pytest.mark.parametrize("step", [6, 12, 18])
def test_a_pruned_training_made_whole_equals_an_undisturbed_one_bit_for_bit(tmp_path, step):
    whole, expected = watched_training(Runtime())
    with pytest.raises(Pruned, match=f"ended at step {step} of 24"):
        watched_training(Runtime(watch=EndsAt(step), checkpoints=tmp_path))
    assert [path.name for path in (tmp_path / "train").iterdir()] == [f"step-{step:08d}"]
    resumed, fitted = watched_training(Runtime(checkpoints=tmp_path))
    assert resumed.seen[0][0] == step
    assert fitted == expected
    assert torch.equal(weights(resumed), weights(whole))


def test_a_training_that_died_at_its_end_ends_there_again_without_a_step(tmp_path):
    with pytest.raises(Pruned):
        watched_training(Runtime(watch=EndsAt(12), checkpoints=tmp_path))
    again = EndsAt(12)
    with pytest.raises(Pruned):
        watched_training(Runtime(watch=again, checkpoints=tmp_path))
    assert again.heard == [(Moment(12, 24), {"de": 0.5, "fr": 0.5})]


def test_the_last_selection_is_heard_and_ends_nothing():
    watch = EndsAt(24)
    _, fitted = watched_training(Runtime(watch=watch))
    assert len(fitted.losses) == 24
    assert watch.heard[-1][0].is_last


def test_scores_of_dev_selections_are_reported_when_they_are_made():
    told = []

    def report(metrics, step):
        if not any(name.endswith(("loss", "_per_second", "rate")) for name in metrics):
            told.append((dict(metrics), step))

    runtime = Runtime(report=report)
    watched_training(runtime)
    assert told == [({"train/selection": score}, step) for step, score in SCORES.items()]
    told.clear()
    watched_training(replace(runtime, watch=EndsAt(-1)))
    watched = {"train/dev_de_accuracy": 0.5, "train/dev_fr_accuracy": 0.5}
    assert told[:2] == [({"train/selection": 0.2}, 6), (watched, 6)]
