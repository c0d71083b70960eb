"""Tables: which columns, in which order, with which numbers, on a screen, in Markdown and in
CSV.
"""

import csv

import pytest

from raxalign.analysis.cells import MEANS, Cell
from raxalign.cli._terminal import print_rows
from raxalign.errors import RaxalignError
from raxalign.grid.load import open_grid
from raxalign.grid.plan import Plan
from raxalign.report.tables import (
    FIELDS,
    Selection,
    as_text,
    blocks,
    csv_parts,
    json_parts,
    short_tables,
)
from raxalign.values.comparisons import comparisons
from raxalign.values.scoreboard import Scoreboard
from tests.grids import write_grid

PLAN = Plan("small", "en", 4, (), {}, {"finetune": ("lambda",)})


BASE = {**dict.fromkeys(FIELDS), "trial": "t", "method": "finetune", "encoder": "bert", "seed": 0}
BASE |= {"params": {"lambda": 0.1, "epochs": 1}, "languages": ["de", "bg"], "sentences": 1000}
BASE |= {"task": "sentence_retrieval", "task_params": {"data": "hub"}, "evaluation": "e"}
BASE |= {"lang": "de", "metric": "accuracy", "split": "test"}


def row(value, **changes):
    return {**BASE, "value": value, **changes}


ROWS = [
    row(0.5),
    row(0.7, seed=1, evaluation="f"),
    row(0.8, lang="en"),
    row(0.8, lang="en", seed=1, evaluation="f"),
    row(0.6, lang="bg"),
    row(0.6, lang="bg", seed=1, evaluation="f"),
    row(0.9, split="dev"),
    row(120.0, metric="accuracy_pairs"),
    row(0.1, metric="accuracy_stderr"),
]


def test_languages_stand_as_the_grid_names_them_wherever_they_are_shown(tmp_path):
    path = write_grid(tmp_path, languages="{together: [fr, bg, de]}")
    plan = open_grid(path, storage=str(tmp_path / "storage"), allow_missing=True).plan
    shuffled = ["avg", "de-en", "bg-en", "en", "el", "avg_zero_shot", "fr-en", "fr-bg", "en-fr"]
    inside = ["fr-bg", "fr-en", "bg-en", "de-en", "en-fr", "el"]
    assert plan.ordered(shuffled) == ["en", *inside, "avg", "avg_zero_shot"]
    rows = [row(0.5, lang=lang) for lang in ("bg", "de", "en", "fr")]
    [block] = blocks(rows, plan)
    assert block.langs == ("en", "fr", "bg", "de", "avg", "avg_zero_shot")
    assert (
        Scoreboard.of(rows, plan).by_table["sentence_retrieval", "accuracy", "test"] == block.langs
    )
    found = comparisons(Cell.grouped(rows, plan.pivot, plan.measured), plan, None)
    assert [entry.name[1] for entry in found] == list(block.langs)


def test_a_line_names_the_axes_alone_and_means_are_over_seeds():
    [block] = blocks(ROWS, PLAN)
    assert block.title == "sentence_retrieval: accuracy (test), %"
    assert block.langs == ("en", "bg", "de", "avg", "avg_zero_shot")
    [[method, sentences, english, _, german, average, zero_shot]] = block.lines
    assert (method, sentences) == ("finetune lambda=0.1", "1,000")
    assert english == "80.0 ± 0.0"
    assert german == "60.0 ± 14.1"  # a tenth to each side, n - 1 = 1
    assert average.startswith("66.7")  # seeds: 1.9 / 3 and 2.1 / 3
    assert zero_shot.startswith("60.0")


def test_the_legend_says_what_the_spread_is_and_one_run_has_none():
    assert "±: standard deviation over 2 runs" in as_text(blocks(ROWS, PLAN))
    once = as_text(blocks([row(0.5)], PLAN))
    assert "±" not in once
    assert once.splitlines() == [
        "sentence_retrieval: accuracy (test), %",
        "method               sentences    de",
        "────────────────────────────────────",
        "finetune lambda=0.1      1,000  50.0",
    ]


def test_what_is_shown_without_a_wish_and_with_all():
    assert {block.title for block in blocks(ROWS, PLAN, Selection(every=True))} >= {
        "sentence_retrieval: accuracy_pairs (test)",
        "sentence_retrieval: accuracy_stderr (test), %",
    }
    [block] = blocks([row(0.9, split="dev")], PLAN)  # dev where there is no test
    assert block.title == "sentence_retrieval: accuracy (dev), %"
    [block] = blocks([row(0.5), row(0.4, encoder="xlm")], PLAN)
    names = [f"finetune lambda=0.1 [{encoder}]" for encoder in ("bert", "xlm")]
    assert [line[0] for line in block.lines] == names


def test_an_accuracy_over_a_handful_of_pairs_is_noted_and_not_shown():
    few = [row(12.0, metric="accuracy_pairs"), *(r for r in ROWS if "_pairs" not in r["metric"])]
    hidden, shown = (
        next(block for block in found if ": accuracy (test)" in block.title)
        for found in (blocks(few, PLAN), blocks(few, PLAN, Selection(every=True)))
    )
    assert hidden.lines == ()
    assert "12; too few" in hidden.note
    assert shown.lines


def test_parts_are_printed_as_they_are_and_csv_ends_as_its_lines_do(capsys):
    for rows, kind, end in (([0.5, 0.25], "csv", ",0.25,,,\r\n"), ([0.5], "json", "}\n]\n")):
        print_rows(map(row, rows), kind)
        assert capsys.readouterr().out.endswith(end)
    assert "".join(json_parts([])) == "[]"


