"""FittedCurves over sizes: what is fitted, against values by hand, and what is refused."""

import math
from dataclasses import replace

import numpy as np
import pytest

from benchmarks import curves as simulated
from raxalign.analysis.curve import Curve, FittedCurves
from raxalign.analysis.significance import Runs

LOGS = {100: 0.10, 1_000: 0.20, 10_000: 0.30}  # .1 for each power of ten


def runs_of(value, noise=1e-6, runs=3, seed=0):
    """Runs about a value, with a little noise of the runs and of 50 examples."""
    rng = np.random.default_rng(seed)
    values = value + noise * np.array([-1.0, 0.0, 1.0, 0.5, -0.5][:runs])
    influences = noise * rng.normal(size=(runs, 50)) / 50
    influences -= influences.mean(1, keepdims=True)
    return Runs(tuple(range(runs)), values, np.arange(50), influences, chance=True)


def curves_of(**values):
    return FittedCurves(
        {
            name: {n: runs_of(v, seed=k) for k, (n, v) in enumerate(of.items())}
            for name, of in values.items()
        }
    )


def test_three_sizes_get_a_straight_line_over_the_logarithm():
    curve = Curve.fit(list(LOGS), np.array([*LOGS.values()]), np.full(3, 2.0))
    assert curve.bend == 0
    assert (curve.level, curve.slope) == pytest.approx((0.1, 0.1 / math.log(10)))
    assert curve.at(100_000) == pytest.approx(0.4)
    assert curve.weights(1_000) == pytest.approx([1 / 3, 1 / 3, 1 / 3])
    assert curve.weights(10_000) == pytest.approx([-1 / 6, 1 / 3, 5 / 6])


def test_a_power_law_that_saturates_is_found_as_it_is():
    sizes = [100, 400, 1_600, 6_400]
    means = np.array([0.2 + 0.3 * (1 - (n / 100) ** -0.5) / 0.5 for n in sizes])
    curve = Curve.fit(sizes, means, np.ones(4))
    assert (curve.level, curve.slope, curve.bend) == pytest.approx((0.2, 0.3, 0.5))
    assert curve.at(25_600) == pytest.approx(0.2 + 0.3 * (1 - 1 / 16) / 0.5)


def test_the_interval_where_runs_alone_are_random_is_student_s_with_all_their_freedom():
    """Three sizes of three runs with variance 1: the middle is their mean, with 1 / 9 of it."""
    values = np.array([-1.0, 0.0, 1.0])
    units, flat = np.arange(2), np.zeros((3, 2))
    runs = {n: Runs((0, 1, 2), 10 + values, units, flat, chance=True) for n in LOGS}
    found = FittedCurves({"one": runs}).at("one", 1_000)
    assert found.value == pytest.approx(10)
    assert (found.high or 0) - 10 == pytest.approx(2.4469 / 3, abs=2e-3)  # t(6), .975


def test_what_one_method_is_worth_in_pairs_of_another_and_where_they_cross():
    curves = curves_of(one=LOGS, other={n: 0.05 + 2 * v for n, v in LOGS.items()})
    above = curves.worth("other", 100, "one")  # .25 is that of 10 ** 3.5
    assert above is not None
    assert above.value == pytest.approx(10**3.5, rel=0.01)
    assert (above.low or 0) <= above.value <= (above.high or 0)
    assert curves.worth("other", 10_000, "one") is None  # .65 is beyond four times the largest
    crossing = curves_of(one=LOGS, other=dict.fromkeys(LOGS, 0.25)).crossing("one", "other")
    assert crossing is not None
    assert crossing.value == pytest.approx(10**3.5, rel=0.01)
    assert curves.crossing("one", "other") is None


def shares(values, examples):
    """Runs without chance, (name, size) -> a share of examples, each drawn on its own."""
    rng, units = np.random.default_rng(0), np.arange(examples)
    found = {}
    for key, value in values.items():
        right = rng.permutation(units < value * examples)
        noise = (right - value)[None] / examples
        found[key] = Runs((None,), np.array([value]), units, noise, False, True, limits=(0, 1))
    return found


def test_intervals_of_a_curve_end_where_the_values_of_its_metric_do():
    curves = FittedCurves({"one": shares({100: 0.98, 400: 0.99, 1_600: 1.0}, 300)})
    ends = [curves.at("one", size) for size in (100, 1_600)]
    assert all(one is not None and (one.low or 0) >= 0 and (one.high or 0) <= 1 for one in ends)
    assert ends[1] is not None
    assert (ends[1].value, ends[1].high) == pytest.approx((1.0, 1.0))
    flat = FittedCurves({"one": shares(dict.fromkeys(LOGS, 1.0), 50)})
    assert flat.at("one", 40_000) is not None  # rounding leaves no range


def test_a_curve_has_no_value_beyond_the_range_of_its_metric():
    """Twelve points for four times the data: 70 % with 100 become 100 % with 100 * 4 ** 2.5."""
    rising = {100: 0.70, 400: 0.82, 1_600: 0.94}
    curves = FittedCurves(
        {
            "rising": shares(rising, 300),
            "falling": shares({n: 1 - v for n, v in rising.items()}, 300),
            "above": shares(dict(zip(rising, (0.71, 0.90, 0.99), strict=True)), 300),
        }
    )
    assert curves.at("rising", 3_200) is not None
    for name in ("rising", "falling"):
        assert curves.at(name, 6_400) is None
        told = "its curve leaves the range of the metric at 3,200 pairs"
        assert curves.curves[name].leaves(6_400) == told
        assert curves.curves[name].leaves(3_200) == ""
    assert curves.at("above", 1_600) is None  # its line has 100.7 % there
    assert curves.worth("above", 1_600, "rising") is None


