"""Predictions taken apart: each sample's value is the metric that the task reports."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from raxalign.analysis.significance import Comparison, Interval, Runs
from raxalign.pairing.gold import LinkCounts
from raxalign.tasks.classifiers.task import ClassificationTask, macro_f1
from raxalign.tasks.dictionary_retrieval import DictionaryRetrieval
from raxalign.tasks.mlqa import Mlqa
from raxalign.tasks.ner import Ner
from raxalign.tasks.representation import Representation
from raxalign.tasks.retrieval import Retrieval
from raxalign.tasks.word_alignment import WordAlignment
from raxalign.tasks.xnli import Xnli
from raxalign.values.predictions import samples_of

labels = st.lists(
    st.tuples(st.sampled_from("abcd"), st.sampled_from("abcd")), min_size=3, max_size=3
)


class Macro(ClassificationTask):
    """A classifier by the mean over labels."""

    VERSION = 1
    main_metric = "macro_f1"


def sample(task, predictions, metric, lang="de"):
    name = (lang, metric, "test")
    return samples_of(task.metrics, predictions, [name])[name]


def value(task, predictions, metric):
    return pytest.approx(sample(task, predictions, metric).value)


def table(lang="de", **columns):
    n = len(next(iter(columns.values())))
    return pa.table({"lang": [lang] * n, "split": ["test"] * n, **columns})


def test_accuracy_of_labels():
    answers = table(id=[0, 1, 2, 3], label=list("abca"), predicted=list("abcc"))
    found = sample(Xnli, answers, "accuracy")
    assert (found.value, found.units.tolist()) == (0.75, [0, 1, 2, 3])


def test_premises_are_the_units_where_they_are_known():
    answers = {"id": [0, 1, 2], "label": list("aaa"), "predicted": list("aba")}
    found = sample(Xnli, table(premise=["x", "x", "y"], **answers), "accuracy")
    assert len(found.units) == 2
    assert found.value == pytest.approx(2 / 3)


def test_word_pairs_are_counted_by_sentence_and_averaged_over_directions():
    flags = {"identical": [False] * 4 + [True], "unseen": [True, True, True, False, True]}
    flags |= {"first": [True, False, True, True, False], "correct": [True, False, True, True, True]}
    flags |= {"first_unseen": [True, False, True, False, False]}
    pairs = table(direction=["to_pivot"] * 3 + ["from_pivot"] * 2, id=[7, 7, 8, 7, 8], **flags)
    pairs = pairs.append_column("correct_first", pa.array([True, None, False, False, None]))
    # to_pivot alone has unseen pairs
    assert value(Retrieval, pairs, "contextual_accuracy") == 2 / 3
    every = sample(Retrieval, pairs, "contextual_accuracy_all")
    assert (every.value, every.units.tolist()) == (pytest.approx((2 / 3 + 1) / 2), [7, 8])
    assert value(Retrieval, pairs, "noncontextual_accuracy") == 0.5
    assert value(Retrieval, pairs, "noncontextual_accuracy_all") == (0.5 + 0) / 2
    alone = pairs.drop_columns("correct_first")
    assert sample(Retrieval, alone, "noncontextual_accuracy") is None
    assert value(Retrieval, pairs, "contextual_accuracy_all_to_pivot") == 2 / 3
    assert sample(Retrieval, pairs, "contextual_accuracy_pairs") is None


def test_pairs_with_one_sentence_of_the_pivot_are_one_unit():
    flags = dict.fromkeys(("unseen", "first", "first_unseen"), [True] * 3)
    flags |= {"direction": ["to_pivot"] * 3, "identical": [False] * 3}
    pairs = table(id=[7, 8, 9], unit=[5, 5, 6], correct=[True, False, True], **flags)
    assert sample(Retrieval, pairs, "contextual_accuracy").units.tolist() == [5, 6]


def test_scores_of_entities_and_links_are_ratios_of_sums():
    numbers = {"n_gold": [3, 1], "n_predicted": [2, 2], "n_right": [2, 0]}
    counts = table(id=[0, 1], **numbers, n_tokens=[5, 5], n_tokens_right=[4, 3])
    assert value(Ner, counts, "f1") == 2 * 2 / (4 + 4)
    assert value(Ner, counts, "precision") == 2 / 4
    assert value(Ner, counts, "accuracy") == 7 / 10
    counts = links_table(counted((2, 2, 1, 2), (2, 1, 1, 1)))
    assert value(WordAlignment, counts, "precision") == 3 / 4
    assert value(WordAlignment, counts, "recall") == 2 / 3
    assert value(WordAlignment, counts, "alignment_error_rate") == 1 - 5 / 7


@st.composite
def link_counts(draw):
    """Counts of 1 to 6 sentence pairs, some of them without links on a side or on both."""
    rows = []
    for _ in range(draw(st.integers(1, 6))):
        right_sure = draw(st.integers(0, 2))
        right = right_sure + draw(st.integers(0, 2))
        found, sure = (least + draw(st.integers(0, 2)) for least in (right, right_sure))
        rows.append((found, right, right_sure, sure))
    return LinkCounts(*np.array(rows).T)


def links_table(counts):
    numbers = {"n_gold": counts.sure, "n_predicted": counts.found, "n_right": counts.right}
    numbers |= {"n_right_sure": counts.right_sure, "n_wrong": counts.wrong}
    return table(id=range(len(counts.found)), **numbers)


def counted(*rows):
    """Counts of sentence pairs as (found, right, right and sure, sure)."""
    return LinkCounts(*np.array(rows).T)


@given(link_counts())
@example(counted((3, 2, 1, 2), (2, 1, 0, 1)))  # sure and possible links differ
@example(counted((0, 0, 0, 3), (0, 0, 0, 1)))  # nothing is found
@example(counted((2, 1, 0, 0), (1, 1, 0, 0)))  # all links are possible ones
@example(counted((0, 0, 0, 0), (0, 0, 0, 0)))  # nothing is found where nothing is
@example(counted((2, 0, 0, 1), (1, 0, 0, 2)))  # nothing is right
def test_the_sample_of_a_link_score_is_of_that_score(counts):
    """Its influence is the derivative of the score by the weight of a sentence pair."""
    values, predictions = counts.scores(), links_table(counts)
    for metric, value in values.items():
        found = sample(WordAlignment, predictions, metric)
        assert found.value == pytest.approx(value), metric
        assert found.influence().sum() == pytest.approx(0, abs=1e-12)
    if min(counts.found.sum(), counts.sure.sum(), counts.right_sure.sum()) > 0:
        slopes = sample(WordAlignment, predictions, "f1").influence()
        assert slopes == pytest.approx([slope(counts, i) for i in range(len(slopes))], abs=1e-5)


def slope(counts, unit, step=1e-6):
    """The change of F1 as one sentence pair counts a little more."""

    def f1(weight):
        weights = np.ones(len(counts.found))
        weights[unit] += weight
        p = (weights @ counts.right) / (weights @ counts.found)
        r = (weights @ counts.right_sure) / (weights @ counts.sure)
        return 2 * p * r / (p + r)

    return (f1(step) - f1(-step)) / (2 * step)


def tag_counts(*rows):
    """Sentences as (toward, given, found, right)."""
    toward, given, found, right = zip(*rows, strict=True)
    numbers = {"n_gold": given, "n_predicted": found, "n_right": right}
    return table(id=[i % 2 for i in range(len(rows))], toward=list(toward), **numbers)


@pytest.mark.parametrize(
    ("rows", "values"),
    [
        ([(None, 0, 0, 0), (None, 0, 0, 0)], (0, 0, 0)),  # no entities anywhere
        ([(None, 2, 0, 0), (None, 1, 0, 0)], (0, 0, 0)),  # none is found
        ([(None, 0, 2, 0), (None, 0, 1, 0)], (0, 0, 0)),  # none is given
        (
            [("de", 1, 1, 1), ("de", 1, 1, 0), ("fr", 1, 0, 0), ("fr", 1, 0, 0)],
            (1 / 4, 1 / 4, 1 / 4),  # the model of French finds nothing, and counts as 0
        ),
    ],
)
def test_entity_scores_of_nothing_are_0_for_each_model(rows, values):
    for metric, value in zip(("f1", "precision", "recall"), values, strict=True):
        found = sample(Ner, tag_counts(*rows), metric)
        assert found.value == pytest.approx(value), metric
        assert np.isfinite(found.influence()).all()


@given(st.lists(labels, min_size=1, max_size=3))
@example([[("a", "a")] * 3, [("a", "b"), ("c", "c"), ("a", "a")]])  # labels that one model lacks
def test_macro_f1_is_the_mean_over_models_whatever_labels_each_gives(models):
    rows = [(f"m{n}", i, *pair) for n, model in enumerate(models) for i, pair in enumerate(model)]
    toward, ids, gold, predicted = (list(column) for column in zip(*rows, strict=True))
    found = sample(Macro, table(toward=toward, id=ids, label=gold, predicted=predicted), "macro_f1")
    sides = [np.array([[ord(x) for x in pair] for pair in model]).T for model in models]
    assert found.value == pytest.approx(np.mean([macro_f1(*both) for both in sides]))
    assert len(found.units) == 3


def test_questions_on_one_context_are_one_unit():
    found = sample(Mlqa, table(id=["q1", "q2", "q3"], context=[4, 4, 9], f1=[1.0, 0.5, 0.0]), "f1")
    assert (found.value, len(found.units)) == (0.5, 2)


def test_ranks_of_both_directions():
    columns = {"direction": ["to_pivot", "to_pivot", "from_pivot"], "query": ["a", "b", "a"]}
    ranks = table(rank=[1.0, 4.0, 2.0], correct=[True, False, False], **columns)
    assert value(DictionaryRetrieval, ranks, "mrr") == ((1 + 0.25) / 2 + 0.5) / 2
    assert value(DictionaryRetrieval, ranks, "precision_at_1") == 0.25
    # a word of one language is not the same word of the other
    assert len(sample(DictionaryRetrieval, ranks, "mrr").units) == 3


def dictionary(*rows):
    """(direction, query, gold, rank) a row."""
    names = ("direction", "query", "gold", "rank")
    columns = {name: [row[i] for row in rows] for i, name in enumerate(names)}
    return table(correct=[row[3] <= 1 for row in rows], **columns)


ONE_TO_ONE = [
    ("to_pivot", "hund", "dog", 1.0),
    ("from_pivot", "dog", "hund", 2.0),
    ("to_pivot", "rom", "rom", 1.0),
    ("from_pivot", "rom", "rom", 1.0),
]
HOUSES = [
    ("to_pivot", "haus", "house", 1.0),
    ("from_pivot", "house", "haus", 1.0),
    ("to_pivot", "heim", "home", 4.0),
]
HOME, HEIM = ("from_pivot", "home", "haus", 1.0), ("from_pivot", "home", "heim", 2.0)


def test_the_directions_of_a_dictionary_entry_are_one_unit():
    """dog-hund and rom-rom are pairs; where home is best translated by haus, it joins house and
    heim to it: three units of eight queries.
    """
    found = sample(DictionaryRetrieval, dictionary(*ONE_TO_ONE, *HOUSES, HOME), "mrr")
    assert found.value == pytest.approx(((1 + 1 + 1 + 1 / 4) / 4 + (1 / 2 + 1 + 1 + 1) / 4) / 2)
    assert (len(found.units), clusters(found, found)) == (8, 3)
    pairs = sample(DictionaryRetrieval, dictionary(*ONE_TO_ONE), "precision_at_1")
    assert clusters(pairs, pairs) == 2
    around = Interval.of(one_run(pairs))
    assert around is not None
    assert around.examples == 2
    one_way = sample(DictionaryRetrieval, dictionary(*HOUSES, HOME), "mrr_to_pivot")
    # haus and heim hang together by the other direction
    assert (len(one_way.units), clusters(one_way, one_way)) == (2, 1)


def one_run(found):
    return Runs.of({None: [found]}, chance=False)


def clusters(first, second):
    return Comparison.of(one_run(first), one_run(second)).examples


def test_methods_with_other_best_translations_are_compared_over_all_that_either_links():
    first, second = (
        sample(DictionaryRetrieval, dictionary(*ONE_TO_ONE, *HOUSES, home), "mrr")
        for home in (HOME, HEIM)
    )
    assert [clusters(one, one) for one in (first, second)] == [3, 4]
    assert first.units.tolist() == second.units.tolist()
    found = Comparison.of(one_run(first), one_run(second))
    assert (found.examples, found.difference) == (3, pytest.approx(second.value - first.value))
    assert clusters(second, first) == 3


@pytest.mark.slow
def test_equal_methods_that_are_right_both_ways_or_not_at_all_are_seldom_told_apart():
    """With words as independent units the test would reject 17 %."""
    rng, n, trials = np.random.default_rng(0), 60, 300
    rejected = 0
    for _ in range(trials):
        both = []
        for right in rng.random((2, n)) < 0.5:
            rows = [
                (way, f"{way[0]}{i}", f"{'ft'[way[0] == 'f']}{i}", 1.0 if right[i] else 2.0)
                for i in range(n)
                for way in ("to_pivot", "from_pivot")
            ]
            both.append(sample(DictionaryRetrieval, dictionary(*rows), "precision_at_1"))
        rejected += Comparison.of(*map(one_run, both)).p < 0.05
    assert rejected / trials < 0.07


def test_several_models_of_the_pivot_are_parts():
    answers = {"id": [0, 1, 0], "label": list("aaa"), "predicted": list("aba")}
    found = sample(Xnli, table(toward=["de", "de", "fr"], **answers), "accuracy")
    assert found.value == pytest.approx((0.5 + 1.0) / 2)


def test_what_cannot_be_taken_apart_is_left():
    assert sample(Mlqa, table(id=[0], bleu=[1.0]), "rouge") is None
    assert sample(Mlqa, table(id=[0], f1=[1.0]), "f1", "fr") is None
    assert sample(Representation, table(id=[0], anisotropy=[1.0]), "anisotropy") is None


def test_groups_of_a_parallel_set_have_one_number_in_every_language():
    """In the second language two premises are one text, so that its own numbers go wrong from there
    on; examples are the same by `id`.
    """
    answers = {"id": [0, 1, 2, 3], "label": list("aaaa"), "predicted": list("abab")}
    german, french = (
        sample(Xnli, table(lang, premise=premises, **answers), "accuracy", lang)
        for lang, premises in (("de", [0, 1, 1, 2]), ("fr", [0, 0, 0, 1]))
    )
    assert (german.units.tolist(), french.units.tolist()) == ([0, 1, 3], [0, 3])
    around = Interval.of(Runs.mean_of([one_run(german), one_run(french)]))
    assert around is not None
    assert around.examples == 2, "what is one premise in any language is one cluster"


def test_contexts_that_share_a_question_in_two_languages_are_one_cluster():
    answers = table("de", id=["q1", "q2", "q3"], context=[0, 0, 1], f1=[1.0, 0.0, 0.5])
    german = sample(Mlqa, answers, "f1")
    spanish = sample(Mlqa, table("es", id=["q2", "q4"], context=[0, 1], f1=[1.0, 0.0]), "f1", "es")
    around = Interval.of(Runs.mean_of([one_run(german), one_run(spanish)]))
    assert around is not None
    assert around.examples == 3  # q1 q2 | q3 | q4
