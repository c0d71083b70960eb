"""Any encoder folder on the tasks of a grid: the same held-out word pairs and data, so that the
values compare with the grid's own.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.errors import RaxalignError
from raxalign.grid.checks import LocalData
from raxalign.grid.expansion.data import SharedStages
from raxalign.grid.expansion.identity import Identity
from raxalign.grid.expansion.tasks import TaskStages, TrialInputs
from raxalign.grid.load import Opened
from raxalign.grid.lock import Lock
from raxalign.grid.options import read_options
from raxalign.grid.plan import Plan
from raxalign.grid.specs import Spec, TaskSpec
from raxalign.grid.stage import Stage
from raxalign.grid.trial import Trial
from raxalign.methods.base import Effect
from raxalign.options.run import Precision
from raxalign.options.sources import LocalFile
from raxalign.single.place import OutFolder, announced, encoder_of, runtime, silent
from raxalign.stages import Workshop
from raxalign.values.results import rows
from raxalign.values.retention import made_again

GIVEN = "given"  # the method's name of an encoder that was aligned elsewhere


@dataclass(frozen=True)
class EvaluateRequest:
    """Which evaluations: of `encoder` (a folder or hub name), on all tasks and languages of the
    grid unless some are named, or on tasks of `mteb` in place of the grid's, with `options` of the
    task `mteb`. `precision` is that of the products inside the encoder (None: the grid's).
    """

    encoder: str
    tasks: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    seed: int | None = None
    device: str | None = None
    threads: int | None = None
    precision: Precision | None = None
    mteb: tuple[str, ...] = ()
    options: tuple[str, ...] = ()

    def evaluate(
        self, opened: Opened, *, tell: Callable[[str], None] = silent
    ) -> tuple[list[dict[str, Any]], Plan]:
        """Return result rows and their plan. What is in the ledger is not computed again."""
        tasks = _known("--task", self.tasks, [spec.name for spec in opened.grid.tasks])
        languages = _known("--language", self.languages, opened.grid.languages)
        opened = opened.resolved(opened.storage.local / "downloads")
        if self.mteb or self.options:
            opened, tasks = _with_mteb(opened, self), ("mteb",)
        plan, aligned = _plan(opened, self, tasks, languages)
        found = LocalData(plan).files(done=opened.storage.ledger.keys())
        found.refuse_faults(opened.grid.path)
        for remark in found.remarks:
            tell(f"note: {remark}")
        threads = self.threads or opened.run.threads
        where = runtime(self.device, threads, self.precision or "fp32")
        workshop = Workshop(plan, opened.storage, where)
        workshop.announce = announced(tell)
        stored = {key for _, key in workshop.store.keys()}  # noqa: SIM118
        records = opened.storage.tombstones.all()
        if message := made_again(plan, workshop.ledger.keys(), stored, records):
            tell(message)
        _store_transforms(workshop, aligned, self.encoder)
        for trial in plan.trials:
            workshop.run_trial(trial.key)
        return rows(plan, workshop.ledger), plan


class _Given:
    """Stands for the method of an encoder that is aligned already: only what its transforms change
    is known of it; the weights are the encoder's own.
    """

    def __init__(self, records: list[dict[str, Any]], pivot: str) -> None:
        inside = [record["layer"] for record in records if record["sort"] == "inside"]
        crosses = any(record["lang"] == pivot for record in records)
        layers = str(max(inside)) if inside else ""
        self.effect = lambda: Effect(inside=bool(inside), pivot=crosses, inside_layers=layers)


def _known(flag: str, wanted: Iterable[str], known: Iterable[str]) -> tuple[str, ...]:
    """Those that were asked for, in the grid's order; all where none was."""
    wanted, known = list(wanted), list(known)
    for name in wanted:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            raise RaxalignError(
                f"{flag} {name}: the grid has none with that name; "
                + (f"did you mean {near[0]}?" if near else f"it has {', '.join(known)}")
            )
    return tuple(name for name in known if name in wanted or not wanted)


def _with_mteb(opened: Opened, request: EvaluateRequest) -> Opened:
    """The grid with tasks of mteb, each ``NAME`` or ``NAME=FOLDER``, in place of its own."""
    if request.tasks or not request.mteb:
        raise RaxalignError(
            "--task names a task of the grid, with its options there: leave out --mteb and --option"
            if request.tasks
            else "--option is for tasks of mteb: name them with --mteb"
        )
    given = [entry.partition("=")[::2] for entry in request.mteb]
    folders = {name: str(Path(folder).expanduser().absolute()) for name, folder in given if folder}
    names = f"tasks=[{', '.join(name for name, _ in given)}]"
    params = read_options("tasks", "mteb", [names, *request.options], Path.cwd())
    params = params.model_copy(update={"data": folders})
    spec = TaskSpec("tasks", "mteb", params, "mteb")
    return replace(opened, grid=replace(opened.grid, tasks=(spec,)))


def _plan(
    opened: Opened, request: EvaluateRequest, tasks: tuple[str, ...], languages: tuple[str, ...]
) -> tuple[Plan, Stage]:
    """The evaluations as a plan of their own: one trial for each group of languages, and each seed
    where a task has chance.
    """
    grid, spec = opened.grid, encoder_of(request.encoder)
    kind = spec.plugin()
    found, lock = kind.fetch(), Lock.load(grid.path)
    identity = Identity(opened.storage.digests.of, lambda name: found.get(name) or lock.get(name))
    shared = SharedStages(grid, identity)
    start = shared.encoder(spec)
    records, files = _records(spec)
    digests, locations = identity.of(files)
    stage = Stage("aligned", GIVEN, 1, {}, {"encoder": start.key}, digests, locations)
    aligned = shared.add(replace(stage, precision=request.precision or opened.run.precision))
    # what other tasks ask for may not suit the encoder
    chosen, together = [s for s in grid.tasks if s.name in tasks], grid.together or bool(grid.sets)
    wanted = replace(grid, tasks=tuple(chosen), sets={}, together=together)
    method: Any = _Given(records, grid.pivot)
    head = kind.has_head(identity.locked) is not False
    unpooled = partial(kind.unpooled, known=identity.locked)
    given = TrialInputs(GIVEN, method, {}, start, kind.family, languages, 0, 0, head, unpooled)
    stages, label = TaskStages(wanted, shared), kind.label()
    trials = [
        trial
        for group in replace(wanted, languages=languages).groups
        for seed in (grid.seeds if request.seed is None else (request.seed,))
        if (trial := _trial(stages, replace(given, languages=group, seed=seed), aligned, label))
        and trial.evaluations
    ]
    stages.refuse_faults()
    identity.refuse_missing()
    if not trials:
        what = f"{kind.family} encoders{'' if head else ' without a masked-LM head'}"
        raise RaxalignError(f"{grid.path}: no task of the grid takes {what} in these languages")
    unique = tuple({trial.key: trial for trial in trials}.values())
    plan = Plan(grid.name, grid.pivot, len(trials), unique, shared.stages, {})
    return plan.only(iter(unique)), aligned


def _records(spec: Spec) -> tuple[list[dict[str, Any]], dict[str, LocalFile]]:
    """Return the records of the transforms of an encoder's folder, and the files that hold them.
    Neither a name on the hub nor a kind is a folder of the same name here.
    """
    folder = Path(getattr(spec.params, "name", ""))
    records = OutFolder(folder).transforms() if folder.is_absolute() else []
    names = (OutFolder.TRANSFORMS, OutFolder.TENSORS) if records else ()
    return records, {name: LocalFile(folder / name) for name in names}


def _trial(stages: TaskStages, given: TrialInputs, aligned: Stage, label: str) -> Trial:
    evaluations, outdated = stages.evaluations(given, aligned)
    chance = any("seed" in stages.shared.stages[key].params for key in evaluations.values())
    seed = given.seed if chance else None
    trial = Trial(GIVEN, GIVEN, {}, label, given.languages, None, seed, aligned.key, evaluations)
    return replace(trial, outdated=outdated)


def _store_transforms(workshop: Workshop, aligned: Stage, encoder: str) -> None:
    """The artifact of the aligned encoder: its transforms, beside weights that stay in place."""

    def build(folder: Path) -> Mapping[str, Any]:
        if aligned.locations:
            shutil.copyfile(aligned.locations[OutFolder.TENSORS], folder / OutFolder.TENSORS)
            record = json.loads(
                Path(aligned.locations[OutFolder.TRANSFORMS]).read_text(encoding="utf-8")
            )
            (folder / OutFolder.TRANSFORMS).write_text(
                json.dumps({**record, "weights_changed": False}), encoding="utf-8"
            )
        else:
            AlignedEncoder(workshop.encoder(aligned.inputs["encoder"])).save(folder)
        return {"from": encoder}

    with workshop.reading(aligned):
        workshop.store.make("aligned", aligned.key, build)
