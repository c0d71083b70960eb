"""The layer profile in the report, from made-up results: what is drawn, what is marked as the
original encoder's value by construction, and correlations with transfer.
"""

import pyarrow as pa
import pytest

from tests.ledgers import made_up
from tests.report.material import results_of, section, share, with_tests

LANGS = ("de", "es", "fr", "bg", "el")
MEASURES = ("mexa", "cka", "anisotropy")
METHODS = ("none", "rotation", "finetune")


def made(folder, langs, measures=MEASURES):
    """Values rise by language, layer and method; MEXA and parts of speech go together."""
    methods = ("none: {}", "rotation: {center: true, layers: 1-2}", "finetune: {batch_size: 16}")
    tasks = (
        f"representation: {{unit: sentences, projection: none, measures: {list(measures)}}}",
        "pos: {data: phrasebook, phrasebook: {train: 40, dev: 12, test: 12}}",
    )
    empty = pa.table({"lang": pa.array([], pa.string()), "split": pa.array([], pa.string())})

    def write(ledger, opened, trial, key):
        stage = opened.plan.stages[key]
        own = stage.maker == "representation"
        found = spaces(trial.kind, langs, measures) if own else pos(trial.kind)
        record = {"scores": found, "params": stage.params["task"], "task": stage.maker}
        ledger.write(key, record, empty)

    parts = {"languages": f"{{together: [{', '.join(langs)}]}}", "sentences": "[100]"}
    return made_up(folder, write, methods=methods, tasks=tasks, seeds="[0]", more="", **parts)


def score(lang, metric, value):
    return {"lang": lang, "metric": metric, "split": "test", "value": value}


def spaces(kind, langs, measures):
    return [
        score(f"{lang}-en", f"{prefix}{name}", 0.1 * i + 0.05 * METHODS.index(kind) + 0.01 * place)
        for i, lang in enumerate(langs)
        for name in measures
        for place, prefix in enumerate(("", "layer0_", "layer1_", "layer2_"))
    ]


def pos(kind):
    method = METHODS.index(kind)
    ups = {lang: 0.1 * i**1.2 + 0.03 * method for i, lang in enumerate(LANGS)}
    return [score(lang, "accuracy", 0.2 + up) for lang, up in {"en": 0.5, **ups}.items()]


@pytest.fixture(scope="module")
def five(tmp_path_factory):
    return made(tmp_path_factory.mktemp("five"), LANGS)


@pytest.fixture
def tables(five, tmp_path, undrawn):
    (part,) = share("layers", results_of(five), ledger=five[1], figures=tmp_path).parts
    titles = [figure.title for figure in part.figures]
    assert titles == ["Measures by layer", "Correlation with transfer by layer"]
    return part.tables


def test_what_cannot_change_is_marked_and_not_drawn(five, tables):
    """The rotation acts from layer 1 on, and with a shift it leaves CKA as it is."""
    shown = {(line.group, line.label): [e.text for e in line.entries] for line in tables[0].lines}
    assert tables[0].columns == ("layer 0", "layer 1", "layer 2")
    assert shown["CKA", "rotation"] == ["=", "=", "="]
    assert shown["MEXA, %", "rotation"] == ["=", "27.0", "28.0"]
    assert shown["anisotropy", "rotation"] == ["=", "0.270", "0.280"]
    assert shown["CKA", "finetune"] == ["0.310", "0.320", "0.330"]
    found = results_of(five)
    panels = section("layers", found, ledger=five[1]).profile("representation").panels()
    drawn = {panel.title: {line.label: list(line.x) for line in panel.series} for panel in panels}
    every = [0, 1, 2]
    assert drawn["MEXA"] == {"none": every, "rotation": [1, 2], "finetune": every}
    assert drawn["CKA"] == {"none": every, "finetune": every}


def test_correlations_are_over_languages_and_methods(tables):
    lines = {(line.group, line.label): line.entries for line in tables[1].lines}
    assert tables[1].columns == ("pos",)
    (mexa,) = lines["MEXA", "mean over layers"]
    assert 0.9 < float(mexa.text) < 1
    assert mexa.below.endswith("n = 15, 5 languages")
    assert mexa.spread.startswith("[0.")
    (cka,) = lines["CKA", "largest over layers"]
    assert "n = 10, 5 languages" in cka.below  # without the rotation's


def test_tables_say_what_is_no_result(five):
    found = results_of(five)
    said = {
        (entry.cell.method, entry.name[2]): list(entry.remarks(found.unit(*entry.name[::2])))
        for entry in with_tests(found, five[1]).compared
    }
    not_a_result = "Not a result: the method moves each language as a whole"
    assert said["rotation", "cka"][0].startswith(not_a_result)
    for other in (("rotation", "mexa"), ("rotation", "anisotropy"), ("finetune", "cka")):
        assert not any(text.startswith(not_a_result) for text in said[other])


def test_few_languages_are_not_correlated(tmp_path, undrawn):
    two = made(tmp_path, ("de", "fr"))
    (part,) = share("layers", results_of(two), ledger=two[1], figures=tmp_path).parts
    below = {entry.below for line in part.tables[1].lines for entry in line.entries}
    assert all(text.endswith("2 languages: too few") for text in below)
    assert [figure.title for figure in part.figures] == ["Measures by layer"]


def test_a_grid_with_the_measures_of_before_has_no_such_part(tmp_path, undrawn):
    before = made(tmp_path, ("de", "fr"), ("language_probe", "anisotropy"))
    assert share("layers", results_of(before), ledger=before[1], figures=tmp_path).parts == ()
