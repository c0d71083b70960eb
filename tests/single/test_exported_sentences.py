"""What an export gives in sentence-transformers is what its trial measured, for every method, and
its card says which way of loading gives which score.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from huggingface_hub import ModelCard

from raxalign.catalog import catalog
from raxalign.corpora.base import CorpusInputs
from raxalign.corpora.phrasebook import PhrasebookCorpus
from raxalign.plan.load import Opened, open_grid
from raxalign.single.export import export_trial
from raxalign.stages import Workshop, run_trial
from raxalign.store.storage import Storage
from raxalign.sweep.job import write_plan
from raxalign.train.runtime import Runtime
from tests.grids import write_grid
from tests.single.mteb_bitext import LANGUAGES, MODULE, PIVOT, Lines, make


def model_of(folder: Path, *, trusted: bool) -> Any:
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(folder), device="cpu", trust_remote_code=trusted)


def phrases(size: int) -> Lines:
    """Sentences of the phrasebook of which none is repeated."""
    corpus = PhrasebookCorpus(PhrasebookCorpus.Params(size=size))
    lines: Lines = {}
    for lang in LANGUAGES[:1]:
        seen: set[str] = set()
        for pair in corpus.read(lang, PIVOT, CorpusInputs({}, Path())):
            if not seen & {pair.source, pair.target}:
                lines.setdefault(lang, []).append((pair.source, pair.target))
            seen |= {pair.source, pair.target}
    return lines


def accuracies(model: Any, test: dict[str, list[list[str]]], *, trusted: bool) -> list[float]:
    """The share of sentences whose nearest neighbour by the cosine is their translation, into the
    pivot and out of it.
    """
    values = []
    for lang, pairs in test.items():
        sides = []
        for side, code in enumerate((lang, PIVOT)):
            given = {"language": code} if trusted else {}
            vectors = model.encode([pair[side] for pair in pairs], convert_to_tensor=True, **given)
            sides.append(torch.nn.functional.normalize(vectors))
        cosines = sides[0] @ sides[1].T
        right = torch.arange(len(cosines))
        values += [
            float((table.argmax(1) == right).float().mean()) for table in (cosines, cosines.T)
        ]
    return values


@pytest.mark.slow
def test_every_method_has_the_accuracy_in_sentence_transformers_that_its_trial_has(
    tmp_path: Path,
) -> None:
    words = tmp_path / "words.txt"
    words.write_text("Hund dog\nKatze cat\nle the\nun a\nund and\n", encoding="utf-8")
    out = tmp_path / "out"
    make(out, "{kind: phrasebook}", phrases(160), str(words), test=60, steps=3)
    record = json.loads((out / "measured.json").read_text(encoding="utf-8"))
    assert set(record["measured"]) == set(catalog("methods"))
    moved = {}
    for kind, measured in record["measured"].items():
        folder = out / kind
        trusted = (folder / MODULE).is_file()
        values = accuracies(model_of(folder, trusted=trusted), record["test"], trusted=trusted)
        assert values == pytest.approx(list(measured.values()), abs=1e-6), kind
        moved[kind] = values
    assert len({tuple(values) for values in moved.values()}) > 12


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    """A grid whose trials have run, with tasks on sentences, on words and with a training."""
    folder = tmp_path_factory.mktemp("cards")
    sizes = "data: phrasebook, epochs: 1, phrasebook: {train: 20, dev: 10, test: 10}"
    path = write_grid(
        folder,
        languages="{each: [de]}",
        sentences="100",
        methods=("none: {}", "rotation: {layers: 1-2}", "finetune: {batch_size: 40}"),
        tasks=(
            "sentence_retrieval: {layers: 1}",
            "retrieval: {}",
            f"pos: {{readout: refit, {sizes}}}",
        ),
    )
    opened = open_grid(path, storage=str(folder / "storage"))
    write_plan(opened.plan, opened.storage)
    workshop = Workshop(opened.plan, opened.storage, Runtime())
    for trial in opened.plan.trials:
        run_trial(workshop, trial.key)
    return opened


def card_of(finished: Opened, method: str, out: Path, **options: Any) -> str:
    key = next(trial.key for trial in finished.plan.trials if trial.method == method)
    export_trial(key, out, storage=Storage(finished.root), **options)
    return (out / "README.md").read_text(encoding="utf-8")


def given_by(text: str) -> dict[str, str]:
    """Task -> the last column of its first row."""
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return {row[0]: row[-1] for row in reversed(rows)}


def test_a_card_says_first_what_a_plain_encoder_lacks_and_which_way_gives_which_score(
    finished: Opened, tmp_path: Path
) -> None:
    text = card_of(finished, "rotation", tmp_path / "out")
    body = text.split("---\n", 2)[2]
    assert body.lstrip().split("\n\n")[1].startswith("**`AutoModel` opens this encoder without its")
    data = ModelCard(text).data
    assert (data.library_name, data.pipeline_tag) == (
        "sentence-transformers",
        "sentence-similarity",
    )
    assert {result.dataset_name for result in data.eval_results} == {"sentence_retrieval (de-en)"}
    assert given_by(text) | {"task": ""} == {
        "task": "",
        "sentence_retrieval": "raxalign, sentence-transformers",
        "retrieval": "raxalign",
        "pos": "the grid alone",
    }
    assert 'model.encode(texts, language="de")' in text
    assert "`de`, `en`. Texts that come without one are refused." in text
    assert "made of the pieces of layer 1 of 2." in text
    measured = [r.metric_value for r in data.eval_results if r.metric_type == "accuracy"]
    assert len(measured) == 1


def test_a_card_of_new_weights_has_every_way_and_names_those_that_read_other_layers(
    finished: Opened, tmp_path: Path
) -> None:
    text = card_of(finished, "finetune", tmp_path / "out")
    data = ModelCard(text).data
    assert data.library_name == "transformers"
    assert {result.task_name for result in data.eval_results} == {
        "sentence_retrieval",
        "retrieval",
        "pos",
    }
    ways = given_by(text)
    assert ways["retrieval"] == ways["sentence_retrieval"] == "raxalign, AutoModel"
    assert "**" not in text


def test_a_language_may_be_fixed_where_the_vectors_depend_on_it(
    finished: Opened, tmp_path: Path
) -> None:
    text = card_of(finished, "rotation", tmp_path / "fixed", language="de")
    assert "Texts that come without one are read as `de`." in text
    model = model_of(tmp_path / "fixed", trusted=True)
    assert (model.encode("ein Haus") == model.encode("ein Haus", language="de")).all()
    told: list[str] = []
    card_of(finished, "finetune", tmp_path / "new", language="de", tell=told.append)
    assert told == ["note: --language de changes nothing: its vectors need no language"]
