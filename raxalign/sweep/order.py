"""The order in which stages and trials of a sweep are run: each after its inputs, the longest chain
first. It knows neither Ray nor the storage.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import Enum


class Needs(Enum):
    """What a step holds while it runs."""

    CPUS = "the cores of one worker"
    WORKER = "one worker"
    GROUP = "a group of workers"


@dataclass(frozen=True)
class Step:
    """A shared stage or a trial.

    Attributes:
        key: The key of the stage or of the trial.
        is_trial: Whether it is a trial.
        inputs: The keys of the steps that must end before it.
        cost: An estimate of its length in seconds.
        needs: What it holds while it runs.
        parts: The keys of the stages and evaluations that are made within it.
    """

    key: str
    is_trial: bool
    inputs: frozenset[str] = frozenset()
    cost: float = 1.0
    needs: Needs = Needs.WORKER
    parts: tuple[str, ...] = ()


@dataclass
class Order:
    """The steps that are not done, and which of them may start.

    Ready steps are kept in one heap for each of `Needs`, stages apart from trials. Adding, taking
    and ending a step take logarithmic time.
    """

    _steps: dict[str, Step] = field(default_factory=dict)
    _missing: dict[str, int] = field(default_factory=dict)  # step -> inputs that have not ended
    _users: dict[str, list[str]] = field(default_factory=dict)
    _longest: dict[str, float] = field(default_factory=dict)  # from the start of a step to the end
    _ready: dict[tuple[Needs, bool], list[tuple[float, int, str]]] = field(default_factory=dict)
    _aside: list[str] = field(default_factory=list)  # trained, and not evaluated
    _number: int = 0
    running: dict[str, Step] = field(default_factory=dict)
    held: Counter[Needs] = field(default_factory=Counter)

    def add(self, steps: Iterable[Step]) -> None:
        """Add steps, inputs before what reads them. Inputs that are not among the steps of the
        order have ended. A step that is there already is not added again.
        """
        added = [step for step in steps if step.key not in self._steps]
        self._steps |= {step.key: step for step in added}
        for step in added:
            inputs = [key for key in step.inputs if key in self._steps]
            self._missing[step.key] = len(inputs)
            for key in inputs:
                self._users.setdefault(key, []).append(step.key)
        for step in reversed(added):
            after = (self._longest.get(user, 0.0) for user in self._users.get(step.key, ()))
            self._longest[step.key] = step.cost + max(after, default=0.0)
        for step in added:
            if not self._missing[step.key]:
                self._make_ready(step)

    def take(self, fits: Callable[[Step], bool]) -> Step | None:
        """Return the ready step with the longest chain that there is room for; it then counts as
        running. While a group waits for room, nothing with a shorter chain starts: the group would
        wait without an end.
        """
        heaps = sorted((heap for heap in self._ready.values() if heap), key=lambda heap: heap[0])
        for heap in heaps:
            step = self._steps[heap[0][2]]
            if fits(step):
                heapq.heappop(heap)
                del self._missing[step.key]
                self.running[step.key] = step
                self.held[step.needs] += 1
                return step
            if step.needs is Needs.GROUP:
                return None
        return None

    def finish(self, key: str) -> None:
        """Count a running step as done: what waits for it alone is ready."""
        self._end(key)
        for user in self._users.pop(key, ()):
            if user in self._missing:
                self._missing[user] -= 1
                if not self._missing[user]:
                    self._make_ready(self._steps[user])

    def fail(self, key: str) -> list[Step]:
        """Count a running step as failed; returns what depends on it and is never run, inputs
        first.
        """
        self._end(key)
        lost: dict[str, Step] = {}
        stack = [key]
        while stack:
            for user in self._users.pop(stack.pop(), ()):
                if self._missing.pop(user, None) is not None:
                    lost[user] = self._steps.pop(user)
                    del self._longest[user]
                    stack.append(user)
        return list(lost.values())

    def set_aside(self, key: str) -> None:
        """Keep what a group has trained. What is left of the step needs one worker, and is ready
        once `resume` is called.
        """
        self.held[self.running.pop(key).needs] -= 1
        self._steps[key] = replace(self._steps[key], needs=Needs.WORKER)
        self._aside.append(key)

    def abandon(self) -> list[Step]:
        """Drop all steps but those that run; returns them, inputs first."""
        waiting = {*self._missing, *self._aside}
        dropped = [step for key, step in self._steps.items() if key in waiting]
        for step in dropped:
            del self._steps[step.key], self._longest[step.key]
        self._missing.clear()
        self._aside.clear()
        self._ready.clear()
        return dropped

    def put_back(self, key: str) -> None:
        """Make a running step ready again: what ran it has lost it."""
        self.held[self.running.pop(key).needs] -= 1
        self._missing[key] = 0
        self._make_ready(self._steps[key])

    def resume(self, count: int) -> None:
        """Make the first steps that were set aside ready. They come before all others."""
        for key in self._aside[:count]:
            self._missing[key], self._longest[key] = 0, math.inf
            self._make_ready(self._steps[key])
        del self._aside[:count]

    @property
    def aside(self) -> int:
        """The number of steps that are set aside."""
        return len(self._aside)

    @property
    def ready(self) -> int:
        """The number of steps that could start."""
        return sum(map(len, self._ready.values()))

    @property
    def waiting(self) -> int:
        """The number of trials and stages whose inputs have not all ended."""
        return len(self._missing) - self.ready

    @property
    def empty(self) -> bool:
        """Whether no step is left that could be taken now or later. What runs may be put back or
        set aside, and is then taken again.
        """
        return not (self._missing or self._aside or self.running)

    def _make_ready(self, step: Step) -> None:
        self._number += 1
        entry = (-self._longest[step.key], self._number, step.key)
        heapq.heappush(self._ready.setdefault((step.needs, step.is_trial), []), entry)

    def _end(self, key: str) -> None:
        self.held[self.running.pop(key).needs] -= 1
        del self._steps[key], self._longest[key]
