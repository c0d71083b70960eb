"""What a figure or a table leaves out: its caption says how much there was, and what was kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from raxalign.analysis.cells import Cell
from raxalign.corpora.text.dataset import DatasetWriter
from raxalign.grid.load import Opened
from raxalign.grid.plan import Plan
from raxalign.grid.trial import Trial
from raxalign.report.drawing import Panel, Series, Sketch
from raxalign.report.sections.base import Section
from raxalign.report.sections.word_retrieval import training_counts
from raxalign.report.tables import ShownLines
from raxalign.store.artifacts import ArtifactStore
from raxalign.store.ledger import Ledger
from raxalign.store.storage import Storage
from raxalign.values.scoreboard import Scoreboard
from tests.grids import TINY
from tests.ledgers import made_up
from tests.report.material import results_of, section, share
from tests.report.test_worth import curves_of

pytestmark = pytest.mark.usefixtures("undrawn")
NONE = Trial("none", "none", {}, "e", ("de",), None, None, "a", {})
PLAN = Plan("p", "en", 1, (NONE,), {}, {"weam": ("b",)})
NINE = range(1, 10)


def row(value: float, **changes: Any) -> dict[str, Any]:
    facts = {"trial": "", "method": "weam", "params": {}, "encoder": "e", "languages": ["de"]}
    facts |= {"sentences": None, "seed": 0, "task": "xnli", "task_params": {}, "lang": "de"}
    made = {**facts, "metric": "accuracy", "split": "test", "value": value, **changes}
    own = [made[name] for name in ("method", "params", "encoder", "sentences", "task")]
    return {**made, "evaluation": repr(own), "trial": repr(own)}


def of_sizes(
    devs: Mapping[int, Mapping[int, float]], tests: float = 0.5, **facts: Any
) -> list[dict[str, Any]]:
    """Rows of configurations by their `b` and size: the dev values, and a test value of each."""
    return [
        row(value if split == "dev" else tests, params={"b": b}, sentences=n, split=split, **facts)
        for b, sizes in devs.items()
        for n, value in sizes.items()
        for split in ("dev", "test")
    ]


def captions(kind: str, results: Scoreboard, **parts: Any) -> dict[str, str]:
    """The captions of the figures and tables of a section, by their names or titles."""
    found = share(kind, results, **parts).parts
    shown = {figure.name: figure.caption for part in found for figure in part.figures}
    return shown | {table.title: table.caption for part in found for table in part.tables}


def test_what_there_is_room_for_stands_in_its_order_and_the_rest_is_said() -> None:
    assert Section.fitting("abc", 3, "letters") == (["a", "b", "c"], "")
    kept, said = Section.fitting([3, 1, 2, 3, 3], 2, "numbers", lambda n: n, "the largest")
    assert (kept, said) == ([3, 3], " Only 2 of 5 numbers: the largest.")
    assert Section.fitting(range(2_000), 1_500, "pairs")[1] == (
        " Only 1,500 of 2,000 pairs: the first."
    )


def test_what_differs_between_panels_is_said_by_panel(tmp_path: Path) -> None:
    def drawn(*said: str) -> str:
        panels = [Panel("", "", "", [Series("a", [1], [1])], said=one) for one in said]
        results = Scoreboard.of([], PLAN)
        (figure,) = section("curves", results, figures=tmp_path).drawn(
            [Sketch("f", "", "A.", panels)]
        )
        return str(figure.caption)

    assert drawn(" B.", " B.") == "A. B."
    assert drawn(" B.", "", " C.", " B.") == "A. In panel 1, panel 4: B. In panel 3: C."
    assert drawn(*[""] * 14) == "A. Only 12 of 14 panels: the first."


def test_of_nine_configurations_eight_have_curves_and_the_caption_says_so(tmp_path: Path) -> None:
    devs = {b: {100: 0.1 * b, 200: 0.1 * b} for b in NINE}
    found = [{**one, "lang": lang} for one in of_sizes(devs) for lang in ("en", "de", "fr")]
    results = Scoreboard.of(found, PLAN)
    shown = captions("curves", results, figures=tmp_path)
    said = " Only 8 of 9 configurations: the best on dev with 200 sentence pairs, one per method"
    for name in ("data-size", "sizes-xnli"):
        assert said in shown[name], name
    (panel,) = section("curves", results).size_panels()
    assert [curve.label for curve in panel.series] == [f"weam b={b}" for b in NINE[1:]]
    few = Scoreboard.of([one for one in found if one["params"] != {"b": 1}], PLAN)
    assert not any(" Only " in text for text in captions("curves", few, figures=tmp_path).values())


def kept_curves(found: list[dict[str, Any]]) -> tuple[list[str], str]:
    results = Scoreboard.of(found, PLAN)
    lines: dict[str, dict[int, Cell]] = {}
    for cell in results.cells:
        lines.setdefault(results.named(cell), {})[cell.sentences or 0] = cell
    one = found[0]
    return section("curves", results).fitting_curves(lines, (one["task"], one["metric"], "test"))


def test_curves_are_chosen_at_a_size_that_all_have_and_not_by_how_many_sizes_are_done() -> None:
    """The last one is best with 100 and 200 pairs, and has no value with 400 yet."""
    devs = {b: {100: 0.10, 200: 0.1 * b, 400: 0.99} for b in NINE[:-1]} | {9: {100: 0.9, 200: 0.9}}
    names, said = kept_curves(of_sizes(devs))
    assert names == [f"weam b={b}" for b in NINE[1:]]
    assert "the best on dev with 200 sentence pairs" in said


def test_curves_are_chosen_by_the_lowest_where_lower_is_better() -> None:
    devs = {b: {100: 0.1 * b, 200: 0.1 * b} for b in NINE}
    lower = {"task": "word_alignment", "metric": "alignment_error_rate", "lang": "de-en"}
    assert kept_curves(of_sizes(devs, **lower))[0] == [f"weam b={b}" for b in NINE[:-1]]


def test_each_method_has_a_curve_before_another_one_has_two() -> None:
    devs = {b: {100: 0.5 + 0.01 * b, 200: 0.5} for b in NINE[:-1]}
    found = of_sizes(devs) + of_sizes({1: {100: 0.1, 200: 0.1}}, method="finetune")
    names, _ = kept_curves(found)
    assert names == [*(f"weam b={b}" for b in NINE[:-2]), "finetune"]


def test_without_dev_values_the_first_are_kept_and_said_to_be(tmp_path: Path) -> None:
    found = [
        one for one in of_sizes({b: {9: 0.5, 99: 0.5} for b in NINE}) if one["split"] == "test"
    ]
    names, said = kept_curves(found)
    assert names == [f"weam b={b}" for b in NINE[:-1]]
    assert said.startswith(" Only 8 of 9 configurations: the first of the grid, one per method")


def test_fitted_curves_and_what_data_is_worth_say_how_many_configurations_there_are(tmp_path):
    values = {f"m{b}": {100: 0.5, 1_000: 0.5 + 0.01 * b, 10_000: 0.5 + 0.02 * b} for b in NINE}
    found, curves = curves_of(values)
    worth = section("worth", found, figures=tmp_path)
    worth.fitted = [curves]
    (part,) = worth.share().parts
    said = " Only 8 of 9 configurations: the first of the grid, one per method before others."
    assert part.figures[0].caption.endswith(said)
    assert part.tables[0].caption.endswith(said)
    assert [line.label for line in part.tables[0].lines] == list(values)[:-1]
    assert "m9" not in part.lead


def of_methods(count: int, splits: Iterable[str] = ("dev", "test"), **facts: Any) -> Scoreboard:
    """`none` and methods that are the better the later they are, on two encoders."""
    rows = [
        row(
            0.05 * i,
            method=f"m{i}" if i else "none",
            encoder=encoder,
            split=split,
            lang=lang,
            **facts,
        )
        for encoder in ("e", "other")
        for i in range(count)
        for split in splits
        for lang in ("en", "de", "fr")
    ]
    return Scoreboard.of(rows, PLAN)


def test_cells_of_an_analysis_come_with_what_is_said_of_methods_configurations_and_encoders() -> (
    None
):
    def chosen(results: Scoreboard, most: int = 3) -> tuple[list[str], str]:
        cells, said = section("curves", results).cells_of("xnli", "accuracy", most)
        return [cell.method for cell in cells], said

    on = " Of the grid's encoders only e is shown."
    best = " Only 3 of 5 methods: the original encoder and the best on dev."
    assert chosen(of_methods(5)) == (["none", "m3", "m4"], best + on)
    first = " Only 3 of 5 methods: the original encoder and the first of the grid."
    assert chosen(of_methods(5, ("test",))) == (["none", "m1", "m2"], first + on)
    assert chosen(of_methods(5), 5)[1] == on
    several = Scoreboard.of(of_sizes({1: {100: 0.2, 200: 0.3}, 2: {200: 0.4}}), PLAN)
    assert chosen(several)[1] == (
        " One configuration per method: that which dev chooses at the largest training set;"
        " 2 more configurations are in the grid's own tables."
    )
    (cell,), _ = section("curves", several).cells_of("xnli", "accuracy", 1)
    assert (cell.params, cell.sentences) == ({"b": 2}, 200)
    assert section("curves", several).cells_of("xnli", None, 1) == ([], "")


def test_a_table_of_one_configuration_per_method_says_by_what_it_is_chosen() -> None:
    """Twelve configurations: the best on dev is the last one, and without dev the first stands."""
    devs = {b: {100: 0.05 * b} for b in range(1, 13)}
    table = ("xnli", "accuracy", "test")
    for splits, b, chosen in (
        (("dev", "test"), 12, "that which dev chooses"),
        (("test",), 1, "the first"),
    ):
        rows = [one for one in of_sizes(devs) if one["split"] in splits]
        shown = ShownLines.of(Scoreboard.of(rows, PLAN), table)
        assert [cell.params["b"] for cell in shown.cells] == [b]
        first = f" One configuration per method: {chosen} at the largest training set;"
        rest = " 11 more configurations are in the grid's own tables."
        assert shown.one_per_method == first + rest
    assert ShownLines.of(Scoreboard.of(of_sizes({1: devs[1]}), PLAN), table).one_per_method == ""


def test_figures_of_transfer_name_the_encoder_and_the_methods_left_out(tmp_path: Path) -> None:
    shown = captions("curves", of_methods(10), figures=tmp_path)
    for name in ("gain-over-baseline", "pivot-transfer"):
        assert "Only 8 of 10 methods: the original encoder and the best on dev." in shown[name]
        assert "Of the grid's encoders only e is shown." in shown[name]


def test_a_level_names_its_encoder_where_curves_are_of_several() -> None:
    rows = of_sizes({1: {100: 0.5, 200: 0.6}}) + of_sizes(
        {1: {100: 0.5, 200: 0.6}}, encoder="other"
    )
    results = Scoreboard.of([*rows, row(0.4, method="none")], PLAN)
    (panel,) = section("curves", results).size_panels()
    labels = [series.label for series in panel.series]
    assert labels == ["weam b=1 [e]", "weam b=1 [other]", "none [e]"]


def test_a_curve_over_an_option_has_the_level_of_its_own_encoder() -> None:
    rows = [row(0.1, method="none"), row(0.7, method="none", encoder="other")]
    for encoder, dev in (("e", 0.2), ("other", 0.8)):
        rows += of_sizes({b: {100: dev} for b in (1, 2)}, encoder=encoder)
    (panel,) = section("curves", Scoreboard.of(rows, PLAN)).axis_panels("weam", "b")
    assert panel.title.endswith(", encoder=other")
    assert [(s.label, [round(y) for y in s.y]) for s in panel.series if s.look == "level"] == [
        ("none [other]", [70])
    ]
    assert panel.said.startswith(" Only 1 of 2 settings of the encoder and the other options:")


def test_more_than_twelve_configurations_are_not_ranked_and_it_is_said(tmp_path: Path) -> None:
    def lead(count: int) -> str:
        rows = [
            row(0.05 * i, method=f"m{i}", lang=lang) for i in range(count) for lang in ("de", "fr")
        ]
        return share("languages", Scoreboard.of(rows, PLAN), figures=tmp_path).parts[0].lead

    assert lead(12) == ""
    assert lead(13) == (
        "No ranks of methods: all pairs are tested for at most 12 configurations, and the grid has"
        " 13."
    )


LANGS = ("bg", "de", "el", "es", "fr", "ru", "tr")
METHODS = ("none: {}", "rotation: {}", *(f"r{i}: {{kind: rotation}}" for i in range(6)))
TWO = f"[{TINY}, {TINY.replace('hidden_size: 16', 'hidden_size: 32')}]"


def write_one(ledger: Ledger, opened: Opened, trial: Trial, key: str) -> None:
    """Methods are the better the later they are; every language has layers, points and words."""
    stage, place = opened.plan.stages[key], list(opened.plan.method_options()).index(trial.method)
    langs, rows = [f"{lang}-en" for lang in LANGS], list[dict[str, Any]]()
    value = {"metric": "contextual_accuracy", "split": "test", "value": 0.1 * place}
    if stage.maker == "retrieval":
        scores = [{**value, "lang": lang, "split": s} for lang in langs for s in ("dev", "test")]
        words = {"src": "w", "tgt": "the", "id": 0, "src_position": 0, "tgt_position": 0}
        flags = dict.fromkeys(("correct", "correct_first", "first", "first_any", "unseen"), True)
        own = {**words, **flags, "identical": False, "direction": "to_pivot", "split": "test"}
        rows = [{**own, "lang": lang} for lang in langs]
    else:
        metrics = [
            f"{at}{n}"
            for n in ("language_probe", "anisotropy")
            for at in ("", "layer0_", "layer1_")
        ]
        scores = [{**value, "lang": lang, "metric": metric} for lang in langs for metric in metrics]
        point = {"split": "test", "kind": "type", "word": "w", "pair": 0, "y": 0.0}
        own = [{**point, "side": side, "x": float(place)} for side in ("src", "tgt")]
        rows = [{**one, "lang": lang} for lang in langs for one in own]
    record = {"scores": scores, "params": stage.params["task"], "task": stage.maker}
    ledger.write(key, record, pa.Table.from_pylist(rows))


@pytest.fixture(scope="module")
def analysed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Opened, Ledger]:
    """Eight methods, two encoders and results in seven languages, of retrieval and of spaces."""
    parts: dict[str, Any] = {"languages": "{together: [de, fr]}", "more": "", "encoder": TWO}
    parts |= {"sentences": "[100]", "seeds": "[0]", "methods": METHODS}
    parts |= {"tasks": ("retrieval: {}", "representation: {}")}
    return made_up(tmp_path_factory.mktemp("grid"), write_one, **parts)


def analyses(kind: str, made: tuple[Opened, Ledger], folder: Path) -> dict[str, str]:
    return captions(kind, results_of(made), ledger=made[1], figures=folder)


SIX = "Only 6 of 8 methods: the original encoder and"


def test_analyses_name_their_encoder_methods_and_language_pairs(analysed, tmp_path):
    first = analysed[0].plan.encoders[0]
    shown = analyses("spaces", analysed, tmp_path)
    assert set(shown) == {"layers-language_probe", "layers-anisotropy", "words-type"}
    for text in shown.values():
        assert f"{SIX} the first of the grid." in text
        assert f"Of the grid's encoders only {first} is shown." in text
    assert "Only 1 of 7 language pairs: de-en, the first." in shown["words-type"]
    spaces = section("spaces", results_of(analysed), ledger=analysed[1], figures=tmp_path)
    (sketch, *_) = spaces._sketches()
    assert {panel.title for panel in sketch.panels} == {f"{lang}-en" for lang in LANGS}


def test_word_retrieval_is_over_all_languages_and_names_its_encoder_and_methods(analysed, tmp_path):
    shown = analyses("word_retrieval", analysed, tmp_path)
    (about,) = shown.values()
    assert f"mean over {', '.join(f'{lang}-en' for lang in LANGS)}, as far" in about
    assert f"{SIX} the best on dev." in about
    assert f"Of the grid's encoders only {analysed[0].plan.encoders[0]} is shown." in about
    found = results_of(analysed)
    measure = section("word_retrieval", found, ledger=analysed[1]).measures()["retrieval_by_pos"]
    fill = measure(found.cells[0])
    assert fill is not None
    assert fill.remark == f"Of one seed, mean over {', '.join(f'{lang}-en' for lang in LANGS)}."


def test_ranks_say_the_languages_and_the_part_of_the_text_that_they_are_of(
    analysed, monkeypatch, tmp_path
):
    """Training text is stored of two languages, of French more than is read."""
    sizes = {"de": 3, "fr": 9}

    def counts(_: Plan, __: object, lang: str) -> Any:
        if lang not in sizes:
            return None
        read, said = Section.fitting(range(sizes[lang]), 5, "sentence pairs of the training text")
        return {"w": len(read)}, {"the": len(read)}, said

    monkeypatch.setattr("raxalign.report.sections.word_retrieval.training_counts", counts)
    about = analyses("word_retrieval", analysed, tmp_path)[
        "Retrieval by difference of frequency ranks"
    ]
    assert "mean over de-en, fr-en, as far" in about
    assert "In fr-en: Only 5 of 9 sentence pairs of the training text: the first." in about
    assert f"{SIX} the best on dev." in about


def test_the_first_sentences_of_a_training_text_are_read_and_said_to_be(analysed, monkeypatch):
    opened, ledger = analysed
    monkeypatch.setattr("raxalign.report.sections.word_retrieval._MOST_SENTENCES", 2)
    (key,) = (
        stage.key
        for stage in opened.plan.stages.values()
        if stage.kind == "bitext"
        and {"lang": "fr", "part": "training"}.items() <= stage.params.items()
    )

    def build(folder: Path) -> Mapping[str, Any]:
        words = pa.list_(pa.string())
        texts = pa.schema([("id", pa.int64()), ("src", words), ("tgt", words)])
        with DatasetWriter(folder / "data", texts, {}) as writer:
            writer.write({"id": [0, 1, 2], "src": [["a"]] * 3, "tgt": [["b"]] * 3})
        return {}

    ArtifactStore(ledger.root).make("bitext", key, build)
    assert training_counts(opened.plan, Storage(ledger.root), "fr") == (
        *({"a": 2}, {"b": 2}),
        " Only 2 of 3 sentence pairs of the training text: the first.",
    )


def test_layers_are_of_the_best_methods_on_dev_and_correlations_name_their_encoder(tmp_path):
    rows = [
        row(0.05 * i + 0.01 * place, method=f"m{i}" if i else "none", encoder=encoder, **own)
        for encoder in ("e", "other")
        for i in range(8)
        for place, lang in enumerate(LANGS)
        for own in (
            {"lang": lang},
            *(
                {"task": "representation", "lang": f"{lang}-en", "metric": metric, "split": split}
                for metric in ("mexa", "layer0_mexa", "layer1_mexa")
                for split in ("dev", "test")
            ),
        )
    ]
    results = Scoreboard.of(rows, PLAN)
    profile = section("layers", results).profile("representation")
    assert [cell.method for cell in profile.cells] == ["none", "m3", "m4", "m5", "m6", "m7"]
    shown = captions("layers", results, figures=tmp_path)
    on = "Of the grid's encoders only e is shown."
    for name in ("representation-by-layer", "representation: measures by layer, test"):
        assert f"{SIX} the best on dev. {on}" in shown[name]
    for name in ("representation-transfer-by-layer", "representation: correlation with transfer"):
        assert on in shown[name]


def swept(weights: int, directions: Iterable[str], **facts: Any) -> list[dict[str, Any]]:
    own = {"task": "token_translation", **facts}
    return [
        row(0.1, metric=f"layer{layer}_alpha{weight}_bleu1", lang=lang, **own)
        for layer in (1, 2)
        for weight in range(weights)
        for lang in directions
    ]


class _Texts:
    """Every sweep has kept the texts of five sentences."""

    root = "nowhere"

    def predictions(self, _: str) -> pa.Table:
        text = {"source_text": "a", "output_text": "b", "reference_text": "c"}
        langs = [f"{lang}-en" for lang in SOME]
        place = {"layer": 2, "alpha": 1.0, **text}
        return pa.Table.from_pylist(
            [{**place, "lang": la, "id": i} for la in langs for i in range(5)]
        )


SOME = ("ar", "bg", "cs", "da", "de", "el", "es", "fi", "fr", "hi", "hu", "it", "ja")


def test_a_sweep_names_the_configuration_that_it_is_of_and_what_it_leaves_out(tmp_path):
    plan = replace(PLAN, trials=(replace(NONE, languages=SOME),))
    rows = [
        one
        for method, encoder in (("none", "e"), ("m", "e"), ("none", "other"))
        for one in swept(9, [f"{lang}-en" for lang in SOME], method=method, encoder=encoder)
    ]
    results = Scoreboard.of(rows, plan)
    shown = captions("token_translation", results, ledger=_Texts(), figures=tmp_path)
    of = "Only 1 of 3 configurations: none [e], the first that has what is shown."
    assert len(shown) == 3 + 12
    assert all(of in text for text in shown.values())
    assert (
        "Only 8 of 9 weights: at about even distances." in shown["layers-token_translation-bleu1"]
    )
    table = shown["Token translation, ar-en"]
    assert "Only 3 of 5 sentences that were kept: the first." in table
    assert "Only 12 of 13 directions: the first." in table


def test_figures_with_means_over_different_languages_say_so(tmp_path: Path):
    found = [
        row(0.5, lang=lang, method=method, sentences=size)
        for method, langs in {"weam": ("de", "fr"), "none": ("de", "fr", "es")}.items()
        for lang in (*langs, "avg")
        for size in (100, 200)
    ]
    told = "Mean: not all lines have the same languages, so these means cannot be compared."
    for rows, marked in ((found, True), ([r for r in found if r["method"] == "weam"], False)):
        results = Scoreboard.of(rows, PLAN)
        assert (
            told in captions("languages", results, figures=tmp_path)["languages-xnli"]
        ) is marked
        about = captions("curves", results, figures=tmp_path)["data-size"]
        assert (told.replace("Mean", "Means") in about) is marked
