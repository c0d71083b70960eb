"""Analyses of stored predictions in the report: a phrasebook grid with made-up answers, of which
every figure is known.
"""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from raxalign.analysis.cells import Value
from raxalign.corpora.phrases.rows import links, sentences
from raxalign.corpora.text.dataset import DatasetWriter
from raxalign.errors import DamagedArtifact
from raxalign.plan.load import Opened, open_grid
from raxalign.plan.plan import Plan
from raxalign.plan.values.comparisons import comparisons
from raxalign.plan.values.results import rows
from raxalign.report.cells.judge import Judge
from raxalign.report.cells.results import Results
from raxalign.report.compose import write_report
from raxalign.report.document import Entry, Table
from raxalign.report.predictions.tags import pivot_tags
from raxalign.report.sections.rank_differences import training_counts
from raxalign.store.artifacts import ArtifactStore
from raxalign.store.ledger import Ledger
from raxalign.store.storage import Storage
from tests.grids import write_grid
from tests.methods.toy import write_pairs
from tests.report.material import part, section, share

IDS = range(120)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Opened, Ledger]:
    """`none` never finds a noun, `finetune` finds everything."""
    folder = tmp_path_factory.mktemp("grid")
    file = write_grid(
        folder,
        languages="{together: [de, fr]}",
        sentences="[100]",
        methods=("none: {}", "finetune: {batch_size: 16}"),
        tasks=("retrieval: {}", "representation: {}"),
        more="published: [cao2020]\n",
    )
    opened = open_grid(file, storage=str(folder / "storage"))
    ledger = opened.storage.ledger
    made_up = {"retrieval": retrieval, "representation": representation}
    for trial in opened.plan.trials:
        for task, key in trial.evaluations.items():
            if not ledger.has(key):
                scores, table = made_up[task](trial.kind)
                params = opened.plan.stages[key].params["task"]
                ledger.write(key, {"scores": scores, "params": params, "task": task}, table)
    return opened, ledger


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


def without_phrasebook(plan: Plan) -> Plan:
    """A plan whose corpus has no tags of its own."""
    stages = {
        key: replace(stage, maker="moses") if stage.kind == "bitext" else stage
        for key, stage in plan.stages.items()
    }
    return replace(plan, stages=stages)


def key_of(plan: Plan, kind: str, part: str) -> str:
    """The key of the German stage of a kind and part."""
    (key,) = (
        key
        for key, stage in plan.stages.items()
        if stage.kind == kind and stage.params["part"] == part and stage.params["lang"] == "de"
    )
    return key


def results(made: tuple[Opened, Ledger]) -> Results:
    opened, ledger = made
    return Results.of(rows(opened.plan, ledger), opened.plan)


def tables(kind: str, made: tuple[Opened, Ledger], folder: Path | None = None) -> list[Table]:
    """The tables of a section, which may draw into a folder."""
    parts = {} if folder is None else {"figures": folder}
    found = share(kind, results(made), ledger=made[1], **parts).parts
    return [table for each in found for table in each.tables]


def cells(table: Table) -> Mapping[str, Mapping[str, Entry]]:
    return {line.label: dict(zip(table.columns, line.entries, strict=True)) for line in table.lines}


def test_parts_of_speech_are_the_phrasebooks_and_fill_the_papers_table(
    made: tuple[Opened, Ledger],
) -> None:
    (found,) = tables("parts_of_speech", made)
    assert found.title == "Retrieval by part of speech"
    table = cells(found)
    assert table["none"]["NOUN"].text == "0.0"
    assert table["none"]["VERB"].text == table["finetune"]["NOUN"].text == "100.0"
    known = results(made)
    measure = section("parts_of_speech", known, ledger=made[1]).measures()["retrieval_by_pos"]
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
    assert tables("rank_differences", made) == []
    key = key_of(opened.plan, "bitext", "training")
    said = list(sentences(("de", "en"), len(IDS)))
    src, tgt = ([list(row[side].words) for row in said] for side in (0, 1))

    def build(folder: Path) -> Mapping[str, Any]:
        words = pa.list_(pa.string())
        texts = pa.schema([("id", pa.int64()), ("src", words), ("tgt", words)])
        with DatasetWriter(folder / "data", texts, {}) as writer:
            writer.write({"id": list(IDS), "src": src, "tgt": tgt})
        return {}

    ArtifactStore(ledger.root).make("bitext", key, build)
    assert training_counts(opened.plan, Storage(ledger.root), "de") == tuple(
        Counter(word for words in side for word in words) for side in (src, tgt)
    )
    (found,) = share("rank_differences", results(made), ledger=ledger, figures=tmp_path).parts
    assert found.tables[0].title == "Retrieval by difference of frequency ranks"
    entries = cells(found.tables[0])["finetune"]
    assert entries["no rank"].state == "empty"
    assert entries["0–9"].text == "100.0"
    asked = sum(int(entry.below.replace(",", "")) for entry in entries.values() if entry.below)
    assert asked == 2 * sum(len(links(own.senses, other.senses)) for own, other in said)
    assert [figure.name for figure in found.figures] == ["rank-differences"]


