"""Exported encoders as models of MLflow's own flavour: logged, registered, and loaded."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.encoders.models.transforms import Affine, Transform
from raxalign.errors import RaxalignError
from raxalign.store.storage import Storage
from raxalign.tracking.client import Target
from raxalign.tracking.ui import register
from tests.tiny import tiny_bert

LANGS, TEXTS = ("de", "fr"), ["ein Haus", "das Haus steht ein"]
FLUENT = ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_ID")
TRIAL, METRIC = "t" * 64, "retrieval/de-en/accuracy"


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    """An export with a map for each of two languages."""
    words = sorted({word for text in TEXTS for word in text.split()})
    encoder = TransformerEncoder.from_folder(tiny_bert(tmp_path / "tiny", words, hidden=8))
    weights = torch.randn(2, 8, 8, generator=torch.Generator().manual_seed(0))
    maps = [Transform(lang, 2, steps=(Affine(weight=weights[n]),)) for n, lang in enumerate(LANGS)]
    AlignedEncoder(encoder, tuple(maps)).export(tmp_path / "encoder")
    return tmp_path / "encoder"


@pytest.mark.slow
def test_a_registered_export_has_in_mlflow_the_vectors_of_sentence_transformers(
    tmp_path: Path, no_runs: Path, exported: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow
    from sentence_transformers import SentenceTransformer

    shutil.copy(no_runs, tmp_path)
    storage, uri = Storage(str(tmp_path)), f"sqlite:///{tmp_path / no_runs.name}"
    for name in FLUENT:  # which MLflow sets itself
        monkeypatch.setenv(name, "")
    target = Target(uri, storage)
    client = target.connect()
    experiment = target.page(client, "small").experiment
    run = client.create_run(experiment, tags={"raxalign.trial_key": TRIAL}).info.run_id
    client.log_metric(run, METRIC, 0.75)
    client.log_param(run, "method", "rotation")
    assert [register(exported, TRIAL, "mine", storage, None) for _ in "12"] == ["1", "2"]

    here = SentenceTransformer(str(exported), device="cpu", trust_remote_code=True)
    expected = {lang: here.encode(TEXTS, prompt_name=lang) for lang in LANGS}
    shutil.rmtree(exported)  # the model has files of its own
    loaded = mlflow.sentence_transformers.load_model("models:/mine/1")
    for lang, vectors in expected.items():
        assert np.abs(loaded.encode(TEXTS, prompt_name=lang) - vectors).max() < 1e-6
    assert not np.allclose(expected["de"], expected["fr"])
    assert not list((tmp_path / "mlartifacts").rglob("*.pkl"))

    version = client.get_model_version("mine", "2")
    model = client.get_logged_model(version.source.rpartition("/")[2])
    facts = (run, experiment, {"method": "rotation"}, "READY")
    assert (model.source_run_id, model.experiment_id, model.params, model.status) == facts
    assert {m.key: m.value for m in model.metrics} == {METRIC: 0.75}
    assert client.get_run(run).info.status == "RUNNING", "the run itself is as it was"


@pytest.mark.slow
def test_a_trial_that_the_store_does_not_have_is_refused(tmp_path, no_runs, exported) -> None:
    shutil.copy(no_runs, tmp_path)
    with pytest.raises(RaxalignError, match="has no run of this trial: `raxalign sync`"):
        register(exported, TRIAL, "mine", Storage(str(tmp_path)), None)
    with pytest.raises(RaxalignError, match="a server is needed"):
        register(exported, TRIAL, "mine", Storage("memory://x"), None)


def test_what_sentence_transformers_does_not_open_is_refused_with_what_copies_it(tmp_path) -> None:
    with pytest.raises(RaxalignError, match=r"`mlflow artifacts log-artifacts --local-dir"):
        register(tmp_path, TRIAL, "mine", Storage(str(tmp_path)), None)