def test_no_text_of_a_csv_file_is_a_formula_and_numbers_stay_numbers():
    formulas = ["=1+1", "+a", "-a", "-", "@SUM(A1)", "\t=1", "\r=1"]
    plain = ["de", "-0.5", "+3", "-1e-05", "{}", ""]
    rows = [{"a": text} for text in (*formulas, *plain)]
    read = [row["a"] for row in csv.DictReader(csv_parts(rows, ["a"]))]
    assert read == [*(f"'{text}" for text in formulas), *plain]


def test_metrics_that_are_no_shares_keep_their_unit():
    [block] = blocks([row(12.5, metric="bleu"), row(3.0, metric="bleu", lang="bg")], PLAN)
    assert block.title == "sentence_retrieval: bleu (test)"
    assert block.lines[0][2:] == ("3.000", "12.500", "7.750")


MANY = [
    row(0.5 + place / 100, lang=lang, seed=seed, evaluation=f"{lang}{seed}")
    for place, lang in enumerate(("en", "ar", "bg", "de", "el", "es", "fr", "hi", "ru", "sw"))
    for seed in (0, 1)
]


@pytest.mark.parametrize("width", [30, 40, 80, 120, None])
def test_every_number_is_whole_at_any_width(width):
    lines = as_text(blocks(MANY, PLAN), width=width).splitlines()
    table = "\n".join(line for line in lines if "standard deviation" not in line)
    for place in range(10):
        assert f"{50 + place}.0 ± 0.0" in table
    assert width is None or max(map(len, lines)) <= width


def test_columns_fold_into_bands_that_repeat_the_method():
    lines = as_text(blocks(MANY, PLAN), width=80).splitlines()
    heads = [line.split() for line in lines if line.startswith("method")]
    langs = [lang for head in heads for lang in head[2:]]
    assert langs == ["en", "ar", "bg", "de", "el", "es", "fr", "hi", "ru", "sw", *list(MEANS)[:2]]
    assert len(heads) == sum("1,000" in line for line in lines) == 3


def test_a_table_that_does_not_fit_at_all_is_a_list():
    assert as_text(blocks([row(0.5), row(0.25, lang="bg")], PLAN), width=22).splitlines() == [
        "sentence_retrieval:",
        "accuracy (test), %",
        "finetune lambda=0.1,",
        "1,000",
        "  bg   25.0",
        "  de   50.0",
        "  avg  37.5",
    ]


def test_seeds_have_a_line_each_and_no_spread():
    rows = [row(0.5), row(0.7, seed=1, evaluation="f")]
    [block] = blocks(rows, PLAN, per_seed=True)
    assert block.heads == ("method", "sentences", "seed")
    assert [line[1:] for line in block.lines] == [("1,000", "0", "50.0"), ("1,000", "1", "70.0")]
    assert "±" not in as_text([block])


def test_a_transposed_table_has_a_line_per_language():
    rows = [row(0.5), row(0.25, lang="bg"), row(0.75, method="none", params={}, sentences=None)]
    assert as_text(blocks(rows, PLAN), transpose=True).splitlines() == [
        "sentence_retrieval: accuracy (test), %",
        "language  finetune lambda=0.1, 1,000  none",
        "──────────────────────────────────────────",
        "bg                              25.0",
        "de                              50.0  75.0",
        "avg                             37.5",
    ]


def test_a_selection_takes_columns_and_leaves_means_over_all_languages():
    asked = Selection(langs=("de", "avg"), splits=("test",))
    [block] = blocks(ROWS, PLAN, asked)
    assert block.langs == ("de", "avg")
    assert block.lines[0][3].startswith("66.7")
    [dev] = blocks(ROWS, PLAN, Selection(splits=("dev",)))
    assert (dev.title, dev.lines[0][2]) == ("sentence_retrieval: accuracy (dev), %", "90.0")
    [pairs] = blocks(ROWS, PLAN, Selection(metrics=("accuracy_pairs",)))
    assert pairs.title == "sentence_retrieval: accuracy_pairs (test)"
    both = [row(0.5, lang="de-en"), row(0.4, lang="bg-en")]
    [block] = blocks(both, PLAN, Selection(langs=("de",)))
    assert block.langs == ("de-en",), "a language means its pair with the pivot too"


def test_what_no_result_has_is_refused_with_what_there_is():
    wrong = r"--task sentence_retreival: no result has it; did you mean sentence_retrieval\?"
    with pytest.raises(RaxalignError, match=wrong):
        Selection(tasks=("sentence_retreival",)).refuse_unknown(ROWS, PLAN)
    with pytest.raises(RaxalignError, match="there are: de, en, bg, avg, avg_zero_shot"):
        Selection(langs=("tlh",)).refuse_unknown(ROWS, PLAN)
    Selection(langs=("de",)).refuse_unknown([row(0.5, lang="de-en")], PLAN)


def test_means_over_different_languages_are_marked():
    rows = [row(0.5), row(0.25, lang="bg"), row(0.75, method="none", params={}, lang="bg")]
    both = [*rows, row(0.5, method="none", params={}, lang="el")]
    [block] = blocks(both, PLAN)
    told = "avg: not all lines have the same languages, so these means cannot be compared"
    assert block.note == told
    [alike] = blocks(rows, PLAN)
    assert alike.note == ""
    for own, marked in ((both, True), (rows, False)):
        ((_, table),) = short_tables(Scoreboard.of(own, PLAN))
        assert ("Mean: not all lines have the same languages" in table.caption) == marked
