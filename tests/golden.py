"""Grids that between them have every plug-in once, and the keys of their plans.

``python -m tests.golden > tests/plan/golden_keys.json`` writes the keys anew, after a change that
is meant to change them: raised VERSIONs, or a new plug-in.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from raxalign.grid.expansion.expand import expand
from raxalign.grid.file import load
from raxalign.grid.plan import Plan
from raxalign.store.key import digest
from tests.grids import ENCODER

METHODS = """
  none: {}
  centering: {}
  code_switching: {dictionary: "train.{lang}"}
  distillation: {}
  finetune: {lambda: [0.1, 1.0]}
  iterative_normalization: {}
  linear: {supervision: dictionary, dictionary: "train.{lang}", swap: true}
  lir: {}
  lsar: {}
  mean_shift: {layers: 1}
  mlm: {}
  ppa: {}
  rotation: {center: [false, true], supervision: [parallel, dictionary], dictionary: "train.{lang}"}
  sentence_margin: {}
  sentence_rotation: {}
  strong_contrastive: {}
  tlm: {}
  weak_contrastive: {}
  weam: {}
  znorm: {}
"""
TASKS = """
  dictionary_retrieval: {dictionary: "test.{lang}"}
  mlqa: {data: phrasebook}
  ner: {data: phrasebook}
  pawsx: {data: {train: "rows.{pivot}", dev: "rows.{lang}"}}
  pos: {data: phrasebook}
  representation: {}
  retrieval: {}
  unseen: {kind: retrieval, unseen_in: 300}
  sentence_retrieval: {}
  slots: {data: {train: "rows.{pivot}", dev: "rows.{lang}"}}
  token_translation: {}
  word_alignment: {data: {test: {text: "gold.{lang}", links: "links.{lang}"}}}
  xnli: {setting: zero-shot, data: {train: "rows.{pivot}", dev: "rows.{lang}", test: "rows.{lang}"}}
  together: {kind: xnli, setting: translate-train, data: phrasebook}
"""
PHRASEBOOK = "{source: phrasebook, size: 400, split: {test: 30, dev: 30}}"
SCRATCH = "{kind: scratch, layers: 2, hidden_size: 32, heads: 2, vocab_size: 400}"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def grid(
    languages: str,
    *,
    encoder: str = SCRATCH,
    corpus: str = PHRASEBOOK,
    aligner: str = "{aligner: fast_align}",
    methods: str = "\n  none: {}\n  rotation: {}\n",
    tasks: str = "\n  retrieval: {}\n",
    more: str = "",
) -> str:
    """The text of a grid file with two sizes and two seeds."""
    return (
        f"name: golden\npivot: en\nencoder: {encoder}\nlanguages: {languages}\ncorpus: {corpus}\n"
        f"pairs: {aligner}\nsentences: [100, 200]\nseeds: [0, 1]\n"
        f"methods:{methods}tasks:{tasks}{more}"
    )


# What came later stands in grids of its own, so that the keys of the others can stay as they were.
LATER_METHODS = """
  none: {}
  leace: {}
  sentence_shift: {}
"""
LATER_TASKS = """
  sentence_retrieval: {}
  classification: {preset: sib200, revision: "COMMIT"}
  tagging: {preset: panx, revision: "COMMIT"}
  spans: {data: {train: "rows.{pivot}", dev: "rows.{lang}"}}
  bitext_mining:
    data: {dev: {text: "rows.{side}", gold: gold.de}, test: {text: "rows.{side}", gold: gold.fr}}
  mteb: {tasks: [NTREXBitextMining]}
  belebele: OWN
  massive_slots: OWN
  tydiqa: OWN
"""
OWN = """
    data: {train: "rows.{pivot}", dev: "rows.{lang}"}
    codes: {en: en, de: de, fr: fr}"""
LATER_TASKS = LATER_TASKS.replace("COMMIT", COMMIT).replace(" OWN", OWN)
# The grid of most tests, with more methods and tasks.
SMALL_METHODS = """
  none: {}
  rotation: {center: [false, true]}
  finetune: {lambda: [0.1, 1.0], batch_size: 16}
  strong_contrastive: {}
  mean_shift: {layers: 1}
"""
SMALL_TASKS = """
  retrieval: {}
  sentence_retrieval: {}
  xnli: {data: phrasebook}
  mlqa: {data: phrasebook}
  pos: {data: phrasebook}
