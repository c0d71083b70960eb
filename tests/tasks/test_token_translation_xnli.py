"""Token translation of XNLI's sentences: which are read, what is kept, and what is counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
import torch

from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.errors import DataError
from raxalign.tasks.base import Outcome, TaskInputs
from raxalign.tasks.token_translation import TokenTranslation
from raxalign.tasks.translation.sentences import XnliFiles, XnliSentences
from raxalign.train.runtime import Runtime
from tests.methods.toy import toy_encoder, toy_inputs

ROWS = {
    "en": [("house red", "old", "neutral"), ("house red", "dog", "neutral"), ("dog", "red", "0")],
    "de": [("haus rot", "alt", "neutral"), ("haus rot", "hund", "1"), ("hund", "rot", "0")],
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("xnli")
    toy_encoder(folder / "encoder", layers=2, positions=32, spread=0.05)  # type: ignore[arg-type]
    toy_inputs(folder, 20, ("de",))
    for lang, rows in ROWS.items():
        write(folder / f"test-{lang}.tsv", rows)
        write(folder / f"dev-{lang}.tsv", rows[:2])
    return folder


@pytest.fixture(scope="module")
def encoder(root: Path) -> TransformerEncoder:
    return toy_encoder(root / "encoder")


def write(path: Path, rows: list[tuple[str, str, str]]) -> None:
    path.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")


def task(root: Path, **params: Any) -> TokenTranslation:
    data = {split: str(root / f"{split}-{{lang}}.tsv") for split in ("dev", "test")}
    return TokenTranslation(
        TokenTranslation.Params.model_validate({"data": data, "alpha": [1, 2], **params})
    )


def outcome(root: Path, encoder: TransformerEncoder, **params: Any) -> Outcome:
    given = TaskInputs("en", text={lang: root / f"text-{lang}" for lang in ("de", "en")})
    return task(root, **params).evaluate(AlignedEncoder(encoder), ("de",), given, Runtime(), None)


def test_a_row_is_one_sentence_and_pairs_of_one_premise_are_one_unit(
    root: Path, encoder: TransformerEncoder
) -> None:
    found = outcome(root, encoder)
    test = found.predictions.filter(
        pc.and_(
            pc.equal(found.predictions["split"], "test"), pc.equal(found.predictions["alpha"], 1)
        )
    ).to_pylist()
    forward = [row for row in test if row["lang"] == "de-en"]
    pieces = [
        len(row.ids) - 2
        for row in encoder.pieces(
            [["haus", "rot", "alt"], ["haus", "rot", "hund"], ["hund", "rot"]], "de"
        )
    ]
    assert [row["tokens"] for row in forward] == pieces
    assert forward[0]["premise"] == forward[1]["premise"] != forward[2]["premise"]
    assert {row["premise"] for row in test if row["lang"] == "en-de"} == {
        row["premise"] for row in forward
    }
    (sample,) = TokenTranslation.samples(
        found.predictions, [("de-en", "layer2_alpha1_bleu1", "test")]
    ).values()
    assert sample is not None
    assert len(sample.units) == 2
    (score,) = [
        score.value
        for score in found.scores
        if (score.lang, score.metric, score.split) == ("de-en", "layer2_alpha1_bleu1", "test")
    ]
    assert sample.value == pytest.approx(score)


def test_the_first_test_sentences_keep_their_texts_and_no_others(
    root: Path, encoder: TransformerEncoder
) -> None:
    rows = outcome(root, encoder, samples=1).predictions.to_pylist()
    kept = [row for row in rows if row["source_text"] is not None]
    assert {(row["split"], row["id"]) for row in kept} == {("test", 1)}
    assert {(row["lang"], row["source_text"], row["reference_text"]) for row in kept} == {
        ("de-en", "haus rot alt", "house red old"),
        ("en-de", "house red old", "haus rot alt"),
    }
    assert len(kept) == 2 * 2  # directions, weights
    assert all(row["output_text"] for row in kept)
    assert "source_text" not in outcome(root, encoder).predictions.column_names


def test_vocabularies_are_counted_without_special_pieces_and_shared_with_the_pivot(
    root: Path, encoder: TransformerEncoder
) -> None:
    counts = {
        (score.lang, score.metric): score.value
        for score in outcome(root, encoder).scores
        if score.metric.endswith("_count") and score.split == "test"
    }
    own = {
        lang: {
            int(piece)
            for row in encoder.pieces([f"{a} {b}".split() for a, b, _ in rows], lang)
            for piece in row.ids[1:-1]
        }
        - set(encoder.tokenizer.all_special_ids)
        for lang, rows in ROWS.items()
    }
    assert counts == {
        ("de", "vocabulary_count"): len(own["de"]),
        ("en", "vocabulary_count"): len(own["en"]),
        ("de", "shared_count"): len(own["de"] & own["en"]),
        ("en", "shared_count"): len(own["en"]),
    }


def test_rows_that_are_not_parallel_are_refused_before_anything_runs(
    root: Path, tmp_path: Path
) -> None:
    write(tmp_path / "test-en.tsv", ROWS["en"])
    write(tmp_path / "test-de.tsv", ROWS["de"][:2])
    write(tmp_path / "test-fr.tsv", [("rouge", "chien", "2"), *ROWS["de"][1:]])
    given = task(tmp_path, data={"test": str(tmp_path / "test-{lang}.tsv")})
    faults = {
        found.path.stem: [str(fault) for fault in found.faults]
        for found in given.read_files(("de", "fr"), "en")
    }
    assert faults["test-en"] == []
    assert "2 rows, but the pivot has 3" in faults["test-de"][0]
    assert "labelled contradiction, but neutral in line 1 of the pivot" in faults["test-fr"][0]
    reader = XnliSentences(XnliFiles(test=str(tmp_path / "test-{lang}.tsv")), "", "main")
    with pytest.raises(DataError, match="not parallel"):
        reader.read("test", "de", TaskInputs("en"))


def test_data_enters_the_key_by_what_is_read_and_the_default_enters_none(root: Path) -> None:
    plain = TokenTranslation(TokenTranslation.Params())
    assert plain.canonical().keys().isdisjoint({"data", "samples", "dataset", "revision"})
    assert plain.needs().bitext
    assert plain.sources("de", "en") == {}
    assert task(root).canonical()["data"] == {}
    assert not task(root).needs().bitext
    assert {name: str(source.path) for name, source in task(root).sources("de", "en").items()} == {
        "dev": str(root / "dev-de.tsv"),
        "test": str(root / "test-de.tsv"),
        "pivot_dev": str(root / "dev-en.tsv"),
        "pivot_test": str(root / "test-en.tsv"),
    }
    hub = TokenTranslation(TokenTranslation.Params(data="xnli", revision="c" * 40))
    assert {name: source.name for name, source in hub.sources("de", "en").items()} == {
        "hub": f"hub:facebook/xnli/de@{'c' * 40}",
        "pivot_hub": f"hub:facebook/xnli/en@{'c' * 40}",
    }
    assert hub.fetch("de", "en", root)[f"hub:facebook/xnli/de@{'c' * 40}"] == "c" * 40
