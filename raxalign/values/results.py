"""Plan and ledger -> rows, one per value, as `results --format json` prints them; and what a search
may see of a trial: its scores on development sets; and what is remarked on the records.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from raxalign.analysis.cells import MEANS, Cell
from raxalign.caveats import Caveats
from raxalign.corpora.text.words import ESCAPED
from raxalign.errors import DamagedArtifact, RaxalignError
from raxalign.grid.metrics import Added
from raxalign.grid.plan import Plan
from raxalign.grid.trial import Trial
from raxalign.languages import labels_with, remark
from raxalign.measured import FEW, Measured, spoken
from raxalign.store.ledger import Ledger
from raxalign.tasks.base import Score, means

FLOOR = 0.02
"""A task in which no method reaches this share is near the floor."""

HARDLY = "hardly trained"
"""How the remark on trainings begins that ended too early."""

_SHOWN = 3  # trials that a remark names
_TRAINING = ("loss_not_lowered", "loss_still_falling", "cut_batches")
_SAID = ("not_as_trained", "thin_support", "partial")  # what speaks for itself
_OF_LINES = {
    "left_out": "a blank side and are left out",
    "escaped": f"{ESCAPED}, which are read as they stand",
}
_COUNTED = "counted"  # of what is kept of a record: what its notes count
_READ = ("unknown", "unknown_in_training", *_OF_LINES, *_TRAINING, *_SAID)


def remarked(record: Mapping[str, Any], metric: str | None) -> dict[str, Any]:
    """Return the small part of a record that `remarks` reads, for a grid whose records are not all
    in memory at once. `metric` is the main one of its task.
    """
    notes, scores = record.get("notes", {}), record.get("scores", ())
    test = [score for score in scores if score["split"] == "test"]
    main = [score for score in test if metric is not None and score["metric"] == metric]
    kept = {name: notes[name] for name in _READ if name in notes}
    kept |= {_COUNTED: counted} if (counted := Caveats.counted("", notes)) else {}
    return {"notes": kept, "scores": main}


def remarks(plan: Plan, records: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the remarks on the evaluations of a plan that have a record, each once: unknown
    pieces, trainings whose loss did not fall, or still fell at their end, or whose memory ran out,
    values near the floor, pieces other than the tokenizer's own, thin support, held-out lines that
    were left out, outdated readouts that were kept, joint trainings, and unknown
    languages.
    """
    there = [
        (trial, task, records[key].get("notes", {}))
        for trial in plan.trials
        for task, key in trial.evaluations.items()
        if key in records
    ]
    unknown: dict[tuple[str, str, str], dict[str, None]] = {}
    for trial, task, notes in there:
        trained = notes.get("unknown_in_training", {})
        readers = {task: notes.get("unknown", {})}
        runs = ((_of_task(name, plan, task), rates) for name, rates in trained.items())
        readers |= {f"the training run of {name}": rates for name, rates in runs}
        for reader, rates in readers.items():
            for lang, share in rates.items():
                if share > Caveats.UNKNOWN:
                    unknown.setdefault((trial.encoder, lang, f"{share:.1%}"), {})[reader] = None
    found = [
        f"{share} of the subword tokens of {lang} in {', '.join(readers)} are unknown to the"
        f" tokenizer of {encoder} ([UNK])"
        for (encoder, lang, share), readers in unknown.items()
    ]
    found += [*_trainings(plan, there), *_floors(plan, records)]
    found += dict.fromkeys(
        _of_task(said, plan, task) for _, task, notes in there for said in _said(task, notes)
    )
    found += Trial.kept_readouts(((trial, task) for trial, task, _ in there))
    found += Trial.joint_trainings((trial for trial, _, _ in there))
    return [*found, *filter(None, map(remark, plan.languages))]


