"""When a training has diverged, and when its loss did not fall, by losses written by hand."""

import math
from dataclasses import replace

import pytest

from raxalign.errors import TrainingDiverged
from raxalign.losses import Course

COURSE = Course("", 100, 0.1)
FALLING = [1.0 - 0.005 * k for k in range(100)]


def steps_until_refused(losses, total, *, start=0, unit=1.0):
    """The first step (1-based) at which a training with these losses ends, None where it goes on to
    the end.
    """
    course, steps = Course("", total, 0.1, start, unit), range(1, len(losses) + 1)
    return next((k for k in steps if course.explodes(losses[:k])), None)


def test_a_loss_that_stays_above_twenty_times_the_first_one_is_divergence():
    losses = [0.94, *[84_084.0] * 99]
    assert steps_until_refused(losses, 100) == 6  # 5 % of 100 steps after the first
    assert steps_until_refused([0.94, 84_084.0, 84_084.0, 84_084.0], 4) == 4  # 3 steps at least


@pytest.mark.parametrize(
    "losses",
    [
        FALLING,
        [1.0, 500.0, 400.0, 300.0, 200.0, *[0.9] * 95],  # a burst that passes within five steps
        [0.0, *[19.0] * 99],  # a regulariser, or a contrast that begins with few negatives
        [math.log(3), *[12.0] * 99],
        [300.0, *[5_000.0] * 99],
    ],
)
def test_what_a_healthy_or_a_merely_bad_training_does_is_no_divergence(losses):
    assert steps_until_refused(losses, 100) is None


def test_losses_are_compared_with_the_first_that_has_all_their_parts_and_by_their_weight():
    late = [0.0] * 10 + [50.0] * 90
    heavy = [4.4, *[70_000.0] * 99]  # a weight of 10^6, and a drift of 0.07
    assert steps_until_refused(late, 100) is not None
    assert steps_until_refused(late, 100, start=10) is None
    assert steps_until_refused(heavy, 100) == 6
    assert steps_until_refused(heavy, 100, unit=1e6) is None


def test_the_message_has_step_losses_rate_and_the_options_name():
    course, exploded = Course("finetune", 12, 1000.0), [0.94, 84_084.0, 84_084.0, 84_084.0]
    with pytest.raises(TrainingDiverged) as caught:
        course.check(exploded, rate=1000.0)
    assert str(caught.value) == (
        "finetune: training diverged at step 4 of 12: loss 84084 (0.94 at the start),"
        " learning_rate 1000. Choose a smaller `learning_rate`, or a longer `warmup`"
    )
    course = Course("xnli", 12, 0.1)
    with pytest.raises(TrainingDiverged, match=r"loss nan, learning_rate 0\.1, 0\.05 at this step"):
        course.check([math.nan], rate=0.05)
    told = r"loss 0\.5 \(1 at the start\), gradient norm inf, learning_rate"
    with pytest.raises(TrainingDiverged, match=told):
        course.check([1.0, 0.5], rate=0.1, fault="gradient norm inf")


def test_a_training_that_ends_where_it_began_or_above_is_remarked_on():
    assert COURSE.not_lowered(FALLING) is None
    assert COURSE.not_lowered([2.0] * 20) == (2.0, 2.0)
    assert COURSE.not_lowered([1.0, 2.0]) == (1.0, 2.0)
    assert COURSE.not_lowered([1.0]) is None
    begin, end = COURSE.not_lowered([*[1.0, 1.2] * 5, *[3.0] * 80, *[0.9, 1.4] * 5]) or (0.0, 0.0)
    assert (begin, end) == (pytest.approx(1.1), pytest.approx(1.15))
    burst = [0.9, 50.0, *[1.7] * 18]
    assert COURSE.not_lowered(burst) == (0.9, pytest.approx(1.7)), (
        "it does not hide that the loss rose"
    )
    lucky = [0.5, *[1.2, 0.8] * 10, *[0.4, 0.9] * 10]
    assert COURSE.not_lowered(lucky) is None, "the first batch alone was low"
    assert replace(COURSE, start=10).not_lowered([0.0] * 10 + [5.0, 4.0, 3.0, 2.0]) is None


def test_a_training_that_ends_while_its_loss_falls_steeply_is_hardly_begun():
    begin, end, late = COURSE.still_falling(FALLING) or (0.0, 0.0, 0.0)
    assert (begin, end) == (pytest.approx(0.9775), pytest.approx(0.5525))
    assert late == pytest.approx(0.1)
    assert replace(COURSE, start=10).still_falling([*[0.0] * 10, *FALLING]) == (begin, end, late)


def test_a_loss_that_has_settled_or_falls_by_chance_alone_is_no_reason_to_go_on():
    assert COURSE.still_falling([math.exp(-0.05 * k) for k in range(100)]) is None
    assert COURSE.still_falling([5.0 - math.log(k + 1) for k in range(10_000)]) is None
    noisy = [1.0 - 0.0002 * k + 0.3 * (-1) ** k for k in range(100)]
    assert COURSE.still_falling(noisy) is None
    assert COURSE.still_falling(FALLING[:19]) is None
    assert COURSE.still_falling(FALLING[::-1]) is None
