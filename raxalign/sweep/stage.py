"""Shared stages: which of them are missing, and how a worker makes one."""

from __future__ import annotations

import time
import traceback
import warnings
from functools import partial
from typing import Any

from ray import tune

from raxalign.errors import RaxalignError, ResourceError, TransientError
from raxalign.plan.plan import Plan
from raxalign.plugin_files import message_of
from raxalign.stages import FITTED, TRAINED
from raxalign.store.artifacts import ArtifactStore
from raxalign.sweep.advance import Note
from raxalign.sweep.job import Job, open_workshop
from raxalign.sweep.liveness import patience
from raxalign.sweep.losses import GIVEN_UP
from raxalign.sweep.messages import leave_notice
from raxalign.sweep.observer import Observer
from raxalign.sweep.said import passed_on


def missing_stages(
    plan: Plan, pending: list[str], store: ArtifactStore, observer: Observer
) -> list[str]:
    """Return the keys of shared stages that pending evaluations need and the storage lacks, inputs
    first.

    All data and encoders count as shared; an aligned encoder or a task's training does where
    several trials need it. Data that is there is verified, so that a damaged artifact is made again
    before it is read.
    """
    users = plan.users()
    wanted = []
    there = {
        key for key, stage in plan.stages.items() if stage.prepared and store.has(stage.kind, key)
    }
    for key in plan.closure(pending, there):
        stage = plan.stages[key]
        if (
            stage.inline
            or stage.kind == "evaluation"
            or (stage.kind in TRAINED and users.get(key, 0) < 2)
        ):
            continue
        with warnings.catch_warnings(record=True) as damages:
            warnings.simplefilter("always")
            present = store.has(stage.kind, key) and (
                stage.kind in TRAINED or store.verify(stage.kind, key)
            )
        own = [damage for damage in damages if damage.category is UserWarning]  # not of libraries
        for damage in own:
            observer.noticed(f"{damage.message} It is made again.")
        if not present:
            wanted.append(key)
    return wanted


def trains(plan: Plan, key: str) -> bool:
    """Check whether torch, and a GPU where workers have one, is needed to make a stage."""
    stage = plan.stages[key]
    return stage.kind in FITTED or "encoder" in stage.inputs


def run_stage(config: dict[str, Any], job: Job) -> None:
    """Make one shared stage on a worker; Tune calls this. Errors that no retry would mend are
    reported, so that the trials that need the stage fail with them; Tune tries the others again.
    """
    key, start, error, trace = config["stage"], time.monotonic(), "", ""
    note = Note(job.scratch, key)
    try:
        if GIVEN_UP in config:
            raise ResourceError(config[GIVEN_UP])
        workshop = open_workshop(job, report=note.report, trains=config["trains"])
        workshop.patience = patience
        workshop.tell = partial(leave_notice, job.scratch, key)
        with passed_on(job.scratch, key):
            workshop.ensure(key)
    except TransientError:
        raise
    except RaxalignError as known:
        error = str(known)
    # a bug in one stage fails the trials that need it, not the grid
    except Exception as unknown:  # noqa: BLE001
        error, trace = message_of(unknown), traceback.format_exc()
    seconds = time.monotonic() - start
    tune.report({"error": error, "trace": trace, "seconds": seconds, "done": True})
