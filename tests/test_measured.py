"""What a declaration of a metric says, and what it refuses."""

import math

import pytest

from raxalign.measured import Measured, count, share, standard_error


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"better": "smaller"}, "x: better is 'smaller'; write higher, lower or neither"),
        ({"role": "main"}, "x: role is 'main'; write score, part, count or error"),
        ({"unit": "percent"}, "x: unit is 'percent'; write share, count or number"),
        ({"range": (1.0, 0.0)}, r"x: range is \(1.0, 0.0\), which no number has"),
        ({"unit": "share", "range": (-1.0, 1.0)}, "which no share has"),
    ],
)
def test_a_word_that_nothing_reads_is_refused_where_it_is_declared(wrong, message):
    with pytest.raises(ValueError, match=message):
        Measured("x", "Something.", **wrong)


def test_a_value_outside_its_limits_is_named_with_them():
    assert share("f1", "F1.").fault(41.5) == "is 41.5, outside the range 0 to 1 of its unit share"
    cosine = Measured("cosine", "Mean cosine.", "neither", range=(-1.0, 1.0))
    assert cosine.fault(-1.5) == "is -1.5, outside the range -1 to 1"
    assert count("pairs", "Pairs.").fault(2.5).startswith("is 2.5, which is not a whole number")
    assert count("pairs", "Pairs.").fault(-1.0).startswith("is -1, outside the range 0 to inf")


def test_a_value_within_its_limits_is_no_fault():
    """A sum of ones may be above 1 by rounding, and a mean of counts need not be whole."""
    assert share("f1", "F1.").fault(math.fsum([0.1] * 10) + 1e-15) == ""
    assert count("pairs", "Pairs.").fault(2.5, mean=True) == ""
    assert Measured("distance", "Mean distance.").fault(-300.0) == ""


def test_more_is_better_of_a_plain_number_and_what_nothing_declares_is_neutral():
    """A name says nothing: not the direction, not the unit, not that it is a count."""
    for metric in ("alignment_error_rate", "accuracy", "accuracy_pairs", "layer3_f1"):
        found = Measured.undeclared(metric)
        assert (found.sign, found.unit, found.role) == (0, "number", "score")
        assert not found.declared
    plain = Measured("distance", "Mean distance.")
    assert (plain.unit, plain.better, plain.role, plain.sign) == ("number", "higher", "score", 1)
    assert count("pairs", "Pairs.").sign == standard_error("stderr", "Error.").sign == 0
    assert (count("pairs", "Pairs.").unit, standard_error("e", "Error.").unit) == ("count", "share")
