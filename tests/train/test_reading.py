"""When the losses of a training are read, what holds by then, and tokens per second."""

from dataclasses import replace

import pytest
import torch

from raxalign.errors import TrainingDiverged
from raxalign.train import loop
from raxalign.train.loop import EVERY, KeepBest, LossReader, fit
from raxalign.train.options import TrainSettings
from raxalign.train.runtime import Runtime, TokenRate
from tests.train.problems import Regression

SETTINGS = TrainSettings(learning_rate=0.05, batch_size=4, steps=40)


@pytest.fixture
def reads(monkeypatch):
    """The numbers of losses that were known after each reading; the clock asks for none."""
    found = []
    read = LossReader.read

    def noted(self, losses):
        read(self, losses)
        found.append(len(losses))

    monkeypatch.setattr(LossReader, "read", noted)
    monkeypatch.setattr(loop, "SECONDS", float("inf"))
    return found


class Broken(Regression):
    """Its loss is not a number from a step on."""

    def __init__(self, step):
        super().__init__()
        self.step = step

    def loss(self, step, positions):
        found = super().loss(step, positions)
        return found * float("nan") if step.number >= self.step else found


def test_losses_are_read_every_few_steps_and_at_the_end(reads):
    fitted = fit(Regression(), 22, SETTINGS, Runtime())
    assert reads == [EVERY, 2 * EVERY, 40]
    assert len(fitted.losses) == 40


def test_when_they_are_read_changes_no_loss_and_no_curve(monkeypatch):
    def run(every):
        monkeypatch.setattr(loop, "EVERY", every)
        curves = []

        def report(values, step):
            curves.append(({k: v for k, v in values.items() if "tokens" not in k}, step))

        return fit(Regression(dropout=0.3), 22, SETTINGS, Runtime(report=report)).losses, curves

    assert run(1) == run(7)


def test_what_diverged_is_neither_saved_nor_scored(reads, tmp_path):
    scored = []

    def score(epoch):
        scored.append(epoch)
        return 0.0

    runtime = Runtime(checkpoints=tmp_path, checkpoint_every=4)
    with pytest.raises(TrainingDiverged, match="at step 6"):
        fit(Broken(5), 22, SETTINGS, runtime, keep=KeepBest(score, every=3))
    assert scored == [0 + 1]
    assert [path.name for path in (tmp_path / "train").iterdir()] == ["step-00000004"]
    assert reads == [3, 4]


def test_in_a_group_the_clock_has_no_part_in_it(monkeypatch):
    monkeypatch.setattr(loop, "SECONDS", 0.0)
    alone, together = (
        LossReader(Regression(), SETTINGS, 40, replace(Runtime(), world_size=n), "train")
        for n in (1, 2)
    )
    one = torch.ones(2)
    for read in (alone, together):
        read.add(one)
    assert alone.due()
    assert not together.due()


class Encoder(torch.nn.Module):
    """Words and positions, as in BERT."""

    def __init__(self):
        super().__init__()
        tables = {"word": torch.nn.Embedding(50, 4), "position": torch.nn.Embedding(8, 4)}
        self.embeddings = torch.nn.ModuleDict(tables)

    def forward(self, ids):
        places = torch.arange(ids.shape[1])
        return self.embeddings["word"](ids) + self.embeddings["position"](places)


def test_tokens_are_counted_once_and_per_second(monkeypatch):
    clock = [10.0]
    monkeypatch.setattr(loop.time, "monotonic", lambda: clock[0])
    module = torch.nn.ModuleDict({"trained": Encoder(), "head": torch.nn.Linear(4, 2)})
    rate = TokenRate(module)
    for _ in range(3):
        module["trained"](torch.zeros(2, 5, dtype=torch.long))
    clock[0] += 2.0
    assert rate.take() == 3 * 2 * 5 / 2.0
    clock[0] += 1.0
    assert rate.take() is None


def test_a_closed_rate_counts_no_more():
    module = Encoder()
    rate = TokenRate(module)
    rate.close()
    module(torch.zeros(2, 5, dtype=torch.long))
    assert rate.take() is None
    assert not module.embeddings["word"]._forward_pre_hooks


def test_a_module_without_embeddings_has_no_rate():
    assert TokenRate(torch.nn.Linear(2, 2)).take() is None
