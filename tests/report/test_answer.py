"""The answer in one sentence, over comparisons made by hand."""

from dataclasses import replace

import pytest

from raxalign.analysis.power import LanguageSample
from raxalign.analysis.significance import Comparison, Runs
from raxalign.grid.load import open_grid
from raxalign.grid.plan import Plan
from raxalign.report.answer import LanguageTally, answer, stored_answer
from raxalign.values.comparisons import LEFT, NO_PREDICTIONS, Compared, Verdict, comparisons
from raxalign.values.scoreboard import Scoreboard
from tests.grids import small_plan, write_grid
from tests.report.material import results_of, share

HOLM = " (Significance after Holm correction.)"
LANGS = ("bg", "de", "es", "fr")
EMPTY = Plan("p", "en", 1, (), {}, {})
Values = dict[str, tuple[float, Verdict]]
"""Language -> difference to the baseline, and its verdict."""


def row(method, lang, value, task="xnli", **parts):
    facts = {"params": {}, "encoder": "mini", "languages": ["de"], "sentences": None, "seed": 0}
    score = {"metric": "accuracy", "split": "test", "task_params": {}, "task": task}
    key = f"{method}{parts.get('split')}{task}"
    own = {"trial": method, "method": method, "lang": lang, "value": value, "evaluation": key}
    return {**facts, **score, **own, **parts}


def grid(*methods, langs=LANGS, tasks=("xnli",)):
    """Values of 0.5 of every method in every language."""
    rows = [row(method, lang, 0.5, task) for task in tasks for method in methods for lang in langs]
    return Scoreboard.of(rows, EMPTY)


def compared(results, values, method="finetune", task="xnli"):
    """Comparisons of a method with `none`, each with an interval of 2 points around it."""
    cells = {cell.method: cell for cell in results.cells}
    facts = {"baseline": cells["none"], "measured": results.plan.measured(task, "accuracy")}
    made = []
    for lang, (difference, verdict) in values.items():
        name = (task, lang, "accuracy", "test")
        test = Comparison(difference, difference - 0.02, difference + 0.02, 0.01, 2, 2, 100)
        own = {"comparison": test, "verdict": verdict, **facts}
        made.append(Compared(cells[method], name, cells[method].values[name], **own))
    return made


def all_of(difference, verdict):
    return dict.fromkeys((*LANGS, "avg"), (difference, verdict))


NO_DIFFERENCE = (
    "finetune does not differ significantly from the unaligned encoder at XNLI in any of four"
    " languages; the difference on average is "
)
MIXED = {"bg": (0.1, "better"), "de": (0.08, "better"), "es": (-0.12, "worse")}
MIXED |= {"fr": (0.0, "cannot tell"), "avg": (0.015, "cannot tell")}


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (
            all_of(0.272, "better"),
            "finetune beats the unaligned encoder at XNLI by 27.2 points on average (95 % CI"
            " 25.2–29.2), significantly in all four languages.",
        ),
        (  # what is worse has no minus
            all_of(-0.05, "worse"),
            "finetune is worse than the unaligned encoder at XNLI by 5.0 points on average (95 % CI"
            " 3.0–7.0), significantly in all four languages.",
        ),
        (all_of(0.01, "cannot tell"), f"{NO_DIFFERENCE}+1.0 points (95 % CI −1.0 to 3.0)."),
        (  # a mean that is significant by itself alone is not called significant
            {**all_of(0.01, "cannot tell"), "avg": (0.03, "not after correction")},
            f"{NO_DIFFERENCE}+3.0 points (95 % CI 1.0–5.0, not significant after correction).",
        ),
        (
            MIXED,
            "finetune differs from the unaligned encoder at XNLI: it is significantly better in bg"
            " and de, worse in es, neither in fr; the difference on average is +1.5 points (95 % CI"
            " −0.5 to 3.5, not significant).",
        ),
    ],
)
def test_the_sentence_says_what_the_comparisons_show(values, sentence):
    results = grid("none", "finetune")
    found = answer(results.tested(compared(results, values)))
    over = " over 5 comparisons" if "after correction" in sentence else ""
    assert found == sentence + HOLM.replace("correction", f"correction{over}")


