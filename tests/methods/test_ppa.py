import math

import numpy as np
import pytest
import torch

from raxalign.errors import RaxalignError
from raxalign.methods.families.rows import Bitexts
from raxalign.methods.ppa import EMPTY, Moco, PostPretraining, full_at, info_nce
from raxalign.train.loop import fit
from raxalign.train.objective import Step
from raxalign.train.options import TrainSettings
from raxalign.train.runtime import Runtime
from tests.methods.contract import make, of_ids, resolved, summed
from tests.methods.toy import toy_encoder, toy_inputs
from tests.train.problems import dies_at

BOTH = resolved("ppa", queue_size=10, projection=8) | {"queue_start": "random"}
MOCO_ALONE = BOTH | {"tlm": False}
SETTINGS = TrainSettings(1e-3, batch_size=9, epochs=3, dropout=False)


def objective(root, options=BOTH):
    encoder, inputs = toy_encoder(root / "encoder"), toy_inputs(root)
    return PostPretraining(encoder, Bitexts.read(encoder, inputs.bitext, "en", 32), options, seed=2)


def notes_of(root, kind="ppa", **params):
    """What a training of two epochs notes."""
    method = make(kind, root, epochs=2, projection=8, **params)
    return method.align(toy_encoder(root / "encoder"), toy_inputs(root), Runtime(seed=1)).notes


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
    expected = notes_of(tmp_path, "tlm", dropout=False)
    found = notes_of(tmp_path, moco=False, dropout=False)
    for name in ("first_loss", "last_loss"):
        assert found[name] == pytest.approx(expected[name], rel=1e-5)


def test_until_the_queue_is_full_there_is_no_contrast(tmp_path):
    trained, tlm = (objective(tmp_path, OPTIONS[name]) for name in ("held back", "tlm alone"))
    *before, third = (Step(n, 0, np.arange(6) + n, seed=1, micro=6) for n in range(3))
    for step in before:
        assert summed(trained, step) == pytest.approx(summed(tlm, step), rel=1e-6)
        trained.end(step)
    assert summed(trained, third) > summed(tlm, third)


def test_keys_are_those_of_the_slow_encoder_in_the_order_of_the_batch_without_gradient(tmp_path):
    trained = objective(tmp_path, MOCO_ALONE)
    step = Step(0, 0, np.array([4, 1, 8]), seed=1, micro=2)
    trained.begin(step)
    sum(trained.loss(step, part) for part in (np.array([2, 0]), np.array([1]))).backward()
    slow = [*trained.moco.key.parameters(), *trained.moco.key_head.parameters()]
    assert all(p.grad is None for p in slow)
    assert all(p.grad is not None for p in trained.moco.head.parameters())
    with torch.no_grad():
        for parameter in trained.moco.query.parameters():
            parameter.zero_()
        trained.end(step)
    assert trained.moco.pivots_K[:3].tolist() == trained.pivots_P[[4, 1, 8]].tolist()
    slow = objective(tmp_path, MOCO_ALONE)
    for place in range(3):
        row = trained.host[1].take(np.array([place]))
        with torch.no_grad():
            states = slow.moco.key(**of_ids(row.ids, row.segments)).last_hidden_state[:, 0]
        wanted = slow.moco.embed(states, slow=True)[0]
        assert torch.allclose(trained.moco.queue_KD[place], wanted, atol=1e-5)


def test_the_order_of_the_two_sentences_is_drawn_for_each_pair_and_step(tmp_path):
    trained = objective(tmp_path)
    turned = []
    for number in range(20):
        trained.begin(Step(number, 0, np.arange(24), seed=1, micro=24))
        queries, keys, masked = trained.host
        read = (queries, keys, masked.rows)
        first, second, pair = (rows.langs[rows.offsets[:-1]] for rows in read)
        assert (first != second).all()
        assert (first == pair).all()
        turned.append(first)
    share = np.mean(turned)
    assert 0.4 < share < 0.6
    assert not np.array_equal(turned[0], turned[1])


def test_a_training_that_was_broken_off_goes_on_as_if_it_had_not_been(tmp_path):
    whole = objective(tmp_path)
    losses = fit(whole, 24, SETTINGS, Runtime(seed=1)).losses
    runtime = Runtime(seed=1, checkpoints=tmp_path / "checkpoints", checkpoint_every=2)
    with pytest.raises(KeyboardInterrupt):
        fit(dies_at(5, objective(tmp_path)), 24, SETTINGS, runtime)
    again = objective(tmp_path)
    assert fit(again, 24, SETTINGS, runtime).losses == losses
    state, expected = again.module.state_dict(), whole.module.state_dict()
    assert all(torch.equal(state[name], expected[name]) for name in expected)


def test_the_steps_before_a_queue_is_full_are_those_that_find_too_few_keys():
    others = (8, 4, 2, 8), (5, 8, 4, 7), (24, 9, 1, 18)
    for n, batch, epochs, size in (*((10, 4, 3, s) for s in range(1, 25)), *others):
        sizes = [min(batch, n - start) for start in range(0, n, batch)] * epochs
        before = [sum(sizes[:step]) for step in range(len(sizes))]
        assert full_at(n, batch, len(sizes), size)[1] == before[-1]
        if size <= before[-1]:
            full = next(step for step, keys in enumerate(before) if keys >= size)
            assert full_at(n, batch, len(sizes), size)[0] == full


