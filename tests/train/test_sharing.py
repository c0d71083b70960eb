"""Measurements that the workers of a training share."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from raxalign.train.dev import DevLoss
from raxalign.train.loop import KeepBest, TrainSettings, fit
from raxalign.train.objective import Step
from raxalign.train.runtime import Runtime
from raxalign.train.sharing import shared, sharing
from tests.train.problems import Regression
from tests.train.workers import run_workers


def test_a_worker_alone_computes_all_parts_in_their_order() -> None:
    assert list(shared("abc", str.upper)) == [("a", "A"), ("b", "B"), ("c", "C")]
    with sharing(Runtime()):
        assert list(shared("abc", str.upper)) == [("a", "A"), ("b", "B"), ("c", "C")]


def test_a_worker_of_three_computes_every_third_part_and_has_the_others_from_their_workers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    computed: list[str] = []

    def gathered(own: list[str], workers: int) -> list[list[str]]:
        assert (own, workers) == (["B", "E"], 3)
        return [["A", "D"], own, ["C"]]

    def compute(part: str) -> str:
        computed.append(part)
        return part.upper()

    monkeypatch.setattr("raxalign.train.sharing.gather_values", gathered)
    with sharing(Runtime(rank=1, world_size=3)):
        assert "".join(found for _, found in shared("abcde", compute)) == "ABCDE"
    assert computed == ["b", "e"]
    assert len(list(shared("abcde", compute))) == len(computed) - 2, "outside of the block"


class Counting(Regression):
    """Counts the batches that are measured."""

    measured = 0

    def begin(self, step: Step) -> None:
        self.measured += 1


SETTINGS = TrainSettings(learning_rate=0.05, batch_size=5, epochs=2)


def select(rank: int, folder: Path) -> None:
    """One of two workers, which choose weights by 5 batches of dev rows."""
    objective, dev = Regression(n=21), Counting(n=14)
    dev.body, dev.module = objective.body, objective.module
    loss, alone = DevLoss(dev, 14, 3, seed=0), list[float]()
    measured: list[int] = []

    def score(epoch: int) -> float:
        before = dev.measured
        together = loss.measure()
        measured.append(dev.measured - before)
        with sharing(Runtime()):
            alone.append(loss.measure())
        return together

    runtime = Runtime(rank=rank, world_size=2)
    fitted = fit(objective, 21, SETTINGS, runtime, keep=KeepBest(score, lowest=True))
    assert measured == [3 - rank] * 2
    found = {"alone": alone, "scores": fitted.scores, "selected": fitted.selected}
    (folder / f"{rank}.json").write_text(json.dumps(found), encoding="utf-8")


@pytest.mark.slow
def test_two_workers_share_the_dev_loss_and_have_it_bit_for_bit_as_one_has_it(
    tmp_path: Path,
) -> None:
    torch.set_num_threads(1)
    run_workers(select, 2, tmp_path)
    first, second = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1))
    assert first["alone"] == second["alone"] == [score for _, score in first["scores"]]
    assert [step for step, _ in first["scores"]] == [5, 10]
    assert first["selected"] in (5, 10)
