"""Tables: which columns, in which order, with which numbers, on a screen, in Markdown and in
CSV.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from typing import Any

import pytest

from raxalign.cli._terminal import print_parts
from raxalign.plan.plan import Plan
from raxalign.report.tables import (
    FIELDS,
    as_csv,
    as_json,
    as_text,
    blocks,
    csv_parts,
    json_parts,
)

PLAN = Plan("small", "en", 4, (), {}, {"finetune": ("lambda",)})


def row(value: float, **changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = dict.fromkeys(FIELDS)
    base |= {
        "trial": "t",
        "method": "finetune",
        "params": {"lambda": 0.1, "epochs": 1},
        "encoder": "bert",
        "languages": ["de", "bg"],
    }
    base |= {
        "sentences": 1000,
        "seed": 0,
        "task": "xnli",
        "task_params": {"data": "hub"},
        "lang": "de",
        "metric": "accuracy",
        "split": "test",
    }
    return {**base, "evaluation": "e", "value": value, **changes}


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


def test_a_block_has_the_pivot_first_and_means_last() -> None:
    [block] = blocks(ROWS, PLAN)
    assert block.title == "xnli: accuracy (test)"
    assert block.langs == ("en", "bg", "de", "avg", "avg_zero_shot")


def test_a_line_names_the_axes_alone_and_means_are_over_seeds() -> None:
    [[method, sentences, english, _, german, average, zero_shot]] = [
        line for block in blocks(ROWS, PLAN) for line in block.lines
    ]
    assert (method, sentences) == ("finetune lambda=0.1", "1,000")
    assert english.startswith("0.8000")
    assert german == "0.6000 (0.1414)"  # a tenth to each side, n - 1 = 1
    assert average.startswith("0.6667")  # seeds: 1.9 / 3 and 2.1 / 3
    assert zero_shot.startswith("0.6000")


def test_the_legend_says_what_the_spread_is_and_one_run_has_none() -> None:
    assert "In parentheses: standard deviation over runs" in as_text(ROWS, PLAN, width=200)
    once = as_text([row(0.5)], PLAN, width=200)
    assert "standard deviation" not in once
    assert "0.5000 │" in once


def test_counts_and_standard_errors_show_only_when_asked_for() -> None:
    assert {block.title for block in blocks(ROWS, PLAN, every=True)} >= {
        "xnli: accuracy_pairs (test)",
        "xnli: accuracy_stderr (test)",
    }


def test_dev_values_show_where_there_is_no_test() -> None:
    assert [block.title for block in blocks([row(0.9, split="dev")], PLAN)] == [
        "xnli: accuracy (dev)"
    ]


def test_several_encoders_are_told_apart() -> None:
    [block] = blocks([row(0.5), row(0.4, encoder="xlm")], PLAN)
    assert [line[0] for line in block.lines] == [
        "finetune lambda=0.1 [bert]",
        "finetune lambda=0.1 [xlm]",
    ]


def test_brackets_in_names_are_not_styles() -> None:
    assert "[red]" in as_text([row(0.5, encoder="[red]"), row(0.5)], PLAN, width=120)


def test_csv_holds_what_json_holds() -> None:
    read = list(csv.DictReader(io.StringIO(as_csv(ROWS))))
    for line, original in zip(read, json.loads(as_json(ROWS)), strict=True):
        assert float(line["value"]) == original["value"]
        assert json.loads(line["params"]) == original["params"]
        assert json.loads(line["languages"]) == original["languages"]


def test_an_accuracy_over_a_handful_of_pairs_is_told_and_not_shown():
    few = [
        {**entry, "value": 12.0} if entry["metric"] == "accuracy_pairs" else entry for entry in ROWS
    ]
    (hidden,) = [block for block in blocks(few, PLAN) if block.title == "xnli: accuracy (test)"]
    assert hidden.lines == ()
    assert "12" in hidden.note
    assert "too few" in hidden.note
    assert next(
        block for block in blocks(few, PLAN, every=True) if block.title == "xnli: accuracy (test)"
    ).lines


def test_a_row_is_written_before_the_next_one_is_read() -> None:
    read: list[float] = []

    def rows() -> Iterator[dict[str, Any]]:
        for value in (0.25, 0.5, 0.75):
            read.append(value)
            yield row(value)

    assert json.loads(next(json_parts(rows())) + "]") == [row(0.25)]
    assert read == [0.25]
    parts = csv_parts(rows())
    assert next(parts).strip().split(",") == list(FIELDS)
    assert ",0.25" in next(parts)
    assert read == [0.25, 0.25, 0.5]


def test_parts_are_printed_as_they_are_and_csv_ends_as_its_lines_do(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_parts(csv_parts([row(0.25), row(0.5)]))
    assert capsys.readouterr().out == as_csv([row(0.25), row(0.5)])
    assert as_csv([row(0.25)]).endswith(",0.25\r\n")
    assert as_json([]) == "[]"
    assert as_json([row(0.5)]).endswith("}\n]")
