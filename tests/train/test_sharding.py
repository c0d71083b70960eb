"""Weights that two workers divide, really started, against one worker that has them whole."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.distributed.tensor import DTensor

from raxalign.encoders.models.folder import Footprint
from raxalign.encoders.models.trained_weights import Lora
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.methods.families import trained as family
from raxalign.sweep.gpu_shares import sharded_bytes
from raxalign.train import loop
from raxalign.train.loop import KeepBest, TrainSettings, fit
from raxalign.train.objective import Objective, Step
from raxalign.train.runtime import Runtime
from tests.families.subject import Subject
from tests.methods.contract import LANGUAGES, SIZE, asked_for, make
from tests.methods.toy import toy_encoder, toy_inputs
from tests.train.problems import Stacked, dies_at, weights
from tests.train.workers import run_workers

pytestmark = pytest.mark.slow

SETTINGS = TrainSettings(learning_rate=0.01, batch_size=5, epochs=3, weight_decay=0.1, clip=0.5)
SECOND = KeepBest(lambda epoch: -abs(epoch - 2.0))  # the second epoch is the best


class Divided(Stacked):
    """Blocks and a head, of which the first dimension cannot be halved; 21 rows leave one for the
    last batch of an epoch, so that the second worker has none.
    """

    shards = True

    def __init__(self) -> None:
        super().__init__(n=21)
        for part in self.parts:
            part[2].p = 0.0  # what is dropped depends on the worker
        self.encoder = SimpleNamespace(model=self.parts, blocks=lambda: tuple(self.parts))
        self.module["idle"] = torch.nn.Linear(3, 3)  # no loss has a gradient for it
        for parameter in self.module["idle"].parameters():
            torch.nn.init.ones_(parameter)

    def device_loss(self, step: Step, part: Any) -> torch.Tensor:
        states, targets = map(torch.from_numpy, part)
        for block in (*self.parts, self.parts[0]):  # as ALBERT runs one several times
            states = states + block(states)
        return (self.module["head"](states) - targets).pow(2).sum() / len(step.rows)


def live() -> int:
    """The bytes of all tensors that are there; a divided one counts with this worker's part."""
    gc.collect()
    found = (made for made in gc.get_objects() if issubclass(type(made), torch.Tensor))
    whole = (tensor.untyped_storage() for tensor in found if not isinstance(tensor, DTensor))
    return sum({storage.data_ptr(): storage.nbytes() for storage in whole}.values())


