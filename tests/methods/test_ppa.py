from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.errors import RaxalignError
from raxalign.methods.objectives.ppa import PostPretraining, full_at
from raxalign.methods.ppa import Ppa
from raxalign.methods.rows.sentences import read_bitexts
from raxalign.methods.tlm import Tlm
from raxalign.train.loop import TrainSettings, fit
from raxalign.train.objective import Step
from raxalign.train.runtime import Runtime
from tests.methods.contract import resolved
from tests.methods.toy import toy_encoder, toy_inputs
from tests.train.workers import run_workers

BOTH = resolved("ppa", queue_size=10, momentum=0.9, queue_start="random", projection=8)
MOCO_ALONE = BOTH | {"tlm": False}
SETTINGS = TrainSettings(1e-3, batch_size=9, epochs=3, dropout=False)


def objective(root: Path, options: dict[str, Any] = BOTH) -> PostPretraining:
    encoder, inputs = toy_encoder(root / "encoder"), toy_inputs(root)
    return PostPretraining(encoder, read_bitexts(encoder, inputs.bitext, "en", 32), options, seed=2)


def summed(trained: PostPretraining, step: Step) -> float:
    trained.begin(step)
    return sum(float(trained.loss(step, positions).detach()) for positions in step.micro_batches())


def aligned(root: Path, **params: object) -> AlignedEncoder:
    small = {
        "batch_size": 8,
        "queue_size": 16,
        "max_length": 32,
        "epochs": 2,
        "learning_rate": 1e-3,
        "projection": 8,
    }
    return Ppa(Ppa.Params.model_validate({**small, **params})).align(
        toy_encoder(root / "encoder"), toy_inputs(root), Runtime(seed=1)
    )


