"""Static encoders in a grid: what the plan makes of them, and all of it run in one process."""

from __future__ import annotations

from pathlib import Path

import pytest

from raxalign.config.grid import load
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.plan.expansion.expand import expand
from raxalign.plan.plan import Plan
from raxalign.plan.values.results import rows
from raxalign.stages import Workshop, run_trial
from raxalign.store.storage import Storage
from raxalign.train.runtime import Runtime

GRID = """
name: static
pivot: en
encoder: {{kind: static, algorithm: fasttext, dimension: 50, min_count: 1, buckets: 5000, \
epochs: 20, {encoder}}}
languages: {{each: [de]}}
corpus: {{source: phrasebook, size: 330, split: {{test: 40, dev: 40}}}}
pairs: {{aligner: fast_align}}
sentences: 250
seeds: [0]
methods:
  none: {{}}
  rotation: {{}}
  finetune: {{}}
tasks:
  retrieval: {{augmentation: sentence}}
  sentence_retrieval: {{}}
  dictionary_retrieval: {{dictionary: "{{lang}}-{{pivot}}.txt", contexts: {contexts}}}
  xnli: {{data: phrasebook, epochs: 1}}
  slots: {{data: phrasebook}}
"""


def plan_of(folder: Path, encoder: str = "seed: 0", contexts: str = "corpus") -> Plan:
    folder.mkdir(exist_ok=True)
    (folder / "de-en.txt").write_text(
        "das the\nist is\nund and\nich i\nhaus house\nnicht not\n", encoding="utf-8"
    )
    (folder / "grid.yaml").write_text(
        GRID.format(encoder=encoder, contexts=contexts), encoding="utf-8"
    )
    return expand(load(folder / "grid.yaml"))


def test_methods_and_tasks_that_take_only_transformers_are_dropped(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    assert [trial.method for trial in plan.trials] == ["none", "rotation"]
    taken = {"retrieval", "sentence_retrieval", "dictionary_retrieval", "xnli"}
    assert all(set(trial.evaluations) == taken for trial in plan.trials)
    assert any("finetune does not take static encoders" in line for line in plan.merged)


def test_the_encoder_and_the_dictionary_read_the_text_of_both_languages(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    stages = plan.stages.items()
    text = {f"text/{s.params['lang']}": key for key, s in stages if s.kind == "text"}
    assert set(text) == {"text/de", "text/en"}
    readers = [s for _, s in stages if s.kind == "encoder" or s.maker == "dictionary_retrieval"]
    assert len(readers) == 3
    assert all(text.items() <= stage.inputs.items() for stage in readers)
    alone = plan_of(tmp_path, contexts="isolated").stages.values()
    assert not any(set(text) & set(s.inputs) for s in alone if s.maker == "dictionary_retrieval")


def test_what_is_idle_changes_no_key_and_a_seed_every_one(tmp_path: Path) -> None:
    keys = [
        [trial.key for trial in plan_of(tmp_path, encoder).trials]
        for encoder in ("seed: 0", "x_max: 3", "seed: 1")
    ]
    assert keys[0] == keys[1]
    assert not set(keys[0]) & set(keys[2])


@pytest.mark.slow
def test_a_grid_runs_on_static_vectors_and_rotation_brings_them_together(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    root = tmp_path / "storage"
    workshop = Workshop(plan, Storage(str(root)), Runtime())
    for trial in plan.trials:
        run_trial(workshop, trial.key)
    found = {
        (row["method"], row["task"], row["metric"], row["split"]): row["value"]
        for row in rows(plan, workshop.ledger)
    }
    for *what, more in (
        ("sentence_retrieval", "accuracy", "test", 0.2),
        ("retrieval", "contextual_accuracy_all", "dev", 0.0),
        ("dictionary_retrieval", "mrr", "test", 0.0),
    ):
        assert found["rotation", *what] > found["none", *what] + more
    # By chance .33; the pivot's words are the same in both trials.
    assert found["none", "xnli", "accuracy", "test"] > 0.4
    aligned = workshop.aligned(plan.trials[1].aligned)
    aligned.export(tmp_path / "out")
    again, words = AlignedEncoder.from_export(tmp_path / "out"), [["Ich", "bin", "hier"]]
    vectors = aligned.words(words, "de").vectors_NLH
    assert again.words(words, "de").vectors_NLH.equal(vectors)