def test_curves_that_would_cross_beyond_the_range_of_their_metric_do_not():
    """A line of 9 points for four times the data meets one of 12 at 104 %."""
    rising = shares({100: 0.70, 400: 0.82, 1_600: 0.94}, 400)
    upper = shares({100: 0.785, 400: 0.875, 1_600: 0.965}, 400)
    assert FittedCurves({"one": rising, "other": upper}).crossing("one", "other") is None
    free = [{n: replace(r, limits=(-1, 2)) for n, r in of.items()} for of in (rising, upper)]
    found = FittedCurves({"one": free[0], "other": free[1]}).crossing("one", "other")
    assert found is not None
    assert found.value == pytest.approx(100 * 4 ** (8.5 / 3), rel=0.01)


def test_values_beside_a_curve_are_said_to_be():
    kinked = curves_of(one={100: 0.1, 1_000: 0.4, 10_000: 0.2}, other=LOGS)
    why = "its values do not lie on a straight line over the logarithm of the size"
    assert kinked.misfit("one") == f"{why}; a curve that bends takes four sizes"
    assert kinked.misfit("other") == ""
    waved = curves_of(one={100: 0.1, 400: 0.4, 1_600: 0.1, 6_400: 0.4})
    assert waved.misfit("one") == f"{why}, nor on a curve that bends"


def test_runs_that_share_their_training_at_all_sizes_are_not_counted_as_several():
    """What is the same at all sizes stays random in their mean."""
    values = np.array([-0.01, 0.0, 0.01])
    own = {n: runs_of(v, noise=1e-9) for n, v in LOGS.items()}
    same = {
        n: Runs(r.seeds, r.values + values, r.units, r.influences, chance=True)
        for n, r in own.items()
    }
    apart, shared = FittedCurves({"one": same}), FittedCurves({"one": same}, shared=["one"])
    half = [(c.at("one", 1_000).high or 0) - 0.2 for c in (apart, shared)]
    assert half[0] == pytest.approx(0.01 * 2.4469 / 3, rel=0.01)
    assert half[1] == pytest.approx(0.01 * 4.3027 / math.sqrt(3), rel=0.01)


def test_languages_as_a_sample_widen_the_intervals_by_how_they_differ_between_methods():
    """Languages with levels of their own, the same for both methods, and gains for one alone."""
    langs = {"de": -0.03, "es": -0.01, "fr": 0.01, "el": 0.03}
    units, flat = np.arange(2), np.zeros((1, 2))

    def fixed(value):
        return Runs((None,), np.array([value]), units, flat, chance=False)

    def of(gains):
        return {
            n: {k: fixed(v + own + gains[k] * (n == 10_000)) for k, own in langs.items()}
            for n, v in LOGS.items()
        }

    one, other = of(dict.fromkeys(langs, 0.0)), of(langs)
    means = [{n: Runs.mean_of(list(d.values())) for n, d in by.items()} for by in (one, other)]
    curves = FittedCurves(
        {"one": means[0], "other": means[1]}, languages={"one": one, "other": other}
    )
    half = 3.1824 * np.std(list(langs.values()), ddof=1) / 2  # t(3), .975
    assert curves.at("one", 10_000).wide == pytest.approx((0.3 - half, 0.3 + half), abs=1e-4)
    assert curves.at("one", 10_000).high == pytest.approx(0.3)
    worth = curves.worth("one", 1_000, "other")  # levels cancel, a third of the gains is left
    assert worth is not None
    assert worth.wide is not None
    assert worth.value == pytest.approx(1_000, rel=0.01)
    ends = [0.1 * math.log10(end / 1_000) for end in worth.wide]
    reach = [half / 3 * (1 + 1.5 * math.log10(end / 1_000)) for end in worth.wide]
    assert ends == pytest.approx([-reach[0], reach[1]], abs=2e-4)
    few = {
        m: {n: dict(list(d.items())[:3]) for n, d in by.items()}
        for m, by in {"one": one, "other": other}.items()
    }
    fewer = FittedCurves({"one": means[0], "other": means[1]}, languages=few)
    assert fewer.at("one", 1_000).wide is None


def test_too_little_is_refused():
    with pytest.raises(ValueError, match="at least 3 sizes"):
        FittedCurves({"one": {100: runs_of(0.1), 1_000: runs_of(0.2)}})
    with pytest.raises(ValueError, match="takes two training runs"):
        FittedCurves({"one": {n: runs_of(v, runs=1) for n, v in LOGS.items()}})


def test_intervals_hold_the_truth_as_often_as_they_say():
    rng = np.random.default_rng(1)
    several = simulated.Setting(3, 3, languages=4, apart=5)
    of_one = [simulated.asked(simulated.Setting(4, 3, bend=0.4), rng) for _ in range(60)]
    of_several = [simulated.asked(several, rng) for _ in range(40)]
    found = zip(*(hits for hits, *_ in of_one), strict=True)
    wide = zip(*(hits for _, hits, _ in of_several), strict=True)
    for name, hits in zip(2 * simulated.ASKED, (*found, *wide), strict=True):
        there = [hit for hit in hits if hit is not None]
        assert sum(there) >= 0.85 * len(there), name
