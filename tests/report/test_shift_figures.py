"""Figures and sentences of token translation, and bars of several encoders."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from raxalign.plan.plan import Plan
from raxalign.plan.trial import Trial
from raxalign.report.cells.judge import Judge
from raxalign.report.cells.results import Results
from raxalign.report.document import Table
from raxalign.report.figures.drawing import draw, opened_canvas
from raxalign.report.figures.encoder_dots import encoder_panels
from raxalign.report.sections.token_translation import over_layers, over_weights, sample_tables
from raxalign.store.ledger import Ledger
from tests.report.material import part
from tests.report.test_published_tables import row

POINTS = {(layer, weight): 0.01 * layer * weight for layer in (1, 2, 3) for weight in (0.0, 1.0)}


def test_a_sweep_is_drawn_over_weights_and_over_layers() -> None:
    for make, shown in (
        (over_weights, {f"layer {layer}": [0.0, float(layer)] for layer in (1, 2, 3)}),
        (over_layers, {"α 0": [0.0, 0.0, 0.0], "α 1": [1.0, 2.0, 3.0]}),
    ):
        panel = make("en-el", "BLEU-1 (%)", POINTS)
        assert panel is not None
        assert {curve.label: list(curve.y) for curve in panel.curves} == shown
    assert over_weights("", "", {(1, 1.0): 0.5, (2, 1.0): 0.5}) is None, "one weight"
    many = {(layer, weight): 0.5 for layer in range(1, 13) for weight in (1.0, 2.0)}
    panel = over_weights("en-el", "rate (%)", many)
    assert panel is not None
    labels = [curve.label for curve in panel.curves]
    assert (len(labels), labels[0], labels[-1]) == (8, "layer 1", "layer 12")


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


BASE: dict[str, Any] = {"method": "none", "task": "token_translation", "lang": "de-en"}
EMPTY = Plan("p", "en", 1, (), {}, {})


def sentences(rows: list[dict[str, Any]]) -> Table:
    (cell,) = Results.of(rows, EMPTY).cells
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


def test_the_axis_of_a_share_ends_shortly_above_100() -> None:
    steep = {(1, 1.0): 0.0, (1, 2.0): 1.0}
    panels = [over_weights("", "rate (%)", steep), over_weights("", "rate", steep)]
    tops = []
    for panel in panels:
        assert panel is not None
        with opened_canvas([panel]) as figure:
            tops.append(figure.axes[0].get_ylim()[1])
    assert 100 < tops[0] < 104 < tops[1]


def test_encoders_of_one_size_share_a_panel_and_the_reference_stands_in_all(
    tmp_path: Path,
) -> None:
    labels = ["mbert", *(f"{kind} max_sentences={n}" for n in (200, 1000) for kind in ("g", "w"))]
    rows = [
        row(0.1 * (place + 1), method="none", params={}, encoder=label, lang=lang)
        for place, label in enumerate(labels)
        for lang in ("de", "fr")
        if (label, lang) != ("mbert", "fr")
    ]
    trial = Trial("none", "none", {}, "e", ("de",), None, None, "a", {})
    panels = encoder_panels(Results.of(rows, Plan("p", "en", 1, (trial,), {}, {})), Judge(), "xnli")
    assert [(panel.title, [dots.label for dots in panel.dots]) for panel in panels] == [
        ("200 sentences per language", ["mbert", "g", "w"]),
        ("1,000 sentences per language", ["mbert", "g", "w"]),
    ]
    assert [round(bars.values[0]) for bars in panels[1].dots] == [10, 40, 50]
    assert [dots.colour for dots in panels[0].dots] == [dots.colour for dots in panels[1].dots]
    svg = draw(panels, tmp_path, "encoders")
    assert "200 sentences per language" in svg
    one = [entry for entry in rows if entry["encoder"] == "mbert"]
    alone = Results.of(one, Plan("p", "en", 1, (trial,), {}, {}))
    assert encoder_panels(alone, Judge(), "xnli") == []


def test_a_grid_of_encoders_alone_is_not_said_to_lack_a_baseline() -> None:
    rows = [row(0.5, method="none", params={}, encoder=encoder) for encoder in ("mbert", "g")]
    trial = Trial("none", "none", {}, "e", ("de",), None, None, "a", {})
    alone = part("own_tables", Results.of(rows, Plan("p", "en", 1, (trial,), {}, {})), Judge())
    assert "No method next to the baseline has results: nothing is compared" in alone.lead
    without = part("own_tables", Results.of([row(0.5)], EMPTY), Judge())
    assert "The grid has no baseline (a method of kind none)" in without.lead
