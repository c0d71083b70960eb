"""What a report states of curves over the number of sentence pairs, from curves made by hand."""

from dataclasses import replace

import numpy as np
import pytest

import raxalign as rx
from raxalign.analysis.curve import FittedCurves
from raxalign.analysis.significance import Comparison, Runs
from raxalign.report.answer import answer
from raxalign.report.sections.base import Material
from raxalign.report.sections.worth import Worth
from raxalign.values.comparisons import Compared
from raxalign.values.curves import SizeCurves
from raxalign.values.scoreboard import Scoreboard
from tests.grids import TINY, write_grid
from tests.ledgers import fill, made_up
from tests.ran import ran
from tests.report.material import results_of, share
from tests.report.test_answer import EMPTY, row

TABLE = ("xnli", "accuracy", "test")
VALUES = {  # a straight line over the logarithm, one as far above it as ten times the data, a kink
    "rotation": {100: 0.50, 1_000: 0.55, 10_000: 0.60},
    "finetune": {100: 0.55, 1_000: 0.60, 10_000: 0.65},
    "kinked": {100: 0.50, 1_000: 0.60, 10_000: 0.50},
}


def runs_of(value, _=0):
    """Three runs about a value, on 40 examples, with hardly any noise."""
    noise = 1e-4 * np.array([-1.0, 0.0, 1.0])
    return Runs((0, 1, 2), value + noise, np.arange(40), np.zeros((3, 40)), chance=True)


def shares_of(value, place=0):
    """One run without chance on 400 examples, drawn on its own for each place."""
    right = np.random.default_rng(place).permutation(np.arange(400) < 400 * value)
    noise = (right - value)[None] / 400
    return Runs((None,), np.array([value]), np.arange(400), noise, False, True, limits=(0, 1))


def curves_of(every, runs_of=runs_of):
    """The results with the curves of each method's values by size."""
    rows = [
        row(method, "de", value, sentences=size, evaluation=f"{method}{size}")
        for method, values in every.items()
        for size, value in values.items()
    ]
    results = Scoreboard.of([*rows, row("none", "de", 0.45)], EMPTY)
    cells = {method: {} for method in every}
    for cell in results.cells:
        if cell.sentences is not None:
            cells[cell.method][cell.sentences] = cell
    of_all = {(m, size): v for m, values in every.items() for size, v in values.items()}
    runs = {key: runs_of(value, place) for place, (key, value) in enumerate(of_all.items())}
    fitted = FittedCurves({m: {size: runs[m, size] for size in every[m]} for m in every})
    refused = {method: why for method in every if (why := fitted.misfit(method))}
    return results, SizeCurves(TABLE, cells, fitted, refused)


@pytest.fixture
def found():
    """The results with the curves; of `kinked` there is none."""
    return curves_of(VALUES)


def answered(results, curves, best):
    """The answer where a cell is better than `none`."""
    (base,) = (cell for cell in results.cells if cell.method == "none")
    name = ("xnli", "de", "accuracy", "test")
    test = Comparison(0.2, 0.18, 0.22, 0.01, 3, 3, 40)
    own = {"comparison": test, "verdict": "better", "baseline": base}
    return answer(results.tested([Compared(best, name, best.values[name], **own)]), curves)


def test_the_answer_says_what_the_method_is_worth_in_data_and_what_more_would_bring(found):
    results, curves = found
    best = curves.sizes["finetune"][10_000]
    said = answered(results, curves, best)
    told = "By its curve over the number of sentence pairs it takes 1,000 pairs (95 % CI 990–1,000)"
    told += " for what rotation reaches with 10,000 and would come to 68.0 % (95 % CI 68.0–68.0)"
    assert told in said
    assert "with 40,000, which is extrapolated." in said
    assert "By its curve" not in answered(results, None, best)


def test_curves_of_one_encoder_name_it_and_say_nothing_of_a_system_on_another(found, tmp_path):
    one, curves = found
    assert curves.encoder == "mini"
    own = [row("finetune", "de", 0.7, sentences=10_000, encoder="other", evaluation="other")]
    (other,) = Scoreboard.of(own, EMPTY).cells
    results = replace(one, cells=[*one.cells, other])
    assert "By its curve" in answered(results, curves, curves.sizes["finetune"][10_000])
    assert "By its curve" not in answered(results, curves, other)
    assert "at xnli (accuracy) on mini rotation 63.0 %" in curves.told_next(results, 40_000)
    crossed = {100: 0.40, 1_000: 0.55, 10_000: 0.70}
    _, crossing = curves_of({"rotation": VALUES["rotation"], "finetune": crossed})
    for shown, named in ((one, ""), (results, " on mini")):
        section = Worth(Material(shown, tmp_path))
        section.fitted = [crossing]
        (part,) = section.share().parts
        assert part.lead.startswith(f"The curves of rotation and finetune{named} cross at ")
        assert part.tables[0].title == f"xnli: what data is worth{named}"
        panel = section._panel(crossing, [])
        assert panel.title.endswith(f"training run (one seed){',' * bool(named)}{named}")