def _trainings(plan: Plan, there: Iterable[tuple[Trial, str, Mapping[str, Any]]]) -> Iterator[str]:
    """Yield the remarks on training runs, each with the trials that it is about."""
    found: dict[str, dict[str, dict[str, None]]] = {kind: {} for kind in _TRAINING}
    for trial, task, notes in there:
        shown = plan.trial_name(trial) if notes.keys() & found.keys() else ""
        for kind in _TRAINING:
            for name in notes.get(kind, ()):
                told = shown
                if kind != "cut_batches":
                    start, end, *late = notes[kind][name]
                    told += f": {start:.4g} to {end:.4g}"
                    told += "".join(
                        f", {part / (start - end):.0%} of it late" for part in late if start != end
                    )
                found[kind].setdefault(_of_task(name, plan, task), {})[told] = None
    flat, falling, cut = found.values()
    for name, runs in flat.items():
        yield f"the loss of the training run {name} did not fall ({_first(runs)})"
    for name, runs in falling.items():
        yield (
            f"{HARDLY}: the loss of the training run {name} still fell in its last fifth"
            f" ({_first(runs)}); train it longer, or at a larger `learning_rate`"
        )
    for name, runs in cut.items():
        yield (
            f"memory ran out in the training run {name} ({_first(runs)}), so that dropout drew"
            " other masks than where whole batches fit"
        )


