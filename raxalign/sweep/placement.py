"""The room that groups of workers hold on the cluster, or wait for: Ray's placement groups.

Ray Train makes one for each group, without a name. Where the group's controller is lost, it stays
as long as the job lives, and the next group waits for that room. So the placement groups of this
project have names, ``raxalign-<job>-<trial>-<random>``, and are removed by name.
"""

from __future__ import annotations

import functools
import re
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import ray
import ray.train.torch
from ray._private.state import jobs
from ray.train.v2._internal.callbacks.placement_group_callback import (
    PlacementGroupCleanerCallback,
)
from ray.train.v2._internal.execution.callback import WorkerGroupCallback
from ray.train.v2._internal.execution.worker_group import worker_group
from ray.util.placement_group import (
    PlacementGroup,
    placement_group,
    placement_group_table,
    remove_placement_group,
)

from raxalign.sweep.observer import Observer, Wait

EVERY = 3.0  # seconds between two looks at what waits
_PREFIX, _TRIAL = "raxalign", 16  # hexadecimal digits of a trial's key in a name
_NAME = re.compile(rf"{_PREFIX}-(?P<job>[0-9a-f]+)-[0-9a-f]{{{_TRIAL}}}-[0-9a-f]{{8}}")
_WAITING = ("PENDING", "RESCHEDULING")


class Naming(WorkerGroupCallback):  # type: ignore[misc]
    """A listener in a group's controller that gives the group's room its name."""

    def __init__(self, trial: str) -> None:
        self._trial = trial

    def before_worker_group_start(self, worker_group_context: Any) -> None:  # noqa: ARG002
        """Have the next placement group of this process named. Ray Train has no option for it."""
        name = f"{_prefix(self._trial)}{secrets.token_hex(4)}"
        worker_group.placement_group = functools.partial(placement_group, name=name)


class GroupTrainer(ray.train.torch.TorchTrainer):  # type: ignore[misc]
    """Ray Train's trainer without its cleaner of placement groups. The cleaner asks the dashboard,
    and on a cluster without one it never ends when a driver is killed.
    """

    def _create_default_callbacks(self) -> list[Any]:
        return [
            callback
            for callback in super()._create_default_callbacks()
            if not isinstance(callback, PlacementGroupCleanerCallback)
        ]


def remove_groups_of(trial: str) -> int:
    """Remove the room that earlier groups of a trial of this job hold or wait for; returns how many
    there were.
    """
    return _remove(place for place, name in _living() if name.startswith(_prefix(trial)))


def remove_groups_of_dead_drivers(observer: Observer) -> None:
    """Remove the room that drivers which are no longer alive left, and report how much there was.
    Other programs' placement groups have no name of this kind and stay.
    """
    alive = {job["JobID"] for job in jobs() if not job["IsDead"]}
    count = _remove(
        place
        for place, name in _living()
        if (found := _NAME.fullmatch(name)) and found["job"] not in alive
    )
    if count:
        groups = "1 group" if count == 1 else f"{count} groups"
        observer.noticed(f"the room of {groups} of workers is free again; a killed driver held it")


def _this_job() -> str:
    return str(ray.get_runtime_context().get_job_id())


def _prefix(trial: str) -> str:
    return f"{_PREFIX}-{_this_job()}-{trial[:_TRIAL]}-"


def _living() -> list[tuple[str, str]]:
    """Return the id and the name of each placement group that was not removed."""
    return [
        (place, info["name"] or "")
        for place, info in placement_group_table().items()
        if info["state"] != "REMOVED"
    ]


def _remove(places: Iterable[str]) -> int:
    count = 0
    for place in places:
        remove_placement_group(PlacementGroup(ray.PlacementGroupID(bytes.fromhex(place))))
        count += 1
    return count


class GroupWaits:
    """What the groups of this job wait for, looked up now and then and passed on to an observer."""

    def __init__(self, running: Callable[[], Iterable[str]], observer: Observer) -> None:
        """Make one that has not looked yet.

        Args:
            running: Returns the keys of the trials that run.
            observer: Receives the waits.
        """
        self._running, self._observer = running, observer
        self._since: dict[str, float] = {}
        self._looked = time.monotonic()

    def look(self) -> None:
        """Look, unless that was a moment ago."""
        now = time.monotonic()
        if now - self._looked < EVERY:
            return
        self._looked = now
        found = self._waiting()
        if found or self._since:
            self._since = {key: self._since.get(key, now) for key in found}
            free = ray.available_resources() if found else {}
            self._observer.trials_waiting(
                {
                    key: Wait(now - self._since[key], describe_wait(bundles, free))
                    for key, bundles in found.items()
                }
            )

    def _waiting(self) -> dict[str, list[Mapping[str, float]]]:
        """Return what each group asks for that has no room, by the key of its trial."""
        found, own = {}, _this_job()
        trials = {key[:_TRIAL]: key for key in self._running()}
        for info in placement_group_table().values():
            name = str(info["name"] or "")
            if name.startswith(f"{_PREFIX}-{own}-") and info["state"] in _WAITING:
                trial = trials.get(name.split("-")[2])
                if trial is not None:
                    found[trial] = list(info["bundles"].values())
        return found


def describe_wait(bundles: list[Mapping[str, float]], free: Mapping[str, float]) -> str:
    """Return in words what a group waits for.

    >>> describe_wait([{"CPU": 1.0}, {"CPU": 1.0}], {"CPU": 1.0})
    'waits for 2 workers with 1 CPU each; the cluster has 1 CPU free'
    """
    each = " and ".join(f"{amount:g} {name}" for name, amount in bundles[0].items())
    there = " and ".join(f"{free.get(name, 0.0):g} {name}" for name in bundles[0])
    return f"waits for {len(bundles)} workers with {each} each; the cluster has {there} free"