def test_languages_that_a_sentence_has_named_are_named_again_only_one_by_one():
    def tally(better, worse=(), neither=()):
        parts = (list(better), list(worse), list(neither))
        return LanguageTally(("xnli", "accuracy", "test"), *parts, None, [], (), "")

    assert tally(["ar", "bg"]).judged() == "better in ar and bg"
    assert tally(["ar", "bg"]).judged(named=True) == "better in both"
    assert tally([], ["ar", "bg", "de"]).judged(named=True) == "worse in each"
    assert tally([], ["ar"]).judged(named=True) == "worse"
    assert tally(["ar"], ["bg"]).judged(named=True) == "better in ar, worse in bg"
    assert tally(["ar"], [], ["bg"]).judged(named=True) == "better in ar, not in bg"
    assert tally([], [], ["ar", "bg"]).judged(named=True) == ""


def unseen_grid(unseen=("ar", "el"), tasks=("xnli",), **parts):
    """Two methods, two aligned languages and others that no method has aligned."""
    rows = [
        row(method, lang, 0.5, task, unseen=lang in unseen, **parts)
        for task in tasks
        for method in ("none", "finetune")
        for lang in ("bg", "de", *unseen)
    ]
    return Scoreboard.of(rows, EMPTY)


ALIGNED: Values = {**dict.fromkeys(("bg", "de", "avg"), (0.1, "better"))}
IN_FRONT = (
    "finetune beats the unaligned encoder at XNLI by 10.0 points on average (95 % CI 8.0–12.0),"
    " significantly in bg and de."
)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (
            {"ar": (0.2, "better"), "el": (0.2, "better"), "avg_unseen": (0.2, "better")},
            "better by 20.0 points on average (95 % CI 18.0–22.0), and in both.",
        ),
        (
            {"ar": (-0.2, "worse"), "el": (0.0, "cannot tell"), "avg_unseen": (-0.1, "worse")},
            "worse by 10.0 points on average (95 % CI 8.0–12.0), and in ar, not in el.",
        ),
        (
            {
                "ar": (0.03, "cannot tell"),
                "el": (0.03, "cannot tell"),
                "avg_unseen": (0.03, "better"),
            },
            "better by 3.0 points on average (95 % CI 1.0–5.0), but in no single language.",
        ),
        (
            {"ar": (0.1, "better"), "el": (-0.1, "worse"), "avg_unseen": (0.0, "cannot tell")},
            "better in ar, worse in el; the difference on average is ±0.0"
            " points (95 % CI −2.0 to 2.0, not significant).",
        ),
    ],
)
def test_languages_that_were_not_aligned_have_a_sentence_with_their_own_mean(values, sentence):
    results = unseen_grid()
    told = answer(results.tested(compared(results, {**ALIGNED, **values})))
    where = "In languages that were not aligned (ar and el)"
    assert told == f"{IN_FRONT} {where} it is significantly {sentence}{HOLM}"


def test_a_mean_stands_for_the_languages_that_it_is_over_alone():
    results = unseen_grid()
    values: Values = {**ALIGNED, "ar": (-0.06, "worse"), "avg_unseen": (-0.03, "worse")}
    found = compared(results, values)
    el = compared(results, {"el": (0.0, "cannot tell")})[0]
    found.append(replace(el, baseline=None, comparison=None, verdict=None, untested=LEFT))
    assert answer(results.tested(found)) == (
        f"{IN_FRONT} In a language that was not aligned (ar) it is significantly worse by 6.0"
        f" points (95 % CI 4.0–8.0). It changes nothing in a language that was not aligned"
        f" (el).{HOLM}"
    )
    others = unseen_grid(unseen=("bg", "de"))
    values = {"bg": (0.2, "better"), "avg_unseen": (0.2, "better"), "de": (0.2, "better")}
    assert others.cells[0].mean_name("xnli", "accuracy", "test")[1] == "avg_unseen"
    assert "by 20.0 points on average" in answer(others.tested(compared(others, values)))


