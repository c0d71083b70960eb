"""The grids that are shipped: they plan as they stand, and small copies of them run on the
phrasebook, without Ray.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from raxalign.config.grid import load
from raxalign.config.published import Rule, read
from raxalign.corpora.base import CorpusInputs
from raxalign.corpora.phrasebook import Phrasebook
from raxalign.plan.expand import expand
from raxalign.plan.identity import Identity
from raxalign.plan.plan import Plan
from raxalign.plan.results import rows
from raxalign.plan.trial import Trial
from raxalign.stages import Workshop, run_trial
from raxalign.store.artifacts import ArtifactStore
from raxalign.store.ledger import Ledger
from raxalign.train.runtime import Runtime

GRIDS = Path(__file__).parents[1] / "grids"
# evaluations that a grid names although its method changes nothing that the task reads
UNTOUCHED = {
    "liu2020": {
        ("mean_shift", "token_translation")
    },  # α 0 is the baseline of the paper's Table 4, which is of XNLI
    "report-demo": {
        *(
            (method, "token_translation")
            for method in ("rotation", "rotation_dictionary", "sentence_rotation")
        ),
        *(
            ("mean_shift", task)
            for task in (
                "retrieval",
                "retrieval_sentence",
                "representation",
                "token_translation",
                "conll",
                "facebook",
            )
        ),
    },
}
COMMIT = "c" * 40
BERT = {
    "hub:bert-base-multilingual-cased": COMMIT,
    f"depth:bert-base-multilingual-cased@{COMMIT}": "12",
}
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
# the tables that each grid measures, all their rows with a rule
TABLES = [
    ("cao2020", "cao2020", "xnli_methods"),
    ("cao2020", "cao2020", "xnli_data_size"),
    ("cao2020", "cao2020", "retrieval"),
    ("cao2020-more-languages", "cao2020", "xnli_more_languages"),
    ("kulshreshtha2020", "kulshreshtha2020", "transfer"),
    ("liu2020", "liu2020", "token_translation"),
    ("liu2020", "liu2020", "xnli_mds"),
    ("pan2021", "pan2021", "xnli"),
    ("pan2021", "pan2021", "mlqa"),
    ("pan2021", "pan2021", "xnli_ablation"),
    ("weam2021", "weam2021", "mlqa"),
    ("weam2021", "weam2021", "xnli"),
]
SMALL_BERT = {
    "kind": "scratch",
    "layers": 2,
    "hidden_size": 16,
    "heads": 2,
    "intermediate": 32,
    "vocab_size": 300,
    "steps": 5,
    "batch_size": 8,
}
SMALL_STATIC = {"dimension": 8, "min_count": 1, "epochs": 1}
METHOD = {"batch_size": 16, "epochs": 1, "queue_size": 16, "learning_rate": 1e-3}
TASK = {"epochs": 1, "batch_size": 16, "unseen_in": 40, "warmup": 0.1}


@pytest.mark.parametrize("path", sorted(GRIDS.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_shipped_grid_plans(path: Path) -> None:
    plan = expand(load(path), allow_missing=True)
    assert {trial.method for trial in plan.trials} == {spec.name for spec in load(path).methods}
    assert all(trial.evaluations for trial in plan.trials)


@pytest.mark.parametrize("path", sorted(GRIDS.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_shipped_grid_has_no_untouched_evaluation_but_those_named_here(path: Path) -> None:
    plan = expand(load(path), Identity(locked=BERT.get), allow_missing=True)
    assert plan.unknown_depths == ()
    assert {
        (trial.method, task) for trial in plan.trials for task in trial.untouched
    } == UNTOUCHED.get(path.stem, set())
    assert all(
        trial.params["alpha"] == 0
        for trial in plan.trials
        if trial.method == "mean_shift" and trial.untouched
    )


@pytest.mark.parametrize("name", PAPERS)
def test_a_paper_s_grid_has_its_languages_sizes_and_seeds(name: str) -> None:
    grid = load(GRIDS / f"{name}.yaml")
    assert (" ".join(grid.languages), grid.sentences, len(grid.seeds)) == PAPERS[name]


@pytest.mark.parametrize(("name", "paper", "label"), TABLES)
def test_a_paper_s_grid_measures_every_figure_as_published(
    name: str, paper: str, label: str
) -> None:
    plan, table = (
        expand(load(GRIDS / f"{name}.yaml"), allow_missing=True),
        read(paper).tables[label],
    )
    rules = {
        (row, column): rule
        for row, entry in table.rows.items()
        for column, value in zip(table.columns, entry.values, strict=True)
        if not row.endswith("finetune-cao-2020")
        and column not in table.means
        and value is not None
        and (rule := table.rule(row, column))
    }
    assert rules
    assert [place for place, rule in rules.items() if not measured(plan, rule)] == []


def measured(plan: Plan, rule: Rule) -> bool:
    """Whether some trial and task are as a rule says, in what must hold and in what should."""
    return any(
        is_of(trial, rule) and any(is_task(plan, trial, task, rule) for task in trial.evaluations)
        for trial in plan.trials
    )


def is_of(trial: Trial, rule: Rule) -> bool:
    if rule.method is not None and trial.kind not in rule.method:
        return False
    if any(part in trial.encoder for part in rule.not_encoder or ()) or not any(
        part in trial.encoder for part in rule.encoder or ("",)
    ):
        return False
    if not hold(trial.params, rule.params) or any(
        hold(trial.params, {option: value}) for option, value in rule.not_params.items()
    ):
        return False
    return rule.sentences in (None, trial.sentences) and should_hold(trial.params, rule.prefers)


def is_task(plan: Plan, trial: Trial, task: str, rule: Rule) -> bool:
    stage = plan.stages[trial.evaluations[task]]
    params, there = stage.params["task"], {*stage.params["languages"], plan.pivot}
    if (
        stage.maker not in (rule.task or ())
        or task not in (rule.name or (task,))
        or not {*(rule.lang or "").split("-")} <= there
    ):
        return False
    return hold(params, rule.task_params) and should_hold(params, rule.expects)


def hold(params: Any, wanted: Any) -> bool:
    """All options as wanted; one that is not there counts as false."""
    return all(params.get(option, False) == value for option, value in wanted.items())


def should_hold(params: Any, wanted: Any) -> bool:
    """All options as wanted that are there."""
    there = {
        option: "local files" if option == "data" and isinstance(value, dict) else value
        for option, value in params.items()
    }
    return all(there[option] == value for option, value in wanted.items() if option in there)


def test_taggers_learn_at_the_rates_of_kulshreshtha_et_al() -> None:
    grid = load(GRIDS / "kulshreshtha2020.yaml")
    rates = {
        (task.name, lang): task.params.learning_rate
        for task in grid.tasks
        for lang in task.languages or ()
    }
    assert {lang for (_, lang), rate in rates.items() if rate == 1e-4} == {"de", "nl", "es", "it"}
    assert {lang for (_, lang), rate in rates.items() if rate == 1e-5} == {"hy", "hi", "tr", "th"}
    assert len(rates) == 9


def test_post_pretraining_has_ten_epochs_and_on_the_most_pairs_five() -> None:
    trials = expand(load(GRIDS / "pan2021.yaml")).trials
    found = {(trial.sentences, trial.params["epochs"]) for trial in trials if trial.kind == "ppa"}
    assert found == {(250_000, 10), (600_000, 10), (2_000_000, 5)}


def test_every_method_is_in_a_shipped_grid() -> None:
    from raxalign.catalog import catalog

    used = {spec.kind for path in GRIDS.glob("*.yaml") for spec in load(path).methods}
    assert used >= set(catalog("methods")) - {"code_switching"}, (
        "code-switching needs a dictionary of one's own"
    )


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
    """The grid with two languages of the phrasebook, a tiny encoder, little text and one epoch of
    everything; the rest as it is.
    """
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
    kept = {
        key: value
        for key, value in data.items()
        if key not in ("text", "exclude", "run", "published")
    }
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
    units = {
        "units": encoder.get("units", "words"),
        **({"vocab_size": 300} if encoder.get("units") == "pieces" else {}),
    }
    return {"kind": "static", "algorithm": encoder["algorithm"], **SMALL_STATIC, **units}


def _small_method(params: dict[str, Any]) -> dict[str, Any]:
    small = {name: METHOD.get(name, value) for name, value in params.items()}
    trains = "profile" in params or "epochs" in params
    small |= {"batch_size": 16} if trains else {}
    small |= (
        {"queue_size": 16, "min_pieces": 1}
        if "profile" in params and "direction" not in params and "lambda" not in params
        else {}
    )
    small |= {"layers": "1-2" if "-" in str(params["layers"]) else 1} if "layers" in params else {}
    small |= {"dictionary": "{lang}-{pivot}.txt"} if "dictionary" in params else {}
    small |= {"swap": False} if "swap" in params else {}
    return {name: value[:2] if isinstance(value, list) else value for name, value in small.items()}


def _small_task(name: str, params: dict[str, Any]) -> dict[str, Any]:
    kind = params.get("kind", name)
    small = {
        key: TASK.get(key, value)
        for key, value in params.items()
        if key not in ("languages", "max_length", "data")
    }
    small |= {"layers": "1-2", "alpha": [1.0]} if kind == "token_translation" else {}
    small |= {"dictionary": "{lang}-{pivot}.txt"} if "dictionary" in params else {}
    if "data" in params:
        small |= {
            "data": "phrasebook",
            "phrasebook": {"train": 48, "dev": 16, "test": 16},
            "epochs": 1,
            "batch_size": 16,
        }
    small |= {"hidden": 8} if kind in ("ner", "slots") else {}
    return small


def _write_dictionary(path: Path, lang: str) -> None:
    pairs = Phrasebook(Phrasebook.Params(size=60)).read(lang, "en", CorpusInputs({}, path.parent))
    entries = {(p.source_words[i], p.target_words[k]) for p in pairs for i, k in p.links or ()}
    path.write_text(
        "".join(f"{a} {b}\n" for a, b in sorted(entries) if " " not in a + b), encoding="utf-8"
    )
