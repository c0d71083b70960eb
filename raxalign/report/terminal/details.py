"""Everything that a storage has of one trial, stage or evaluation, as plain data.

The details of one trial, stage or evaluation as text for a terminal.
"""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from raxalign.analysis.cells import cells
from raxalign.errors import DamagedArtifact, StorageError
from raxalign.measured import Measured
from raxalign.plan.estimates.cost import duration, volume
from raxalign.plan.names import plain
from raxalign.plan.trial import Trial
from raxalign.plan.values.predictions import Predictions
from raxalign.plan.values.results import read_records, trial_rows
from raxalign.printing import counted
from raxalign.report.cells.numbers import heading_of, number, unit_of
from raxalign.report.terminal.fit import TextTable, fitted, paragraph
from raxalign.report.terminal.lookup import Match
from raxalign.store.ledger import Ledger
from raxalign.store.manifest import Manifest
from raxalign.store.spool import GPU_HOURS, SYSTEM, Spool
from raxalign.store.storage import Storage

if TYPE_CHECKING:
    from raxalign.plan.plan import Plan
    from raxalign.plan.stage import Stage


_BARS = "▁▂▃▄▅▆▇█"
_POINTS = 40  # of a drawn curve
_HEADED = ("sort", "key", "grid", "state")
_PARTS = ("params", "inputs", "digests", "locations", "files", "made", "notes", "untouched")
_OWN = ("scores", "stages", "predictions", "curves", "evaluations", "trials", "mlflow")
_SOME = 5  # keys of trials that are listed
_KEY = 12  # characters of a key in a table
_LEGEND = (
    "In brackets 95 % intervals over the examples, with this training as it is; over several seeds:"
    " `raxalign results --compare`."
)


def as_text(facts: Mapping[str, Any], width: int | None) -> str:
    """Return the details that `details` collected, with tables as wide as the terminal."""
    kind = f" {facts['kind']}" if facts["sort"] == "stage" else ""
    grid = f" of the grid {facts['grid']}" if facts.get("grid") else ""
    state = f": {facts['state']}" if facts.get("state") else ""
    lines = paragraph(f"{facts['sort']}{kind} {facts['key']}{grid}{state}", width)
    for name, value in facts.items():
        if name in (*_HEADED, *_PARTS, *_OWN) or value is None:
            continue
        lines += paragraph(f"{name}: {_fact(name, value)}", width)
    if facts.get("trials"):
        keys = facts["trials"]
        more = f" and {len(keys) - _SOME} more" if len(keys) > _SOME else ""
        lines.append(f"trials: {', '.join(key[:_KEY] for key in keys[:_SOME])}{more}")
    for name in _PARTS:
        if facts.get(name):
            lines += ["", f"{name}:", *_nested(facts[name], width)]
    for section in (_scores, _stages, _evaluations, _curves, _predictions, _mlflow):
        lines += section(facts, width)
    return "\n".join(lines)


def sparkline(values: Sequence[float]) -> str:
    """Return values as a row of bars, at most 40 of them; each of more values stands for the mean
    of a stretch.

    >>> sparkline([0, 1, 2, 3])
    '▁▃▅█'
    """
    count = min(len(values), _POINTS)
    edges = [round(place * len(values) / count) for place in range(count + 1)] if count else []
    means = [sum(values[start:end]) / (end - start) for start, end in itertools.pairwise(edges)]
    low, high = min(means, default=0.0), max(means, default=0.0)
    span = (high - low) or 1.0
    return "".join(_BARS[int((value - low) / span * (len(_BARS) - 1))] for value in means)


def _fact(name: str, value: Any) -> str:
    if name == "bytes":
        return volume(value)
    if name == "seconds":
        return duration(value)
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return plain(value) if isinstance(value, Mapping) else str(value)


def _nested(value: Any, width: int | None, indent: str = "  ") -> Iterator[str]:
    """Yield nested mappings as indented lines; what else is nested is JSON."""
    for name, part in value.items():
        if isinstance(part, Mapping) and part:
            yield f"{indent}{name}:"
            yield from _nested(part, width, indent + "  ")
        else:
            shown = part if isinstance(part, str) else json.dumps(part, ensure_ascii=False)
            yield f"{indent}{name}: {shown}"


