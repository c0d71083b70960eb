"""Packed rows that attend by the places where sentences begin, against sentences alone."""

import warnings

import numpy as np
import pytest
import torch

from raxalign.encoders.models import flash, packing
from raxalign.encoders.models.flash import NAME, Scoring, SentenceRuns, attend, implementation
from raxalign.encoders.models.packing import attends_by_runs, can_pack, flat_states, pack
from tests.encoders.architectures import encoder_of

LENGTHS = np.array([3, 20, 1, 11, 6])


def plain_attend(query, key, value, runs, scoring):
    """What the kernel of a card computes, under a mask."""
    owners = torch.repeat_interleave(torch.arange(len(runs.edges_N) - 1), runs.edges_N.diff())
    place = torch.arange(len(owners))
    sees = owners[:, None] == owners
    if scoring.window is not None:
        sees &= (place[:, None] - place).abs() <= scoring.window
    parts = (part.transpose(0, 1)[None] for part in (query, key, value))
    how = {"dropout_p": scoring.dropout, "scale": scoring.scale, "enable_gqa": True}
    found = torch.nn.functional.scaled_dot_product_attention(*parts, sees, **how)
    return found[0].transpose(0, 1)


@pytest.fixture
def kernels(monkeypatch):
    """A CPU that passes for a card: in place of its kernels, attention is computed plainly."""
    monkeypatch.setattr(packing, "has_kernels", lambda *_: True)
    monkeypatch.setattr(flash, "attend", plain_attend)


def sentences():
    random = np.random.default_rng(1)
    return [random.integers(5, 60, n) for n in LENGTHS]


def states_of(encoder, width):
    packed = pack(np.concatenate(sentences()), LENGTHS, 0, width)
    return flat_states(encoder, packed, (0, 1, 2, 3)), packed.starts_S


def alone(encoder, sentence):
    rows = pack(sentence, np.array([len(sentence)]), 0, 0)
    return [state[0] for state in encoder.hidden(packing.one_per_row(encoder, rows))]


def test_a_run_ends_with_its_sentence_and_with_its_row():
    rows = np.array([[0, 0, 0, 1], [2, 2, -1, -1], [3, 4, 4, 5]])
    runs = SentenceRuns.of(rows, "cpu")
    assert runs.edges_N.tolist() == [0, 3, 4, 6, 8, 9, 11, 12]
    assert (runs.edges_N.dtype, runs.longest) == (torch.int32, 3)
    padded = SentenceRuns.of(np.array([[0, 0, -1], [1, 1, 1]]), "cpu")
    assert padded.edges_N.tolist() == [0, 2, 3, 6]


def test_the_kernel_of_a_card_takes_what_it_is_given():
    """Its shapes alone, on the device of tensors without values: no card is here."""
    rows = SentenceRuns(torch.empty(4, dtype=torch.int32, device="meta"), 7)
    how = {"dtype": torch.bfloat16, "device": "meta", "requires_grad": True}
    query, key, value = (torch.empty(12, 4, 16, **how) for _ in range(3))
    found = attend(query, key, value, rows, Scoring(0.1, 0.25, 3))
    assert (found.shape, found.dtype) == (query.shape, torch.bfloat16)
    for gradient in torch.autograd.grad(found.sum(), (query, key, value)):
        assert gradient.shape == query.shape


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("name", ["bert", "xlm-r", "modernbert", "electra"])
def test_packed_sentences_have_the_states_that_they_have_alone(name):
    encoder = encoder_of(name)
    assert can_pack(encoder)
    assert implementation(encoder.model) == NAME
    for width in (0, 21, 41):
        states, starts = states_of(encoder, width)
        for start, sentence in zip(starts, sentences(), strict=True):
            expected = alone(encoder, sentence)
            for layer in range(4):
                found = states[layer][start : start + len(sentence)]
                assert torch.allclose(found, expected[layer], atol=1e-5)


@pytest.mark.usefixtures("kernels")
def test_the_probe_compares_with_float32_within_a_block_of_autocast_too():
    encoder, seen = encoder_of("bert"), []
    encoder.precision = "bf16"
    block = encoder.model.base_model.encoder.layer[0].attention.self.query
    block.register_forward_hook(lambda *made: seen.append(made[-1].dtype))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert attends_by_runs(encoder)
    assert seen == [torch.float32, torch.bfloat16, torch.bfloat16]


