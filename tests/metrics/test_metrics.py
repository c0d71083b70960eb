"""Metrics that a grid adds: their values, and what each example contributes to them."""

import numpy as np
import pyarrow as pa
import pytest
from sklearn.metrics import f1_score, matthews_corrcoef

from raxalign.catalog import catalog
from raxalign.errors import DataError
from raxalign.measured import Measured
from raxalign.metrics.base import BLOCKS, Metric, PerExample, RatioOfSums, jackknife
from raxalign.metrics.macro_f1 import MacroF1
from raxalign.metrics.precision_at import PrecisionAt
from raxalign.promises import broken_promise
from raxalign.sample import Sample, clusters_of, parts_of
from raxalign.tasks.dictionary_retrieval import DictionaryRetrieval

LABELS = ("contradiction", "entailment", "neutral")


def macro_f1(**params):
    return MacroF1(MacroF1.Params.model_validate(params))


def classified(gold, predicted, **more):
    return pa.table({"id": range(len(gold)), "label": gold, "predicted": predicted, **more})


def drawn(n, seed=0):
    rng = np.random.default_rng(seed)
    gold = rng.choice(LABELS, n, p=[0.7, 0.2, 0.1])
    predicted = np.where(rng.random(n) < 0.6, gold, rng.choice(LABELS, n))
    return classified(gold.tolist(), predicted.tolist())


def test_macro_f1_is_the_mean_of_the_f1_of_each_label():
    rows = classified(["a", "a", "a", "b"], ["a", "a", "b", "b"])
    # a: 2 right, 3 gold, 2 predicted: 4/5; b: 1 right, 1 gold, 2 predicted: 2/3
    assert macro_f1().of(rows) == pytest.approx((4 / 5 + 2 / 3) / 2)
    assert macro_f1(leave_out="b").of(rows) == pytest.approx(4 / 5)


def test_macro_f1_is_that_of_scikit_learn():
    rows = drawn(400)
    expected = f1_score(rows["label"].to_pylist(), rows["predicted"].to_pylist(), average="macro")
    assert macro_f1().of(rows) == pytest.approx(expected)


def test_a_label_that_is_only_predicted_counts_as_one_that_is_never_right():
    assert macro_f1().of(classified(["a", "a"], ["a", "c"])) == pytest.approx((2 / 3 + 0) / 2)


def test_macro_f1_of_taggers_is_over_words_with_a_unit_per_sentence():
    rows = classified([["O", "PER"], ["O"]], [["O", "O"], ["O"]])
    sample = macro_f1().sample(rows)
    # O: 2 right, 2 gold, 3 predicted: 4/5; PER: never right
    assert sample.value == pytest.approx(4 / 5 / 2)
    assert sample.units.tolist() == [0, 1]
    assert macro_f1(leave_out="O").of(rows) == 0.0


def test_a_row_with_fewer_predictions_than_labels_is_refused():
    with pytest.raises(DataError, match="a row has more or fewer labels than predictions"):
        macro_f1().of(classified([["O", "PER"], ["O"]], [["O"], ["O", "O"]]))


def test_macro_f1_of_several_models_of_the_pivot_is_the_mean_over_the_models():
    rows = classified(["a", "b"] * 2, ["a", "b", "b", "b"], toward=["de", "de", "fr", "fr"])
    # the model for de is right everywhere; for fr a has F1 0, b 2/3
    assert macro_f1().of(rows) == pytest.approx((1 + (0 + 2 / 3) / 2) / 2)
    assert macro_f1().sample(rows).value == pytest.approx(macro_f1().of(rows))


def ranked(n):
    rng, tables = np.random.default_rng(1), []
    for direction, side, other in (("to_pivot", "de", "en"), ("from_pivot", "en", "de")):
        words = {"query": side, "gold": other}
        columns = {name: [f"{code}:w{i}" for i in range(n)] for name, code in words.items()}
        rank = rng.integers(1, 12, n).astype(float)
        tables.append(pa.table({"direction": [direction] * n, **columns, "rank": rank}))
    return pa.concat_tables(tables)


@pytest.mark.parametrize("k", [1, 5, 10])
def test_precision_at_k_is_the_task_s_own_with_the_same_units_and_links(k):
    rows = ranked(50)
    own = Measured.find(DictionaryRetrieval.metrics, f"precision_at_{k}").sample(
        rows, f"precision_at_{k}"
    )
    metric = PrecisionAt(PrecisionAt.Params(k=k))
    found = metric.sample(rows)
    assert found.value == pytest.approx(own.value)
    np.testing.assert_array_equal(found.units, own.units)
    assert metric.of(rows) == pytest.approx(own.value)
    np.testing.assert_allclose(found.influence(), own.influence())
    np.testing.assert_array_equal(found.links, own.links)