def _scores(facts: Mapping[str, Any], width: int | None) -> list[str]:
    tables: dict[tuple[str, str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for score in facts.get("scores", ()):
        if score.get("role") == "score":
            tables[score["task"], score["metric"], score["split"]].append(score)
    lines = []
    for (task, metric, split), scores in tables.items():
        measured = Measured(metric, "", scores[0]["better"], unit=scores[0]["unit"])
        unit = unit_of(measured, (score["value"] for score in scores))
        for score in scores:
            around = unit.show_interval(score["low"], score["high"])
            over = f"{score['examples']:,}" if score["examples"] else ""
            name = f"{task}: {metric} ({split}){heading_of(measured)}"
            lines.append((name, score["lang"], unit.show(score["value"]), around, over))
    if not lines:
        return []
    table = TextTable(
        ("scores",),
        ("language", "value", "interval", "examples"),
        tuple(lines),
        frozenset({"language"}),
    )
    return ["", *fitted(table, width), *paragraph(_LEGEND, width)]


def _stages(facts: Mapping[str, Any], width: int | None) -> list[str]:
    if not facts.get("stages"):
        return []
    lines = tuple(
        (
            f"{stage['kind']} {stage['maker']}",
            stage["key"][:_KEY],
            stage["state"],
            "" if stage["bytes"] is None else volume(stage["bytes"]),
            "" if stage["seconds"] is None else duration(stage["seconds"]),
        )
        for stage in facts["stages"]
    )
    columns = ("key", "state", "size", "time")
    return ["", *fitted(TextTable(("made from",), columns, lines, frozenset(columns[:2])), width)]


def _evaluations(facts: Mapping[str, Any], width: int | None) -> list[str]:  # noqa: ARG001
    found = facts.get("evaluations")
    return (
        ["", "evaluations:", *(f"  {task}: {key}" for task, key in found.items())] if found else []
    )


def _curves(facts: Mapping[str, Any], width: int | None) -> list[str]:
    lines = []
    for name, points in facts.get("curves", {}).items():
        values = [value for _, value in points]
        shown = (f"{value:.4g}" for value in (values[0], min(values), max(values), values[-1]))
        lines.append((name, *shown, number(points[-1][0], 0), sparkline(values)))
    columns = ("first", "lowest", "highest", "last", "step", "curve")
    table = TextTable(("training",), columns, tuple(lines), frozenset({"curve"}))
    return ["", *fitted(table, width)] if lines else []


def _predictions(facts: Mapping[str, Any], width: int | None) -> list[str]:  # noqa: ARG001
    lines = []
    for task, rows in facts.get("predictions", {}).items():
        lines += ["", f"predictions of {task} (the first of each language and split):"]
        for row in rows:
            values = (
                f"{name}={value if isinstance(value, str) else json.dumps(value, default=str)}"
                for name, value in row.items()
                if value is not None
            )
            lines.append("  " + " ".join(values))
    return lines


def _mlflow(facts: Mapping[str, Any], width: int | None) -> list[str]:  # noqa: ARG001
    run = facts.get("mlflow")
    if not run:
        return []
    return [
        "",
        f"MLflow: run {run['run_id']} ({run['status']}) of experiment {run['experiment_id']} in"
        f" {run['uri']}",
    ]


def details(match: Match, storage: Storage, examples: int = 3) -> dict[str, Any]:
    """Return everything about what a key is of, as JSON can hold it.

    Args:
        match: What the key is of.
        storage: The storage.
        examples: How many predictions of each task, language and split are shown.
    """
    found = _Details(storage, examples)
    if match.plan is None:
        return found.without_plan(match)
    if match.sort == "trial":
        return found.trial(match.plan, match.plan.by_key[match.key])
    if match.sort == "evaluation":
        return found.evaluation(match.plan, match.key)
    return found.stage(match.plan, match.key)


@dataclass(frozen=True)
class _Details:
    storage: Storage
    examples: int

    @property
    def _ledger(self) -> Ledger:
        return self.storage.ledger

    def trial(self, plan: Plan, trial: Trial) -> dict[str, Any]:
        """Return all of a trial, and of the stages behind it in short."""
        wanted = list(trial.evaluations.values())
        records = read_records(plan.only(iter([trial])), self._ledger)
        failure = self._ledger.failure(trial.key)
        done = sum(key in records for key in wanted)
        state = (
            "done"
            if done == len(wanted)
            else f"{done} of {counted(len(wanted), 'evaluation')} done"
        )
        if failure is not None and done < len(wanted):
            state = "failed"
        return {
            "sort": "trial",
            "key": trial.key,
            "grid": plan.name,
            "method": trial.method,
            "kind": trial.kind,
            "params": dict(trial.params),
            "encoder": trial.encoder,
            "languages": list(trial.languages),
            "sentences": trial.sentences,
            "seed": trial.seed,
            "state": state,
            "failure": failure and failure.get("message"),
            "evaluations": dict(trial.evaluations),
            "untouched": {
                task: f"{why.told([trial.method], [task])}" for task, why in trial.untouched.items()
            },
            "stages": self._stages(plan, [*wanted, *plan.aligned(trial)]),
            "scores": self._scores(plan, trial, records),
            "predictions": {
                task: self._sample(key, dev_only=_hidden(trial))
                for task, key in trial.evaluations.items()
                if key in records
            },
            "curves": self._curves(trial),
        }

    def evaluation(self, plan: Plan, key: str) -> dict[str, Any]:
        """Return all of an evaluation, and the trials that share it."""
        stage = plan.stages[key]
        users = [trial for trial in plan.trials if key in trial.evaluations.values()]
        shown = next((trial for trial in users if not _hidden(trial)), users[0])
        record = self._ledger.read_many([key]).get(key)
        own = read_records(plan.only(iter([shown])), self._ledger)
        scores = self._scores(plan, shown, {k: found for k, found in own.items() if k == key})
        facts = self._of_stage(plan, stage)
        return {
            **facts,
            "sort": "evaluation",
            "path": f"{self.storage}/ledger/{key}",
            "state": "done" if record else "not there",
            "seconds": record and record.get("seconds"),
            "made": {
                name: record[name]
                for name in ("created", "device", "threads", "precision", "compiled", "versions")
                if record and name in record
            },
            "notes": record.get("notes", {}) if record else {},
            "trials": [trial.key for trial in users],
            "stages": self._stages(plan, [key]),
            "scores": scores,
            "predictions": {stage.maker: self._sample(key, dev_only=_hidden(shown))}
            if record
            else {},
        }

    def stage(self, plan: Plan, key: str) -> dict[str, Any]:
        """Return all of a stage, and how many trials need it."""
        stage = plan.stages[key]
        facts = self._of_stage(plan, stage)
        users = [
            trial.key
            for trial in plan.trials
            if key in plan.closure([*trial.evaluations.values(), *plan.aligned(trial)])
        ]
        made = self._made(stage.kind, key)
        return {**facts, **made, "stages": self._stages(plan, [key]), "trials": users}

    def without_plan(self, match: Match) -> dict[str, Any]:
        """Return what the storage has of what no plan has."""
        if match.sort == "evaluation":
            record = self._ledger.read(match.key)
            path = f"{self.storage}/ledger/{match.key}"
            sample = {str(record.get("task")): self._sample(match.key, dev_only=False)}
            return {"sort": "evaluation", "path": path, **record, "predictions": sample}
        facts = {"sort": "stage", "key": match.key, "kind": match.kind, "grid": None}
        return facts | self._made(match.kind, match.key)

    def _of_stage(self, plan: Plan, stage: Stage) -> dict[str, Any]:
        return {
            "sort": "stage",
            "key": stage.key,
            "grid": plan.name,
            "kind": stage.kind,
            "maker": stage.maker,
            "version": stage.version,
            "params": dict(stage.params),
            "inputs": dict(stage.inputs),
            "digests": dict(stage.digests),
            "locations": dict(stage.locations),
        }

    def _made(self, kind: str, key: str) -> dict[str, Any]:
        """Return what a manifest records of an artifact, also of one that was not kept."""
        store = self.storage.artifacts
        path = store.folder(kind, key)
        if store.has(kind, key):
            return {"path": path, "state": "stored", **_of_manifest(store.manifest(kind, key))}
        entry = self.storage.tombstones.of(kind, key)
        if entry is not None:
            state = f"not kept ({entry.why}, {entry.when})"
            return {"path": path, "state": state, **_of_manifest(entry.manifest)}
        return {"path": path, "state": "not there"}

    def _stages(self, plan: Plan, keys: Sequence[str]) -> list[dict[str, Any]]:
        """Return the stages behind some others in short, inputs first, themselves excluded."""
        behind = [plan.stages[key] for key in plan.closure(list(dict.fromkeys(keys)))]
        stages = [stage for stage in behind if stage.kind != "evaluation"]
        stages = [stage for stage in stages if stage.key not in keys or len(keys) > 1]
        store = self.storage.artifacts
        stored = store.manifests((s.kind, s.key) for s in stages if not s.inline)
        dropped = self.storage.tombstones.all()
        found = []
        for stage in stages:
            known = stored.get(stage.key)
            state = "loaded" if stage.inline else "stored" if known else "not there"
            if known is None and stage.key in dropped:
                known, state = dropped[stage.key].manifest, "not kept"
            found.append(
                {
                    "kind": stage.kind,
                    "maker": stage.maker,
                    "key": stage.key,
                    "path": None if stage.inline else store.folder(stage.kind, stage.key),
                    "state": state,
                    "bytes": known and known.size,
                    "seconds": known and known.seconds,
                }
            )
        return found

    def _scores(
        self, plan: Plan, trial: Trial, records: Mapping[str, Mapping[str, Any]]
    ) -> list[dict[str, Any]]:
        """Return the scores of a trial, with 95 % intervals over its examples where its predictions
        give them.
        """
        from raxalign.analysis.significance import interval

        # a suggested trial has dev values alone, and a mark that would keep it out of cells
        rows = [{**row, "searched": None} for row in trial_rows(trial, records)]
        found: list[dict[str, Any]] = []
        for cell in cells(rows, plan.pivot, plan.measured):
            runs = Predictions(plan, self._ledger).runs(cell, cell.values)
            for name, value in cell.values.items():
                task, lang, metric, split = name
                measured = plan.measured(task, metric)
                around = interval(runs[name], examples_alone=True) if name in runs else None
                found.append(
                    {
                        "task": task,
                        "lang": lang,
                        "metric": metric,
                        "split": split,
                        "better": measured.better,
                        "role": measured.role,
                        "unit": measured.unit,
                        "value": value.mean,
                        "low": around and around.low,
                        "high": around and around.high,
                        "examples": around and around.examples,
                    }
                )
        return found

    def _sample(self, key: str, *, dev_only: bool) -> list[dict[str, Any]]:
        """Return the first predictions of each language and split."""
        from raxalign.plan.metrics import by_language

        try:
            table = self._ledger.predictions(key)
        except (DamagedArtifact, StorageError) as error:
            return [{"damaged": str(error)}]
        if table is None or not {"lang", "split"} <= set(table.column_names):
            return []
        return [
            row
            for _, split, rows in by_language(table)
            if split == "dev" or not dev_only
            for row in rows.slice(0, self.examples).to_pylist()
        ]

    def _curves(self, trial: Trial) -> dict[str, list[tuple[int, float]]]:
        """Return name -> (step, value) of what the trial's trainings reported."""
        found: dict[str, list[tuple[int, float]]] = {}
        for name, value, step, _ in Spool(self.storage, trial.key).read():
            if not name.startswith((SYSTEM, GPU_HOURS)):
                found.setdefault(name, []).append((step, value))
        return found


def _hidden(trial: Trial) -> bool:
    """Whether a search suggested the trial, so that its test values are not shown."""
    return trial.searched is not None and not trial.searched.confirmed


def _of_manifest(manifest: Manifest) -> dict[str, Any]:
    return {
        "bytes": manifest.size,
        "files": {name: entry.size for name, entry in manifest.files.items()},
        "seconds": manifest.seconds,
        "created": manifest.created,
        "made_by": f"raxalign {manifest.version}",
        "notes": dict(manifest.notes),
    }