class Seen:
    """What the steps of a training do: the norms of their gradients, and the bytes that are there
    when Adam has first changed the weights, with gradients and moments.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.norms, self.bytes, self.before = list[float](), 0, live()
        clip, adam = loop.clip_gradients, loop.adam

        def clipped(*given: Any) -> torch.Tensor:
            norm = clip(*given)
            self.norms.append(float(norm))
            return norm

        def made(*given: Any) -> torch.optim.Optimizer:
            optimizer = adam(*given)
            optimizer.register_step_post_hook(lambda *_: self.count())
            return optimizer

        patch.setattr(loop, "clip_gradients", clipped)
        patch.setattr(loop, "adam", made)

    def count(self) -> None:
        self.bytes = self.bytes or live() - self.before


def train(runtime: Runtime) -> dict[str, Any]:
    objective = Divided()
    with pytest.MonkeyPatch.context() as patch:
        seen = Seen(patch)
        fitted = fit(objective, 21, SETTINGS, runtime, keep=SECOND)
    kept = {"weights": weights(objective).tolist(), "selected": fitted.selected}
    return {"losses": fitted.losses, "norms": seen.norms, **kept}


def work(rank: int, folder: Path) -> None:
    """One of two workers: trains to step 7 and stops, trains again from the checkpoint, which only
    the first one can see, and once more without one.
    """
    runtime = Runtime(rank=rank, world_size=2, shard_weights=True)
    kept = replace(runtime, checkpoints=folder / f"kept-{rank}", checkpoint_every=4)
    with pytest.raises(KeyboardInterrupt):
        fit(dies_at(7, Divided()), 21, SETTINGS, kept, keep=SECOND)
    found = {"resumed": train(kept), "whole": train(runtime)}
    (folder / f"{rank}.json").write_text(json.dumps(found))


def test_two_workers_that_divide_the_weights_give_the_result_of_one_also_after_resuming(tmp_path):
    run_workers(work, 2, tmp_path)
    one = train(Runtime())
    assert one["selected"] == 10
    for rank in (0, 1):
        for way, found in json.loads((tmp_path / f"{rank}.json").read_text()).items():
            assert found["selected"] == 10, way
            assert found["losses"] == pytest.approx(one["losses"], rel=1e-5), way
            assert found["weights"] == pytest.approx(one["weights"], abs=1e-5), way
            assert found["norms"] == pytest.approx(one["norms"][-len(found["norms"]) :], rel=1e-5)
            assert len(found["norms"]) == (15 if way == "whole" else 11)
    assert not list(tmp_path.glob("kept-1/*"))


STEADY = {"eps": 1e-4}
"""For the biases of keys, on which attention does not depend: their gradient is rounding alone, of
which Adam would make whole steps.
"""
CASES: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "all weights": ("mBERT", "finetune", "fp32", {**STEADY, "weight_decay": 0.1}),
    "masks": ("mBERT", "mlm", "fp32", {**STEADY, "mask_share": 0.02}),
    "distillation": ("mBERT", "distillation", "fp32", {"selection": "dev", "select_every": 2}),
    "adapters": ("Llama", "finetune", "fp32", {"lora": Lora(rank=4)}),
    "a held base": ("Llama", "finetune", "bf16", {"lora": Lora(rank=4)}),
    "half of the blocks": ("mBERT", "finetune", "fp32", {**STEADY, "freeze": "lower"}),
    "a second head": ("mBERT", "weam", "fp32", STEADY),
}
EVERY = Runtime(seed=3, shares=2, checkpoint_every=2)


def align(case: str, root: Path, runtime: Runtime) -> tuple[dict[str, Any], dict[str, Any]]:
    """Align a tiny encoder; return its weights, and what the training was."""
    name, kind, base, options = CASES[case]
    with pytest.MonkeyPatch.context() as patch:
        seen, losses = Seen(patch), list[float]()
        encoder = TransformerEncoder.from_folder(Subject.of(name, root).folder, base=base)  # type: ignore[arg-type]
        method = make(kind, root, **{"batch_size": 11, "clip": 1.0, "epochs": 2, **options})

        def report(values: Any, _: int) -> None:
            losses.extend(value for curve, value in values.items() if curve.endswith("/loss"))

        aligned = method.align(encoder, asked_for(method, root), replace(runtime, report=report))
    found = {name: p.detach().clone() for name, p in encoder.model.named_parameters()}
    course = {"losses": losses, "norms": seen.norms, "bytes": seen.bytes}
    return found, {**course, "last": aligned.notes["last_loss"]}


def dying(objective: Objective, *given: Any, **named: Any) -> Any:
    return fit(dies_at(2, objective), *given, **named)


def align_together(rank: int, folder: Path) -> None:
    """One of two workers; it is interrupted in the third step of each training, and goes on."""
    for case in CASES:
        runtime = replace(EVERY, rank=rank, world_size=2, shard_weights=True)
        runtime = replace(runtime, checkpoints=folder / f"{case}-kept-{rank}")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(family, "fit", dying)
            with pytest.raises(KeyboardInterrupt):
                align(case, folder, runtime)
        gc.collect()
        # a checkpoint takes longer than the steps here, and those of later steps are not read
        found, course = align(case, folder, replace(runtime, checkpoint_every=100))
        save_file(found, folder / f"{case}-{rank}.safetensors")
        (folder / f"{case}-{rank}.json").write_text(json.dumps(course))


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("together")
    toy_encoder(folder / "encoder")
    toy_inputs(folder, SIZE, LANGUAGES)
    for name in {name for name, *_ in CASES.values()}:
        Subject.of(name, folder)
    run_workers(align_together, 2, folder)
    return folder


@pytest.fixture(scope="module")
def alone(together: Path) -> Callable[[str], tuple[dict[str, Any], dict[str, Any]]]:
    made: dict[str, Any] = {}

    def get(case: str) -> tuple[dict[str, Any], dict[str, Any]]:
        if case not in made:
            made[case] = align(case, together, EVERY)
        return made[case]

    return get


@pytest.mark.parametrize("case", CASES)
def test_an_encoder_is_trained_as_by_one_worker_also_where_it_was_interrupted(
    case, together, alone
):
    expected, one = alone(case)
    for rank in (0, 1):
        found = load_file(together / f"{case}-{rank}.safetensors")
        assert found.keys() == expected.keys()
        for name, weight in expected.items():
            assert found[name].dtype == weight.dtype
            assert torch.allclose(found[name], weight, rtol=0, atol=1e-5), name
        two = json.loads((together / f"{case}-{rank}.json").read_text())
        assert two["norms"] == pytest.approx(one["norms"][-len(two["norms"]) :], rel=1e-5)
        assert two["last"] == pytest.approx(one["last"], rel=1e-5)
        if rank == 0:
            assert two["losses"] == pytest.approx(one["losses"][-len(two["losses"]) :], rel=1e-5)


@pytest.mark.parametrize("case", ["all weights", "a held base"])
def test_each_worker_has_its_part_of_weights_gradients_and_moments_alone(case, together, alone):
    """The frozen twin counts too."""
    weights, one = alone(case)
    n = sum(weight.numel() for weight in weights.values())
    rule = partial(sharded_bytes, Footprint(n, 32, n), 2, held=case == "a held base")
    for rank in (0, 1):
        two = json.loads((together / f"{case}-{rank}.json").read_text())
        assert two["bytes"] <= 0.6 * one["bytes"]
        assert two["bytes"] <= rule()
    if case == "all weights":
        assert one["bytes"] >= 19 * n
