"""Searches without Ray: a planted task whose dev values have a known optimum, and whose test values
contradict them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from raxalign.grid.load import Opened, open_grid
from raxalign.grid.plan import Plan
from raxalign.grid.study import StudyRecord
from raxalign.grid.trial import Trial
from raxalign.search.source import SearchSource
from raxalign.search.watch import StudyWatch, Watched
from raxalign.store.lease import Held, Locks
from raxalign.store.ledger import Ledger
from raxalign.store.storage import Storage
from raxalign.train.runtime import Moment
from tests.grids import write_grid

SPACES = "lambda: {log_uniform: [0.01, 10]}, layers: {choice: [last, 1]}"
METRIC = "xnli/avg_zero_shot/accuracy"
TWO = (f"finetune: {{{SPACES}, batch_size: 16}}", f"slow: {{kind: finetune, {SPACES}}}")


def search_grid(folder: Path, search: str, *, spaces: str = SPACES, **parts: object) -> Path:
    """Write a grid whose only method is a searched `finetune`, unless `parts` name others."""
    options: dict[str, object] = {
        "languages": "{each: [de]}",
        "sentences": "[100]",
        "methods": (f"finetune: {{{spaces}, batch_size: 16}}",),
        "tasks": ("xnli: {setting: zero-shot, data: phrasebook}",),
        "more": f"search: {{metric: {METRIC}, {search}}}\n",
    }
    return write_grid(folder, **{**options, **parts})  # type: ignore[arg-type]


def planted(trial: Trial) -> tuple[float, float]:
    """The dev and test values of a trial: dev is best at λ = 1 on the last layer, test is worst
    there.
    """
    dev = 0.8 - 0.1 * abs(math.log10(float(trial.params["lambda"])))
    dev -= 0.05 * (str(trial.params["layers"]) != "last")
    return round(dev, 6), round(1.0 - dev, 6)


def measure(ledger: Ledger, plan: Plan, trial: Trial) -> None:
    """Write what a trial leaves in the ledger."""
    dev, test = planted(trial)
    for task, key in trial.evaluations.items():
        stage, langs = plan.stages[key], (*trial.languages, "avg", "avg_zero_shot")
        values = {(lang, "dev"): dev for lang in langs} | {(lang, "test"): test for lang in langs}
        values |= {("en", "dev"): 0.5, ("en", "test"): 0.5}
        scores = [
            {"lang": lang, "metric": "accuracy", "split": split, "value": value}
            for (lang, split), value in values.items()
        ]
        record = {"task": task, "kind": stage.maker, "params": stage.params["task"]}
        record |= {"aligned": stage.inputs["aligned"], "encoder": trial.encoder}
        record |= {"languages": list(trial.languages), "seed": trial.seed, "scores": scores}
        record |= {"notes": {}, "seconds": 10.0, "device": "cpu", "threads": 1}
        if not ledger.has(key):
            ledger.write(key, {**record, "versions": {}, "created": 0.0}, None)


def finished(folder: Path, search: str, **parts: object) -> Opened:
    """A grid with its storage next to it, whose search has run to its end."""
    opened = open_search(search_grid(folder, search, **parts))
    run(source_of(opened))
    return opened


def record_of(opened: Opened) -> StudyRecord:
    """The record of the only study of a grid."""
    (study,) = opened.plan.studies
    return study.record(opened.storage)


SELECTIONS = 9
"""Dev selections of a planted training, one every ten steps."""


def train(root: str, plan: Plan, trial: Trial) -> bool:
    """Do what the training of a watched trial does: measure its dev value, which grows towards the
    planted one, at each selection. Returns whether it came to its end.
    """
    watched = Watched.of(plan, trial.key)
    if watched is None:
        return True
    watch, value = StudyWatch(watched, Storage(root)), planted(trial)[0]
    for number in range(1, SELECTIONS + 1):
        scores = dict.fromkeys(watch.languages, value * (1 - 0.5**number))
        if watch.ends(scores, Moment(10 * number, 10 * SELECTIONS)):
            return False
    return True


def source_of(opened: Opened) -> SearchSource:
    """A driver of all studies of a grid."""
    owner = Locks.own_name("searching")
    Held(opened.storage.files, owner).take()
    return SearchSource(opened, owner, opened.plan.studies)


def leave(source: SearchSource) -> None:
    """Remove the lock of a driver, which shows that it lives."""
    source.opened.storage.files.remove(f"locks/{source.owner}")


def run(source: SearchSource, *, idle: int = 1, most: int = 1000) -> list[str]:
    """Answer a source as a sweep would, until it is exhausted or `most` trials have run, at
    which the driver dies without a word to its study; returns the keys of the trials, in order.
    """
    ledger = source.opened.storage.ledger
    ended: dict[str, str | None] = {}
    ran: list[str] = []
    silent = 0
    while len(ran) < most:
        plan = source.more(ended, idle)
        ended = {}
        silent = silent + 1 if plan is None else 0
        if source.exhausted and plan is None:
            return ran
        assert silent < 50, "the source waits for something that nobody does"
        for trial in plan.trials if plan is not None else ():
            assert plan is not None
            if train(source.opened.root, plan, trial):
                measure(ledger, plan, trial)
            ended[trial.key] = None
            ran.append(trial.key)
    leave(source)
    return ran


def run_both(drivers: Sequence[SearchSource]) -> list[str]:
    """Answer several drivers, all asked before any trial ends, until all are exhausted; returns the
    keys of the trials.
    """
    ended: list[dict[str, str | None]] = [{} for _ in drivers]
    ran: list[str] = []
    while not all(driver.exhausted for driver in drivers):
        plans = [driver.more(done, 1) for driver, done in zip(drivers, ended, strict=True)]
        ended = [{trial.key: None for trial in plan.trials} if plan else {} for plan in plans]
        for driver, plan in zip(drivers, plans, strict=True):
            for trial in plan.trials if plan is not None else ():
                measure(driver.opened.storage.ledger, plan, trial)
                ran.append(trial.key)
    return ran


def open_search(path: Path) -> Opened:
    """Open a grid with its storage next to it."""
    return open_grid(path, storage=str(path.parent / "storage"))
