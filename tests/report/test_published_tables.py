"""Published rows find the trials that measure them, and every way in which the two are not alike is
said.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from raxalign.analysis.cells import Cell, Value
from raxalign.analysis.significance import Interval
from raxalign.config.published import Publication, PublishedRow, Rule
from raxalign.plan.plan import Plan
from raxalign.plan.trial import Trial
from raxalign.plan.values.comparisons import Compared
from raxalign.report.cells.judge import Judge
from raxalign.report.cells.results import Results
from raxalign.report.document import Table
from raxalign.report.published.matching import match_row
from raxalign.report.published.table import RECORD
from raxalign.report.sections.base import Fill
from tests.report.material import published, share


def row(value: float, **changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "trial": "t",
        "method": "finetune",
        "params": {"lambda": 1.0},
        "encoder": "bert-base-multilingual-cased",
        "languages": ["de"],
        "sentences": 250_000,
        "seed": 0,
        "task": "xnli",
        "task_params": {"setting": "zero-shot", "data": "hub"},
        "lang": "de",
        "metric": "accuracy",
        "split": "test",
        "evaluation": "e",
        "value": value,
    }
    return {**base, **changes}


def results(rows: list[dict[str, Any]], kinds: dict[str, str] | None = None) -> Results:
    trials = tuple(
        Trial(name, kind, {}, "e", ("de",), None, None, "a", {})
        for name, kind in (kinds or {}).items()
    )
    return Results.of(rows, Plan("p", "en", 1, trials, {}, {"finetune": ("lambda",)}))


def table_of(found: Results, label: str, name: str = "cao2020") -> Table:
    sections, _ = published(found, Judge(), [name])
    return next(table for table in sections[0].tables if table.anchor == f"{name}-{label}")


def line_of(table: Table, label: str, group: str = "") -> Any:
    return next(line for line in table.lines if (line.label, line.group) == (label, group))


def entry_of(table: Table, label: str, column: str, group: str = "") -> Any:
    return line_of(table, label, group).entries[table.columns.index(column)]


def test_a_cell_has_mean_interval_mark_published_figure_and_difference() -> None:
    found = results(
        [row(0.70), row(0.72, seed=1, evaluation="f"), row(0.74, seed=2, evaluation="g")]
    )
    assert entry_of(table_of(found, "xnli_methods"), "finetune", "de", "zero-shot").spread == "", (
        "nothing is known of it without predictions"
    )
    (cell,) = found.cells
    name = ("xnli", "de", "accuracy", "test")
    judge = Judge(
        [
            Compared(
                cell, name, cell.values[name], Interval(0.695, 0.7449, 3, 5010), verdict="better"
            )
        ]
    )
    sections, records = published(found, judge, ["cao2020"])
    table = next(table for table in sections[0].tables if table.anchor == "cao2020-xnli_methods")
    entry = entry_of(table, "finetune", "de", "zero-shot")
    assert (entry.text, entry.below, entry.delta, entry.state) == ("72.0", "73.1", "−1.1", "value")
    assert (entry.spread, entry.mark) == ("[69.5, 74.5]", "better")
    record = next(
        record
        for record in (dict(zip(RECORD, one, strict=True)) for one in records)
        if record["measured"] is not None
    )
    assert (record["low"], record["high"], record["seeds"]) == (
        pytest.approx(69.5),
        pytest.approx(74.49),
        3,
    )


def test_a_mean_over_the_columns_has_the_interval_and_mark_of_the_grid_s_own_mean() -> None:
    found = results([row(0.7, lang="de"), row(0.8, lang="fr"), row(0.9, lang="en")])
    (cell,) = found.cells
    known = {lang: (low, "worse") for lang, low in (("avg", 0.71), ("avg_zero_shot", 0.65))}
    judge = Judge(
        Compared(cell, name, cell.values[name], Interval(low, 0.9, 1, 50), verdict=verdict)  # type: ignore[arg-type]
        for lang, (low, verdict) in known.items()
        if (name := ("xnli", lang, "accuracy", "test"))
    )
    sections, _ = published(found, judge, ["cao2020"])
    table = next(table for table in sections[0].tables if table.anchor == "cao2020-xnli_methods")
    entry = entry_of(table, "finetune", "average", "zero-shot")
    assert (entry.spread, entry.mark) == ("[71.0, 90.0]", "worse")


def test_cells_without_a_result_say_so_and_rows_without_a_rule_are_published_alone() -> None:
    table = table_of(results([row(0.7)]), "xnli_methods")
    assert (
        entry_of(table, "finetune", "fr", "zero-shot").text,
        entry_of(table, "finetune", "fr", "zero-shot").below,
    ) == ("not run", "74.5")
    assert entry_of(table, "base", "de", "translate-train").state == "absent"
    xlm = entry_of(table, "xlm-mlm-tlm", "de", "zero-shot")
    assert (xlm.text, xlm.state) == ("77.8", "published")


def test_nothing_at_all_was_run() -> None:
    table = table_of(results([]), "xnli_methods")
    assert {entry.state for line in table.lines for entry in line.entries} == {
        "absent",
        "published",
    }


def test_the_very_size_is_taken_and_none_in_its_place_where_the_grid_has_published_sizes() -> None:
    table = table_of(
        results([row(0.6, sentences=10_000), row(0.65, sentences=50_000)]), "xnli_data_size"
    )
    states = {line.label: line.entries[table.columns.index("de")].text for line in table.lines}
    assert states == {"0": "not run", "10000": "60.0", "50000": "65.0", "250000": "not run"}


def test_sizes_that_no_paper_has_stand_for_the_papers_by_rank_and_the_note_says_so() -> None:
    table = table_of(
        results([row(0.5 + size / 10_000, sentences=size) for size in (100, 200, 400)]),
        "xnli_data_size",
    )
    texts = {line.label: line.entries[table.columns.index("de")].text for line in table.lines}
    assert texts == {"0": "not run", "10000": "51.0", "50000": "52.0", "250000": "54.0"}
    notes = [table.notes[number - 1] for number in line_of(table, "250000", "finetune").notes]
    assert notes == ["Scale reduced: 400 sentence pairs per language (published: 250,000)."]


def test_one_size_alone_stands_for_the_nearest() -> None:
    table = table_of(results([row(0.6, sentences=8_000)]), "xnli_data_size")
    assert [line.label for line in table.lines if line.entries[2].state == "value"] == ["10000"]


def test_the_mean_over_some_columns_is_compared_with_the_published_mean_over_the_same() -> None:
    found = results([row(0.7, lang="de"), row(0.8, lang="fr"), row(0.9, lang="en")])
    table = table_of(found, "xnli_methods")
    entry = entry_of(table, "finetune", "average", "zero-shot")
    assert (entry.text, entry.below) == ("80.0", "74.7")
    assert entry.delta == "+4.1"  # 80.0 - (73.1 + 74.5 + 80.1) / 3
    assert any("Mean over 3 of 6 columns" in table.notes[number - 1] for number in entry.notes)


def test_a_printed_mean_that_is_wrong_is_shown_and_not_compared_with() -> None:
    base: dict[str, Any] = {"method": "weam", "task": "mlqa", "params": {}, "sentences": None}
    rows = [
        row(0.50, lang=lang, metric=metric, **base)
        for lang in ("es", "de", "zh")
        for metric in ("exact_match", "f1")
    ]
    table = table_of(results(rows), "mlqa", "weam2021")
    assert table.columns[:2] == ("en EM", "en F1")
    entry = entry_of(table, "weam", "average-zero-shot EM", "zero-shot")
    assert (entry.text, entry.below, entry.delta) == (
        "50.0",
        "48.2",
        "+3.0",
    )  # to 47.0, the mean of es, de and zh
    assert any("Printed as the mean" in table.notes[number - 1] for number in entry.notes)


def test_what_must_hold_keeps_other_trials_out() -> None:
    other = results([row(0.7, task_params={"setting": "translate-train", "data": "hub"})])
    assert match_row(other, table_data("xnli_methods"), "zero-shot/finetune") is None
    assert (
        match_row(
            results([row(0.7, method="mine")], {"mine": "rotation"}),
            table_data("xnli_methods"),
            "zero-shot/finetune",
        )
        is None
    )
    renamed = match_row(
        results([row(0.7, method="mine")], {"mine": "finetune"}),
        table_data("xnli_methods"),
        "zero-shot/finetune",
    )
    assert renamed is not None


def table_data(label: str, name: str = "cao2020") -> Any:
    from raxalign.config.published import read

    return read(name).tables[label]


def test_of_several_points_the_paper_s_own_is_taken_else_the_best_on_dev() -> None:
    points = [
        row(value, params={"lambda": x}) for x, value in ((0.1, 0.9), (1.0, 0.5), (10.0, 0.8))
    ]
    own = match_row(results(points), table_data("xnli_methods"), "zero-shot/finetune")
    assert own is not None
    assert (own.cell.params["lambda"], own.differs, own.chosen) == (1.0, (), "")
    dev = [row(value, params={"lambda": x}, split="dev") for x, value in ((0.1, 0.2), (10.0, 0.3))]
    best = match_row(
        results([points[0], points[2], *dev]), table_data("xnli_methods"), "zero-shot/finetune"
    )
    assert best is not None
    assert best.cell.params["lambda"] == 10.0
    assert best.differs == ("lambda: 10 (published: 1)",)
    assert best.chosen == "the best on dev of 2 points"


def test_of_two_tasks_the_one_that_is_as_published_is_taken() -> None:
    base: dict[str, Any] = {
        "task": "retrieval",
        "lang": "de-en",
        "metric": "contextual_accuracy",
        "method": "none",
        "params": {},
        "sentences": None,
    }
    sentence = {
        "method": "rotation",
        "params": {"supervision": "parallel"},
        "sentences": 250_000,
        "encoder": "fasttext",
    }
    plain, wide = (
        {"task_params": {"augmentation": "none"}},
        {"task": "wide", "task_params": {"augmentation": "sentence"}},
    )
    rows = [
        row(0.1, **base | wide),
        row(0.2, **base | plain),
        row(0.3, **base | sentence | plain),
        row(0.4, **base | sentence | wide),
    ]
    found = results(rows)
    found = replace(found, tasks={"retrieval": "retrieval", "wide": "retrieval"})
    table = table_of(found, "retrieval")
    assert entry_of(table, "base", "de-en", "contextual").text == "20.0"
    assert entry_of(table, "fasttext-sentence", "de-en", "contextual").text == "40.0"
    assert not any("augmentation" in note for note in table.notes)
    alone = table_of(replace(results(rows[2:3]), tasks={"retrieval": "retrieval"}), "retrieval")
    assert any(
        "augmentation: none (published: sentence)" in text for text in (*alone.notes, alone.caption)
    )


def test_code_switching_tells_rows_apart() -> None:
    ppa = {"method": "ppa", "params": {"moco": True, "tlm": True, "mlm_for_tlm": False}}
    plain, mixed = (
        {"task": name, "task_params": {"setting": "translate-train", "code_switching": kind}}
        for name, kind in (("a", "none"), ("b", "sentence"))
    )
    found = replace(
        results(
            [row(0.6, **ppa | plain), row(0.7, **ppa | mixed), row(0.5, **plain, method="none")]
        ),
        tasks={"a": "xnli", "b": "xnli"},
    )
    table = table_of(found, "xnli_ablation", "pan2021")
    assert entry_of(table, "ppa/250k", "de", "translate-train").text == "70.0"
    assert (
        entry_of(table, "ppa-without-code-switching/250k", "de", "translate-train").text == "60.0"
    )
    assert (
        entry_of(table_of(found, "xnli", "pan2021"), "base", "de", "translate-train").text == "50.0"
    )


def test_a_shift_of_nothing_is_the_baseline_and_never_the_shift() -> None:
    shifts = [
        row(value, method="mean_shift", params={"alpha": alpha}, split=split)
        for alpha, value in ((0.0, 0.7), (0.5, 0.6))
        for split in ("dev", "test")
    ]
    table = table_of(results(shifts), "xnli_mds", "liu2020")
    assert entry_of(table, "finetune-last-6-layers", "de").text == "70.00"
    assert entry_of(table, "finetune-last-6-layers/mds", "de").text == "60.00"


def test_the_other_direction_stands_in_no_table_of_this_one() -> None:
    both = [
        row(value, params={"lambda": 1.0, "direction": way}, split=split)
        for way, value in (("to-pivot", 0.6), ("to-other", 0.7))
        for split in ("dev", "test")
    ]
    assert (
        entry_of(table_of(results(both), "xnli_methods"), "finetune", "de", "zero-shot").text
        == "60.0"
    )


def test_a_dev_set_that_also_selected_is_flagged_and_never_passes_for_test() -> None:
    params = {"setting": "zero-shot", "data": "hub", "selection": "pivot-dev"}
    table = table_of(results([row(0.7, split="dev", task_params=params)]), "xnli_methods")
    notes = " ".join([table.caption, *table.notes])
    assert "Measured on the dev set (published: test)." in notes
    assert "also chose the checkpoint (selection: pivot-dev)" in notes


def test_other_encoders_and_data_are_said_once_for_the_whole_table() -> None:
    rows = [
        row(
            0.7,
            method=method,
            encoder="scratch",
            task_params={"setting": "zero-shot", "data": "phrasebook"},
        )
        for method in ("none", "finetune")
    ]
    table = table_of(results(rows), "xnli_methods")
    assert "Measured on scratch (published: bert-base-multilingual-cased)." in table.caption
    assert "data: phrasebook (published: hub)" in table.caption
    assert not any("scratch" in note for note in table.notes)


def test_scores_over_layers_and_weights_fill_their_rows_and_the_best_point() -> None:
    names = {
        "layer10_alpha1_bleu1": 0.05,
        "layer11_alpha3.0_bleu1": 0.08,
        "layer10_alpha2_convert_rate": 0.7,
    }
    base: dict[str, Any] = {
        "method": "none",
        "params": {},
        "task": "token_translation",
        "task_params": {},
        "lang": "en-de",
        "sentences": None,
    }
    table = table_of(
        results([row(value, metric=metric, **base) for metric, value in names.items()]),
        "token_translation",
        "liu2020",
    )
    texts = {line.label or line.group: line.entries[0].text for line in table.lines}
    assert texts["bleu1/layer=11,alpha=3"] == texts["bleu1/best"] == "8.00"
    assert (texts["best-layer"], texts["best-alpha"]) == ("11", "3.0")
    assert texts["convert-rate/layer=10,alpha=2"] == "0.700"
    by_label = {line.label or line.group: line.entries[0] for line in table.lines}
    assert (by_label["bleu1/layer=11,alpha=3"].worse, by_label["best-layer"].worse) == (
        True,
        None,
    )  # 8.00 for 8.01; a layer is no better or worse
    assert texts["convert-rate/layer=10,alpha=1"] == "not run"


def test_a_dataset_is_matched_by_the_task_s_name() -> None:
    base: dict[str, Any] = {
        "method": "none",
        "params": {},
        "metric": "f1",
        "split": "dev",
        "task_params": {"tagger": "bilstm_crf"},
        "sentences": None,
    }
    found = Results.of([row(0.5, task="atis", lang="tr", **base)], Plan("p", "en", 1, (), {}, {}))
    sections, records = published(
        found.__class__(**{**vars_of(found), "tasks": {"atis": "slots"}}),
        Judge(),
        ["kulshreshtha2020"],
    )
    measured = [
        dict(zip(RECORD, record, strict=True))
        for record in records
        if record[RECORD.index("measured")] is not None
    ]
    assert [(entry["row"], entry["column"], entry["measured"]) for entry in measured] == [
        ("base", "atis/tr", 50.0)
    ]
    assert measured[0]["difference"] == pytest.approx(50.0 - 21.15)
    assert len(sections) == 1


def vars_of(found: Results) -> dict[str, Any]:
    return {
        name: getattr(found, name)
        for name in ("plan", "cells", "kinds", "tasks", "task_params", "planned", "done", "seeds")
    }


def test_an_analysis_fills_the_rows_of_its_table_by_the_cells_that_match_them() -> None:
    asked: list[Any] = []

    def measure(cell: Cell) -> Fill:
        asked.append((cell.method, cell.params.get("lambda"), cell.sentences))
        return Fill({"NOUN": Value(0.655, 0.01, 3), "PUNCT": "too few queries"}, "Of one seed.")

    retrieval = {"task": "retrieval", "lang": "avg", "metric": "noncontextual_accuracy_all"}
    found = results(
        [
            row(0.5, method="none", params={}, sentences=None, **retrieval),
            *(row(0.5, params={"lambda": x}, **retrieval) for x in (0.1, 1.0)),
        ]
    )
    sections, records = published(found, Judge(), ["cao2020"], {"retrieval_by_pos": measure})
    table = next(
        table for table in sections[0].tables if table.anchor == "cao2020-retrieval_by_pos"
    )
    noun = entry_of(table, "base", "NOUN")
    assert (noun.text, noun.spread, noun.below, noun.delta) == ("0.66", "", "0.61", "+0.05")
    assert entry_of(table, "base", "VERB").text == "not run"
    assert entry_of(table, "base", "PUNCT").text == "too few queries"
    assert [call for call in asked if call[0] == "finetune"] == [("finetune", 1.0, 250_000)], (
        "the paper's λ, not the other"
    )
    assert "Of one seed." in table.caption
    record = next(
        dict(zip(RECORD, one, strict=True))
        for one in records
        if one[1:4] == ("retrieval_by_pos", "finetune", "NOUN")
    )
    assert (record["method"], record["params"], record["sentences"]) == (
        "finetune",
        '{"lambda": 1.0}',
        250_000,
    )
    assert "Of one seed." in record["notes"]
    reasons = {one[3]: one[-1] for one in records if one[1:3] == ("retrieval_by_pos", "base")}
    assert (reasons["PUNCT"], reasons["VERB"]) == ("too few queries", "not run")


def test_the_nearest_size_stands_where_the_grid_has_larger_and_smaller_ones() -> None:
    table = table_of(
        results([row(0.5 + size / 1e6, sentences=size) for size in (10_000, 50_000, 250_000)]),
        "xnli_more_languages",
    )
    line = line_of(table, "finetune/20000", "zero-shot")
    assert line.sub.endswith("10,000 pairs")
    assert "Scale reduced: 10,000 sentence pairs per language (published: 20,000)." in [
        table.notes[number - 1] for number in line.notes
    ]


def test_rules_and_rows_of_the_wrong_form_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Extra inputs"):
        Rule.model_validate({"method": ["none"], "sentence": 3})
    with pytest.raises(ValueError, match="values"):
        PublishedRow.model_validate({})
    assert Publication.model_fields


def test_a_table_of_the_user_s_own_is_filled_like_a_paper_s(tmp_path: Path) -> None:
    from tests.config.test_published import my_table

    file = my_table(tmp_path)
    made = share("published", results([row(0.70), row(0.74, lang="fr")]), published=[str(file)])
    (part,) = made.parts
    assert (part.anchor, part.title) == ("my_table", "Doe 2024")
    assert [table.anchor for table in part.tables] == ["my_table-xnli"]
    entry = entry_of(part.tables[0], "shifted", "average")
    assert (entry.text, entry.below, entry.delta) == ("72.00", "73.05", "−1.05")
    assert entry_of(part.tables[0], "another-model", "de").state == "published"
    lines = made.files["published.csv"].splitlines()
    assert lines[4].startswith("my_table,xnli,shifted,de,,72.1,70.0,")


def shifted(values: dict[str, dict[float, tuple[float, float]]]) -> list[dict[str, Any]]:
    """Rows of mean difference shift: language -> α -> (dev, test)."""
    return [
        row(value, method="mean_shift", params={"alpha": alpha}, lang=lang, split=split)
        for lang, by_alpha in values.items()
        for alpha, both in by_alpha.items()
        for split, value in zip(("dev", "test"), both, strict=True)
    ]


CHOICES = {
    "de": {0.0: (0.50, 0.90), 0.1: (0.60, 0.40), 1.5: (0.70, 0.55)},
    "fr": {0.0: (0.50, 0.70), 0.1: (0.80, 0.65), 1.5: (0.80, 0.99)},
    "zh": {0.0: (0.90, 0.30), 0.1: (0.20, 0.60), 1.5: (0.10, 0.80)},
}


def test_a_weight_is_chosen_for_each_language_on_its_dev_set_and_never_on_test() -> None:
    """German takes 1.5; French the first of two equals; Chinese the better shift, although none at
    all is better. Every choice would be another on test.
    """
    table = table_of(results(shifted(CHOICES)), "xnli_mds", "liu2020")
    shown = [entry_of(table, "finetune-last-6-layers/mds", lang).text for lang in CHOICES]
    assert shown == ["55.00", "65.00", "60.00"]
    weights = [entry_of(table, "shifting-weight", lang).text for lang in CHOICES]
    assert weights == ["1.5", "0.1", "0.1"]
    mean = entry_of(table, "finetune-last-6-layers/mds", "average-without-en")
    assert mean.text == "60.00"
    assert entry_of(table, "finetune-last-6-layers/mds", "tr").text == "not run"
    assert entry_of(table, "finetune-last-6-layers", "zh").text == "30.00"


def test_a_row_with_a_weight_per_language_says_so_and_that_it_is_not_zero_shot() -> None:
    table = table_of(results(shifted(CHOICES)), "xnli_mds", "liu2020")
    line = line_of(table, "finetune-last-6-layers/mds")
    told = " ".join(table.notes[number - 1] for number in line.notes)
    assert line.sub == "mean_shift, α per language, 250,000 pairs"
    assert "alpha chosen for each language on its own dev set among 2 values" in told
    assert "not a purely zero-shot result" in told


def test_no_weight_is_chosen_for_the_pivot_and_weights_have_no_mean() -> None:
    choices = {"en": {0.0: (0.5, 0.5), 0.1: (0.6, 0.6)}, "de": CHOICES["de"]}
    table = table_of(results(shifted(choices)), "xnli_mds", "liu2020")
    assert entry_of(table, "finetune-last-6-layers", "en").text == "50.00"
    for label in ("finetune-last-6-layers/mds", "shifting-weight"):
        assert entry_of(table, label, "en").text == "–"
    assert entry_of(table, "shifting-weight", "average-without-en").text == "–"
    assert entry_of(table, "finetune-last-6-layers/mds", "average-without-en").text == "55.00"


def test_without_dev_values_no_weight_is_chosen() -> None:
    only_test = [entry for entry in shifted(CHOICES) if entry["split"] == "test"]
    table = table_of(results(only_test), "xnli_mds", "liu2020")
    assert entry_of(table, "finetune-last-6-layers/mds", "de").text == "not run"
    one = [entry for entry in only_test if entry["params"]["alpha"] == 1.5]
    table = table_of(results(one), "xnli_mds", "liu2020")
    assert entry_of(table, "finetune-last-6-layers/mds", "de").text == "55.00"
    assert entry_of(table, "shifting-weight", "de").text == "1.5"