"""
EACH, TOGETHER = "{each: [de, fr]}", "{together: [de, fr]}"
GRIDS = {
    "each": grid(EACH, methods=METHODS, tasks=TASKS),
    "together": grid(TOGETHER, methods=METHODS, tasks=TASKS),
    "later, each": grid(EACH, methods=LATER_METHODS, tasks=LATER_TASKS),
    "later, together": grid(TOGETHER, methods=LATER_METHODS, tasks=LATER_TASKS),
    "small": grid(EACH, encoder=ENCODER, methods=SMALL_METHODS, tasks=SMALL_TASKS),
    "refit": grid(EACH, tasks="\n  pos: {data: phrasebook, readout: refit}\n"),
    "static": grid(EACH, encoder="[static, {kind: static, vectors: 'vectors.{lang}'}]"),
    "phrasebook": grid(EACH, encoder="phrasebook"),
    "transformer": grid(
        EACH, encoder=f"[encoder, {{kind: transformer, name: a/b, revision: {COMMIT}}}]"
    ),
    "eflomal": grid(EACH, aligner="{aligner: eflomal, align_on: largest, one_to_one: false}"),
    "thot": grid(EACH, aligner="{aligner: thot}"),
    "simalign": grid(EACH, aligner="{aligner: simalign, encoder: ./encoder, layer: 1}"),
    "awesome_align": grid(EACH, aligner="{aligner: awesome_align, encoder: ./encoder, layer: 1}"),
    "aligner training": grid(EACH, methods="\n  none: {}\n  awesome_align: {}\n"),
    "links": grid(
        EACH,
        aligner="{aligner: links, path: 'links.{lang}'}",
        corpus="{source: moses, path: 'moses.{lang}-{pivot}', pretokenized: true}",
    ),
    "parts": grid(
        EACH, corpus="{source: tsv, path: {train: 'rows.{lang}', test: gold.de}, split: files}"
    ),
    "hub": grid(
        EACH,
        corpus=f"{{source: hub, dataset: a/b, revision: {COMMIT}, overlap: keep}}",
        tasks="\n  retrieval: {}\n  ner: {}\n",
    ),
    "opus": grid(EACH, corpus=f"{{source: opus, corpus: QED, sha256: {COMMIT}, max_words: 64}}"),
    "text": grid(EACH, methods="\n  mlm: {}\n", more="text: {source: phrasebook, size: 300}\n"),
}
FILES = ("train", "test", "rows", "gold", "links", "vectors")


def write_files(folder: Path) -> None:
    """Write the files that the grids name. Only their bytes enter a key."""
    for name in FILES:
        for lang in ("de", "fr", "en"):
            (folder / f"{name}.{lang}").write_text(f"{name} {lang}\n", encoding="utf-8")
    for lang in ("de", "fr"):
        for side in (lang, "en"):
            (folder / f"moses.{lang}-en.{side}").write_text(f"{lang} {side}\n", encoding="utf-8")
    (folder / "encoder").mkdir()
    for name in ("config.json", "vocab.txt", "tokenizer.json", "model.safetensors"):
        (folder / "encoder" / name).write_text('{"num_hidden_layers": 2}', encoding="utf-8")


def plan_of(name: str, folder: Path) -> Plan:
    """The plan of one of the grids, written with its files into an empty folder."""
    write_files(folder)
    (folder / "grid.yaml").write_text(GRIDS[name], encoding="utf-8")
    return expand(load(folder / "grid.yaml"))


def keys_of(plan: Plan) -> dict[str, str]:
    """For each kind of stage, by its maker, for evaluations by the task's name, and for trials by
    their method: the number of keys and the beginning of a digest over all of them.
    """
    keys: dict[str, set[str]] = defaultdict(set)
    for key, stage in plan.stages.items():
        keys[f"{stage.kind} {stage.maker}"].add(key)
    for trial in plan.trials:
        keys[f"trial {trial.method}"].add(trial.key)
        for task, key in trial.evaluations.items():
            keys[f"task {task}"].add(key)
        for task, untouched in trial.untouched.items():
            keys[f"untouched {task}"].add(untouched.instead)
    return {kind: f"{len(some)} {digest(sorted(some))[:16]}" for kind, some in sorted(keys.items())}


def every_key() -> Mapping[str, Mapping[str, str]]:
    """The keys of all grids."""
    found = {}
    for name in GRIDS:
        with tempfile.TemporaryDirectory() as folder:
            found[name] = keys_of(plan_of(name, Path(folder)))
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps(every_key(), indent=1) + "\n")
