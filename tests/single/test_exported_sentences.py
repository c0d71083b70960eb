"""What an export gives in sentence-transformers is what its trial measured, for every method, and
its card says which way of loading gives which score.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from huggingface_hub import ModelCard

from raxalign.catalog import catalog
from raxalign.corpora.base import CorpusInputs
from raxalign.corpora.phrasebook import PhrasebookCorpus
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.encoders.phrasebook import FOLDER
from raxalign.errors import RaxalignError
from raxalign.grid.load import Opened, open_grid
from raxalign.single.evaluate import EvaluateRequest
from raxalign.single.export import export_trial, use_of, ways
from raxalign.single.model_card import SENTENCES
from raxalign.store.storage import Storage
from raxalign.values.results import rows
from tests.grids import write_grid
from tests.ran import ran
from tests.tiny import tiny_bert

pytestmark = pytest.mark.slow


def model_of(folder: Path, *, trusted: bool) -> Any:
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(folder), device="cpu", trust_remote_code=trusted)


SMALL = "batch_size: 16, steps: 3, learning_rate: 1e-4"
METHODS = {
    **dict.fromkeys(("finetune", "strong_contrastive", "weak_contrastive", "weam"), SMALL),
    **dict.fromkeys(("mlm", "tlm", "sentence_margin", "distillation"), SMALL),
    "awesome_align": SMALL,
    "ppa": f"{SMALL}, queue_size: 16",
    "code_switching": f"{SMALL}, dictionary: words.txt",
}
"""Options of the methods that train; the others have their defaults."""
METRICS = ("accuracy_to_pivot", "accuracy_from_pivot")
PAIRS = ("deu_Latn-eng_Latn", "eng_Latn-deu_Latn")
"""The same directions in mteb's task."""


def phrases(size: int) -> list[tuple[str, str]]:
    """Sentences of the phrasebook of which none is repeated."""
    corpus = PhrasebookCorpus(PhrasebookCorpus.Params(size=size))
    found, seen = [], set[str]()
    for pair in corpus.read("de", "en", CorpusInputs({}, Path())):
        if not seen & {pair.source, pair.target}:
            found.append((pair.source, pair.target))
        seen |= {pair.source, pair.target}
    return found


def accuracies(folder: Path, pairs: list[tuple[str, str]]) -> list[float]:
    """The share of sentences whose nearest neighbour by the cosine is their translation, into the
    pivot and out of it.
    """
    trusted = (folder / "aligned_sentences.py").is_file()
    model, sides = model_of(folder, trusted=trusted), []
    for side, code in enumerate(("de", "en")):
        given = {"language": code} if trusted else {}
        vectors = model.encode([pair[side] for pair in pairs], convert_to_tensor=True, **given)
        sides.append(torch.nn.functional.normalize(vectors))
    cosines = sides[0] @ sides[1].T
    right = torch.arange(len(cosines))
    return [float((table.argmax(1) == right).float().mean()) for table in (cosines, cosines.T)]


def test_every_method_has_the_accuracy_in_mteb_and_sentence_transformers_that_its_trial_has(
    tmp_path: Path,
) -> None:
    words, pairs = "Hund dog\nKatze cat\nle the\nun a\nund and\n", phrases(160)
    (tmp_path / "words.txt").write_text(words, encoding="utf-8")
    for side, code in enumerate(("de", "en")):
        text = "".join(f"{pair[side]}\n" for pair in pairs)
        (tmp_path / f"de-en.{code}").write_text(text, encoding="utf-8")
    sides = {
        f"{code}_Latn": [pair[i] for pair in pairs[-30:]] for i, code in enumerate(("deu", "eng"))
    }
    Dataset.from_dict(sides).to_parquet(tmp_path / "ntrex" / "data" / "test-00000-of-00001.parquet")
    kinds = sorted(catalog("methods"))
    path = write_grid(
        tmp_path,
        encoder="phrasebook",
        languages="{each: [de]}",
        sentences=str(len(pairs) - 60),
        methods=tuple(f"{kind}: {{{METHODS.get(kind, '')}}}" for kind in kinds),
        tasks=(
            "sentence_retrieval: {}",
            "mteb: {tasks: [NTREXBitextMining], data: {NTREXBitextMining: ntrex}}",
        ),
    )
    own = "moses\n  path: '{lang}-{pivot}'"
    path.write_text(path.read_text("utf-8").replace("phrasebook\n  size: 400", own), "utf-8")
    opened = ran(path)
    found = rows(opened.plan, opened.storage.ledger)
    moved = set()
    for trial in opened.plan.trials:
        out = tmp_path / "out" / trial.method
        export_trial(trial.key, out, storage=opened.storage)
        measured = {
            row["metric"]: row["value"]
            for row in found
            if (row["trial"], row["split"], row["task"])
            == (trial.key, "test", "sentence_retrieval")
        }
        by_mteb = opened.storage.ledger.read(trial.evaluations["mteb"])["notes"]["de"]
        reported = [by_mteb["NTREXBitextMining"][f"{pair} test"]["accuracy"] for pair in PAIRS]
        values = accuracies(out, pairs[-30:])
        assert reported == pytest.approx([measured[name] for name in METRICS], abs=1e-6), trial
        assert values == pytest.approx([measured[name] for name in METRICS], abs=1e-6), trial.method
        moved.add(tuple(values))
        if trial.method in ("rotation", "finetune"):
            given = (f"NTREXBitextMining={tmp_path / 'ntrex'}",)
            request = EvaluateRequest(str(out), device="cpu", mteb=given)
            again, _ = request.evaluate(opened)
            of_trial = main_scores(row for row in found if row["trial"] == trial.key)
            assert main_scores(again) == pytest.approx(of_trial, abs=1e-6), trial.method
            with pytest.raises(RaxalignError, match="--option is for tasks of mteb"):
                replace(request, mteb=(), options=("layers=1",)).evaluate(opened)
    assert len(moved) > 8


