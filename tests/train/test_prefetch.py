"""The host's side of a step, made by a thread while the device computes the step before."""

import threading
import traceback
from dataclasses import replace

import pytest
import torch

from raxalign.train.loop import KeepBest, fit
from raxalign.train.options import TrainSettings
from raxalign.train.runtime import Pruned, Runtime
from tests.train.problems import Stacked, dies_at, weights

SETTINGS = TrainSettings(learning_rate=0.01, batch_size=8, epochs=3)
STEPS = 9
AHEAD = Runtime(prefetch=True)
THREAD = "raxalign-ahead_0"


def no_thread_is_left():
    return not any(t.name.startswith("raxalign-ahead") for t in threading.enumerate())


def test_a_card_has_its_steps_prepared_and_a_cpu_only_where_that_is_asked_for():
    assert Runtime(device="cuda").prepares_ahead
    assert Runtime(device="cuda:1").prepares_ahead
    assert not Runtime(device="cuda", prefetch=False).prepares_ahead
    assert not Runtime().prepares_ahead
    assert AHEAD.prepares_ahead


def test_every_step_but_the_first_is_prepared_by_the_thread_and_the_weights_are_equal():
    plain, ahead = Stacked(), Stacked()
    expected, found = fit(plain, 22, SETTINGS, Runtime()), fit(ahead, 22, SETTINGS, AHEAD)
    main = threading.current_thread().name
    assert plain.made == [(number, main) for number in range(STEPS)]
    assert ahead.made == [(0, main), *((number, THREAD) for number in range(1, STEPS))]
    assert found.losses == expected.losses
    assert torch.equal(weights(ahead), weights(plain))
    assert no_thread_is_left()


def test_an_error_of_the_thread_is_that_of_its_step_with_the_place_where_it_arose():
    class Fails(Stacked):
        def host_batch(self, step):
            if step.number == 4:
                raise ValueError("row 7 is damaged")
            return super().host_batch(step)

        def end(self, step):
            ended.append(step.number)

    ended = []
    with pytest.raises(ValueError, match="row 7 is damaged") as raised:
        fit(Fails(), 22, SETTINGS, AHEAD)
    assert ended == [0, 1, 2, 3], "the steps before are whole"
    places = traceback.extract_tb(raised.value.__traceback__)
    assert "host_batch" in [frame.name for frame in places]
    assert no_thread_is_left()


def test_the_thread_ends_with_a_training_that_fails_or_is_pruned(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        fit(dies_at(1, Stacked()), 22, SETTINGS, AHEAD)
    assert no_thread_is_left()

    class Ends:
        languages, metric = ("de",), "accuracy"

        def ends(self, *_):
            return True

    keep = KeepBest(lambda _: 1.0, watched=lambda _: {"de": 1.0})
    watched = replace(AHEAD, watch=Ends(), checkpoints=tmp_path)
    with pytest.raises(Pruned):
        fit(Stacked(), 22, SETTINGS, watched, keep=keep)
    assert no_thread_is_left()
    pruned = Stacked()
    fit(pruned, 22, SETTINGS, replace(watched, watch=None), keep=KeepBest(lambda _: 1.0))
    assert [number for number, _ in pruned.made] == [*range(3, STEPS)], "it goes on"


def test_micro_batches_that_became_smaller_are_prepared_anew():
    plain, ahead = (Stacked(limit=4000) for _ in range(2))
    expected, found = (
        fit(objective, 22, SETTINGS, replace(runtime, checkpointing="never"))
        for objective, runtime in ((plain, Runtime()), (ahead, AHEAD))
    )
    assert plain.ran_out == ahead.ran_out > 0
    assert found.micro == expected.micro < 8
    assert ahead.micros == plain.micros
    assert torch.equal(weights(ahead), weights(plain))


def test_memory_that_runs_out_while_a_step_is_prepared_makes_micro_batches_smaller():
    class Pins(Stacked):
        def host_part(self, step, batch, positions):
            if step.number > 1 and len(positions) > 4:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return super().host_part(step, batch, positions)

    fitted = fit(Pins(), 22, SETTINGS, replace(AHEAD, checkpointing="never"))
    assert fitted.micro == 3, "half of the six rows of the third step"


def test_a_training_that_goes_on_prepares_from_its_checkpoint_on(tmp_path):
    whole = Stacked()
    fit(whole, 22, SETTINGS, Runtime())

    runtime = replace(AHEAD, checkpoints=tmp_path, checkpoint_every=4)
    with pytest.raises(KeyboardInterrupt):
        fit(dies_at(5, Stacked()), 22, SETTINGS, runtime)
    goes_on = Stacked()
    fit(goes_on, 22, SETTINGS, runtime)
    assert [number for number, _ in goes_on.made] == list(range(4, STEPS))
    assert torch.equal(weights(goes_on), weights(whole))
