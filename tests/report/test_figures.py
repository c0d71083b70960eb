"""Figures: which cells a curve or a panel is of, how sweeps over layers are shown, and
how it is drawn.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from matplotlib.colors import to_hex, to_rgb
from matplotlib.text import Text

from raxalign.errors import RaxalignError
from raxalign.grid.load import Opened
from raxalign.grid.plan import Plan
from raxalign.grid.trial import Trial
from raxalign.report.document import Table
from raxalign.report.drawing import (
    INK,
    Heat,
    Panel,
    Series,
    colour_of,
    draw,
    marker_of,
    opened_canvas,
)
from raxalign.report.sections.token_translation import curves_over, sample_tables
from raxalign.store.ledger import Ledger
from raxalign.values.scoreboard import Scoreboard
from tests.ledgers import made_up
from tests.report.material import part, results_of, section
from tests.report.test_page import ENOUGH, contrast
from tests.report.test_published_tables import row

PLAN = Plan("p", "en", 1, (), {}, {})
NONE = Trial("none", "none", {}, "e", ("de",), None, None, "a", {})
BASELINE = replace(PLAN, trials=(NONE,))
BASE: dict[str, Any] = {"method": "none", "task": "token_translation", "lang": "de-en"}
SWEEP = {(layer, weight): 0.01 * layer * weight for layer in (1, 2, 3) for weight in (0.0, 1.0)}


def of_axis(method: str, score: float, split: str, **params: Any) -> dict[str, Any]:
    facts = {"trial": f"{method}{params}", "method": method, "params": params, "encoder": "e"}
    facts |= {"languages": ["de"], "sentences": 10, "seed": 0, "task": "xnli", "task_params": {}}
    own = {"lang": "de", "metric": "accuracy", "split": split, "evaluation": f"{params}"}
    return {**facts, **own, "value": score}


def test_a_curve_over_one_option_keeps_all_others_as_they_are() -> None:
    """The best direction on dev is that of λ 1; its test values alone are drawn, though the other
    direction has a better one at λ 0.1.
    """
    found = []
    for way, values in (("to-pivot", {0.1: 0.9, 1.0: 0.2}), ("to-other", {0.1: 0.3, 1.0: 0.5})):
        for weight, value in values.items():
            own = {"lambda": weight, "direction": way}
            found.append(of_axis("finetune", value, "test", **own))
            found.append(of_axis("finetune", 0.9 if way == "to-other" else 0.1, "dev", **own))
    plan = replace(PLAN, axes={"finetune": ("lambda", "direction")})
    (panel,) = section("curves", Scoreboard.of(found, plan)).axis_panels("finetune", "lambda")
    assert panel.title == "xnli, test set, 1 training run (one seed), direction=to-other"
    assert (
        panel.said == " Only 1 of 2 settings of the encoder and the other options: the best on dev."
    )
    assert [list(curve.y) for curve in panel.series if curve.label == "test"] == [[30.0, 50.0]]


def test_dev_chooses_the_best_run_of_the_best_point_other_than_baselines(tmp_path: Path) -> None:
    """`none`, which is better than all, cannot be it, and another point has the best single run."""
    better = {
        ("none", None): (0.9, 0.9),
        ("finetune", 0.1): (0.7, 0.1),
        ("finetune", 1.0): (0.5, 0.6),
    }

    def write(ledger: Ledger, opened: Opened, trial: Trial, key: str) -> None:
        value = better[trial.method, trial.params.get("lambda")][trial.seed or 0]
        place = {"lang": "de-en", "metric": "contextual_accuracy"}
        scores = [
            {**place, "split": "dev", "value": value},
            {**place, "split": "test", "value": 0.0},
        ]
        ledger.write(key, {"scores": scores, "params": {}, "task": "retrieval"}, None)

    parts: dict[str, Any] = {"languages": "{together: [de]}", "sentences": "100"}
    parts |= {
        "methods": ("none: {}", "finetune: {lambda: [0.1, 1.0]}"),
        "tasks": ("retrieval: {}",),
    }
    opened, ledger = made_up(tmp_path, write, **parts)
    key, why = results_of((opened, ledger)).chosen_run()
    trial = opened.plan.by_key[key]
    assert (trial.params["lambda"], trial.seed) == (1.0, 1)
    assert "is the best on dev of 2 configurations and 2 runs of it, by retrieval" in why
    apart = made_up(tmp_path, **parts | {"languages": "{each: [de, fr]}", "name": "each.yaml"})
    with pytest.raises(RaxalignError, match=r"give a key: .*\(de\), .*\(fr\)"):
        results_of(apart).chosen_run()


@pytest.mark.slow
def test_every_sort_of_panel_is_drawn_in_the_page_s_ink_and_again_the_same(tmp_path: Path) -> None:
    curve = Series("a", [1, 10], [1, 2], [(0.9, 1.3), None], look="dashed")
    level = Series("b", (), [1.5], look="level")
    heat = Heat([[1.0, float("nan")], [2.0, 3.0]], ["1", "2"], ["1", "2"])
    panels = [
        Panel("curves", "x", "y", (curve, level), log=True, ticks=[1, 10]),
        Panel("heat", "α", "layer", heat=heat),
        Panel("points", "x", "y", [Series("a", [1], [2], look="dots", names=["de"])], zero=True),
    ]
    svg = draw(panels, tmp_path, "all")
    assert "currentColor" in svg
    assert "#1a1b1c" not in svg
    assert "#1a1b1c" in (tmp_path / "all.svg").read_text(encoding="utf-8")
    assert set(re.findall(r'id="([^"]+)"', svg)) >= set(re.findall(r"url\(#([^)]+)\)", svg))
    assert (tmp_path / "all.pdf").read_bytes().startswith(b"%PDF")
    assert (tmp_path / "all.png").read_bytes().startswith(b"\x89PNG")
    again = tmp_path / "again"
    again.mkdir()
    assert draw(panels, again, "all") == svg
    assert (again / "all.svg").read_bytes() == (tmp_path / "all.svg").read_bytes()


def test_a_name_is_drawn_as_it_is_and_not_read_as_mathematics(tmp_path: Path) -> None:
    name = r"a$\frac$b_{c}^d%#"
    dots = Series(name, [1, 30, 200], [1, 2, 3], look="dots", names=[name] * 3)
    panels = [
        Panel(name, name, name, [dots], log=True),
        Panel(name, name, name, [dots], groups=[name] * 3),
        Panel(name, name, name, heat=Heat([[1.0]], [name], [name])),
    ]
    svg = draw(panels, tmp_path, "odd")
    assert svg.count(name) > 12
    assert "$" not in svg.replace(name, ""), "ticks neither"


def test_a_picture_says_by_itself_what_its_grid_lacks(tmp_path: Path) -> None:
    told = "Unfinished: results of 4 of 6 trials are missing."
    draw([Panel("curves", "x", "y", (Series("a", [1, 10], [1, 2]),))], tmp_path, "all", told)
    assert told in (tmp_path / "all.svg").read_text(encoding="utf-8")


def test_a_method_has_one_look_in_all_panels_of_a_figure() -> None:
    """Each task has its own best methods on dev; the colour of a method does not depend on them."""
    found = [
        {**of_axis(f"m{i}", 0.9 if i == best else 0.01 * i, split), "task": task, "sentences": n}
        for task, best in (("a", 3), ("b", 9))
        for i in range(12)
        for n in (10, 20)
        for split in ("dev", "test")
    ]
    panels = section("curves", Scoreboard.of(found, PLAN)).size_panels()
    looks = {(c.label, c.colour) for panel in panels for c in panel.series if c.look == "line"}
    assert len({label for label, _ in looks}) == len(looks) == len({place for _, place in looks})
    assert len({(colour_of(place), marker_of(place)) for place in range(64)}) == 64


@pytest.mark.slow
def test_names_of_points_do_not_cover_each_other_and_legends_fit() -> None:
    """Ten languages of two methods next to each other, and ten encoders with long names."""
    names = ["de", "fr", "es", "bg", "el", "ru", "tr", "ar", "vi", "zh"]
    xs = [50 + j / 9 for j in range(10)]
    clouds = [Series(f"m{i}", xs, [i] * 10, look="dots", names=names) for i in (0, 1)]
    with opened_canvas([Panel("", "x", "y", clouds)]) as figure:
        boxes = [text.get_window_extent() for text in figure.axes[0].texts if text.get_visible()]
        assert len(boxes) >= 15
        assert not any(a.overlaps(b) for place, a in enumerate(boxes) for b in boxes[:place])
    label = "scratch, layers={} vocab_size=30000 window=128"
    dots = [Series(label.format(i), (), [1.0], look="dots", colour=i) for i in range(10)]
    with opened_canvas([Panel("", "", "y", dots, ["de"])]) as figure:
        legend = figure.legends[0].get_window_extent()
        assert legend.x0 >= 0
        assert legend.x1 <= figure.bbox.width
        assert figure.axes[0].get_window_extent().height > 100


CROWDED = {
    "heads and names": [
        Panel(
            f"xnli_translated_and_switched_{i}, phrasebook test set, 2 to 5 training runs",
            "contextual accuracy, pairs unseen in training (%), n = 10 languages",
            "contextual accuracy, pairs unseen in training (%)",
            [Series("m", list(range(10)), list(range(10)), look="dots", names=["zh-Hant"] * 10)],
        )
        for i in range(4)
    ],
    "sizes": [
        Panel("", "sentence pairs per language", "y", [Series("m", xs, xs)], log=True, ticks=xs)
        for xs in ([100, 110, 120, 5000, 6000, 250_000, 251_000],)
    ],
    "groups": [
        Panel("", "", "y", [Series("m", (), [50.0] * 30)], [f"language {i}" for i in range(30)])
    ],
    "layers": [
        Panel("en-de", "weight α", "layer", heat=Heat(values, rows, columns))
        for rows in ([f"{n}" for n in range(49)],)
        for columns in ([f"{n / 100:.2f}" for n in range(40)],)
        for values in ([[float(a * b) for a in range(40)] for b in range(49)],)
    ]
    * 3,
}


def shown_in(figure: Any) -> list[Text]:
    """The texts of a figure, without the labels of ticks that lie beyond their axes."""
    beyond = {
        id(tick.label1)
        for axes in figure.axes
        for axis in (axes.xaxis, axes.yaxis)
        for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks())
        if not min(axis.get_view_interval()) <= tick.get_loc() <= max(axis.get_view_interval())
    }
    found = (text for text in figure.findobj(Text) if text.get_visible() and text.get_text())
    return [text for text in found if id(text) not in beyond]


@pytest.mark.slow
@pytest.mark.parametrize("panels", CROWDED.values(), ids=CROWDED)
def test_no_text_of_a_figure_lies_on_another_or_beyond_its_edge(panels):
    basis = "xnli_translated_and_switched, phrasebook test set, 2 to 5 training runs, " * 2
    with opened_canvas(panels, f"{basis}\nUnfinished: results are missing.") as figure:
        boxes = {text: text.get_window_extent() for text in shown_in(figure)}
        for (one, box), (other, beside) in combinations(boxes.items(), 2):
            assert not box.overlaps(beside), (one, other)
        for text, box in boxes.items():
            assert box.x0 >= -1 <= box.y0, text
            assert box.x1 <= figure.bbox.width + 1, text
            assert box.y1 <= figure.bbox.height + 1, text


@pytest.mark.slow
def test_text_of_figures_is_in_the_page_s_ink_or_legible_on_its_colour(tmp_path):
    values = [[float(n + 10 * m) for n in range(6)] for m in range(10)]
    heat = Heat(values, [f"{m}" for m in range(10)], [f"{n}" for n in range(6)])
    dots = [Series("a", [c], [c], look="dots", names=["de"], colour=c) for c in range(8)]
    panels = [Panel("t", "x", "y", dots), Panel("", "", "", heat=heat)]
    assert draw(panels, tmp_path, "all").count("fill: color-mix(in srgb, #") == 8
    with opened_canvas(panels, "b") as figure:
        own = {id(text) for axes in figure.axes for text in axes.texts}
        inks = {to_hex(t.get_color()) for t in figure.findobj(Text) if id(t) not in own}
        assert inks == {INK}
        for text in figure.axes[0].texts:
            ink = tuple(255 * part for part in to_rgb(text.get_color()))
            assert contrast(ink, (255, 255, 255)) >= ENOUGH, text
        (mesh,) = figure.axes[1].collections
        for text in figure.axes[1].texts:
            below = mesh.cmap(mesh.norm(float(text.get_text())))[:3]
            colours = (
                tuple(255 * part for part in rgb) for rgb in (below, to_rgb(text.get_color()))
            )
            assert contrast(*colours) >= ENOUGH, text


def test_the_front_of_pivot_and_transfer_links_what_no_other_method_beats_in_both() -> None:
    values = {"none": (0.8, 0.3), "a": (0.7, 0.5), "b": (0.6, 0.4), "c": (0.5, 0.6)}
    found = [
        {**of_axis(method, value, "test"), "lang": lang, "evaluation": method}
        for method, (pivot, other) in values.items()
        for lang, value in (("en", pivot), ("de", other), ("fr", other))
    ]
    (panel,) = section("curves", Scoreboard.of(found, PLAN)).pareto_panels()
    shown = {cloud.label: (cloud.x[0] / 100, cloud.y[0] / 100) for cloud in panel.series}
    assert shown == {method: pytest.approx(both) for method, both in values.items()}
    ends = [tuple(round(number) for number in link) for link in panel.links]
    assert ends == [(50, 60, 70, 50), (70, 50, 80, 30)]


def test_encoders_that_differ_in_their_seed_alone_share_a_dot_with_an_interval() -> None:
    values = {"seed=0 window=8": 0.4, "seed=1 window=8": 0.6, "seed=0 window=4": 0.3}
    found = [
        {**of_axis("none", value, "test"), "encoder": f"scratch {name}", "evaluation": name}
        for name, value in values.items()
    ]
    (panel,) = section("curves", Scoreboard.of(found, PLAN)).encoder_panels("xnli")
    long, short = panel.series
    assert (long.label, list(short.y)) == ("scratch window=8", [30.0])
    assert list(long.y) == [pytest.approx(50)]
    half = 12.706 * 10  # Student's t with one degree of freedom, and the error of the mean
    assert list(long.ends) == [pytest.approx((50 - half, 50 + half), abs=0.01)]


@pytest.mark.parametrize(
    ("axis", "values", "numeric"),
    [("freeze", ("lower", {"blocks": "1-2"}), []), ("lambda", (1, 1.0), []), ("b", (0.1, 1), [1])],
)
def test_an_axis_of_mappings_or_of_one_number_is_not_numeric(axis, values, numeric):
    rows = [of_axis("weam", 0.5, "test", **{axis: value}) for value in values]
    found = Scoreboard.of(rows, replace(PLAN, axes={"weam": (axis,)}))
    assert list(section("curves", found).numeric_axes()) == [("weam", axis) for _ in numeric]
    if axis == "freeze":
        shown = [found.named(cell) for cell in found.cells]
        assert shown == ["weam freeze=lower", "weam freeze={blocks: 1-2}"]


def test_a_sweep_is_drawn_over_weights_and_over_layers() -> None:
    for axis, shown in (
        ("weights", {f"layer {layer}": [0.0, float(layer)] for layer in (1, 2, 3)}),
        ("layers", {"α 0": [0.0, 0.0, 0.0], "α 1": [1.0, 2.0, 3.0]}),
    ):
        panel = curves_over(axis, "en-el", "BLEU-1 (%)", SWEEP)
        assert panel is not None
        assert {curve.label: list(curve.y) for curve in panel.series} == shown
    assert curves_over("weights", "", "", {(1, 1.0): 0.5, (2, 1.0): 0.5}) is None, "one weight"
    many = {(layer, weight): 0.5 for layer in range(1, 13) for weight in (1.0, 2.0)}
    panel = curves_over("weights", "en-el", "rate (%)", many)
    assert panel is not None
    labels = [curve.label for curve in panel.series]
    assert (len(labels), labels[0], labels[-1]) == (8, "layer 1", "layer 12")
    assert panel.said == " Only 8 of 12 layers: at about even distances."


class _Kept:
    """A ledger with one table of predictions."""

    def predictions(self, key: str) -> pa.Table:
        assert key == "e"
        texts = {(1, 1.0): "the hund", (1, 2.0): "the dog", (2, 1.0): "x", (2, 2.0): "y"}
        rows = []
        for (layer, weight), text in texts.items():
            for id_ in (7, 8):
                own = {"lang": "de-en", "layer": layer, "alpha": weight, "id": id_}
                source = "der hund" if id_ == 7 else None
                both = {"output_text": text, "reference_text": "the dog"}
                rows.append({**own, "source_text": source, **both})
        return pa.Table.from_pylist(rows)


def sentences(rows: list[dict[str, Any]]) -> Table:
    (cell,) = Scoreboard.of(rows, PLAN).cells
    (table,) = sample_tables(cell, "token_translation", cast(Ledger, _Kept()), ["de", "en"])
    return table


def test_sentences_are_shown_at_the_layer_that_dev_chooses() -> None:
    """Dev prefers layer 1 with 2; test would prefer layer 2."""
    dev = {"layer1_alpha1_bleu1": 0.1, "layer1_alpha2_bleu1": 0.4, "layer2_alpha1_bleu1": 0.2}
    rows = [row(value, metric=metric, split="dev", **BASE) for metric, value in dev.items()]
    rows += [row(0.9, metric="layer2_alpha1_bleu1", **BASE), row(0.3, metric="bleu1", **BASE)]
    table = sentences(rows)
    assert [(line.label, line.entries[0].text, line.sub) for line in table.lines] == [
        ("input (de)", "der hund", ""),
        ("de-en, α=1", "the hund", ""),
        ("de-en, α=2", "the dog", "chosen on dev"),
        ("reference (en)", "the dog", ""),
    ]
    assert "shifted after layer 1" in table.caption


def test_without_dev_sentences_are_shown_at_the_last_layer() -> None:
    metrics = ("layer1_alpha1_bleu1", "layer1_alpha2_bleu1", "layer2_alpha1_bleu1")
    table = sentences([row(0.9, metric=metric, **BASE) for metric in metrics])
    shown = [(line.entries[0].text, line.sub) for line in table.lines]
    assert shown == [("der hund", ""), ("x", ""), ("y", ""), ("the dog", "")]
    assert "shifted after layer 2, the last layer of the sweep, since no dev" in table.caption


def test_encoders_of_one_size_share_a_panel_and_the_reference_stands_in_all() -> None:
    labels = ["mbert", *(f"{kind} max_sentences={n}" for n in (200, 1000) for kind in ("g", "w"))]
    rows = [
        row(0.1 * (place + 1), method="none", params={}, encoder=label, lang=lang)
        for place, label in enumerate(labels)
        for lang in ("de", "fr")
        if (label, lang) != ("mbert", "fr")
    ]
    found = Scoreboard.of(rows, BASELINE)
    panels = section("curves", found).encoder_panels("xnli")
    assert [(panel.title, [dots.label for dots in panel.series]) for panel in panels] == [
        ("200 sentences per language", ["mbert", "g", "w"]),
        ("1,000 sentences per language", ["mbert", "g", "w"]),
    ]
    assert [round(bars.y[0]) for bars in panels[1].series] == [10, 40, 50]
    assert [dots.colour for dots in panels[0].series] == [d.colour for d in panels[1].series]
    one = [entry for entry in rows if entry["encoder"] == "mbert"]
    alone = Scoreboard.of(one, BASELINE)
    assert section("curves", alone).encoder_panels("xnli") == []


def test_a_grid_of_encoders_alone_is_not_said_to_lack_a_baseline() -> None:
    rows = [row(0.5, method="none", params={}, encoder=encoder) for encoder in ("mbert", "g")]
    alone = part("own_tables", Scoreboard.of(rows, BASELINE))
    assert "Nothing is compared and nothing is marked: the grid has no method" in alone.lead
    without = part("own_tables", Scoreboard.of([row(0.5)], PLAN))
    assert "marked: the grid has no baseline (a method of kind none)" in without.lead