def test_curves_of_a_grid_are_those_of_its_first_encoder_and_say_so(tmp_path):
    encoders = f"[{TINY}, {TINY.replace('hidden_size: 16', 'hidden_size: 32')}]"
    sizes = {"languages": "{together: [de]}", "sentences": "[100, 200, 800]", "more": ""}
    opened, _ = made_up(tmp_path, encoder=encoders, **sizes)
    first, _ = opened.plan.encoders
    found = rx.curves(opened, "xnli")
    assert found.encoder == first
    assert {cell.encoder for of in found.sizes.values() for cell in of.values()} == {first}
    assert str(found).startswith(f"<curves of xnli accuracy test on {first}: rotation [100, ")


def test_a_method_of_which_a_size_is_missing_has_no_curve_and_the_table_says_why(tmp_path, undrawn):
    def write(ledger, opened, trial, key):
        if (trial.method, trial.sentences) != ("rotation", 800):
            fill(ledger, opened, trial, key)

    parts = {"languages": "{together: [de]}", "sentences": "[100, 200, 800]", "more": ""}
    methods = ("none: {}", "rotation: {}", "centering: {}")
    opened, ledger = made_up(tmp_path, write, tasks=("retrieval: {}",), methods=methods, **parts)
    results = results_of((opened, ledger))
    (table,) = share("worth", results, ledger=ledger, figures=tmp_path).parts[0].tables
    lines = {line.label: [entry.state for entry in line.entries] for line in table.lines}
    assert lines["rotation"] == ["empty", "empty"]
    assert lines["centering"][0] == "value"
    assert table.notes == ("No curve: fewer than 3 of its sizes have predictions yet.",)


def test_where_a_curve_leaves_the_range_of_the_metric_nothing_is_extrapolated(tmp_path):
    """Twelve points for four times the data: 70 % with 100 pairs become 100 % with 3,200."""
    rising = {100: 0.70, 400: 0.82, 1_600: 0.94}
    results, curves = curves_of({"rotation": rising, "finetune": rising}, shares_of)
    assert curves.ahead("finetune") == (6_400, None)
    why = "its curve leaves the range of the metric at 3,200 pairs"
    said = answered(results, curves, curves.sizes["finetune"][1_600])
    assert f"What 6,400 pairs would bring is not extrapolated: {why}." in said
    assert "would come to" not in said
    told = curves.told_next(results, 6_400)
    assert told.endswith(f"rotation no value ({why}), finetune no value ({why})")
    section = Worth(Material(results, tmp_path))
    section.fitted = [curves]
    (part,) = section.share().parts
    (table,) = part.tables
    assert [entry.text for entry in table.lines[0].entries[:2]] == ["94.0", "–"]
    assert f"No value: {why}." in (table.caption, *table.notes)[0]
    panel = section._panel(curves, [])
    drawn = [one for one in panel.series if one.look == "curve"]
    assert [one.x[-1] for one in drawn] == pytest.approx([3_200, 3_200])
    assert max(end for one in drawn for ends in one.band for end in ends) <= 100
    assert max(panel.ticks) == 1_600
    assert "A line ends where it leaves the range of the metric." in part.figures[0].caption


def test_the_next_size_continues_the_row_with_what_the_curves_expect_there(found):
    results, curves = found
    told = curves.told_next(results, 40_000)
    assert told == (
        "next size: 40,000 in `sentences`; by the curves at xnli (accuracy) rotation 63.0 % (95 %"
        " CI 63.0–63.0), finetune 68.0 % (95 % CI 68.0–68.0)"
    )


def next_size(folder, more="", *, size, unseen_in):
    """The line on the next size of a finished grid whose corpus has `size` lines."""
    path = write_grid(
        folder,
        encoder="phrasebook",
        languages="{each: [de]}",
        size=size,
        sentences="[20, 40, 80]",
        methods=("none: {}", "rotation: {}"),
        tasks=(f"retrieval: {{unseen_in: {unseen_in}}}",),
    )
    path.write_text(path.read_text().replace("aligner: fast_align", f"aligner: fast_align{more}"))
    opened = ran(path)
    return SizeCurves.next_size(opened, opened.plan)