def test_a_queue_that_is_never_full_is_refused(tmp_path):
    told = "the queue is never full: 2 epochs of 24 sentence pairs put 40 keys .* queue_size is 41"
    with pytest.raises(RaxalignError, match=told):
        notes_of(tmp_path, queue_size=41)
    assert notes_of(tmp_path, queue_size=40)["held_back"] == 5
    assert notes_of(tmp_path, queue_size=41, profile="paper", min_pieces=1)["held_back"] == 0


def test_pairs_that_are_too_short_are_left_out_and_none_left_is_an_error(tmp_path):
    notes = notes_of(tmp_path, min_pieces=8, moco=False)
    assert 0 < notes["de"]["sentences"] < 24
    with pytest.raises(RaxalignError, match=r"none of the 24 sentence pairs .* relax min_pieces"):
        notes_of(tmp_path, min_pieces=100)


def moco(folder, **options):
    encoder = toy_encoder(folder / "encoder")
    small = {**resolved("ppa"), "queue_size": 7, "queue_start": "random", "projection": 3}
    return Moco(encoder.model, encoder.hidden_size, small | options, seed=5)


def keys(first, n):
    """Keys that tell their number, and pivot sentences ten times that."""
    numbers = torch.arange(first, first + n)
    return numbers[:, None].float().expand(n, 3), 10 * numbers


def test_the_loss_is_that_of_the_formula_by_hand():
    query = torch.tensor([[1.0, 0.0], [0.6, 0.8]], dtype=torch.float64)
    positive = torch.tensor([[0.8, 0.6], [0.0, 1.0]], dtype=torch.float64)
    queue = torch.tensor([[0.0, 1.0], [-1.0, 0.0], [0.6, -0.8]], dtype=torch.float64)
    same = torch.tensor([[False, False, False], [True, False, False]])
    # Row 0: 0.8 | 0, -1, 0.6; row 1: 0.8 | (0.8 is not a negative), -0.6, 0.36 - 0.64; all over
    # 0.5.
    losses = info_nce(query, positive, queue, same, 0.5)
    by_hand = [
        math.log(1 + math.exp(-1.6) + math.exp(-3.6) + math.exp(-0.4)),
        math.log(1 + math.exp(-2.8) + math.exp(-2.16)),
    ]
    assert losses.tolist() == pytest.approx(by_hand, abs=1e-12)


def test_the_copies_follow_encoder_and_head_and_have_no_gradients(tmp_path):
    contrast = moco(tmp_path)
    before = {name: p.clone() for name, p in contrast.module.named_parameters()}
    with torch.no_grad():
        for part in (contrast.query, contrast.head):
            for parameter in part.parameters():
                parameter.add_(100.0)
    contrast.follow()
    slow = dict(contrast.key.named_parameters())
    assert slow.keys() == dict(contrast.query.base_model.named_parameters()).keys()
    for name, parameter in [
        *((f"key.{n}", p) for n, p in slow.items()),
        *((f"key_head.{n}", p) for n, p in contrast.key_head.named_parameters()),
    ]:
        assert torch.allclose(parameter, before[name] + 0.1, atol=1e-6), name
        assert not parameter.requires_grad


def test_keys_stand_in_their_order_and_push_out_the_oldest_also_across_the_end(tmp_path):
    contrast = moco(tmp_path, queue_size=7)
    for first in (1, 4, 7):
        contrast.enqueue(*keys(first, 3))
    assert contrast.queue_KD[:, 0].tolist() == [8, 9, 3, 4, 5, 6, 7]
    assert contrast.pivots_K.tolist() == [80, 90, 30, 40, 50, 60, 70]
    contrast.enqueue(*keys(10, 1))
    assert contrast.queue_KD[:, 0].tolist() == [8, 9, 10, 4, 5, 6, 7]
    contrast.enqueue(*keys(20, 9))
    assert sorted(contrast.queue_KD[:, 0].tolist()) == list(range(22, 29))
    assert contrast.queue_KD[int(contrast.count - 1) % 7, 0] == 28


def test_a_random_queue_has_unit_vectors_of_no_sentence(tmp_path):
    contrast = moco(tmp_path)
    assert contrast.is_ready()
    assert torch.allclose(contrast.queue_KD.norm(dim=-1), torch.ones(7), atol=1e-6)
    assert (contrast.pivots_K == EMPTY).all()


def test_what_is_compared_is_the_projection_of_the_unit_vector(tmp_path):
    plain, unit = moco(tmp_path, normalize_z=False), moco(tmp_path)
    states = torch.randn(4, 32)
    h = states / states.norm(dim=-1, keepdim=True)
    w1, b1, w2, b2 = (p.detach() for p in plain.head.parameters())
    z = torch.relu(h @ w1.T + b1) @ w2.T + b2
    assert torch.allclose(plain.embed(states), z, atol=1e-6)
    assert torch.allclose(plain.embed(3 * states, slow=True), z, atol=1e-6)
    assert torch.allclose(unit.embed(states), z / z.norm(dim=-1, keepdim=True), atol=1e-6)


def test_keys_of_the_rows_own_pivot_sentence_are_no_negatives(tmp_path):
    contrast = moco(tmp_path, queue_size=3)
    z, pivots = torch.nn.functional.normalize(torch.randn(3, 3), dim=-1), torch.tensor([4, 5, 6])
    contrast.enqueue(z, pivots)
    query, positive = z[1:2], torch.nn.functional.normalize(z[1:2] + z[:1], dim=-1)
    masked, free = (contrast.losses(query, positive, torch.tensor([own])) for own in (5, 9))
    left = info_nce(query, positive, z[[0, 2]], torch.zeros(1, 2, dtype=torch.bool), 0.05)
    assert torch.allclose(masked, left, atol=1e-6)
    assert (free > masked).all()