def test_an_average_over_some_parts_of_speech_is_not_the_papers(
    made: tuple[Opened, Ledger], monkeypatch: pytest.MonkeyPatch
) -> None:
    (found,) = tables("parts_of_speech", made)
    shown = cells(found)["none"].items()
    queries = {name: int(entry.below.replace(",", "")) for name, entry in shown if entry.below}
    rarest = min(("NUM", "PUNCT", "PROPN"), key=lambda name: queries[name])
    monkeypatch.setattr("raxalign.report.sections.parts_of_speech.FEW", queries[rarest] + 1)
    known = results(made)
    measure = section("parts_of_speech", known, ledger=made[1]).measures()["retrieval_by_pos"]
    fill = measure(known.cells[0])
    assert fill is not None
    assert fill.values[rarest] == fill.values["lexical-overlap-average"] == "too few queries"
    assert any(isinstance(value, Value) for value in fill.values.values())


@pytest.mark.slow
def test_layers_and_points_are_drawn(made: tuple[Opened, Ledger], tmp_path: Path) -> None:
    (found,) = share("spaces", results(made), ledger=made[1], figures=tmp_path).parts
    assert [figure.title for figure in found.figures] == [
        "Language identity by layer",
        "Anisotropy by layer",
        "Linked words in their sentences",
        "The word pairs linked most often",
    ]
    assert len({figure.name for figure in found.figures}) == 4
    assert ["src4" in figure.svg for figure in found.figures] == [False, False, False, True]
    assert not any("layer1" in figure.svg for figure in found.figures)


@pytest.mark.usefixtures("undrawn")
def test_the_report_holds_them_and_the_papers_table_is_filled(
    made: tuple[Opened, Ledger], tmp_path: Path
) -> None:
    opened, ledger = made
    published = opened.grid.published
    write_report(
        rows(opened.plan, ledger), opened.plan, tmp_path, ledger=ledger, published=published
    )
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Retrieval by part of speech" in page
    assert "Language identity by layer" in page
    assert "layer1" not in page
    text = (tmp_path / "published.csv").read_text(encoding="utf-8")
    assert any(
        "retrieval_by_pos" in line and "NOUN" in line and "0.61" in line and ",0.0," in line
        for line in text.splitlines()
    )