def _floors(plan: Plan, records: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield a remark per task in which no method leaves the floor in some languages: shares of
    which more is better, without a level of guessing of their own.
    """
    best: dict[str, dict[str, float]] = {}
    there: dict[str, set[str]] = {}
    for trial in plan.trials:
        for task, key in trial.evaluations.items():
            main = plan.main_metric(task)
            for score in records.get(key, {}).get("scores", ()):
                if score["split"] == "test" and score.get("metric") == main:
                    values = best.setdefault(task, {})
                    values[score["lang"]] = max(score["value"], values.get(score["lang"], 0.0))
                    there.setdefault(task, set()).add(trial.method)
    for task, values in best.items():
        low = near_floor(plan, task, plan.main_metric(task) or "", values)
        if low and len(there[task]) > 1:
            yield (
                f"near the floor: no method reaches {FLOOR:.0%} in {task} ({', '.join(low)}), so"
                " that differences there say little; more `sentences`, longer training runs or a"
                " stronger encoder leave it"
            )


def near_floor(plan: Plan, task: str, metric: str, best: Mapping[str, float]) -> list[str]:
    """Return the languages whose best value of a metric is below `FLOOR`: of shares of which more
    is better, without a level of guessing.
    """
    measured = plan.measured(task, metric)
    higher = (measured.unit, measured.better, measured.limits[0]) == ("share", "higher", 0)
    low = [lang for lang, value in best.items() if value < FLOOR]
    return plan.ordered(low) if higher and plan.guessing(task) is None else []


def _said(task: str, notes: Mapping[str, Any]) -> Iterator[str]:
    """Yield what notes say for themselves, what they count that the values of a task do not show,
    and a sentence per held-out part of a language that is not evaluated as a whole.
    """
    for kind in _SAID:
        parts: dict[tuple[str, str], list[str]] = {}
        for name, said in notes.get(kind, {}).items():
            maker, _, part = name.partition(" ") if kind == "thin_support" else (name, "", "")
            parts.setdefault((maker, said), []).extend([part] if part else [])
        for (maker, said), own in parts.items():
            yield f"{maker}{' ' if own else ''}{', '.join(own)}: {said}"
    for what, counts in (notes.get(_COUNTED) or Caveats.counted("", notes)).items():
        yield f"{task}: {what}: {counts}"
    for kind, told in _OF_LINES.items():
        for lang, parts in notes.get(kind, {}).items():
            for part, (n, of) in parts.items():
                yield f"{n:,} of {of:,} {part} lines of {lang} have {told}"


def _of_task(told: str, plan: Plan, task: str) -> str:
    """Return a remark on a training run of a task, which begins with the task's kind, with the name
    that the grid gives the task in its place.
    """
    kind = plan.evaluated[task].maker if task in plan.evaluated else task
    rest = told.removeprefix(kind)
    return f"{task}{rest}" if told.startswith(kind) and rest[:1] in ("", " ", ":") else told


def _first(runs: Iterable[str]) -> str:
    """Return the first runs, and how many more there are."""
    shown = list(runs)
    more = f", and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
    return f"{'; '.join(shown[:_SHOWN])}{more}"


def rows(plan: Plan, ledger: Ledger) -> list[dict[str, Any]]:
    """Return all values that the ledger has for a plan, in the order of its trials and tasks.

    An evaluation that several trials share appears under each of them. The task's name is the
    plan's: the same evaluation may be called differently by another grid.
    """
    return rows_of(plan, read_records(plan, ledger))


def read_records(plan: Plan, ledger: Ledger) -> dict[str, dict[str, Any]]:
    """Read the records of a plan's evaluations in the ledger, by key, with added metrics."""
    return _read(plan, ledger, ledger.keys())


def batches(
    plan: Plan, ledger: Ledger, size: int = 500
) -> Iterator[tuple[Plan, dict[str, dict[str, Any]]]]:
    """Yield a plan part by part, each with its records as `read_records` returns them, so that the
    records of ten thousand trials need not be in memory at once. A part has `size` trials.
    """
    there = ledger.keys()
    for start in range(0, len(plan.trials), size):
        part = plan.only(iter(plan.trials[start : start + size]))
        yield part, _read(part, ledger, there)


def _read(plan: Plan, ledger: Ledger, there: AbstractSet[str]) -> dict[str, dict[str, Any]]:
    wanted = {key for trial in plan.trials for key in trial.evaluations.values()}
    return with_added(plan, ledger, ledger.read_many(sorted(wanted & there)))


def with_added(
    plan: Plan, ledger: Ledger, records: Mapping[str, dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Return the same records, each with the scores of the metrics that the plan adds to its tasks:
    `added`, task name -> scores.

    Damaged predictions are set aside with a warning that names them, and their records left out:
    the grid makes them again. Raises `RaxalignError` for a metric that cannot be computed.
    """
    tasks: dict[str, dict[str, None]] = {}
    for trial in plan.trials if plan.metrics else ():
        for task, key in trial.evaluations.items():
            if key in records and plan.added(task):
                tasks.setdefault(key, {})[task] = None
    found = dict(records)
    for key, names in tasks.items():
        record = records[key]
        try:
            predictions = ledger.predictions(key)
        except DamagedArtifact as error:
            warnings.warn(str(error), stacklevel=2)
            del found[key]
            continue
        if predictions is None:
            raise RaxalignError(
                f"tasks.{next(iter(names))}.metrics: the task keeps no predictions to compute"
                " metrics from"
            )
        added = {
            task: Added.scores(plan.added(task), predictions, record["scores"], plan.home_of(task))
            for task in names
        }
        found[key] = {**record, "added": added}
    return found


def rows_of(plan: Plan, records: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of the records of a plan, as `rows` does. `outdated` says why the readouts
    under a value are those from before the task's training; it is empty elsewhere. `joint` is the
    schedule of a training that the task has together with the method, where it has.
    """
    return [
        {**row, "outdated": trial.outdated_in(row["task"], row["lang"], plan.home_of(row["task"]))}
        for trial in plan.trials
        for row in trial_rows(trial, records, plan.pivot)
    ]


def trial_rows(
    trial: Trial, records: Mapping[str, Mapping[str, Any]], pivot: str
) -> Iterator[dict[str, Any]]:
    """Yield the rows of one trial, from those of its evaluations that have a record.

    A trial that a search suggested has no test values: it is not chosen by them, and they are not
    results. The trials that confirm it have them.
    """
    searched = trial.searched
    hidden = searched is not None and not searched.confirmed
    mark = {} if searched is None else {"searched": Cell.SUGGESTED if hidden else Cell.CONFIRMED}
    params, languages = dict(trial.params), list(trial.languages)  # all rows share them
    for task, key in trial.evaluations.items():
        record = records.get(key)
        added = record.get("added", {}).get(task, ()) if record else ()
        scores, unseen = _of_trial(trial, record, added, pivot) if record else ((), ())
        for score in scores:
            if hidden and score["split"] != "dev":
                continue
            yield {
                "trial": trial.key,
                "method": trial.method,
                "params": params,
                "encoder": trial.encoder,
                "languages": languages,
                "sentences": trial.sentences,
                "seed": trial.seed,
                "task": task,
                "task_params": record.get("params", {}) if record else {},
                "lang": score["lang"],
                "metric": score["metric"],
                "split": score["split"],
                "value": score["value"],
                "evaluation": key,
                **({"unseen": True} if score["lang"] in unseen else {}),
                **({"joint": trial.joint[task]} if task in trial.joint else {}),
                **mark,
            }


def _of_trial(
    trial: Trial, record: Mapping[str, Any], added: Sequence[Mapping[str, Any]], pivot: str
) -> tuple[Sequence[Mapping[str, Any]], Collection[str]]:
    """Return the scores of an evaluation as a trial has them, and which of their languages the
    trial has not aligned: trials that align others may share an evaluation, and then have means of
    their own.
    """
    scores, stored = (*record["scores"], *added), record.get("unseen", ())
    languages, own = record.get("languages", ()), record.get("params", {}).get("train_on", pivot)
    outside = [lang for lang in languages if lang not in (*trial.languages, pivot, own)]
    if not outside:
        return scores, stored
    labels = labels_with(outside, (*languages, pivot))
    unseen = [lang for lang in dict.fromkeys(s["lang"] for s in scores) if lang in labels]
    if {*unseen} == {*stored}:
        return scores, stored
    single = [score for score in scores if score["lang"] not in MEANS]
    averaged = {score["metric"] for score in scores if score["lang"] in MEANS}
    home = next((s["lang"] for s in single if s["lang"] in (f"{own}-{own}", own)), None)
    made = means([Score(**score) for score in single], None, home, averaged, unseen)
    return (*single, *map(vars, made)), unseen


def metric_name(task: str, lang: str, metric: str, split: str) -> str:
    """Write ``task/lang/metric``; dev values are marked, not to be mistaken for test results."""
    return f"{task}/{lang}/{metric}" if split == "test" else f"{task}/{lang}/{split}_{metric}"


def dev_scores(plan: Plan, ledger: Ledger, trial: Trial) -> dict[str, float]:
    """Return the scores of a trial on development sets, by ``task/lang/metric``."""
    there = [key for key in trial.evaluations.values() if ledger.has(key)]
    records = with_added(plan, ledger, ledger.read_many(there))
    return {
        f"{row['task']}/{row['lang']}/{row['metric']}": float(row["value"])
        for row in trial_rows(trial, records, plan.pivot)
        if row["split"] == "dev"
    }


@dataclass(frozen=True)
class DevMean:
    """A trial's mean over languages on dev: of what it is, its value, and its declaration."""

    name: str
    value: float
    measured: Measured

    @classmethod
    def of(
        cls, plan: Plan, trial: Trial, records: Mapping[str, Mapping[str, Any]]
    ) -> Iterator[DevMean]:
        """Yield a trial's means over aligned languages on dev: of each task that has one over
        enough pairs, by the task's main metric where that has them. `records` are those of its
        evaluations, by key.
        """
        rows = [row for row in trial_rows(trial, records, plan.pivot) if row["split"] == "dev"]
        for task in trial.evaluations:
            values: dict[str, dict[str, float]] = {}
            for row in rows:
                if row["task"] == task and row["lang"] not in MEANS and not row.get("unseen"):
                    values.setdefault(row["metric"], {})[row["lang"]] = float(row["value"])
            shown = [name for name in values if plan.measured(task, name).role == "score"]
            if (main := plan.main_metric(task)) in shown:
                shown = [main, *shown]
            for metric in shown:
                counts = values.get(plan.count_of(task, metric), {})
                if not counts or max(counts.values()) >= FEW:
                    found = values[metric].values()
                    mean = math.fsum(found) / len(found)
                    yield cls(f"{task} {spoken(metric)}", mean, plan.measured(task, metric))
                    break


_FORMULA = re.compile(r"=(?s:.)|[@\t\r\n]|[+-](?![\d.]+(?:[eE][+-]?\d+)?$)")


def csv_parts(rows: Iterable[Mapping[str, Any]], fields: Sequence[str]) -> Iterator[str]:
    """Yield CSV row by row, its header first; mappings and lists as JSON, absent values empty. Text
    that a spreadsheet would compute as a formula begins with an apostrophe.
    """
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(fields)
    for row in rows:
        yield text.getvalue()
        text.seek(0)
        text.truncate()
        writer.writerow(_cell(row.get(name)) for name in fields)
    yield text.getvalue()


def _cell(value: object) -> object:
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value
