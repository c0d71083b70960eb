from __future__ import annotations

import pytest

from raxalign.train._schedule import TrainSettings, make_order, rate_at


def rates(total: int = 10, **options: object) -> list[float]:
    settings = TrainSettings(learning_rate=2.0, batch_size=1, **options)  # type: ignore[arg-type]
    return [rate_at(settings, step, total) for step in range(total)]


def test_the_rate_rises_over_the_warmup_and_stays() -> None:
    assert rates(warmup=0.4) == pytest.approx([0.5, 1.0, 1.5, 2.0] + [2.0] * 6)


def test_warmup_from_one_on_counts_steps() -> None:
    assert rates(warmup=2) == pytest.approx([1.0] + [2.0] * 9)


def test_the_linear_schedule_ends_just_above_zero() -> None:
    assert rates(warmup=0.2, schedule="linear") == pytest.approx(
        [1.0, 2.0, 2.0, 1.75, 1.5, 1.25, 1.0, 0.75, 0.5, 0.25]
    )


def test_no_warmup_begins_at_the_peak() -> None:
    assert rates(3) == [2.0, 2.0, 2.0]


def test_the_last_batch_of_an_epoch_may_be_smaller() -> None:
    order = make_order(10, TrainSettings(1.0, 4, shuffle=False), seed=0)
    assert [(epoch, rows.tolist()) for epoch, rows in map(order.rows, range(4))] == [
        (0, [0, 1, 2, 3]),
        (0, [4, 5, 6, 7]),
        (0, [8, 9]),
        (1, [0, 1, 2, 3]),
    ]


def test_steps_replace_epochs() -> None:
    settings = TrainSettings(1.0, 4, epochs=3, steps=5)
    assert make_order(10, settings, 0).total(settings) == 5
