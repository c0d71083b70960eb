"""What a key in a storage is of, and everything that the storage has of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from raxalign.analysis.cells import Cell
from raxalign.errors import DamagedArtifact, RaxalignError, StorageError
from raxalign.grid.estimates import duration, volume
from raxalign.grid.metrics import by_language
from raxalign.grid.plan import Plan
from raxalign.grid.stage import Stage
from raxalign.grid.stored import StoredPlans
from raxalign.grid.trial import Trial, plain
from raxalign.measured import Measured
from raxalign.printing import TextTable, counted, paragraph
from raxalign.store.artifacts import Manifest
from raxalign.store.spool import Spool
from raxalign.store.storage import Storage
from raxalign.values.numbers import NumberFormat
from raxalign.values.predictions import Predictions
from raxalign.values.results import read_records, trial_rows

_HEADED = ("sort", "key", "grid", "state")
_PARTS = ("params", "inputs", "digests", "locations", "files", "made", "notes", "untouched")
_OWN = ("scores", "stages", "predictions", "curves", "evaluations", "trials", "mlflow")
_OF_TRIAL = ("method", "kind", "params", "encoder", "languages", "sentences", "seed")
_PRECISIONS = ("precision", "base_precision")
_MOST = 20  # matches that a message lists
_SOME = 5  # keys of trials that are listed
_KEY = 12  # characters of a key in a table
_LEGEND = (
    "Brackets: 95 % confidence intervals over the examples, for this training run alone; over"
    " several seeds: `raxalign results --compare`."
)


@dataclass(frozen=True)
class KeyMatch:
    """What a key is of, the kind of a stage, and a plan that has it (None: none has). `elsewhere`
    are the evaluations that other plans have of a trial and this one has not, by task and key.
    """

    sort: Literal["trial", "stage", "evaluation"]
    key: str
    kind: str
    plan: Plan | None
    elsewhere: tuple[str, ...] = ()

    @property
    def evaluations(self) -> Mapping[str, str]:
        """Those that the plan has of a trial, by task."""
        if self.plan is None or self.sort != "trial":
            return {}
        return self.plan.by_key[self.key].evaluations

    @property
    def fullness(self) -> tuple[int, int]:
        """How much its plan has of it: a grid may have been run again with more of it."""
        if self.plan is None:
            return -1, -1
        return len(self.evaluations), len(self.plan.trials)

    @staticmethod
    def look_up(prefix: str, storage: Storage) -> KeyMatch:
        """Return what the only key that begins like this is of.

        Raises `RaxalignError` where there is none, and where there are several, which it lists.
        """
        found, every = dict[str, KeyMatch](), dict[str, str]()
        for match in _matches(storage):
            if match.key.startswith(prefix.lower()):
                found[match.key] = max(found.get(match.key, match), match, key=lambda m: m.fullness)
                every |= {key: f"{task} {key[:_KEY]}" for task, key in match.evaluations.items()}
        if len(found) == 1:
            (match,) = found.values()
            others = every.keys() - {*match.evaluations.values()}
            return replace(match, elsewhere=tuple(sorted(every[key] for key in others)))
        if not found:
            raise RaxalignError(
                f"show {prefix}: no trial, stage or evaluation in {storage} has a key that begins"
                " like this (`raxalign results FILE --keys` lists those of trials, `raxalign plan"
                " FILE --format json` all)"
            )
        lines = []
        for match in list(found.values())[:_MOST]:
            kind, name = f" {match.kind}" if match.sort == "stage" else "", ""
            if match.plan is not None and match.sort == "trial":
                name = f", {match.plan.trial_name(match.plan.by_key[match.key])}"
            elif match.plan is not None:
                name = f", {match.plan.stages[match.key].maker}"
            lines.append(f"{match.key[:16]}  {match.sort}{kind}{name}")
        lines += [f"and {len(found) - _MOST} more"] if len(found) > _MOST else []
        told = "\n  ".join(lines)
        raise RaxalignError(
            f"show {prefix}: {len(found)} keys begin like this; give more of one:\n  {told}"
        )

    def details(self, storage: Storage, examples: int = 3) -> dict[str, Any]:
        """Return everything about what the key is of, as JSON can hold it, with some predictions
        (`examples`) of each task, language and split.
        """
        if self.plan is not None:
            found = _Details(storage, self.plan, examples)
            if self.sort == "trial":
                others = {"elsewhere": list(self.elsewhere)} if self.elsewhere else {}
                return found.trial(self.plan.by_key[self.key]) | others
            return (
                found.evaluation(self.key) if self.sort == "evaluation" else found.stage(self.key)
            )
        if self.sort == "evaluation":
            record = storage.ledger.read(self.key)
            path = f"{storage}/ledger/{self.key}"
            sample = {str(record.get("task")): _sample(storage, self.key, examples, dev_only=False)}
            return {"sort": "evaluation", "path": path, **record, "predictions": sample}
        facts = {"sort": "stage", "key": self.key, "kind": self.kind, "grid": None}
        return facts | _made(storage, self.kind, self.key)

    @staticmethod
    def as_text(facts: Mapping[str, Any], width: int | None) -> str:
        """Return the details that `details` collected, with tables as wide as the terminal."""
        kind = f" {facts['kind']}" if facts["sort"] == "stage" else ""
        grid = f" of the grid {facts['grid']}" if facts.get("grid") else ""
        state = f": {facts['state']}" if facts.get("state") else ""
        lines = paragraph(f"{facts['sort']}{kind} {facts['key']}{grid}{state}", width)
        for name, value in facts.items():
            if name not in (*_HEADED, *_PARTS, *_OWN) and value is not None:
                lines += paragraph(f"{name}: {_fact(name, value)}", width)
        if keys := facts.get("trials"):
            more = f" and {len(keys) - _SOME} more" if len(keys) > _SOME else ""
            lines.append(f"trials: {', '.join(key[:_KEY] for key in keys[:_SOME])}{more}")
        for name in _PARTS:
            if facts.get(name):
                lines += ["", f"{name}:", *_nested(facts[name])]
        scores = list(_score_lines(facts.get("scores", ())))
        columns: tuple[str, ...] = ("language", "value", "interval", "examples")
        lines += _table("scores", columns, scores, width, words=("language",))
        lines += paragraph(_LEGEND, width) if scores else []
        columns = ("key", "state", "size", "time")
        stages = [
            (
                *(f"{stage['kind']} {stage['maker']}", stage["key"][:_KEY], stage["state"]),
                "" if stage["bytes"] is None else volume(stage["bytes"]),
                "" if stage["seconds"] is None else duration(stage["seconds"]),
            )
            for stage in facts.get("stages", ())
        ]
        lines += _table("made from", columns, stages, width, words=columns[:2])
        if found := facts.get("evaluations"):
            lines += ["", "evaluations:", *(f"  {task}: {key}" for task, key in found.items())]
        return "\n".join([*lines, *_of_training(facts, width)])


def _matches(storage: Storage) -> Iterator[KeyMatch]:
    """Yield what every key of a storage is of: first what plans have."""
    for plan in StoredPlans(storage):
        yield from (KeyMatch("trial", trial.key, trial.kind, plan) for trial in plan.trials)
        for key, stage in plan.stages.items():
            sort: Any = "evaluation" if stage.kind == "evaluation" else "stage"
            yield KeyMatch(sort, key, stage.kind, plan)
    for kind, key in storage.artifacts.keys():  # noqa: SIM118
        yield KeyMatch("stage", key, kind, None)
    for key in storage.ledger.keys():  # noqa: SIM118
        yield KeyMatch("evaluation", key, "evaluation", None)


def _of_training(facts: Mapping[str, Any], width: int | None) -> Iterator[str]:
    """Yield the lines on curves, predictions and the MLflow run."""
    curves = []
    for name, points in facts.get("curves", {}).items():
        ys = [value for _, value in points]
        shown = (ys[0], min(ys), max(ys), ys[-1])
        curves.append(
            (name, *(f"{value:.4g}" for value in shown), NumberFormat.number(points[-1][0], 0))
        )
    yield from _table("training", ("first", "lowest", "highest", "last", "step"), curves, width)
    for task, rows in facts.get("predictions", {}).items():
        yield from ("", f"predictions of {task} (the first of each language and split):")
        for row in rows:
            values = (
                f"{name}={value if isinstance(value, str) else json.dumps(value, default=str)}"
                for name, value in row.items()
                if value is not None
            )
            yield f"  {' '.join(values)}"
    if run := facts.get("mlflow"):
        of = f"of experiment {run['experiment_id']} in {run['uri']}"
        yield from ("", f"MLflow: run {run['run_id']} ({run['status']}) {of}")


def _table(
    head: str,
    columns: tuple[str, ...],
    lines: Sequence[tuple[str, ...]],
    width: int | None,
    words: tuple[str, ...] = (),
) -> list[str]:
    """The lines of a table after an empty one; nothing without lines."""
    table = TextTable((head,), columns, tuple(lines), frozenset(words))
    return ["", *table.fitted(width)] if lines else []


def _fact(name: str, value: Any) -> str:
    if name in ("bytes", "seconds"):
        return volume(value) if name == "bytes" else duration(value)
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return plain(value) if isinstance(value, Mapping) else str(value)


def _nested(value: Any, indent: str = "  ") -> Iterator[str]:
    """Yield nested mappings as indented lines; what else is nested is JSON."""
    for name, part in value.items():
        if isinstance(part, Mapping) and part:
            yield f"{indent}{name}:"
            yield from _nested(part, indent + "  ")
        else:
            shown = part if isinstance(part, str) else json.dumps(part, ensure_ascii=False)
            yield f"{indent}{name}: {shown}"


def _score_lines(scores: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, ...]]:
    tables: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for score in scores:
        if score.get("role") == "score":
            table = (score["task"], score["metric"], score["split"])
            tables.setdefault(table, []).append(score)
    for (task, metric, split), own in tables.items():
        measured = Measured(metric, "", own[0]["better"], unit=own[0]["unit"])
        unit = NumberFormat.of(measured, (score["value"] for score in own))
        name = f"{task}: {metric} ({split}){NumberFormat.heading(measured)}"
        for score in own:
            around = unit.show_interval(score["low"], score["high"])
            over = f"{score['examples']:,}" if score["examples"] else ""
            yield name, score["lang"], unit.show(score["value"]), around, over


def _made(storage: Storage, kind: str, key: str) -> dict[str, Any]:
    """What a manifest records of an artifact, also of one that was not kept."""
    store, state = storage.artifacts, "stored"
    path, manifest = store.folder(kind, key), store.manifests([(kind, key)]).get(key)
    if manifest is None and (entry := storage.tombstones.of(kind, key)) is not None:
        state, manifest = f"not kept ({entry.why}, {entry.when})", entry.manifest
    if manifest is None:
        return {"path": path, "state": "not there"}
    return {
        "path": path,
        "state": state,
        "bytes": manifest.size,
        "files": {name: entry.size for name, entry in manifest.files.items()},
        "seconds": manifest.seconds,
        "created": manifest.created,
        "made_by": f"raxalign {manifest.version}",
        "notes": dict(manifest.notes),
    }


def _sample(storage: Storage, key: str, examples: int, *, dev_only: bool) -> list[dict[str, Any]]:
    """The first predictions of each language and split."""
    try:
        table = storage.ledger.predictions(key)
    except (DamagedArtifact, StorageError) as error:
        return [{"damaged": str(error)}]
    if table is None or not {"lang", "split"} <= set(table.column_names):
        return []
    return [
        row
        for _, split, rows in by_language(table)
        if split == "dev" or not dev_only
        for row in rows.slice(0, examples).to_pylist()
    ]


def _hidden(trial: Trial) -> bool:
    """Whether a search suggested the trial, so that its test values are not shown."""
    return trial.searched is not None and not trial.searched.confirmed


@dataclass(frozen=True)
class _Details:
    """Collects the details of what a plan has."""

    storage: Storage
    plan: Plan
    examples: int

    def trial(self, trial: Trial) -> dict[str, Any]:
        """Return all of a trial, and of the stages behind it in short."""
        wanted, ledger = list(trial.evaluations.values()), self.storage.ledger
        records = read_records(self.plan.only(iter([trial])), ledger)
        failure = ledger.failure(trial.run)
        done = sum(key in records for key in wanted)
        state = f"{done} of {counted(len(wanted), 'evaluation')} done"
        if done == len(wanted) or failure is not None:
            state = "done" if done == len(wanted) else "failed"
        curves: dict[str, list[tuple[int, float]]] = {}
        spool = Spool(self.storage, trial.key, trial.parts)
        for name, value, step, _ in spool.read(whole=done == len(wanted)):
            if not name.startswith((Spool.SYSTEM, Spool.GPU_HOURS)):
                curves.setdefault(name, []).append((step, value))
        return {
            "sort": "trial",
            "key": trial.key,
            "grid": self.plan.name,
            **{name: getattr(trial, name) for name in _OF_TRIAL},
            "state": state,
            "failure": failure and failure.get("message"),
            "evaluations": dict(trial.evaluations),
            "untouched": {t: why.told([trial.method], [t]) for t, why in trial.untouched.items()},
            "stages": self._stages([*wanted, *self.plan.aligned(trial)]),
            "scores": self._scores(trial, records),
            "predictions": {
                task: self._sample(key, trial)
                for task, key in trial.evaluations.items()
                if key in records
            },
            "curves": curves,
        }

    def evaluation(self, key: str) -> dict[str, Any]:
        """Return all of an evaluation, and the trials that share it."""
        stage, ledger = self.plan.stages[key], self.storage.ledger
        users = [trial for trial in self.plan.trials if key in trial.evaluations.values()]
        shown = next((trial for trial in users if not _hidden(trial)), users[0])
        record = ledger.read_many([key]).get(key)
        own = read_records(self.plan.only(iter([shown])), ledger)
        made = ("created", "device", "threads", *_PRECISIONS, "compiled", "versions")
        return {
            **self._of_stage(stage),
            "sort": "evaluation",
            "path": f"{self.storage}/ledger/{key}",
            "state": "done" if record else "not there",
            "seconds": record and record.get("seconds"),
            "made": {name: record[name] for name in made if record and name in record},
            "notes": record.get("notes", {}) if record else {},
            "trials": [trial.key for trial in users],
            "stages": self._stages([key]),
            "scores": self._scores(shown, {k: found for k, found in own.items() if k == key}),
            "predictions": {stage.maker: self._sample(key, shown)} if record else {},
        }

    def stage(self, key: str) -> dict[str, Any]:
        """Return all of a stage, and the trials that need it."""
        stage, plan = self.plan.stages[key], self.plan
        users = [
            trial.key
            for trial in plan.trials
            if key in plan.closure([*trial.evaluations.values(), *plan.aligned(trial)])
        ]
        made = _made(self.storage, stage.kind, key)
        return {**self._of_stage(stage), **made, "stages": self._stages([key]), "trials": users}

    def _of_stage(self, stage: Stage) -> dict[str, Any]:
        facts = {name: getattr(stage, name) for name in ("kind", "maker", "version")}
        mappings = ("params", "inputs", "digests", "locations")
        facts |= {name: dict(getattr(stage, name)) for name in mappings}
        return {"sort": "stage", "key": stage.key, "grid": self.plan.name, **facts}

    def _sample(self, key: str, trial: Trial) -> list[dict[str, Any]]:
        return _sample(self.storage, key, self.examples, dev_only=_hidden(trial))

    def _stages(self, keys: Sequence[str]) -> list[dict[str, Any]]:
        """The stages behind some others in short, inputs first, themselves excluded."""
        behind = [self.plan.stages[key] for key in self.plan.closure(list(dict.fromkeys(keys)))]
        stages = [stage for stage in behind if stage.kind != "evaluation"]
        stages = [stage for stage in stages if stage.key not in keys or len(keys) > 1]
        store, dropped = self.storage.artifacts, self.storage.tombstones.all()
        stored = store.manifests((s.kind, s.key) for s in stages if not s.inline)
        found = []
        for stage in stages:
            known: Manifest | None = stored.get(stage.key)
            state = "loaded" if stage.inline else "stored" if known else "not there"
            if known is None and stage.key in dropped:
                known, state = dropped[stage.key].manifest, "not kept"
            own = {name: getattr(stage, name) for name in ("kind", "maker", "key")}
            path = None if stage.inline else store.folder(stage.kind, stage.key)
            size, took = (known.size, known.seconds) if known else (None, None)
            found.append({**own, "path": path, "state": state, "bytes": size, "seconds": took})
        return found

    def _scores(
        self, trial: Trial, records: Mapping[str, Mapping[str, Any]]
    ) -> list[dict[str, Any]]:
        """The scores of a trial, with intervals over its examples where predictions give them."""
        plan, found = self.plan, list[dict[str, Any]]()
        rows = trial_rows(trial, records, plan.pivot)
        if (cell := Cell.of_trial(rows, plan.pivot, plan.measured)) is not None:
            intervals = Predictions(plan, self.storage.ledger).alone(cell, cell.values)
            for name, value in cell.values.items():
                measured = plan.measured(name[0], name[2])
                around = intervals.get(name)
                ends = ("low", "high", "examples")
                found.append(
                    {
                        **dict(zip(("task", "lang", "metric", "split"), name, strict=True)),
                        **{part: getattr(measured, part) for part in ("better", "role", "unit")},
                        "value": value.mean,
                        **{part: around and getattr(around, part) for part in ends},
                    }
                )
        return found