def test_the_next_size_is_one_that_the_corpus_has_and_keeps_what_is_there_where_it_can(tmp_path):
    told = next_size(tmp_path, size=200, unseen_in=140)  # of 200 lines 60 are held out
    assert told.startswith("next size: 140 in `sentences`; by the curves at retrieval (")
    assert told.endswith("; what is there stays")


def test_the_next_size_comes_with_what_is_made_again_for_it(tmp_path):
    told = next_size(tmp_path, ", align_on: largest", size=900, unseen_in=160)
    assert told.startswith("next size: 160 in `sentences`; by the curves at retrieval (")
    again = "`align_on: largest` aligns the words of all sizes in one run"
    assert told.endswith(f"; 3 of 4 trials are then made again: {again}")


def test_a_next_size_that_the_file_does_not_allow_yet_says_so(tmp_path):
    told = next_size(tmp_path, size=900, unseen_in=80)
    assert "; the grid would be refused with it: line 17: tasks.retrieval.unseen_in: 80 is" in told


def test_a_corpus_that_is_used_up_gives_no_next_size(tmp_path):
    told = next_size(tmp_path, size=179, unseen_in=80)
    assert told == "no next size: the corpus has about 119 sentence pairs for training"


def test_a_table_has_the_sizes_that_methods_are_worth_and_why_one_has_no_curve(found, tmp_path):
    results, curves = found
    section = Worth(Material(results, tmp_path))
    assert section.share() is None  # without predictions there are no curves
    section.fitted = [curves]
    (part,) = section.share().parts
    (table,) = part.tables
    lines = {line.label: line for line in table.lines}
    assert table.columns == (
        *("largest", "4 times as many"),
        *("rotation with 10,000", "finetune with 10,000"),
    )
    assert [entry.below for entry in lines["finetune"].entries[:2]] == [
        "10,000 pairs",
        "40,000 pairs",
    ]
    assert lines["finetune"].entries[2].text == "1,000 (95 % CI 990–1,000)"
    assert lines["rotation"].entries[3].text == "–"  # .65 is beyond four times its largest size
    assert "do not lie on a straight line" in table.notes[0]
    assert [entry.state for entry in lines["kinked"].entries] == ["empty"] * 4
    (figure,) = part.figures
    assert "kinked (no curve)" in figure.svg
    assert replace(curves, refused={}).shown == list(VALUES)
    assert (part.lead, "crossing" in figure.svg) == ("", False)


@pytest.mark.parametrize(
    ("own", "told"),
    [
        ({100: 0.40, 1_000: 0.55, 10_000: 0.70}, "1,000 pairs (95 % CI 1,000–1,000): with"),
        ({100: 0.38, 1_000: 0.48, 10_000: 0.58}, "25,000–25,000), which is extrapolated: with"),
    ],
)
def test_where_two_curves_cross_is_said_and_drawn(own, told, tmp_path):
    results, curves = curves_of({"rotation": VALUES["rotation"], "finetune": own})
    section = Worth(Material(results, tmp_path))
    section.fitted = [curves]
    (part,) = section.share().parts
    assert part.lead.startswith("The curves of rotation and finetune cross at ")
    assert part.lead.endswith(f"{told} more, finetune is better.")
    assert "crossing" in part.figures[0].svg
    assert "Circles: where two lines cross" in part.figures[0].caption


@pytest.mark.parametrize(
    ("own", "told"),
    [  # 1 point against 5 for four times the data, and where nothing differs with fewer
        ((0.40, 0.41, 0.42), "with fewer than 740, rotation is better; with more, no difference"),
        ((0.30, 0.31, 0.29), "with more than 290, linear is better; with fewer, no difference"),
    ],
)
def test_a_crossing_says_of_a_side_with_no_significant_difference_that_none_is_shown(
    own, told, tmp_path
):
    sizes = (100, 400, 1_600)
    linear = dict(zip(sizes, (0.30, 0.35, 0.40), strict=True))
    results, curves = curves_of(
        {"rotation": dict(zip(sizes, own, strict=True)), "linear": linear}, shares_of
    )
    section = Worth(Material(results, tmp_path))
    section.fitted = [curves]
    (part,) = section.share().parts
    assert part.lead.endswith(f"{told} is shown.")
