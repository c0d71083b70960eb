"""The grids that are shipped: they plan as they stand, and small copies of them run on the phrasebook, without Ray."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from raxalign.config.grid import load
from raxalign.corpora.base import CorpusInputs
from raxalign.corpora.phrasebook import Phrasebook
from raxalign.plan.expand import expand
from raxalign.plan.results import rows
from raxalign.stages import Workshop, run_trial
from raxalign.store.artifacts import ArtifactStore
from raxalign.store.ledger import Ledger
from raxalign.train.runtime import Runtime

GRIDS = Path(__file__).parents[1] / "grids"
# languages, sizes of the training sets, seeds: as the papers have them
PAPERS = {
    "cao2020": ("bg de el es fr", (10_000, 50_000, 250_000), 5),
    "cao2020-more-languages": ("bg de el es fr ar zh ur", (20_000,), 5),
    "kulshreshtha2020": ("de nl es hy hi tr th it", (30_000,), 5),
    "pan2021": ("fr es de bg ar zh hi", (250_000, 600_000, 2_000_000), 3),
    "liu2020": ("de es ar el fr hi ru th tr vi zh ur sw", (10_000,), 5),
    "liu2020-static": ("de es ar bg el fr hi ru sw th tr ur vi zh", (1_000_000,), 1),
    "weam2021": ("es de zh", (1_900_000,), 5),
}
SMALL_BERT = {"kind": "scratch", "layers": 2, "hidden_size": 16, "heads": 2, "intermediate": 32, "vocab_size": 300, "steps": 5, "batch_size": 8}
SMALL_STATIC = {"dimension": 8, "min_count": 1, "epochs": 1}
METHOD = {"batch_size": 16, "epochs": 1, "queue_size": 16, "learning_rate": 1e-3}
TASK = {"epochs": 1, "batch_size": 16, "unseen_in": 40, "warmup": 0.1}


@pytest.mark.parametrize("path", sorted(GRIDS.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_shipped_grid_plans(path: Path) -> None:
    plan = expand(load(path), allow_missing=True)
    assert {trial.method for trial in plan.trials} == {spec.name for spec in load(path).methods}
    assert all(trial.evaluations for trial in plan.trials)


@pytest.mark.parametrize("name", PAPERS)
def test_a_paper_s_grid_has_its_languages_sizes_and_seeds(name: str) -> None:
    grid = load(GRIDS / f"{name}.yaml")
    assert (" ".join(grid.languages), grid.sentences, len(grid.seeds)) == PAPERS[name]


def test_every_method_is_in_a_shipped_grid() -> None:
    from raxalign.catalog import catalog

    used = {spec.kind for path in GRIDS.glob("*.yaml") for spec in load(path).methods}
    assert used >= set(catalog("methods")) - {"code_switching"}, "code-switching needs a dictionary of one's own"


@pytest.mark.slow
@pytest.mark.parametrize("name", PAPERS)
def test_a_small_copy_runs_every_method_and_task(name: str, tmp_path: Path) -> None:
    grid = load(small_copy(GRIDS / f"{name}.yaml", tmp_path))
    plan, root = expand(grid), str(tmp_path / "storage")
    workshop = Workshop(plan, ArtifactStore(root), Ledger(root), Runtime(), tmp_path / "storage")
    first = {(trial.method, trial.encoder): trial for trial in reversed(plan.trials)}
    for trial in first.values():
        run_trial(workshop, trial.key)
    found = rows(plan, workshop.ledger)
    assert {row["method"] for row in found} == {spec.name for spec in grid.methods}
    assert {row["task"] for row in found} == {spec.name for spec in grid.tasks}


def small_copy(path: Path, folder: Path) -> Path:
    """The grid with two languages of the phrasebook, a tiny encoder, little text and one epoch of everything; the rest as it is."""
    data = YAML(typ="safe").load(path)
    (how,) = data["languages"]
    encoders = data["encoder"] if isinstance(data["encoder"], list) else [data["encoder"]]
    data |= {
        "encoder": [_small_encoder(encoder) for encoder in encoders],
        "languages": {how: ["de", "el"]},
        "corpus": {"source": "phrasebook", "size": 120, "split": {"test": 15, "dev": 15}},
        "sentences": 40,
        "seeds": [0],
        "methods": {name: _small_method(params or {}) for name, params in data["methods"].items()},
        "tasks": {name: _small_task(name, params or {}) for name, params in data["tasks"].items()},
    }
    kept = {key: value for key, value in data.items() if key not in ("text", "exclude", "run", "published")}
    kept["encoder"] = list({str(encoder): encoder for encoder in kept["encoder"]}.values())
    for lang in ("de", "el"):
        _write_dictionary(folder / f"{lang}-en.txt", lang)
    text = io.StringIO()
    YAML().dump(kept, text)
    small = folder / path.name
    small.write_text(text.getvalue(), encoding="utf-8")
    return small


def _small_encoder(encoder: Any) -> dict[str, Any]:
    if isinstance(encoder, str) or encoder["kind"] == "scratch":
        return SMALL_BERT
    units = {"units": encoder.get("units", "words"), **({"vocab_size": 300} if encoder.get("units") == "pieces" else {})}
    return {"kind": "static", "algorithm": encoder["algorithm"], **SMALL_STATIC, **units}


def _small_method(params: dict[str, Any]) -> dict[str, Any]:
    small = {name: METHOD.get(name, value) for name, value in params.items()}
    trains = "profile" in params or "epochs" in params
    small |= {"batch_size": 16} if trains else {}
    small |= {"queue_size": 16, "min_pieces": 1} if "profile" in params and "direction" not in params and "lambda" not in params else {}
    small |= {"layers": "1-2" if "-" in str(params["layers"]) else 1} if "layers" in params else {}
    small |= {"dictionary": "{lang}-{pivot}.txt"} if "dictionary" in params else {}
    return {name: value[:2] if isinstance(value, list) else value for name, value in small.items()}


def _small_task(name: str, params: dict[str, Any]) -> dict[str, Any]:
    kind = params.get("kind", name)
    small = {key: TASK.get(key, value) for key, value in params.items() if key not in ("languages", "max_length", "data")}
    small |= {"layers": "1-2", "alpha": [1.0]} if kind == "token_translation" else {}
    small |= {"dictionary": "{lang}-{pivot}.txt"} if "dictionary" in params else {}
    if "data" in params:
        small |= {"data": "phrasebook", "phrasebook": {"train": 48, "dev": 16, "test": 16}, "epochs": 1, "batch_size": 16}
    small |= {"hidden": 8} if kind in ("ner", "slots") else {}
    return small


def _write_dictionary(path: Path, lang: str) -> None:
    pairs = Phrasebook(Phrasebook.Params(size=60)).read(lang, "en", CorpusInputs({}, path.parent))
    entries = {(p.source_words[i], p.target_words[k]) for p in pairs for i, k in p.links or ()}
    path.write_text("".join(f"{a} {b}\n" for a, b in sorted(entries) if " " not in a + b), encoding="utf-8")
