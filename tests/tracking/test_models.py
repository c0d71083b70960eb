"""Exported encoders as models of MLflow: logged, registered, and loaded as MLflow does it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.encoders.models.transforms import Affine, Transform
from raxalign.errors import RaxalignError
from raxalign.running import Sentence
from raxalign.store.storage import Storage
from raxalign.tasks.vectors.sentences import SentenceReading, sentence_vectors
from raxalign.tracking.client import connect
from raxalign.tracking.models import Exported, register
from raxalign.tracking.served import SentenceVectors
from tests.tiny import tiny_bert

TEXTS = {"de": ["ein Haus", "das Haus steht ein"], "en": ["a house"], "fr": ["la maison"]}
TRIAL, METRIC = "t" * 64, "retrieval/de-en/accuracy"


def turned(lang: str, seed: int, layer: int = 2, toward: str | None = None) -> Transform:
    """A random map of a language."""
    weight = torch.randn(8, 8, generator=torch.Generator().manual_seed(seed))
    return Transform(lang, layer, steps=(Affine(weight=weight),), toward=toward)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> TransformerEncoder:
    words = {word for texts in TEXTS.values() for text in texts for word in text.split()}
    place = tmp_path_factory.mktemp("encoder") / "tiny"
    return TransformerEncoder.from_folder(tiny_bert(place, sorted(words), hidden=8))


@pytest.fixture
def exported(tmp_path: Path, encoder: TransformerEncoder) -> Exported:
    folder = tmp_path / "encoder"
    AlignedEncoder(encoder, (turned("de", 0), turned("fr", 1))).export(folder)
    return Exported(folder, TRIAL, "en", ("de", "fr"))


def made_run(client: Any) -> str:
    """The run of a trial with a result and a curve."""
    run = client.create_run(client.create_experiment("small"), tags={"raxalign.trial_key": TRIAL})
    client.log_metric(run.info.run_id, METRIC, 0.75)
    client.log_metric(run.info.run_id, "train/finetune/loss", 1.5, step=3)
    client.log_param(run.info.run_id, "method", "rotation")
    return str(run.info.run_id)


def frame(texts: dict[str, list[str]]) -> pd.DataFrame:
    rows = [(text, lang) for lang, found in texts.items() for text in found]
    return pd.DataFrame(rows, columns=["text", "language"])


def as_raxalign_reads(folder: Path, lang: str) -> np.ndarray:
    """The vectors of the task `sentence_retrieval`."""
    aligned = AlignedEncoder.from_export(folder)
    sentences = [Sentence.of_text(text) for text in TEXTS[lang]]
    reading = SentenceReading("last", "mean", specials=True)
    return sentence_vectors(aligned.toward(lang), sentences, lang, reading)[0].numpy()


@pytest.mark.slow
def test_a_registered_encoder_loads_in_mlflow_with_the_vectors_of_raxalign(
    tmp_path: Path, no_runs: Path, exported: Exported, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow

    uri = f"sqlite:///{shutil.copy(no_runs, tmp_path)}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    client = connect(uri)
    run = made_run(client)
    first, second = (
        register(exported, "mine", storage=Storage(str(tmp_path)), uri=uri) for _ in "12"
    )
    assert (first.version, second.version) == ("1", "2")
    shutil.rmtree(exported.folder / "1_Pooling")  # the model has files of its own
    loaded = mlflow.pyfunc.load_model("models:/mine/1")
    vectors = loaded.predict(frame(TEXTS))
    expected = np.concatenate([as_raxalign_reads(exported.folder, lang) for lang in TEXTS])
    assert np.abs(vectors - expected).max() < 1e-6
    with pytest.raises(RaxalignError, match=r"language 'sw': .* no transform .* de, en, fr"):
        loaded.predict(frame({"de": ["ein Haus"], "sw": ["nyumba"]}))

    version = client.get_model_version("mine", "2")
    assert (version.run_id, version.tags) == (run, {"raxalign.trial_key": TRIAL})
    assert first.model == second.model, "the same encoder is logged once"
    model = client.get_logged_model(first.model)
    facts = (run, {"method": "rotation"}, "READY")
    assert (model.source_run_id, model.params, model.status) == facts
    assert {m.key: m.value for m in model.metrics} == {METRIC: 0.75}, "results, and no curve"
    assert len(client.get_metric_history(run, METRIC)) == 1
    assert [m.model_id for m in client.get_run(run).outputs.model_outputs] == [first.model]


@pytest.mark.slow
def test_a_trial_that_the_store_does_not_have_is_refused(tmp_path, no_runs, exported) -> None:
    shutil.copy(no_runs, tmp_path)
    with pytest.raises(RaxalignError, match="has no run of this trial: `raxalign sync`"):
        register(exported, "mine", storage=Storage(str(tmp_path)))
    with pytest.raises(RaxalignError, match="on a server"):
        register(exported, "mine", storage=Storage("memory://x"))


def test_texts_keep_their_order_and_may_spell_their_language_otherwise(encoder) -> None:
    vectors = SentenceVectors(AlignedEncoder(encoder, (turned("de", 0),)), "en", ["de"])
    rows = [("a house", "en"), ("ein Haus", "de"), ("a house", "eng"), ("ein Haus", "deu")]
    found = vectors.predict(pd.DataFrame(rows, columns=["text", "language"]))
    assert np.array_equal(found[:2], found[2:])
    assert not np.allclose(found[0], found[1])
    trained = SentenceVectors(AlignedEncoder(encoder, weights_changed=True), "en", ["de"])
    assert trained.predict(frame({"sw": ["ein Haus"]})).shape == (1, 8), "no transform is needed"


def test_the_layer_that_was_aligned_is_read_and_no_other_one(encoder: TransformerEncoder) -> None:
    vectors = SentenceVectors(AlignedEncoder(encoder, (turned("de", 0, layer=1),)), "en", ["de"])
    rows = frame({"de": ["ein Haus"]})
    assert np.array_equal(vectors.predict(rows), vectors.predict(rows, {"layers": "1"}))
    with pytest.raises(RaxalignError, match=r"layers '2': the alignment is of layer 1"):
        vectors.predict(rows, {"layers": "2"})
    with pytest.raises(RaxalignError, match="pooling 'max': choose one of"):
        vectors.predict(rows, {"pooling": "max"})


def test_pivot_texts_name_the_language_that_their_vectors_depend_on(encoder) -> None:
    maps = turned("en", 0, toward="de"), turned("en", 1, toward="fr")
    vectors = SentenceVectors(AlignedEncoder(encoder, maps), "en", ["de", "fr"])
    rows = frame({"en": ["a house"]})
    with pytest.raises(RaxalignError, match=r"by the param `toward`, one of de, fr"):
        vectors.predict(rows)
    de, fr = (vectors.predict(rows, {"toward": lang}) for lang in ("de", "fr"))
    assert not np.allclose(de, fr)
