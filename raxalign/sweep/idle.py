"""Workers between two steps: Tune ends those that it does not need at once, and a worker that is
started anew loads its libraries for seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from ray.tune.execution import tune_controller
from ray.tune.utils.object_cache import _ObjectCache

KEPT = 60.0
"""Seconds for which workers stay that have nothing to do. After that all but one are ended, so that
a cluster can give back their nodes."""


class IdleWorkers(_ObjectCache):  # type: ignore[misc]
    """Tune's cache of idle workers, which keeps all of them for a minute, and not only one.

    Where a step waits that needs something else than an idle worker holds, the worker is ended, as
    Tune does it: it may hold what the step waits for.
    """

    def __init__(self, may_keep_one: bool = True, clock: Callable[[], float] = time.monotonic):
        super().__init__(may_keep_one)
        self._clock = clock
        self._since: dict[int, float] = {}  # id of a worker -> when it became idle

    def cache_object(self, key: Any, obj: Any) -> bool:
        """Keep a worker that holds `key`, unless it is in the way; return whether it is kept."""
        if self._others_wait(key) and not self._wanted(key, 1):
            return False
        self._cached_objects[key].append(obj)
        self._num_cached_objects += 1
        self._since[id(obj)] = self._clock()
        return True

    def pop_cached_object(self, key: Any) -> Any:
        """Return a worker that holds `key`, which is no longer idle; None where there is none."""
        worker = super().pop_cached_object(key)
        self._since.pop(id(worker), None)
        return worker

    def flush_cached_objects(self, force_all: bool = False) -> Iterator[Any]:
        """Yield the workers that are to be ended: with `force_all` all of them."""
        for key, workers in self._cached_objects.items():
            for worker in list(workers):
                if force_all or self._is_over(key, worker):
                    workers.remove(worker)
                    self._num_cached_objects -= 1
                    del self._since[id(worker)]
                    yield worker

    def _is_over(self, key: Any, worker: Any) -> bool:
        """Whether an idle worker is in the way, or has had nothing to do for too long."""
        if self._wanted(key):
            return False
        late = self._clock() - self._since[id(worker)] >= KEPT and self._num_cached_objects > 1
        return late or self._others_wait(key)

    def _wanted(self, key: Any, more: int = 0) -> bool:
        """Whether as many steps wait that hold `key` as there are workers, and `more`, for them."""
        return bool(len(self._cached_objects[key]) + more <= self._max_num_objects[key])

    def _others_wait(self, key: Any) -> bool:
        """Whether a step waits that holds something else."""
        return any(count for other, count in self._max_num_objects.items() if other != key)


def keep_idle_workers() -> None:
    """Have Tune keep idle workers in this process. It has no option for it."""
    tune_controller._ObjectCache = IdleWorkers