def test_aligned_languages_without_a_common_run_have_no_mean():
    """Each of them was aligned by itself, and other seeds of them are done."""
    apart = [("bg", 0), ("bg", 1), ("de", 2), ("de", 3), ("ar", 0), ("ar", 1), ("ar", 2), ("ar", 3)]
    rows = [
        row(method, lang, 0.5, unseen=lang == "ar", seed=seed, evaluation=f"{method}{seed}")
        for method in ("none", "finetune")
        for lang, seed in apart
    ]
    results = Scoreboard.of(rows, EMPTY)
    alike = dict.fromkeys(("bg", "de"), (0.01, "cannot tell"))
    alike |= dict.fromkeys(("ar", "avg_unseen"), (0.2, "better"))
    assert answer(results.tested(compared(results, alike))) == (
        "finetune does not differ significantly from the unaligned encoder at XNLI in bg or de. In"
        " a language that was not aligned (ar) it is significantly better by 20.0 points (95 %"
        f" CI 18.0–22.0).{HOLM}"
    )


def test_what_is_left_as_it_is_is_named_once_and_not_where_another_task_changes_it():
    results = unseen_grid(tasks=("xnli", "pos"))
    found = compared(results, ALIGNED)
    left = dict.fromkeys(("ar", "el"), (0.0, "cannot tell"))
    for task in ("xnli", "pos"):
        for one in compared(results, left, task=task):
            found.append(replace(one, baseline=None, comparison=None, verdict=None, untested=LEFT))
    once = " It changes nothing in languages that were not aligned (ar and el)."
    assert answer(results.tested(found)) == f"{IN_FRONT}{once}{HOLM}"
    found += compared(results, {"ar": (0.1, "better")}, task="pos")
    assert "It changes nothing in a language that was not aligned (el)." in answer(
        results.tested(found)
    )


def test_another_task_of_one_language_names_it():
    rows = [row(method, lang, 0.5) for method in ("none", "finetune") for lang in ("bg", "de")]
    rows += [row(method, "de", 0.5, "pos") for method in ("none", "finetune")]
    results = Scoreboard.of(rows, EMPTY)
    for verdict, clause in (
        ("better", "is significantly better by 5.0 points (95 % CI 3.0–7.0)."),
        (
            "cannot tell",
            "shows no significant difference; the difference is +5.0 points (95 % CI 3.0–7.0).",
        ),
    ):
        found = compared(results, ALIGNED)
        found += compared(results, {"de": (0.05, verdict)}, task="pos")
        told = answer(results.tested(found))
        assert told == f"{IN_FRONT} At POS tagging in de it {clause}{HOLM}"


def test_single_runs_of_another_task_have_their_difference_too():
    results = grid("none", "finetune", tasks=("xnli", "pos"))
    found = compared(results, all_of(0.1, "better"))
    found += [
        replace(one, value=replace(one.value, mean=0.58), comparison=None, untested=Runs.ONE_RUN)
        for one in compared(results, all_of(0, "cannot tell"), task="pos")
    ]
    told = answer(results.tested(found)).partition(". ")[2]
    assert told == (
        "At POS tagging it is 8.0 points above the unaligned encoder on average, which is not"
        f" tested (one run).{HOLM}"
    )


def test_where_test_values_themselves_chose_the_sentence_on_another_task_says_so():
    methods = ("none", "rotation", "finetune")
    rows = [
        row(method, lang, 0.5, task, split=split)
        for method in methods
        for task, split in (("xnli", "dev"), ("xnli", "test"), ("pos", "test"))
        for lang in LANGS
    ]
    results = Scoreboard.of(rows, EMPTY)
    found = [
        one
        for task in ("xnli", "pos")
        for method in methods[1:]
        for one in compared(results, all_of(0.1, "better"), method, task)
    ]
    told = answer(results.tested(found))
    pos = told[told.index("At POS tagging") :]
    assert pos.startswith("At POS tagging it is significantly better by 10.0 points")
    assert "and in all four languages (chosen on test itself, which is optimistic). (Signif" in pos


