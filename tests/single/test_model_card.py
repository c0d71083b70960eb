"""What the card of an exported encoder says of how it is opened."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import ModelCard

import raxalign as rx
from raxalign.plan.load import open_grid
from raxalign.single.model_card import Card, CardScore, Origin, Text, hub_name, origin_of, scores_of
from raxalign.stages import Workshop, run_trial
from raxalign.train.runtime import Runtime
from tests.grids import write_grid
from tests.ledgers import made_up


def plain(method: str, encoder: str, **parts: Any) -> str:
    return Card(method, {}, encoder, ("de",), "en", None, **parts).text()


@pytest.mark.parametrize("stored", [False, True])
def test_a_card_tells_how_its_family_of_encoders_is_opened(*, stored: bool) -> None:
    transformer = plain("none", "mini", has_transforms=stored)
    static = plain("rotation", "fasttext", family="static", has_transforms=stored)
    assert "library_name: transformers" in transformer
    assert "gensim" not in transformer
    assert ("AutoModelForMaskedLM" in transformer) is not stored
    assert "from transformers" not in static
    assert "library_name" not in static
    assert "load_word2vec_format" in static
    assert "rx.AlignedEncoder.from_export" in transformer
    assert ("rx.AlignedEncoder.from_export" in static) is stored


@pytest.mark.parametrize("opened_by", ["AutoModel", "AutoModelForTextEncoding"])
def test_a_card_of_an_encoder_without_a_head_does_not_promise_one(opened_by: str) -> None:
    text = plain("none", "mini", opened_by=opened_by)
    assert f"model = {opened_by}.from_pretrained(folder)" in text
    assert "pipeline_tag: feature-extraction" in text
    assert "ForMaskedLM" not in text


SCORE = CardScore(
    "nli", "xnli", "de", "accuracy", 0.72, 0.7, 0.74, 2490, 0.65, 0.07, (0.05, 0.09), "better"
)
ORIGIN = Origin(
    "bert-base-multilingual-cased",
    (
        Text("hub", "Helsinki-NLP/europarl", "that of the dataset, see its card", hub=True),
        Text("opus", "Tatoeba", "that of the corpus, see opus.nlpl.eu"),
    ),
    ("eflomal (intersection, one to one)",),
)


def card(**parts: Any) -> Card:
    params = {"lambda": 0.5, "pooling": "last", "layers": "last"}
    base = Card("finetune", params, "bert-base-multilingual-cased", ("de",), "en", 1, 10_000)
    return Card(**{**vars(base), "scores": [SCORE], "origin": ORIGIN, "seeds": (0, 1), **parts})


def test_the_front_matter_is_what_the_hub_reads() -> None:
    text = card().text()
    data = ModelCard(text).data
    assert data.base_model == "bert-base-multilingual-cased"
    assert data.language == ["de", "en"]
    assert data.license == "other"
    assert data.datasets == ["Helsinki-NLP/europarl"]
    assert (data.library_name, data.pipeline_tag) == ("transformers", "fill-mask")
    own, base = data.eval_results
    assert (own.task_type, own.dataset_config, own.metric_type) == ("xnli", "de", "accuracy")
    assert (own.metric_value, own.metric_args) == (0.72, {"n": 2490, "low": 0.7, "high": 0.74})
    assert (base.metric_name, base.metric_value) == ("accuracy of the base encoder", 0.65)
    assert own.dataset_split == "test"


def test_the_text_names_what_was_aligned_on_what_and_under_which_licences() -> None:
    text = card().text()
    assert "10,000 sentence pairs per language of hub Helsinki-NLP/europarl, opus Tatoeba." in text
    assert "* word pairs: `eflomal (intersection, one to one)`" in text
    assert "* λ: `0.5`" in text
    assert "* seeds of the grid: `0, 1`" in text
    assert "* opus Tatoeba: that of the corpus, see opus.nlpl.eu" in text
    assert (
        "| nli | de | accuracy | 0.7200 [0.7000, 0.7400] | 2,490 | 0.6500 |"
        " +0.0700 [+0.0500, +0.0900], better |"
    ) in text


@pytest.mark.parametrize("pooling", ["first", "last", "mean"])
def test_the_code_reads_words_as_the_alignment_was_fitted(pooling: str) -> None:
    params = {"pooling": pooling, "layers": "3"}
    text = card(method="rotation", params=params, has_transforms=True).text()
    assert f'layers="3", pooling="{pooling}"' in text
    assert not re.search(r"from raxalign\.", text)


def test_a_folder_is_not_a_base_model_of_the_hub(tmp_path: Path) -> None:
    assert hub_name("xlm-roberta-base") == "xlm-roberta-base"
    assert hub_name("FacebookAI/xlm-roberta-base") == "FacebookAI/xlm-roberta-base"
    assert hub_name(tmp_path) is None
    assert hub_name("../mini") is None
    assert "base_model" not in card(origin=Origin()).text()


def test_a_trial_s_card_has_its_own_values_next_to_those_of_the_encoder(tmp_path: Path) -> None:
    opened, ledger = made_up(tmp_path)
    plan = opened.plan
    trial = next(t for t in plan.trials if t.method == "finetune" and t.seed == 1)
    scores = {(s.task, s.lang): s for s in scores_of(plan, ledger, trial)}
    stored = {
        (s["lang"], s["metric"], s["split"]): s["value"]
        for s in ledger.read(trial.evaluations["xnli"])["scores"]
    }
    base = next(t for t in plan.trials if t.method == "none")
    untouched = ledger.read(base.evaluations["retrieval"])["scores"]
    found = scores["xnli", "de"]
    assert found.value == pytest.approx(stored["de", "accuracy", "test"])
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.value < found.high
    assert found.examples == 60
    assert scores["retrieval", "de-en"].base == pytest.approx(
        next(
            s["value"]
            for s in untouched
            if (s["lang"], s["metric"], s["split"]) == ("de-en", "contextual_accuracy", "test")
        )
    )
    assert origin_of(plan, trial).base_model is None
    assert [text.kind for text in origin_of(plan, trial).texts] == ["phrasebook"]


ALL = pytest.mark.skipif("RAXALIGN_TEST_ALL" not in os.environ, reason="made-up results show it")


@pytest.mark.parametrize("run", [False, pytest.param(True, marks=[pytest.mark.slow, ALL])])
def test_a_card_and_a_comparison_of_the_grid_give_the_same_verdicts(
    tmp_path: Path, *, run: bool
) -> None:
    """Two sizes and several values of lambda make a table whose correction is larger than within
    the cell of one trial; with `run` its trials are trained.
    """
    if run:
        methods = ("none: {}", "rotation: {}", "finetune: {lambda: [0.1, 1.0], batch_size: 16}")
        options = {"languages": "{together: [de, fr]}", "seeds": "[0, 1]", "methods": methods}
        opened = open_grid(write_grid(tmp_path, **options), storage=str(tmp_path / "storage"))  # type: ignore[arg-type]
        workshop = Workshop(opened.plan, opened.storage, Runtime())
        for trial in opened.plan.trials:
            run_trial(workshop, trial.key)
    else:
        opened, _ = made_up(tmp_path)
    rows = rx.compare(opened).to_pylist()
    shown = 0
    for trial in (trial for trial in opened.plan.trials if trial.seed in (None, 0)):
        tested = {
            (row["task"], row["lang"], row["metric"], row["split"]): row
            for row in rows
            if (row["method"], row["sentences"], json.loads(row["params"]))
            == (trial.method, trial.sentences, dict(trial.params))
        }
        for score in scores_of(opened.plan, opened.storage.ledger, trial):
            if score.bounds is not None:
                row = tested[score.task, score.lang, score.metric, score.split]
                assert (score.verdict, score.difference) == (row["verdict"], row["difference"])
                assert score.bounds == (row["difference_low"], row["difference_high"])
                shown += 1
    assert shown > 10
    assert {"better", "not after correction"} <= {row["verdict"] for row in rows}