def test_influences_of_macro_f1_are_derivatives():
    rows = drawn(60)
    sample = macro_f1().sample(rows)
    step = 1e-6
    for unit in (0, 17, 59):
        weights = np.ones(60)
        weights[unit] += step
        moved = Sample(sample.units, sample.gains * weights, sample.counts * weights)
        slope = (moved.value - sample.value) / step
        assert sample.influence()[unit] == pytest.approx(slope, abs=1e-6)


class Right(PerExample):
    VERSION = 1
    reads = frozenset({"label", "predicted"})

    def values(self, predictions):
        label, predicted = (predictions[name].to_numpy() for name in ("label", "predicted"))
        return label == predicted


class ShareOfLetters(RatioOfSums):
    VERSION = 1
    reads = frozenset({"right", "all"})

    def sums(self, predictions):
        return predictions["right"].to_numpy(), predictions["all"].to_numpy()


class Matthews(Metric):
    VERSION = 1
    reads = frozenset({"label", "predicted"})

    def of(self, predictions):
        sides = (predictions[name].to_pylist() for name in ("label", "predicted"))
        return float(matthews_corrcoef(*sides))


def test_a_mean_of_values_has_a_unit_per_premise():
    rows = classified(["a", "b", "b"], ["a", "a", "b"], premise=[7, 7, 9])
    sample = Right(Right.Params()).sample(rows)
    assert sample.value == pytest.approx(2 / 3)
    assert sample.gains.tolist() == [[1.0, 1.0]]
    assert sample.counts.tolist() == [[2.0, 1.0]]


def test_a_metric_from_outside_may_return_a_sample_of_its_own():
    class Outside(Right):
        def sample(self, predictions):
            return super().sample(predictions)

    assert broken_promise(Outside) is None
    rows = classified(["a", "b", "b"], ["a", "a", "b"], premise=[7, 7, 9])
    assert Outside(Outside.Params()).sample(rows).value == pytest.approx(2 / 3)


def test_a_ratio_of_sums_is_that_of_the_sums():
    rows = pa.table({"id": [0, 1], "right": [1, 3], "all": [2, 8]})
    assert ShareOfLetters(ShareOfLetters.Params()).of(rows) == pytest.approx(4 / 10)


@pytest.mark.parametrize("n", [BLOCKS - 1, 3 * BLOCKS])
def test_the_jackknife_finds_a_mean_s_own_value_and_variance(n):
    rows = drawn(n)
    exact, found = Right(Right.Params()).sample(rows), jackknife(rows, Right(Right.Params()).of)
    assert found.value == pytest.approx(exact.value)
    assert found.influence().sum() == pytest.approx(0)
    blocks = found.units if n < BLOCKS else found.units % BLOCKS
    expected = np.bincount(blocks, exact.influence())
    np.testing.assert_allclose(np.bincount(blocks, found.influence()), expected, atol=1e-12)


def test_a_metric_with_a_value_alone_is_jackknifed_and_its_blocks_are_clusters(monkeypatch):
    monkeypatch.setattr("raxalign.metrics.base.BLOCKS", 20)
    rows = drawn(50)
    metric = Matthews(Matthews.Params())
    sample = metric.sample(rows)
    assert sample.value == pytest.approx(metric.of(rows))
    assert len(np.unique(sample.links[:, 1])) == 20
    assert not set(sample.links[:, 1].tolist()) & set(sample.units.tolist())


def test_a_metric_that_fails_without_some_rows_has_no_sample():
    rows = pa.table({"id": [0, 1, 2], "x": [1.0, 1.0, 2.0]})

    def only_with_both(part):
        return 0.5 if len(part["x"].unique()) > 1 else float("nan")

    assert jackknife(rows, only_with_both) is None


def test_one_unit_alone_has_no_influence():
    sample = jackknife(pa.table({"id": [4, 4], "x": [1.0, 2.0]}), lambda _: 0.25)
    assert sample.value == 0.25
    assert sample.influence().tolist() == [0.0]


def test_parts_are_models_and_directions():
    rows = pa.table({"direction": ["to_pivot", "from_pivot"], "toward": ["de", None]})
    assert len(set(parts_of(rows).tolist())) == 2
    assert parts_of(pa.table({"toward": ["de", None, "de"]})).tolist() == [0, 1, 0]
    assert parts_of(pa.table({"id": [1, 2]})).tolist() == [0, 0]


def test_queries_are_linked_to_their_answers():
    rows = ranked(3)
    units, links = clusters_of(rows)
    assert len(np.unique(units)) == 6
    assert links[0].tolist() == links[3].tolist()[::-1]
    Sample.summed(units, parts_of(rows), units * 0.0, units * 0.0 + 1, links)


@pytest.mark.parametrize("kind", catalog("metrics"))
def test_every_metric_says_what_it_reads_and_what_is_better(kind):
    metric = catalog("metrics")[kind]
    assert metric.reads
    assert metric.better in {"higher", "lower"}