def test_what_is_best_on_dev_is_so_in_the_languages_that_all_have():
    """rotation has German alone, where finetune is better; its mean over both is lower."""
    dev = {("none", "de"): 0.5, ("none", "fr"): 0.1, ("rotation", "de"): 0.6}
    dev |= {("finetune", "de"): 0.64, ("finetune", "fr"): 0.24}
    rows = [
        row(method, lang, value if split == "dev" else 0.5, split=split)
        for (method, lang), value in dev.items()
        for split in ("dev", "test")
    ]
    results = Scoreboard.of(rows, EMPTY)
    found = compared(results, {"de": (0.1, "better")}, "rotation")
    found += compared(results, dict.fromkeys(("de", "fr", "avg"), (0.1, "better")))
    told = answer(results.tested(found))
    assert told.startswith("finetune, the better of two methods on dev (in de), beats")
    apart = [one for one in rows if (one["method"], one["lang"]) != ("finetune", "de")]
    results = Scoreboard.of(apart, EMPTY)
    found = compared(results, {"de": (0.1, "better")}, "rotation")
    found += compared(results, {"fr": (0.1, "better")})
    told = answer(results.tested(found))
    assert told.startswith(
        "rotation, the better of two methods on dev (in no language that all have), "
    )


def test_what_is_tested_at_another_task_alone_is_corrected_too():
    results = grid("none", "finetune", tasks=("xnli", "pos"))
    found = compared(results, all_of(0.0, "="))
    found += compared(results, all_of(0.1, "better"), task="pos")
    assert answer(results.tested(found)).endswith(HOLM)


def test_one_language_is_named_and_has_no_average():
    results = grid("none", "finetune", langs=("de",))
    assert answer(results.tested(compared(results, {"de": (0.1, "better")}))) == (
        "finetune beats the unaligned encoder at XNLI in de by 10.0 points (95 % CI 8.0–12.0),"
        f" which is significant.{HOLM}"
    )


@pytest.mark.parametrize("reason", [Runs.ONE_RUN, NO_PREDICTIONS])
def test_single_runs_are_reported_as_untested(reason):
    results = grid("none", "finetune")
    found = [
        replace(one, comparison=None, verdict="cannot tell", untested=reason)
        for one in compared(results, all_of(0, "cannot tell"))
    ]
    assert answer(results.tested(found)) == (
        "finetune is 0.0 points apart from the unaligned encoder at XNLI on average over four"
        f" languages, which is not tested ({reason})."
    )


def test_without_a_baseline_or_a_method_next_to_it_the_sentence_says_which_is_missing(tmp_path):
    plan = small_plan(tmp_path, methods=("none: {}", "rotation: {}"))
    assert answer(Scoreboard.of([], EMPTY)) == "No results yet."
    for results, why in (
        (grid("finetune"), "the grid has no baseline (a method of kind none)"),
        (grid("none"), "the grid has no method besides its baseline none"),
        (replace(grid("finetune"), plan=plan), "the baseline none has no results yet"),
        (replace(grid("none"), plan=plan), "so far only the baseline none has results"),
    ):
        assert answer(results.tested([])) == f"Nothing is compared with a baseline: {why}."


def test_the_other_tasks_have_a_sentence_each():
    results = grid("none", "finetune", tasks=("sentence_retrieval", "xnli", "mlqa", "pos"))
    found = compared(results, all_of(0.1, "better"), task="sentence_retrieval")
    found += compared(results, {**all_of(0, "cannot tell"), "de": (0.1, "better")})
    found += compared(results, all_of(0.01, "cannot tell"), task="mlqa")
    found += compared(results, all_of(0.0, "="), task="pos")
    assert answer(results.tested(found)) == (
        "finetune beats the unaligned encoder at sentence retrieval by 10.0 points on average (95 %"
        " CI 8.0–12.0), significantly in all four languages. At XNLI it is significantly better in"
        " de, not in bg, es or fr; the difference on average is ±0.0 points (95 % CI −2.0 to 2.0,"
        " not significant). At mlqa (accuracy) it shows no significant difference; the difference"
        " on average is +0.010 (95 % CI −0.010 to 0.030). At POS tagging it does not differ from"
        f" the unaligned encoder in any example of any run.{HOLM}"
    )


