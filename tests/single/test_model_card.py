"""What the card of an exported encoder says of how it is opened."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import ModelCard

import raxalign as rx
from raxalign.grid.load import Opened, open_grid
from raxalign.grid.trial import Trial
from raxalign.single.model_card import Card, CardScore, Origin, Text, hub_name
from raxalign.store.ledger import Ledger
from tests.grids import write_grid
from tests.ledgers import made_up


def plain(method: str, encoder: str, **parts: Any) -> str:
    return Card(method, {}, encoder, ("de",), "en", None, **parts).text()


@pytest.mark.parametrize("stored", [False, True])
def test_a_card_tells_how_its_family_of_encoders_is_opened(*, stored: bool) -> None:
    transformer = plain("none", "mini", has_transforms=stored)
    static = plain("rotation", "fasttext", family="static", has_transforms=stored)
    for words, of_transformer, of_static in (
        ("library_name: transformers", True, False),
        ("gensim", False, True),
        ("AutoModelForMaskedLM", not stored, False),
        ("load_word2vec_format", False, True),
        ("rx.AlignedEncoder.from_export", True, stored),
    ):
        assert (words in transformer, words in static) == (of_transformer, of_static), words
    assert "from transformers" not in static
    headless = plain("none", "mini", opened_by="AutoModelForTextEncoding")
    assert "model = AutoModelForTextEncoding.from_pretrained(folder)" in headless
    assert "pipeline_tag: feature-extraction" in headless
    assert "ForMaskedLM" not in headless
    half = plain("none", "nllb", opened_by="M2M100Encoder")
    assert "from transformers.models.m2m_100.modeling_m2m_100 import M2M100Encoder" in half
    assert "model = M2M100Encoder.from_pretrained(folder)" in half
    assert "SentenceTransformer(" not in half
    assert "SentenceTransformer(" in headless


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
    for words in (
        "10,000 sentence pairs per language of hub Helsinki-NLP/europarl, opus Tatoeba.",
        "* word pairs: `eflomal (intersection, one to one)`",
        "* λ: `0.5`",
        "* seeds of the grid: `0, 1`",
        "* opus Tatoeba: that of the corpus, see opus.nlpl.eu",
        "| nli | de | accuracy | 0.7200 [0.7000, 0.7400] | 2,490 | 0.6500 |"
        " +0.0700 [+0.0500, +0.0900], better |",
    ):
        assert words in text


@pytest.mark.parametrize("changed", [False, True])
def test_a_card_without_scores_speaks_of_none(*, changed: bool) -> None:
    said = {"choices": ["de"], "fixed": None, "transforms": True, "weights_changed": changed}
    said |= {"first": "de", "read": "the last layer", "column": "de", "name": "German"}
    parts = {"has_transforms": True, "spoken": said}
    opening = "**`AutoModel` opens this encoder without its alignment**"
    alone, scored = plain("rotation", "mini", **parts), card(**parts).text()
    assert all(opening in text for text in (alone, scored))
    assert not [
        words for words in ("score below", "*given by*", "*base encoder*") if words in alone
    ]
    assert ("score below" if changed else "*base encoder*") in scored
    assert "the column *given by* says" in scored


def test_scores_of_an_unfinished_grid_are_called_so() -> None:
    assert "## Results\n\nUnfinished: half." in card(unfinished="Unfinished: half.").text()
    assert "Unfinished" not in card().text()


def test_verdicts_on_claims_are_said_with_their_looks() -> None:
    told = "held (look 2 of 3, 5 of 8 seeds): a > b in nli (+2.0, 95 % CI: +1.0 to +3.0)"
    assert f"## Claims of the grid\n\n* {told}\n\nThe seeds" in card(claims=[told]).text()
    assert "Claims" not in card().text()


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


def test_the_card_of_a_trial_names_the_encoder_of_the_hub_that_its_grid_names(
    tmp_path: Path,
) -> None:
    name, commit = "bert-base-multilingual-cased", "a" * 40
    known = {f"hub:{name}": commit, f"depth:{name}@{commit}": "12", f"head:{name}@{commit}": "none"}
    (tmp_path / "grid.lock").write_text(json.dumps(known), encoding="utf-8")
    plan = open_grid(write_grid(tmp_path, encoder=name), storage=str(tmp_path)).plan
    assert {Origin.of(plan, trial).base_model for trial in plan.trials} == {name}


def test_a_trial_s_card_has_its_own_values_next_to_those_of_the_encoder(made: Any) -> None:
    opened, ledger = made
    plan = opened.plan
    trial = next(t for t in plan.trials if t.method == "finetune" and t.seed == 1)
    scores = {(s.task, s.lang): s for s in CardScore.of_trial(plan, ledger, trial)}
    base = next(t for t in plan.trials if t.method == "none")

    def stored(of: Trial, task: str, *name: str) -> float:
        found = ledger.read(of.evaluations[task])["scores"]
        return next(s["value"] for s in found if (s["lang"], s["metric"], s["split"]) == name)

    own, other = scores["xnli", "de"], scores["retrieval", "de-en"]
    assert own.value == pytest.approx(stored(trial, "xnli", "de", "accuracy", "test"))
    assert own.low is not None
    assert own.high is not None
    assert own.low < own.value < own.high
    assert own.examples == 60
    untouched = stored(base, "retrieval", "de-en", "contextual_accuracy", "test")
    assert other.base == pytest.approx(untouched)
    assert Origin.of(plan, trial).base_model is None
    assert [text.kind for text in Origin.of(plan, trial).texts] == ["phrasebook"]


TAGGED = {
    ("none", "de"): {"en": 0.90, "de": 0.80, "es": 0.45},
    ("none", "fr"): {"en": 0.90, "fr": 0.40, "es": 0.45},
    ("finetune", "de"): {"en": 0.90, "de": 0.82, "es": 0.50},
    ("finetune", "fr"): {"en": 0.92, "fr": 0.46, "es": 0.60},
}
"""Accuracies of a grid that makes an encoder per language, by method and aligned language."""


def tagged(ledger: Ledger, opened: Opened, trial: Trial, key: str) -> None:
    found = TAGGED[trial.method, trial.languages[0]]
    same = {"metric": "accuracy", "split": "test"}
    scores = [{**same, "lang": lang, "value": value} for lang, value in found.items()]
    record = {"scores": scores, "params": opened.plan.stages[key].params["task"], "task": "pos"}
    record |= {"unseen": ["es"], "seconds": 2.0, "created": 1_800_000_000.0}
    ledger.write(key, record, None)


def test_a_card_has_differences_of_its_encoder_alone_where_the_grid_has_one_per_language(
    tmp_path: Path,
) -> None:
    """The grid's mean over en, de and fr is 0.70 of the base encoder and 0.73 with the method; its
    mean over de and fr is 0.60 and 0.64. Over en and de the base encoder has 0.85.
    """
    opened, ledger = made_up(
        tmp_path,
        tagged,
        languages="{each: [de, fr]}",
        sentences="100",
        seeds="[0]",
        methods=("none: {}", "finetune: {batch_size: 16}"),
        tasks=("pos: {languages: [de, fr, es], data: phrasebook}",),
        more="",
    )
    trial = next(t for t in opened.plan.trials if (t.method, t.languages) == ("finetune", ("de",)))
    scores = CardScore.of_trial(opened.plan, ledger, trial)
    shown = {s.lang: (s.value, s.base, s.difference, s.verdict) for s in scores}
    assert shown.pop("de") == (0.82, 0.80, pytest.approx(0.02), "")
    assert shown == {
        "en": (0.90, 0.90, None, ""),
        "es": (0.50, 0.45, None, ""),
        "avg": (pytest.approx(0.86), pytest.approx(0.85), None, ""),
        "avg_zero_shot": (0.82, 0.80, None, ""),
        "avg_unseen": (0.50, 0.45, None, ""),
    }
    text = card(scores=scores).text()
    assert "| pos | mean | accuracy | 0.8600 |  | 0.8500 |  |" in text
    assert "It is left out where the grid has it over other languages than the value" in text
    results = ModelCard(text).data.eval_results
    bases = {r.dataset_config: r.metric_value for r in results if r.metric_type == "accuracy_base"}
    assert (bases["avg"], bases["de"]) == (0.85, 0.8)


@pytest.mark.slow
def test_a_card_and_a_comparison_of_the_grid_give_the_same_verdicts(made: Any) -> None:
    """Two sizes and several values of lambda make a table whose correction is larger than within
    the cell of one trial.
    """
    plan, rows, shown = made[0].plan, rx.compare(made[0]).to_pylist(), 0
    trials = [trial for trial in plan.trials if trial.seed in (None, 0)]
    for trial in (trials[2], trials[-1]):
        tested = {
            (row["task"], row["lang"], row["metric"], row["split"]): row
            for row in rows
            if (row["method"], row["sentences"], json.loads(row["params"]))
            == (trial.method, trial.sentences, dict(trial.params))
        }
        for score in CardScore.of_trial(plan, made[1], trial):
            if score.bounds is not None:
                row = tested[score.task, score.lang, score.metric, score.split]
                assert (score.verdict, score.difference) == (row["verdict"], row["difference"])
                assert score.bounds == (row["difference_low"], row["difference_high"])
                shown += 1
    assert shown > 10
    assert {"better", "not after correction"} <= {row["verdict"] for row in rows}
