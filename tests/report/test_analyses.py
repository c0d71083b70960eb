"""Analyses of stored predictions in the report: a phrasebook grid with made-up answers, of which
every figure is known; and the sentence pairs that trainings used, from the storage.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from raxalign.analysis.cells import Value
from raxalign.corpora.phrasebook import links, sentences
from raxalign.corpora.text.dataset import DatasetWriter
from raxalign.errors import DamagedArtifact
from raxalign.grid.load import Opened, open_grid
from raxalign.grid.trial import Trial
from raxalign.report.document import Entry, Table
from raxalign.report.sections.base import Fill, Measure, StoredPredictions
from raxalign.report.sections.word_retrieval import pivot_tags, training_counts
from raxalign.store.artifacts import ArtifactStore
from raxalign.store.ledger import Ledger
from raxalign.store.storage import Storage
from raxalign.values.scoreboard import Scoreboard
from tests.grids import write_grid
from tests.ledgers import made_up
from tests.report.material import part, published, results_of, section, share, with_tests, write

IDS = range(120)
Grid = tuple[Ledger, Scoreboard]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Opened, Ledger]:
    """`none` never finds a noun, `finetune` finds everything."""
    parts: dict[str, Any] = {"languages": "{together: [de, fr]}", "sentences": "[100]"}
    parts |= {"methods": ("none: {}", "finetune: {batch_size: 16}"), "seeds": "[0]"}
    parts |= {"tasks": ("retrieval: {}", "representation: {}")}
    return made_up(tmp_path_factory.mktemp("grid"), write_one, **parts)


def write_one(ledger: Ledger, opened: Opened, trial: Trial, key: str) -> None:
    stage = opened.plan.stages[key]
    make = {"retrieval": retrieval, "representation": representation}[stage.maker]
    scores, table = make(trial.kind)
    record = {"scores": scores, "params": stage.params["task"], "task": stage.maker}
    ledger.write(key, record, table)


def score(lang: str, metric: str, value: float) -> dict[str, Any]:
    return {"lang": f"{lang}-en", "metric": metric, "split": "test", "value": value}


def retrieval(kind: str) -> tuple[list[dict[str, Any]], pa.Table]:
    found: list[dict[str, Any]] = []
    fixed = {"split": "test", "identical": False, "first_any": True}
    fixed |= dict.fromkeys(("unseen", "first", "first_unseen"), True)
    for lang in ("de", "fr"):
        for id_, (src, tgt) in enumerate(sentences((lang, "en"), len(IDS))):
            for direction in ("to_pivot", "from_pivot"):
                for a, b in links(src.senses, tgt.senses):
                    right = kind == "finetune" or tgt.tags[b] != "NOUN"
                    own = src.words[a] if direction == "from_pivot" else tgt.words[b]
                    places = {"id": id_, "src_position": a, "tgt_position": b}
                    words = {"src": src.words[a], "tgt": tgt.words[b]}
                    words["found"] = own if right else "–"
                    flags = {"correct": right, "correct_first": right, "direction": direction}
                    found.append({"lang": f"{lang}-en", **fixed, **places, **words, **flags})
    value = 1.0 if kind == "finetune" else 0.5
    metrics = ("contextual_accuracy", "noncontextual_accuracy_all")
    scores = [score(lang, metric, value) for lang in ("de", "fr") for metric in metrics]
    return scores, pa.Table.from_pylist(found)


def representation(kind: str) -> tuple[list[dict[str, Any]], pa.Table]:
    values = {"language_probe": 0.5 if kind == "finetune" else 0.9, "anisotropy": 0.4}
    scores = [
        score(lang, f"{prefix}{name}", value)
        for lang in ("de", "fr")
        for name, value in values.items()
        for prefix in ("", "layer0_", "layer1_", "layer2_")
    ]
    points = []
    for which in ("occurrence", "type"):
        for side, up in (("src", 0), ("tgt", 10)):
            of = {"lang": "de-en", "split": "test", "kind": which, "side": side}
            for i in range(5):
                place = {"x": float(i), "y": float(i % 3) + up}
                points.append({**of, "word": f"{side}{i}", "pair": i, **place})
    return scores, pa.Table.from_pylist(points)


def tables(kind: str, made: tuple[Opened, Ledger], folder: Path | None = None) -> list[Table]:
    """The tables of a section, which may draw into a folder."""
    parts = {} if folder is None else {"figures": folder}
    found = share(kind, results_of(made), ledger=made[1], **parts).parts
    return [table for each in found for table in each.tables]


def cells(table: Table) -> Mapping[str, Mapping[str, Entry]]:
    return {line.label: dict(zip(table.columns, line.entries, strict=True)) for line in table.lines}


def test_parts_of_speech_are_the_phrasebooks_and_fill_the_papers_table(made):
    (found,) = tables("word_retrieval", made)
    assert found.title == "Retrieval by part of speech"
    table = cells(found)
    assert table["none"]["NOUN"].text == "0.0"
    assert table["none"]["VERB"].text == table["finetune"]["NOUN"].text == "100.0"
    known = results_of(made)
    measure = section("word_retrieval", known, ledger=made[1]).measures()["retrieval_by_pos"]
    none, finetune = (measure(cell) for cell in known.cells)
    assert none is not None
    assert finetune is not None
    assert none.values["NOUN"] == Value(0, None, 1)
    assert finetune.values["NOUN"] == finetune.values["open-class-average"] == Value(1, None, 1)
    assert none.remark == "Of one seed, mean over de-en, fr-en."
    assert "the phrasebook's own" in found.caption


@pytest.mark.usefixtures("undrawn")
def test_ranks_need_the_training_text(made: tuple[Opened, Ledger], tmp_path: Path) -> None:
    opened, ledger = made
    assert training_counts(opened.plan, Storage(ledger.root), "de") is None
    assert not [t for t in tables("word_retrieval", made) if "ranks" in t.title]
    stages = (stage for stage in opened.plan.stages.values() if stage.kind == "bitext")
    wanted = {"lang": "de", "part": "training"}
    (key,) = (stage.key for stage in stages if wanted.items() <= stage.params.items())
    said = list(sentences(("de", "en"), len(IDS)))
    src, tgt = ([list(row[side].words) for row in said] for side in (0, 1))

    def build(folder: Path) -> Mapping[str, Any]:
        words = pa.list_(pa.string())
        texts = pa.schema([("id", pa.int64()), ("src", words), ("tgt", words)])
        with DatasetWriter(folder / "data", texts, {}) as writer:
            writer.write({"id": list(IDS), "src": src, "tgt": tgt})
        return {}

    ArtifactStore(ledger.root).make("bitext", key, build)
    counts = (Counter(word for words in side for word in words) for side in (src, tgt))
    assert training_counts(opened.plan, Storage(ledger.root), "de") == (*counts, "")
    (found,) = share("word_retrieval", results_of(made), ledger=ledger, figures=tmp_path).parts
    assert found.tables[1].title == "Retrieval by difference of frequency ranks"
    entries = cells(found.tables[1])["finetune"]
    assert entries["no rank"].state == "empty"
    assert entries["0–9"].text == "100.0"
    asked = sum(int(entry.below.replace(",", "")) for entry in entries.values() if entry.below)
    assert asked == 2 * sum(len(links(own.senses, other.senses)) for own, other in said)
    assert [figure.name for figure in found.figures] == ["rank-differences"]


@pytest.mark.usefixtures("undrawn")
def test_an_average_over_some_parts_of_speech_is_not_the_papers(made, monkeypatch, tmp_path):
    found = tables("word_retrieval", made, tmp_path)[0]
    shown = cells(found)["none"].items()
    queries = {name: int(entry.below.replace(",", "")) for name, entry in shown if entry.below}
    rarest = min(("NUM", "PUNCT", "PROPN"), key=lambda name: queries[name])
    monkeypatch.setattr("raxalign.report.sections.word_retrieval.FEW", queries[rarest] + 1)
    known = results_of(made)
    measure = section("word_retrieval", known, ledger=made[1]).measures()["retrieval_by_pos"]
    fill = measure(known.cells[0])
    assert fill is not None
    assert fill.values[rarest] == fill.values["lexical-overlap-average"] == "too few queries"
    assert any(isinstance(value, Value) for value in fill.values.values())


@pytest.mark.slow
def test_layers_and_points_are_drawn(made: tuple[Opened, Ledger], tmp_path: Path) -> None:
    (found,) = share("spaces", results_of(made), ledger=made[1], figures=tmp_path).parts
    assert [figure.title for figure in found.figures] == [
        "Language identity by layer",
        "Anisotropy by layer",
        "Linked words in their sentences",
        "The word pairs linked most often",
    ]
    assert len({figure.name for figure in found.figures}) == 4
    assert ["src4" in figure.svg for figure in found.figures] == [False, False, False, True]
    assert not any("layer1" in figure.svg for figure in found.figures)


def test_damaged_predictions_are_named_not_passed_over(made, tmp_path):
    shutil.copytree(made[1].root, tmp_path / "storage")
    file = next((tmp_path / "storage" / "ledger").rglob("predictions.parquet"))
    damaged = bytearray(file.read_bytes())
    damaged[len(damaged) // 2] ^= 0xFF
    file.write_bytes(damaged)
    with pytest.raises(DamagedArtifact, match=file.parent.name[:12]):
        write((made[0], Ledger(str(tmp_path / "storage"))), tmp_path)


def test_no_language_probe_is_better_than_another(made: tuple[Opened, Ledger]) -> None:
    found = results_of(made)
    tables = {t.title: t for t in part("own_tables", with_tests(found, made[1])).tables}
    compared = {
        title: {entry.mark or entry.delta for line in table.lines for entry in line.entries}
        for title, table in tables.items()
    }
    assert compared["representation: language probe"] == {""}
    assert compared["retrieval: contextual accuracy"] > {""}
    assert tables["representation: language probe"].notes == ()


POS = '{"data": "phrasebook"}'


def test_without_the_phrasebook_s_the_tags_are_those_of_the_words_that_task_pos_has(made, tmp_path):
    stages = made[0].plan.stages.items()
    other = {k: replace(s, maker="moses") if s.kind == "bitext" else s for k, s in stages}
    plan = replace(made[0].plan, stages=other)
    assert pivot_tags(plan, StoredPredictions(made[1])) is None
    key = next(key for key, stage in plan.stages.items() if stage.kind == "evaluation")
    plan = replace(plan, stages={**other, key: replace(other[key], maker="pos", options=POS)})
    assert pivot_tags(plan, StoredPredictions(None)) is None
    ledger = Ledger(str(tmp_path))
    assert pivot_tags(plan, StoredPredictions(ledger)) is None
    words = {"words": [["dogs", "bark"], ["cats"]], "label": [["NOUN", "VERB"], ["NOUN"]]}
    table = pa.table({"lang": ["en", "de"], "split": ["dev", "test"], **words})
    ledger.write(key, {"scores": []}, table)
    tagger = pivot_tags(plan, StoredPredictions(ledger))
    assert tagger is not None
    assert "the task of parts of speech" in tagger[0]
    assert tagger[1](pa.table({"tgt": ["Dogs", "dogs", "cats"]})) == ["NOUN", "NOUN", None]


@pytest.mark.parametrize("tagged", [True, False])
def test_the_papers_table_has_figures_by_part_of_speech_or_names_what_is_missing(
    made: tuple[Opened, Ledger], monkeypatch: pytest.MonkeyPatch, *, tagged: bool
) -> None:
    if not tagged:
        untagged = "raxalign.report.sections.word_retrieval.pivot_tags"
        monkeypatch.setattr(untagged, lambda *_: None)
    known = results_of(made)
    measures = section("word_retrieval", known, ledger=made[1]).measures()
    (shown,), records = published(known, ["cao2020"], measures)
    (table,) = [t for t in shown.tables if t.anchor == "cao2020-retrieval_by_pos"]
    states = [entry.text for line in table.lines for entry in line.entries]
    if tagged:
        assert any(record[2:4] == ("base", "NOUN") and 0.0 in record for record in records)
        assert "no tags" not in states
    else:
        assert states.count("no tags") == 30
        assert "not run" not in states
        told = (table.caption, *table.notes)
        assert any("add the task `pos`" in text for text in told)


def test_the_words_of_a_linked_pair_are_joined_and_those_of_occurrences_are_not(made):
    spaces = section("spaces", results_of(made), ledger=made[1])
    drawn = {kind: spaces.word_panels(kind) for kind in ("occurrence", "type")}
    assert [panel.title for panel in drawn["type"]] == ["none, finetune"], "the points are the same"
    ends = [(float(i), float(i % 3)) for i in range(5)]
    assert drawn["type"][0].links == [(x, y, x, y + 10) for x, y in ends]
    assert [cloud.names[:1] for cloud in drawn["type"][0].series] == [["src0"], ["tgt0"]]
    assert [panel.links for panel in drawn["occurrence"]] == [[]]


PPA = "ppa: {queue_size: 16, batch_size: 16}"
READ = {(lang, size): size for lang in ("de", "fr") for size in (50, 100, 200)}
READ |= {("fr", 100): 90, ("fr", 200): 150}
"""(language, asked for) -> the pairs that its training text has."""


def grid(folder: Path, **left_out: int) -> Grid:
    """A grid of `none` and `ppa` on 50, 100 and 200 pairs, all of its training text stored; ppa
    records to have left out `left_out` pairs of each language.
    """
    sizes, parts = "[50, 100, 200]", {"methods": ("none: {}", PPA), "tasks": ("retrieval: {}",)}
    languages = "{together: [de, fr]}"
    file = write_grid(folder, languages=languages, sentences=sizes, **parts)  # type: ignore[arg-type]
    opened = open_grid(file, storage=str(folder / "storage"))
    store, ledger = opened.storage.artifacts, opened.storage.ledger
    for key, stage in opened.plan.stages.items():
        if stage.kind == "bitext" and stage.params["part"] == "training":
            place: Any = (stage.params["lang"], stage.params["sentences"])
            make(store, "bitext", key, {"counts": {"training": {"kept": READ[place]}}})
    score = {"lang": "de-en", "metric": "contextual_accuracy", "split": "test", "value": 0.5}
    for trial in opened.plan.trials:
        if trial.kind == "ppa" and left_out:
            counts: dict[str, Any] = {"losses": []}
            for lang, short in left_out.items():
                read = READ[lang, trial.sentences or 0]
                counts[lang] = {"read": read, "sentences": read - short}
            make(store, "aligned", trial.aligned, counts)
        for task, key in trial.evaluations.items():
            ledger.write(key, {"scores": [score], "params": {}, "task": task}, None)
    return ledger, results_of((opened, ledger))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Grid:
    return grid(tmp_path_factory.mktemp("whole"))


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Grid:
    """7 pairs of German are too long for ppa."""
    return grid(tmp_path_factory.mktemp("short"), de=7, fr=0)


def measures(made: Grid) -> Mapping[str, Measure]:
    ledger, found = made
    return section("training_pairs", found, ledger=ledger).measures()


def make(store: ArtifactStore, kind: str, key: str, notes: Mapping[str, Any]) -> None:
    def build(folder: Path) -> Mapping[str, Any]:
        (folder / "file").write_text("", encoding="utf-8")
        return notes

    store.make(kind, key, build)


def test_a_corpus_that_is_too_short_is_shown_with_what_it_has(whole: Grid) -> None:
    ledger, found = whole
    (part,) = share("training_pairs", found, ledger=ledger).parts
    (table,) = part.tables
    assert table.columns == ("de", "fr", "total")
    assert [(line.label, [entry.text for entry in line.entries]) for line in table.lines] == [
        ("50", ["50", "50", "100"]),
        ("100", ["100", "90", "190"]),
        ("200", ["200", "150", "350"]),
    ]


def test_corpora_that_have_all_that_was_asked_for_have_no_table(tmp_path, monkeypatch):
    monkeypatch.setitem(READ, ("fr", 100), 100)
    monkeypatch.setitem(READ, ("fr", 200), 200)
    ledger, found = grid(tmp_path)
    assert share("training_pairs", found, ledger=ledger).parts == ()
    assert share("training_pairs", found).parts == (), "without a storage nothing is known"


def test_pairs_that_a_method_leaves_out_are_not_counted(short: Grid) -> None:
    (cell,) = [c for c in short[1].cells if (c.method, c.sentences) == ("ppa", 100)]
    fill = measures(short)["training_pairs"](cell)
    counts = {"de": 93, "fr": 90, "total": 183}
    values = {lang: Value(n, None, 1) for lang, n in counts.items()}
    assert fill == Fill(values, "The total is over de, fr.")


def test_where_a_method_s_own_counts_are_not_stored_its_training_text_is_counted(whole):
    measure = measures(whole)["training_pairs"]
    counts = {50: 50, 100: 90, 200: 150}
    for cell in whole[1].cells:
        fill = measure(cell)
        if cell.method == "none":
            assert fill is None, "it reads no sentence pairs"
        else:
            assert fill is not None
            assert fill.values["fr"] == Value(counts[cell.sentences or 0], None, 1)


def test_table_1_of_pan_et_al_shows_the_pairs_of_each_size(short: Grid) -> None:
    parts, _ = published(short[1], ["pan2021"], measures(short))
    (table,) = [table for table in parts[0].tables if table.anchor == "pan2021-parallel_data"]
    lines = {line.label: line for line in table.lines}
    de, fr, es = (table.columns.index(lang) for lang in ("de", "fr", "es"))
    entry = lines["ppa/600k"].entries[de]
    assert (entry.text, entry.below, entry.worse) == ("93", "600,000", None)
    assert lines["ppa/2m"].entries[fr].text == "150"
    assert lines["ppa/2m"].entries[es].text == "not run"
    assert lines["ppa/250k"].entries[fr].text == "50"
    assert lines["cao-2020"].entries[fr].state == "published"
    assert "test set" not in table.caption


def test_pairs_are_counted_where_a_map_is_fitted_after_a_task_s_training_alone(tmp_path):
    """The plan then has no aligned encoder of the trial itself."""
    methods = ("none: {}", "rotation: {}", "sentence_rotation: {}")
    parts = {"languages": "{together: [de]}", "sentences": "[100]", "methods": methods}
    file = write_grid(tmp_path, **parts, tasks=("pos: {data: phrasebook}",))
    opened = open_grid(file, storage=str(tmp_path / "storage"))
    store, ledger = opened.storage.artifacts, opened.storage.ledger
    for trial in opened.plan.trials:
        (key,) = trial.evaluations.values()
        score = {"lang": "de", "metric": "accuracy", "split": "test", "value": 0.5}
        ledger.write(key, {"scores": [score], "params": {}, "task": "pos"}, None)
        assert (trial.aligned in opened.plan.stages) == (trial.method == "none")
        if trial.method == "sentence_rotation":
            fitted = opened.plan.stages[key].inputs["aligned"]
            make(store, "aligned", fitted, {"de": {"sentences": 93}})
    for key, stage in opened.plan.stages.items():
        if stage.kind == "bitext" and stage.params["part"] == "training":
            make(store, "bitext", key, {"counts": {"training": {"kept": 100}}})
    found = results_of((opened, ledger))
    measure = section("training_pairs", found, ledger=ledger).measures()["training_pairs"]
    counted = {cell.method: fill.values["de"] for cell in found.cells if (fill := measure(cell))}
    assert counted == {"rotation": Value(100, None, 1), "sentence_rotation": Value(93, None, 1)}
