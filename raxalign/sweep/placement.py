"""The room that groups of workers hold on the cluster, or wait for: Ray's placement groups.

Ray Train makes one for each group, without a name. Where the group's controller is lost, it stays
as long as the job lives, and the next group waits for that room. So the placement groups of this
project have names, ``raxalign-<job>-<trial>-<random>``, and are removed by name.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping

import ray
from ray._private.state import jobs
from ray.util.placement_group import (
    PlacementGroup,
    placement_group_table,
    remove_placement_group,
)

from raxalign.sweep.observer import Observer, Wait

EVERY = 3.0  # seconds between two looks at what waits
_PREFIX, _TRIAL = "raxalign", 16  # hexadecimal digits of a trial's key in a name
_NAME = re.compile(rf"{_PREFIX}-(?P<job>[0-9a-f]+)-[0-9a-f]{{{_TRIAL}}}-[0-9a-f]{{8}}")
_WAITING = ("PENDING", "RESCHEDULING")


def remove_groups_of(trial: str) -> int:
    """Remove the room that earlier groups of a trial of this job hold or wait for; returns how many
    there were.
    """
    return _remove(place for place, name in _living() if name.startswith(prefix_of(trial)))


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


def prefix_of(trial: str) -> str:
    """Return what the names of the room of a trial of this job begin with."""
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