@pytest.mark.parametrize(
    ("dev", "seed", "leader"),
    [
        (True, 0, "rotation, the better of two methods on dev,; chosen and tested on the same"),
        (True, None, "rotation, the better of two methods on dev,.)"),  # no chance in the choice
        (False, 0, "finetune, the better of two methods on test itself,; chosen on test itself,"),
    ],
)
def test_of_several_methods_dev_chooses_the_one_that_the_sentence_is_about(dev, seed, leader):
    values = {"none": 0.1, "rotation": 0.9, "finetune": 0.3}
    rows = [row(method, lang, 0.5, seed=seed) for method in values for lang in LANGS]
    for method, value in values.items() if dev else ():
        rows += [row(method, lang, value, split="dev", seed=seed) for lang in LANGS]
    results = Scoreboard.of(rows, EMPTY)
    found = compared(results, all_of(0.2, "better"), "finetune")
    found += compared(results, all_of(0.1, "better"), "rotation")
    told, (who, aside) = answer(results.tested(found)), leader.split(",", 2)[::2]
    who = leader[: -len(aside)]
    assert told.startswith(who)
    assert f"correction{aside}" in told


def test_the_pivot_is_not_counted_among_the_languages():
    results = grid("none", "finetune", langs=("en", "de", "fr"))
    values = dict.fromkeys(("de", "fr", "avg_zero_shot"), (0.1, "better"))
    found = compared(results, {"en": (0.2, "better"), **values})
    assert "by 10.0 points on average (95 % CI 8.0–12.0), significantly in de and fr." in answer(
        results.tested(found)
    )


@pytest.mark.parametrize(
    ("low", "high", "untested", "part"),
    [
        (0.05, 0.15, "", " (95 % CI 8.0–12.0; for new languages 5.0–15.0), "),
        (-0.02, 0.22, "", " (95 % CI 8.0–12.0; for new languages −2.0 to 22.0), "),
        (None, None, LanguageSample.FEW_LANGUAGES, " (95 % CI 8.0–12.0), "),
        (None, None, Runs.ONE_RUN, " (95 % CI 8.0–12.0), "),
    ],
)
def test_each_mean_has_its_interval_for_other_languages_next_to_it(low, high, untested, part):
    results = grid("none", "finetune")
    *single, mean = compared(results, all_of(0.1, "better"))
    p = None if low is None else 0.01
    sample = LanguageSample(0.1, low, high, p, p and 3.0, 4, untested)
    assert part in answer(results.tested([*single, replace(mean, over_languages=sample)]))


def test_the_sentence_says_that_no_difference_is_large_enough_to_matter():
    results = grid("none", "finetune")
    *single, mean = compared(results, all_of(0.001, "no difference"))
    told = answer(results.tested([*single, replace(mean, margin=0.03)]))
    assert told.endswith(f"(95 % CI −1.9 to 2.1, no difference above 3).{HOLM}")


def headline(results, found):
    made = share("answer", results.tested(found)).headline
    assert made is not None
    return made


def test_a_cell_of_the_matrix_has_words_besides_its_colour():
    results = grid("none", "finetune")
    verdicts = ["better", "better", "better", "worse", "cannot tell"]
    apart = {"avg": 0.04, "bg": 0.2, "de": 0.05, "es": -0.1, "fr": 0.01}
    values = {lang: (by, told) for (lang, by), told in zip(apart.items(), verdicts, strict=True)}
    (matrix,) = headline(results, compared(results, values)).matrices
    assert matrix.columns == ("mean", "bg", "de", "es", "fr")
    base, line = matrix.lines
    assert {entry.verdict for entry in base.entries} == {"baseline"}
    cells = line.entries
    assert [cell.verdict for cell in cells] == verdicts
    assert [cell.shade for cell in cells] == [1, 4, 1, -2, 0]
    assert (cells[1].text, cells[1].delta, cells[1].spread) == ("50.0", "+20.0", "[18.0, 22.0]")


