"""Encoders that are held in bfloat16: what is computed with them, what they take, what is kept."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from raxalign.encoders.models import held_base
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.trained_weights import Lora, adapted, frozen_copy
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.errors import RaxalignError
from raxalign.tasks.transfer.head import FineTuned
from raxalign.train import loop
from raxalign.train.runtime import Runtime
from tests.families.subject import Subject
from tests.methods.contract import LANGUAGES, SIZE, asked_for, losses_of, make
from tests.methods.toy import toy_encoder, toy_inputs
from tests.train.problems import live
from tests.train.workers import run_workers

STEPS, RATE = 20, 3e-3


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("held")
    toy_encoder(folder / "encoder")
    toy_inputs(folder, SIZE, LANGUAGES)
    return folder


def held(family: str, root: Path, base: str = "bf16") -> TransformerEncoder:
    return TransformerEncoder.from_folder(Subject.of(family, root).folder, base=base)  # type: ignore[arg-type]


def states(encoder: TransformerEncoder) -> torch.Tensor:
    batch = encoder.collate(encoder.pieces([["haus", "rot", "alt"], ["ein", "hund"]], "de"))
    with torch.no_grad():
        found = encoder.hidden(batch)
    return torch.cat([state[batch.mask_BT.bool()] for state in found])


def distance(found: torch.Tensor, truth: torch.Tensor) -> float:
    return float((found - truth).norm() / truth.norm())


def tuned(
    encoder: TransformerEncoder, root: Path, kind: str = "finetune", seed: int = 1, **options: Any
) -> tuple[list[float], AlignedEncoder]:
    """Train adapters on the toy; return the losses, and what comes out."""
    method = make(kind, root, **{"lora": Lora(rank=4), "batch_size": 4, **options})
    return losses_of(method, root, Runtime(seed=seed, precision=encoder.precision), encoder)


@pytest.fixture(scope="module")
def wide_losses(root: Path) -> list[float]:
    return tuned(held("Llama", root, "fp32"), root, steps=STEPS, learning_rate=RATE)[0]


@pytest.mark.parametrize("products", ["fp32", "bf16"])
def test_losses_are_those_of_a_float32_base_within_a_hundredth_over_twenty_steps(
    products, root, wide_losses
):
    encoder = held("Llama", root)
    encoder.precision = products
    losses, _ = tuned(encoder, root, steps=STEPS, learning_rate=RATE)
    assert len(wide_losses) == len(losses) == STEPS
    assert wide_losses[-1] < 0.9 * wide_losses[0]
    assert losses == pytest.approx(wide_losses, rel=1e-2)
    assert losses != wide_losses


def test_a_frozen_parameter_takes_two_bytes_and_only_adapters_have_moments_and_copies(root):
    """The frozen twin of fine-tuning shares the base. All tensors count that the training has made,
    its rows too.
    """
    before, found = live(), {}

    def count(_: Mapping[str, float], step: int) -> None:
        found[step] = live()

    encoder = held("Llama", root)
    weights = dict(encoder.model.named_parameters())
    frozen = sum(weight.numel() for weight in weights.values())
    ends = ("q_proj.weight", "v_proj.weight")
    adapters = sum(4 * sum(w.shape) for name, w in weights.items() if name.endswith(ends))
    method = make("finetune", root, lora=Lora(rank=4), steps=2)
    method.align(encoder, asked_for(method, root), Runtime(report=count))
    held_bytes = sum(size for place, size in found[2].items() if place not in before)
    assert 2 * frozen < held_bytes <= 2.2 * frozen + (4 + 4 + 8) * adapters
    merged = sum(w.numel() for name, w in weights.items() if name.endswith(ends))
    after = sum(w.numel() * w.element_size() for w in encoder.model.parameters())
    vectors = sum(w.numel() for w in weights.values() if w.ndim == 1)
    assert after == 2 * frozen + 2 * (merged + vectors)


def test_loading_never_has_the_weights_in_float32(root, monkeypatch):
    seen = []

    def hold(model: Any, *, exactly: bool) -> None:
        seen.extend((parameter.dtype, exactly) for parameter in model.parameters())

    monkeypatch.setattr(held_base, "hold", hold)
    held("Llama", root)
    assert set(seen) == {(torch.bfloat16, False)}


@pytest.mark.parametrize("family", ["mBERT", "mDeBERTa-v3", "mT5 encoder", "Gemma", "XLM"])
def test_states_and_logits_are_those_of_rounded_weights(family, root):
    plain, encoder = held(family, root, "fp32"), held(family, root)
    pairs = zip(plain.model.named_parameters(), encoder.model.parameters(), strict=True)
    with torch.no_grad():
        for (name, weight), held_one in pairs:
            weight.copy_(weight.to(torch.bfloat16))
            assert torch.equal(weight, held_one.float()), name
    assert distance(states(encoder), states(plain)) < (1e-2 if family in ROUNDS else 1e-6)
    if plain.has_head:
        above = states(plain)[-3:]
        assert distance(encoder.lm_logits(above), plain.lm_logits(above)) < 1e-6


ROUNDS = ("mT5 encoder", "Gemma")
"""Architectures that round to the type of a weight by themselves: what enters the last product of a
feed-forward layer, and the scale of the embeddings.
"""


def test_what_is_kept_loses_nothing_and_is_held_again(root, tmp_path):
    _, aligned = tuned(held("Llama", root), root, steps=3)
    assert isinstance(aligned.encoder, TransformerEncoder)
    aligned.save(tmp_path / "kept")
    made = states(aligned.encoder)

    def base() -> TransformerEncoder:
        raise AssertionError("the weights have changed")

    for how in ("bf16", "fp32"):
        again = AlignedEncoder.load(tmp_path / "kept", base, held=how).encoder
        assert isinstance(again, TransformerEncoder)
        assert again.base_precision == how
        assert distance(states(again), made) < 1e-6
        types = [p.dtype for p in again.model.parameters()]
        own = [p.dtype for p in aligned.encoder.model.parameters()]
        assert types == (own if how == "bf16" else [torch.float32] * len(own))
    from transformers import AutoModel

    opened = AutoModel.from_pretrained(tmp_path / "kept" / "encoder")
    assert {p.dtype for p in opened.parameters()} == {torch.float32}


@pytest.mark.parametrize("kind", ["ppa", "weam", "distillation"])
def test_what_methods_train_besides_is_float32(kind, root, monkeypatch):
    trained: list[torch.dtype] = []

    def adam(parameters: list[torch.nn.Parameter], settings: loop.TrainSettings) -> Any:
        trained.extend(parameter.dtype for parameter in parameters)
        return made(parameters, settings)

    made = loop.adam
    monkeypatch.setattr(loop, "adam", adam)
    losses, _ = tuned(held("mBERT", root), root, kind, steps=6)
    assert set(trained) == {torch.float32}
    assert losses[-1] == losses[-1]  # not NaN


def test_a_copy_shares_what_is_not_trained(root):
    model = toy_encoder(root / "encoder").model
    first, *others = model.parameters()
    first.requires_grad_(requires_grad=False)
    copied = list(frozen_copy(model).parameters())
    assert copied[0] is first
    for own, other in zip(others, copied[1:], strict=True):
        assert torch.equal(own, other)
        assert own.data_ptr() != other.data_ptr()
        assert own.requires_grad
        assert not other.requires_grad


def test_a_held_encoder_is_trained_by_adapters_alone(root):
    encoder = held("mBERT", root)
    with pytest.raises(RaxalignError, match=r"base_precision: bf16 .* this task trains them"):
        FineTuned(AlignedEncoder(encoder), 2, dropout=0.0, max_length=32, seed=0)
    assert not any(parameter.requires_grad for parameter in encoder.model.parameters())
    with pytest.raises(RaxalignError, match=r"here all are trained: set `lora`"):
        tuned(encoder, root, lora="none")
    with adapted(encoder, Lora(rank=2), 0):
        trained = [p.dtype for p in encoder.model.parameters() if p.requires_grad]
        assert set(trained) == {torch.float32}


def work(rank: int, folder: Path) -> None:
    """One of two workers."""
    runtime = Runtime(seed=3, rank=rank, world_size=2)
    method = make("finetune", folder, lora=Lora(rank=4), steps=4, dropout=False)
    aligned = method.align(held("mBERT", folder), asked_for(method, folder), runtime)
    if rank == 0:
        aligned.save(folder / "two")


@pytest.mark.slow
def test_two_workers_train_what_one_trains(tmp_path):
    toy_inputs(tmp_path, SIZE, LANGUAGES)
    encoder = held("mBERT", tmp_path)
    tuned(encoder, tmp_path, seed=3, steps=4, batch_size=8, dropout=False)
    run_workers(work, 2, tmp_path)
    both = TransformerEncoder.from_folder(tmp_path / "two" / "encoder", base="bf16")
    assert distance(states(both), states(encoder)) < 1e-5
    assert distance(states(both), states(held("mBERT", tmp_path))) > 1e-3
