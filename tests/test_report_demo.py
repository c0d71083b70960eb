"""`make report-demo` in small: the same grid file with fewer points, steps and sizes, from nothing
to the page, in one process.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from raxalign.grid.expansion.expand import expand
from raxalign.grid.file import load
from raxalign.grid.plan import Plan
from raxalign.grid.published import Publication
from raxalign.grid.trial import Trial
from raxalign.report.compose import ReportOptions, write_report
from raxalign.stages import Workshop
from raxalign.store.storage import Storage
from raxalign.train.runtime import Runtime
from raxalign.values.results import rows
from tests.every import EVERY
from tests.report.material import leave_undrawn
from tests.test_paper_grids import is_of, is_task

pytestmark = pytest.mark.slow

GRIDS = Path(__file__).resolve().parents[1] / "grids"
# What stays of the methods' axes, and the tasks that fill no table that another does not
METHODS: dict[str, dict[str, Any]] = {
    "mean_shift": {"alpha": [0, 1.0]},
    "finetune": {"lambda": 1.0},
}
LEFT_OUT = ("ppa_without_tlm", "ppa_with_mlm", "mlqa_translated", "mlqa_switched")
LOOSE = {"encoder": None, "sentences": None, "prefers": {}}
FEW = {"train": 32, "dev": 10, "test": 12}


def test_the_demonstration_fills_a_miniature_of_every_table(tmp_path, monkeypatch):
    """Its figures are drawn under RAXALIGN_TEST_ALL alone: that takes as long as all trials."""
    if not EVERY:
        leave_undrawn(monkeypatch)
    smaller(tmp_path / "grid.yaml")
    grid = load(tmp_path / "grid.yaml")
    plan, root = expand(grid), str(tmp_path / "storage")
    plan = plan if EVERY else of_figures(plan, grid.published)
    workshop = Workshop(plan, Storage(root), Runtime())
    for trial in plan.trials:
        workshop.run_trial(trial.key)
    found, ledger, out = rows(plan, workshop.ledger), workshop.ledger, tmp_path / "out"
    paths = write_report(
        found, plan, out, ledger=ledger, asked=ReportOptions(published=grid.published)
    )
    assert all(path.is_file() for path in paths)
    measured = measured_rows(out / "published.csv")
    every = {(name, label) for name in grid.published for label in tables_of(name)}
    # sizes of vocabularies are counted over XNLI's sentences, which have to be fetched
    assert set(measured) == every - {("liu2020", "token_sets")}
    assert measured["cao2020", "retrieval"] == set(
        Publication.read("cao2020").tables["retrieval"].rows
    )
    assert measured["kulshreshtha2020", "transfer"] == {
        row
        for row, data in Publication.read("kulshreshtha2020").tables["transfer"].rows.items()
        if data.match
    }
    layers = {f"finetune-{name}" for name in ("all-layers", "last-6-layers", "last-6-layers/mds")}
    assert measured["liu2020", "xnli_mds"] == {*layers, "shifting-weight"}
    # one size fills the one row whose size is nearest by ratio; 60 is nearest to 250,000
    assert measured["pan2021", "parallel_data"] == {"ppa/250k"}
    for paper in ("pan2021", "weam2021"):
        assert "zero-shot/finetune-cao-2020" in measured[paper, "xnli"]
    ablations = {f"translate-train/{name}/250k" for name in ("ppa", "ppa-without-code-switching")}
    assert ablations <= measured["pan2021", "xnli_ablation"]


def smaller(path: Path) -> None:
    """Write a copy of the demonstration that runs in seconds."""
    yaml = YAML(typ="safe", pure=True)
    grid = yaml.load((GRIDS / "report-demo.yaml").read_text(encoding="utf-8"))
    bert, fasttext = grid["encoder"]
    bert |= {"hidden_size": 16, "heads": 2, "intermediate": 32, "vocab_size": 500, "steps": 20}
    fasttext |= {"dimension": 8, "epochs": 1, "buckets": 1000}
    grid["corpus"] |= {"size": 220, "split": {"test": 40, "dev": 40}}
    grid["text"] |= {"size": 300}
    grid |= {"languages": {"together": ["de", "es"]}, "sentences": 60, "seeds": [0]}
    grid["exclude"] = [entry for entry in grid["exclude"] if "encoder" in entry]
    for name in LEFT_OUT:
        del grid["methods" if name in grid["methods"] else "tasks"][name]
    for name, changes in METHODS.items():
        grid["methods"][name] |= changes
    dictionary = str(GRIDS / "phrasebook" / "{lang}-{pivot}.txt")
    grid["methods"]["rotation_dictionary"]["dictionary"] = dictionary
    for task in grid["tasks"].values():
        task |= {"phrasebook": FEW, "epochs": 1} if "phrasebook" in task else {}
    few = {"languages": ["de"], "layers": "last", "max_sentences": 10}
    grid["tasks"]["token_translation"] |= few
    grid["tasks"]["representation"]["projection"] = "pca"
    for name in ("conll", "facebook"):
        grid["tasks"][name] |= {"hidden": 8, "batch_size": 32}
    yaml.dump(grid, path)


def how(expected: Mapping[str, Any]) -> dict[str, Any]:
    """How a task is trained, of what a rule expects."""
    return {n: v for n, v in expected.items() if n in ("setting", "code_switching")}


def of_figures(plan: Plan, published: Sequence[str]) -> Plan:
    """The plan with the evaluations of `none` and those that a rule of some figure may mean."""
    rules = [
        rule.model_copy(update={**LOOSE, "expects": how(rule.expects)})
        for name in published
        for table in Publication.read(name).tables.values()
        for row, column in product(table.rows, table.columns)
        if column not in table.means and (rule := table.rule(row, column))
    ]

    def meant(trial: Trial) -> dict[str, str]:
        return {
            task: key
            for task, key in trial.evaluations.items()
            if trial.kind == "none"
            or any(is_of(trial, rule) and is_task(plan, trial, task, rule) for rule in rules)
        }

    return replace(plan, trials=tuple(replace(t, evaluations=meant(t)) for t in plan.trials))


def measured_rows(path: Path) -> dict[tuple[str, str], set[str]]:
    """(paper, table) -> its rows with a measured cell."""
    found = defaultdict(set)
    with path.open(encoding="utf-8") as file:
        for record in csv.DictReader(file):
            if record["measured"]:
                found[record["publication"], record["table"]].add(record["row"])
    return found


def tables_of(name: str) -> list[str]:
    """The tables that anything can measure: a task or an analysis."""
    tables = Publication.read(name).tables
    return [
        label
        for label, table in tables.items()
        if table.analysis or (table.match and any(row.match for row in table.rows.values()))
    ]
