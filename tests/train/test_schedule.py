from __future__ import annotations

import pytest

from raxalign.train._schedule import RowOrder, TrainSettings, rate_at


def rates(total: int = 10, **options: object) -> list[float]:
    settings = TrainSettings(learning_rate=2.0, batch_size=1, **options)
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
    order = RowOrder(10, TrainSettings(1.0, 4, shuffle=False), 0)
    assert [(epoch, rows.tolist()) for epoch, rows in map(order.rows, range(4))] == [
        (0, [0, 1, 2, 3]),
        (0, [4, 5, 6, 7]),
        (0, [8, 9]),
        (1, [0, 1, 2, 3]),
    ]


def test_steps_replace_epochs() -> None:
    settings = TrainSettings(1.0, 4, epochs=3, steps=5)
    assert settings.total(10) == 5


def test_the_cosine_schedule_is_half_a_cosine_after_the_warmup() -> None:
    # 2 (1 + cos(π k / 4)) / 2 for k = 0 ... 3 after two steps of warm-up, and 0 would come next
    root = 2**0.5 / 2
    assert rates(6, warmup=2, schedule="cosine") == pytest.approx(
        [1.0, 2.0, 2.0, 1 + root, 1.0, 1 - root]
    )


def test_the_inverse_square_root_schedule_continues_the_warmup_without_a_jump() -> None:
    # 2 sqrt(4 / t) for the steps t = 5, 9 and 16, counted from 1
    found = rates(16, warmup=0.25, schedule="inverse-sqrt")
    assert found[:4] == pytest.approx([0.5, 1.0, 1.5, 2.0])
    assert (found[4], found[8], found[15]) == pytest.approx((4 / 5**0.5, 4 / 3, 1.0))


def test_the_inverse_square_root_without_warmup_falls_from_the_first_step() -> None:
    assert rates(4, schedule="inverse-sqrt") == pytest.approx([2.0, 2 / 2**0.5, 2 / 3**0.5, 1.0])


@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine", "inverse-sqrt"])
@pytest.mark.parametrize(("fraction", "steps"), [(0.2, 2.0), (0.5, 5.0)])
def test_a_fraction_of_the_steps_warms_up_as_that_number_of_steps(schedule, fraction, steps):
    assert rates(10, warmup=fraction, schedule=schedule) == pytest.approx(
        rates(10, warmup=steps, schedule=schedule)
    )


@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine", "inverse-sqrt"])
def test_a_warmup_longer_than_the_training_rises_to_its_end(schedule: str) -> None:
    assert rates(4, warmup=8, schedule=schedule) == pytest.approx([0.25, 0.5, 0.75, 1.0])