OPTIONS = {
    "both": BOTH,
    "moco alone": MOCO_ALONE,
    "tlm alone": BOTH | {"moco": False},
    "mlm for tlm": BOTH | {"mlm_for_tlm": True},
    "held back": BOTH | {"queue_start": "full"},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_micro_batches_of_any_size_sum_to_the_loss_of_the_whole_batch(name, tmp_path):
    trained, rows = objective(tmp_path, OPTIONS[name]), np.array([5, 3, 23, 0, 11, 12, 7, 2, 19])
    found = [summed(trained, Step(0, 0, rows, seed=1, micro=micro)) for micro in (9, 4, 1)]
    assert found[1:] == pytest.approx([found[0]] * 2, rel=1e-5)
    shares = [
        summed(trained, Step(0, 0, rows, seed=1, rank=rank, world_size=2, micro=9))
        for rank in (0, 1)
    ]
    assert sum(shares) == pytest.approx(found[0], rel=1e-5)


def test_the_loss_is_the_sum_of_its_two_parts(tmp_path):
    step = Step(0, 0, np.arange(9), seed=1, micro=9)
    both, moco, tlm = (
        summed(objective(tmp_path, OPTIONS[name]), step)
        for name in ("both", "moco alone", "tlm alone")
    )
    assert both == pytest.approx(moco + tlm, rel=1e-5)
    assert min(moco, tlm) > 0


def test_without_moco_it_is_the_method_tlm(tmp_path):
    tlm = Tlm(Tlm.Params(batch_size=8, max_length=32, epochs=2, learning_rate=1e-3, dropout=False))
    expected = tlm.align(
        toy_encoder(tmp_path / "encoder"), toy_inputs(tmp_path), Runtime(seed=1)
    ).notes
    found = aligned(tmp_path, moco=False, dropout=False).notes
    assert (found["first_loss"], found["last_loss"]) == pytest.approx(
        (expected["first_loss"], expected["last_loss"]), rel=1e-5
    )


def test_until_the_queue_is_full_there_is_no_contrast(tmp_path):
    trained, tlm = (
        objective(tmp_path, OPTIONS["held back"]),
        objective(tmp_path, OPTIONS["tlm alone"]),
    )
    first, second, third = (
        Step(number, 0, np.arange(6) + number, seed=1, micro=6) for number in range(3)
    )
    for step in (first, second):
        assert summed(trained, step) == pytest.approx(summed(tlm, step), rel=1e-6)
        trained.end(step)
    assert summed(trained, third) > summed(tlm, third)


def test_keys_are_those_of_the_slow_encoder_in_the_order_of_the_batch_without_gradient(tmp_path):
    trained = objective(tmp_path, MOCO_ALONE)
    assert trained.moco is not None
    step = Step(0, 0, np.array([4, 1, 8]), seed=1, micro=2)
    trained.begin(step)
    sum(trained.loss(step, part) for part in (np.array([2, 0]), np.array([1]))).backward()
    assert all(
        p.grad is None
        for part in (trained.moco.key, trained.moco.key_head)
        for p in part.parameters()
    )
    assert all(p.grad is not None for p in trained.moco.head.parameters())
    with torch.no_grad():
        for parameter in trained.moco.query.parameters():
            parameter.zero_()
        trained.end(step)
    assert trained.host.keys is not None
    assert trained.moco.pivots_K[:3].tolist() == trained.pivots_P[[4, 1, 8]].tolist()
    slow = objective(tmp_path, MOCO_ALONE)
    assert slow.moco is not None
    for place in range(3):
        ids = trained.host.keys.take(np.array([place])).ids
        with torch.no_grad():
            states = slow.moco.key(
                input_ids=torch.from_numpy(ids.astype(np.int64))[None]
            ).last_hidden_state[:, 0]
        assert torch.allclose(
            trained.moco.queue_KD[place], slow.moco.embed(states, slow=True)[0], atol=1e-5
        )


def test_the_order_of_the_two_sentences_is_drawn_for_each_pair_and_step(tmp_path):
    trained = objective(tmp_path)
    turned = []
    for number in range(20):
        trained.begin(Step(number, 0, np.arange(24), seed=1, micro=24))
        drawn = trained.host
        assert drawn.masked is not None
        first, second, pair = (
            rows.langs[rows.offsets[:-1]] for rows in (drawn.queries, drawn.keys, drawn.masked.rows)
        )
        assert (first != second).all()
        assert (first == pair).all()
        turned.append(first)
    share = np.mean(turned)
    assert 0.4 < share < 0.6
    assert not np.array_equal(turned[0], turned[1])


@pytest.mark.slow
def test_a_training_that_was_broken_off_goes_on_as_if_it_had_not_been(tmp_path):
    class Stopped(Exception):
        pass

    whole = objective(tmp_path)
    losses = fit(whole, 24, SETTINGS, Runtime(seed=1)).losses
    runtime, broken = (
        Runtime(seed=1, checkpoints=tmp_path / "checkpoints", checkpoint_every=2),
        objective(tmp_path),
    )
    end = broken.end

    def stop(step: Step) -> None:
        if step.number == 5:
            raise Stopped
        end(step)

    broken.end = stop
    with pytest.raises(Stopped):
        fit(broken, 24, SETTINGS, runtime)
    again = objective(tmp_path)
    assert fit(again, 24, SETTINGS, runtime).losses == losses
    state, expected = again.module.state_dict(), whole.module.state_dict()
    assert all(torch.equal(state[name], expected[name]) for name in expected)


@pytest.mark.slow
def test_training_lowers_the_contrast(tmp_path):
    notes: Any = aligned(tmp_path, tlm=False, epochs=40, dropout=False, momentum=0.9).notes
    assert (notes["steps"], notes["held_back"], notes["de"]["sentences"]) == (120, 2, 24)
    assert notes["last_loss"] < 0.7 * notes["first_loss"]  # which is nearly that of chance, log 17


@pytest.mark.parametrize(
    "params",
    [{"moco": False}, {"tlm": False}, {"mlm_for_tlm": True}, {"profile": "paper", "min_pieces": 3}],
)
def test_the_parts_of_it_train_too(params, tmp_path):
    found = aligned(tmp_path, **params)
    assert found.weights_changed
    assert np.isfinite(found.notes["last_loss"])


def test_the_steps_before_a_queue_is_full_are_those_that_find_too_few_keys():
    for n, batch, epochs, size in [(10, 4, 3, s) for s in range(1, 25)] + [
        (8, 4, 2, 8),
        (5, 8, 4, 7),
        (24, 9, 1, 18),
    ]:
        sizes = [min(batch, n - start) for start in range(0, n, batch)] * epochs
        before = [sum(sizes[:step]) for step in range(len(sizes))]
        assert full_at(n, batch, len(sizes), size)[1] == before[-1]
        if size <= before[-1]:
            assert full_at(n, batch, len(sizes), size)[0] == next(
                step for step, keys in enumerate(before) if keys >= size
            )


def test_a_queue_that_is_never_full_is_refused(tmp_path):
    with pytest.raises(
        RaxalignError,
        match=(
            r"the queue is never full: 2 epochs of 24 sentence pairs put 40 keys .* queue_size"
            r" is 41"
        ),
    ):
        aligned(tmp_path, queue_size=41)
    assert aligned(tmp_path, queue_size=40).notes["held_back"] == 5
    assert aligned(tmp_path, queue_size=41, queue_start="random").notes["held_back"] == 0


def test_pairs_that_are_too_short_are_left_out_and_none_left_is_an_error(tmp_path):
    notes: Any = aligned(tmp_path, min_pieces=8, moco=False).notes
    assert 0 < notes["de"]["sentences"] < 24
    with pytest.raises(RaxalignError, match=r"none of the 24 sentence pairs .* relax min_pieces"):
        aligned(tmp_path, min_pieces=100)


def test_identity_is_resolved_and_has_nothing_idle():
    def canonical(**params: object) -> dict[str, Any]:
        return Ppa(Ppa.Params.model_validate(params)).canonical()

    paper = canonical(profile="paper")
    assert (
        paper["queue_start"],
        paper["normalize_z"],
        paper["min_pieces"],
        paper["queue_size"],
    ) == ("random", False, 10, 32_000)
    assert "profile" not in paper
    assert paper == canonical(
        queue_start="random", normalize_z=False, min_pieces=10, max_pieces=128
    )
    assert None not in canonical().values()
    assert canonical(moco=False, queue_size=4) == canonical(moco=False, temperature=0.1)
    assert canonical(tlm=False, mlm_for_tlm=True) == canonical(tlm=False)
    assert "queue_size" not in canonical(moco=False)
    with pytest.raises(ValidationError, match="nothing to train"):
        Ppa.Params(moco=False, tlm=False)


def work(rank: int, folder: Path) -> None:
    """One of two workers; the toy files were written before."""
    encoder = toy_encoder(folder / "encoder")
    bitexts = read_bitexts(encoder, {"de": folder / "bitext-de"}, "en", 32)
    trained = PostPretraining(encoder, bitexts, OPTIONS["held back"], seed=2)
    losses = fit(trained, 24, SETTINGS, Runtime(seed=1, rank=rank, world_size=2)).losses
    assert trained.moco is not None
    queue = trained.moco.queue_KD.flatten().tolist()
    (folder / f"{rank}.json").write_text(
        json.dumps({"losses": losses, "queue": queue, "pivots": trained.moco.pivots_K.tolist()})
    )


@pytest.mark.slow
def test_two_workers_have_the_losses_and_the_queue_of_one(tmp_path):
    one = objective(tmp_path, OPTIONS["held back"])
    losses = fit(one, 24, SETTINGS, Runtime(seed=1)).losses
    assert one.moco is not None
    run_workers(work, 2, tmp_path)
    for rank in (0, 1):
        found = json.loads((tmp_path / f"{rank}.json").read_text())
        assert found["losses"] == pytest.approx(losses, rel=1e-5)
        assert found["queue"] == pytest.approx(one.moco.queue_KD.flatten().tolist(), abs=1e-4)
        assert found["pivots"] == one.moco.pivots_K.tolist()