def test_a_matrix_of_many_points_has_one_line_per_method():
    rows = [row("none", lang, 0.5) for lang in LANGS]
    for weight in range(12):
        own = {"params": {"lambda": weight}}
        for lang in LANGS:
            rows.append(row("finetune", lang, weight / 20, split="dev", **own))
            rows.append(row("finetune", lang, 0.5, trial=f"{weight}", **own))
    results = Scoreboard.of(rows, replace(EMPTY, axes={"finetune": ("lambda",)}))
    base = next(cell for cell in results.cells if cell.method == "none")
    found = [
        Compared(cell, name, value, baseline=base)
        for cell in results.cells
        for name, value in cell.values.items()
        if cell is not base and name[3] == "test"
    ]
    (matrix,) = headline(results, found).matrices
    assert [line.label for line in matrix.lines] == ["none", "finetune λ=11"]
    assert "11 more configurations are in the grid's own tables" in matrix.caption


@pytest.mark.parametrize(
    ("verdict", "clause"),
    [
        ("cannot tell", "better in none and worse in none of 16 comparisons."),
        ("better", "better in 16 and worse in none of 16 comparisons."),
    ],
)
def test_many_tasks_are_counted_together(verdict, clause):
    first, *others = tasks = ("sentence_retrieval", "xnli", "mlqa", "ner", "pos")
    results = grid("none", "finetune", tasks=tasks)
    found = compared(results, all_of(0.1, "better"), task=first)
    for task in others:
        found += compared(results, all_of(0.02, verdict), task=task)
    assert f"At the other four tasks it is significantly {clause}{HOLM}" in answer(
        results.tested(found)
    )


def test_a_mean_that_is_better_is_named_where_no_language_is_by_itself():
    tasks = ("sentence_retrieval", "xnli")
    results = grid("none", "finetune", tasks=tasks)
    values = {**all_of(0.1, "cannot tell"), "avg": (0.1, "better")}
    found = [finding for task in tasks for finding in compared(results, values, task=task)]
    assert answer(results.tested(found)) == (
        "finetune beats the unaligned encoder at sentence retrieval by 10.0 points on average (95 %"
        " CI 8.0–12.0), but significantly in no single language. At XNLI it is significantly"
        " better by 10.0 points on average (95 % CI 8.0–12.0), but in no single language."
        f"{HOLM}"
    )


@pytest.fixture
def opened(tmp_path):
    """A grid of three trials, of which nothing is done."""
    path = write_grid(tmp_path, languages="{each: [de]}", sentences="[100]", seeds="[0, 1, 2]")
    return open_grid(path, storage=str(tmp_path / "storage"))


def write(opened, number):
    """The result of one trial."""
    score = {"lang": "de", "metric": "accuracy", "split": "test", "value": 0.5}
    for key in opened.plan.trials[number].evaluations.values():
        opened.storage.ledger.write(key, {"params": {}, "scores": [score], "seconds": 1.0}, None)


def test_the_answer_is_that_of_the_results_in_the_ledger(opened):
    assert stored_answer(opened.plan, opened.storage.ledger) == ""
    write(opened, 0)
    found = results_of((opened, opened.storage.ledger))
    compared = comparisons(found.cells, opened.plan, opened.storage.ledger)
    expected = answer(found.tested(compared))
    assert stored_answer(opened.plan, opened.storage.ledger) == (
        "Unfinished: results of 8 of 9 trials are missing (rotation; finetune): `raxalign grid"
        " FILE` runs them."
        f" {expected}"
    )