def test_damaged_predictions_are_named_not_passed_over(
    made: tuple[Opened, Ledger], tmp_path: Path
) -> None:
    opened, ledger = made
    shutil.copytree(ledger.root, tmp_path / "storage")
    copy = Ledger(str(tmp_path / "storage"))
    file = next((tmp_path / "storage" / "ledger").rglob("predictions.arrow"))
    damaged = bytearray(file.read_bytes())
    damaged[len(damaged) // 2] ^= 0xFF
    file.write_bytes(damaged)
    with pytest.raises(DamagedArtifact, match=file.parent.name[:12]):
        write_report(rows(opened.plan, copy), opened.plan, tmp_path, ledger=copy)


def test_spacy_tags_the_heldout_sentences_where_it_is_installed(
    made: tuple[Opened, Ledger], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in that calls every capitalised word a PROPN: the real library is an extra."""

    class Pipeline:
        vocab = None

        def pipe(self, docs: Iterable[list[str]]) -> Iterator[list[SimpleNamespace]]:
            for words in docs:
                yield [
                    SimpleNamespace(pos_="PROPN" if word.istitle() else "NOUN") for word in words
                ]

    for name, parts in (
        ("spacy", {"load": lambda model: {"en_core_web_sm": Pipeline()}[model]}),
        ("spacy.tokens", {"Doc": lambda _, words: words}),
    ):
        module = ModuleType(name)
        module.__spec__ = ModuleSpec(name, None)
        module.__dict__.update(parts)
        monkeypatch.setitem(sys.modules, name, module)
    changed = without_phrasebook(made[0].plan)
    assert pivot_tags(changed, Storage(str(tmp_path / "nothing"))) is None
    words = {"id": [5, 9], "src": [["a"], ["b"]], "tgt": [["the", "Rhine"], ["Bonn"]]}
    linked = {**words, "src_links": [[], []], "tgt_links": [[], []]}

    def build(folder: Path) -> Mapping[str, Any]:
        write_pairs(folder / "data", linked)
        return {}

    storage = Storage(str(tmp_path / "store"))
    storage.artifacts.make("pairs", key_of(changed, "pairs", "heldout"), build)
    tagger = pivot_tags(changed, storage)
    assert tagger is not None
    asked = pa.table({"lang": ["de-en"] * 3, "id": [9, 5, 7], "tgt_position": [0, 1, 0]})
    assert tagger[1](asked) == ["PROPN", "PROPN", None]
    assert tagger[1](asked.set_column(0, "lang", pa.array(["fr-en"] * 3))) == [None] * 3


def test_no_language_probe_is_better_than_another(made: tuple[Opened, Ledger]) -> None:
    found = results(made)
    section = part("own_tables", found, Judge(comparisons(found.cells, found.plan, made[1])))
    compared = {
        table.title: {entry.mark or entry.delta for line in table.lines for entry in line.entries}
        for table in section.tables
    }
    assert compared["representation: language probe"] == {""}
    assert compared["retrieval: contextual accuracy"] > {""}
    (probe,) = [t for t in section.tables if t.title == "representation: language probe"]
    assert probe.notes == ()


def test_without_phrasebook_or_treebank_there_are_no_tags(
    made: tuple[Opened, Ledger], tmp_path: Path
) -> None:
    plan, storage = without_phrasebook(made[0].plan), Storage(made[1].root)
    assert find_spec("spacy") is not None or pivot_tags(plan, storage) is None
    treebank = tmp_path / "train.en.conllu"
    words = ((1, "dogs", "NOUN"), (2, "bark", "VERB"))
    lines = [f"{i}\t{word}\t_\t{tag}\t_\t_\t0\t_\t_\t_\n" for i, word, tag in words]
    treebank.write_text("".join([*lines, "\n"]))
    key = next(key for key, stage in plan.stages.items() if stage.kind == "evaluation")
    places = {"train/en": str(treebank), "train/de": "elsewhere.conllu"}
    tagging = replace(plan.stages[key], maker="pos", locations=places)
    tagger = pivot_tags(replace(plan, stages={**plan.stages, key: tagging}), storage)
    assert tagger is not None
    assert "train.en.conllu" in tagger[0]
    assert tagger[1](pa.table({"tgt": ["Dogs", "dogs", "cats"]})) == ["NOUN", "NOUN", None]


@pytest.mark.usefixtures("undrawn")
def test_the_papers_table_names_what_is_missing_where_words_have_no_tags(
    made: tuple[Opened, Ledger], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    opened, ledger = made
    untagged = "raxalign.report.sections.parts_of_speech.pivot_tags"
    monkeypatch.setattr(untagged, lambda plan, storage: None)
    write_report(
        rows(opened.plan, ledger), opened.plan, tmp_path, ledger=ledger, published=["cao2020"]
    )
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    part = text.partition("### Non-contextual retrieval by part of speech")[2]
    part = part.partition("\n### ")[0]
    assert part.count("no tags (0.") == 30
    assert "not run" not in part
    assert "None of these cells were run" not in part
    assert "install spaCy and its small model of the pivot" in part


def test_the_words_of_a_linked_pair_are_joined_and_those_of_occurrences_are_not(
    made: tuple[Opened, Ledger], tmp_path: Path
) -> None:
    from raxalign.report.figures.panels import Panel
    from raxalign.report.predictions.read import StoredPredictions
    from raxalign.report.sections.spaces import panels_of

    found = results(made)
    drawn: dict[str, list[Panel]] = {
        kind: panels_of(found, StoredPredictions(made[1]), kind) for kind in ("occurrence", "type")
    }
    assert [panel.title for panel in drawn["type"]] == ["none, finetune"], "the points are the same"
    assert drawn["type"][0].links == [
        (float(i), float(i % 3), float(i), float(i % 3) + 10) for i in range(5)
    ]
    assert [cloud.names[:1] for cloud in drawn["type"][0].points] == [["src0"], ["tgt0"]]
    assert [panel.links for panel in drawn["occurrence"]] == [[]]