def test_gradients_are_those_under_the_mask(request):
    found = []
    for way in ("mask", "runs"):
        if way == "runs":
            request.getfixturevalue("kernels")
        encoder = encoder_of("bert")
        assert attends_by_runs(encoder) is (way == "runs")
        packed = pack(np.concatenate(sentences()), LENGTHS, 0, 21)
        (states,) = flat_states(encoder, packed, (3,))
        states[torch.from_numpy(packed.sentences_BT.reshape(-1) >= 0)].sin().sum().backward()
        # biases of keys change no weight
        weights = [w for n, w in encoder.model.named_parameters() if not n.endswith("key.bias")]
        found.append([weight.grad for weight in weights if weight.grad is not None])
    assert len(found[0]) == len(found[1]) > 40
    for masked, by_runs in zip(*found, strict=True):
        assert (masked - by_runs).norm() <= 1e-5 * masked.norm() + 1e-5


@pytest.mark.usefixtures("kernels")
def test_attention_has_its_dropout_in_training_alone(monkeypatch):
    encoder, seen = encoder_of("bert"), []
    assert attends_by_runs(encoder)

    def watched(*given):
        seen.append(given[-1].dropout)
        return plain_attend(*given)

    monkeypatch.setattr(flash, "attend", watched)
    states_of(encoder, 21)
    encoder.model.train()
    states_of(encoder, 21)
    assert seen == [0.0] * 3 + [0.1] * 3


def one_run(query, key, value, runs, scoring):
    """A kernel in which sentences see each other."""
    return plain_attend(query, key, value, SentenceRuns(runs.edges_N[[0, -1]], len(query)), scoring)


def broken(*_):
    raise RuntimeError("no kernel image is available")


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize(("kernel", "said"), [(one_run, "not those"), (broken, "no kernel image")])
def test_a_kernel_that_differs_or_fails_is_not_used_with_a_warning(monkeypatch, kernel, said):
    encoder = encoder_of("bert")
    expected, _ = states_of(encoder_of("bert"), 21)
    monkeypatch.setattr(flash, "attend", kernel)
    with pytest.warns(UserWarning, match=said):
        assert not attends_by_runs(encoder)
    assert implementation(encoder.model) == "sdpa"
    assert can_pack(encoder)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the warning came before, once
        found, _ = states_of(encoder, 21)
    for a, b in zip(found, expected, strict=True):
        assert torch.allclose(a, b, atol=1e-5)


@pytest.mark.usefixtures("kernels")
def test_a_probe_changes_neither_mode_nor_precision_nor_what_learns_nor_what_is_saved(tmp_path):
    encoder = encoder_of("bert")
    encoder.model.train().requires_grad_(requires_grad=False)
    encoder.precision = "bf16"
    before = torch.random.get_rng_state()
    with torch.no_grad():
        assert attends_by_runs(encoder)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert (encoder.model.training, encoder.precision) == (True, "bf16")
    weights = list(encoder.model.parameters())
    assert not any(weight.requires_grad or weight.grad is not None for weight in weights)
    encoder.save(tmp_path)
    assert NAME not in (tmp_path / "config.json").read_text("utf-8")


@pytest.mark.usefixtures("kernels")
def test_scores_that_kernels_cannot_have_leave_the_mask():
    encoder = encoder_of("mt5")
    with pytest.warns(UserWarning, match="flash attention is not used"):
        assert not attends_by_runs(encoder)


def test_on_a_cpu_the_mask_stays_and_sentences_longer_than_the_window_share_rows_by_runs_alone(
    request,
):
    encoder, modern = encoder_of("bert"), encoder_of("modernbert")
    encoder.precision = "bf16"
    assert not flash.has_kernels(encoder.model, "bf16", encoder.device)
    assert can_pack(encoder)
    assert encoder.by_runs is None
    assert implementation(encoder.model) == "sdpa"
    assert not can_pack(modern)
    request.getfixturevalue("kernels")
    assert can_pack(encoder_of("modernbert"))