def main_scores(found: Iterable[dict[str, Any]]) -> dict[str, float]:
    """The values of mteb's task by metric."""
    return {row["metric"]: row["value"] for row in found if row["task"] == "mteb"}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    """A grid whose trials have run, with tasks on sentences, on words and with a training."""
    folder = tmp_path_factory.mktemp("cards")
    sizes = "data: phrasebook, epochs: 1, phrasebook: {train: 8, dev: 6, test: 6}"
    pos = f"pos: {{readout: refit, {sizes}}}"
    path = write_grid(
        folder,
        encoder=str(tiny_bert(folder / "encoder", ["das", "the", "Haus", "."], hidden=8)),
        languages="{each: [de]}",
        sentences="40",
        size=120,
        methods=("none: {}", "rotation: {layers: 1-2}", "finetune: {batch_size: 40}"),
        tasks=("sentence_retrieval: {layers: 1}", "retrieval: {}", pos),
    )
    return ran(path)


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
    kinds = ("sentence-transformers", "sentence-similarity")
    assert (data.library_name, data.pipeline_tag) == kinds
    assert {result.dataset_name for result in data.eval_results} == {"sentence_retrieval (de-en)"}
    assert given_by(text) | {"task": ""} == {
        "task": "",
        "sentence_retrieval": "raxalign, sentence-transformers",
        "retrieval": "raxalign",
        "pos": "the grid alone",
    }
    assert 'model.encode(texts, language="de")' in text
    assert "`de`, `en`. Texts that come without one are refused." in text
    assert "made of the subword tokens of layer 1 of 2." in text
    measured = [r.metric_value for r in data.eval_results if r.metric_type == "accuracy"]
    assert len(measured) == 1


def test_a_card_of_new_weights_has_every_way_and_names_those_that_read_other_layers(
    finished: Opened, tmp_path: Path
) -> None:
    text = card_of(finished, "finetune", tmp_path / "out")
    data = ModelCard(text).data
    assert data.library_name == "transformers"
    names = {result.task_name for result in data.eval_results}
    assert names == {"sentence_retrieval", "retrieval", "pos"}
    ways = given_by(text)
    assert ways["retrieval"] == ways["sentence_retrieval"] == "raxalign, AutoModel"
    assert "**" not in text


def test_a_language_may_be_fixed_where_the_vectors_depend_on_it(finished, tmp_path):
    text = card_of(finished, "rotation", tmp_path / "fixed", language="de")
    assert "Texts that come without one are read as `de`." in text
    model = model_of(tmp_path / "fixed", trusted=True)
    assert (model.encode("ein Haus") == model.encode("ein Haus", language="de")).all()
    told: list[str] = []
    card_of(finished, "finetune", tmp_path / "new", language="de", tell=told.append)
    assert told == ["note: --language de changes nothing: its vectors need no language"]


def test_an_export_reads_sentences_as_any_task_of_its_trial_measured_them(tmp_path):
    part = "{text: d, gold: d}"
    mined = f"bitext_mining: {{data: {{dev: {part}, test: {part}}}, pooling: cls}}"
    tasks = ("retrieval: {}", mined, "mteb: {tasks: [Tatoeba], pooling: cls}")
    path = write_grid(
        tmp_path, encoder="phrasebook", languages="{each: [de]}", methods=("none: {}",), tasks=tasks
    )
    plan = open_grid(path, allow_missing=True).plan
    aligned = AlignedEncoder(TransformerEncoder.from_folder(FOLDER))
    use = use_of(plan, plan.trials[0], aligned)
    assert (use.layers, use.pooling) == ("last", "cls")
    found = ways(plan, plan.trials[0], aligned, use)
    assert {task for task, own in found.items() if SENTENCES in own} == {"bitext_mining", "mteb"}
