"""Which evaluations a method leaves untouched: where it acts is not what the task reads, so that
the encoder itself would be measured again.

Params and the encoder's number of layers decide whether a pair meets. Where that is not known yet,
only what does not meet in an encoder of any size counts as untouched, so that no result is ever
missing. Whether it is known changes no key: it decides what is run, and what is run has the key
that it always has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from raxalign.errors import Fault, RaxalignError
from raxalign.plan.trial import Trial, Untouched

if TYPE_CHECKING:
    from raxalign.config.grid import Grid
    from raxalign.methods.base import Acts, Method
    from raxalign.tasks.base import Reads, Task

DEEPEST = 128
"""The most blocks that an encoder of unknown depth is taken to have. It has at least one."""


@dataclass
class Meeting:
    """Compares methods with the tasks of a grid. `faults` gathers methods and tasks that name
    layers that an encoder does not have.
    """

    grid: Grid
    tasks: Mapping[str, Task]
    faults: dict[Fault, None] = field(default_factory=dict)
    _reads: dict[tuple[str, int], Reads | None] = field(default_factory=dict)

    def untouched(
        self, name: str, method: Method, encoder: str, family: str, depth: int | None
    ) -> dict[str, Untouched]:
        """Return task -> why a method leaves it untouched.

        Args:
            name: The name of the method in the grid.
            method: The method.
            encoder: The label of the encoder.
            family: The family of the encoder, which tasks accept or not.
            depth: The number of its blocks; None where it is not known yet.
        """
        depths = range(1, DEEPEST + 1) if depth is None else (depth,)
        acting: dict[int, Acts | None] = {
            n: self._acts(name, method, n, encoder) for n in (() if depth is None else depths)
        }

        def pairs(task: str) -> Iterator[tuple[Acts, Reads]]:
            """Yield what the two are at each depth that both can have."""
            for n in depths:
                reads = self._read(task, n, encoder, told=depth is not None)
                if reads is not None and n not in acting:
                    acting[n] = self._acts(name, method, n)
                if reads is not None and (acts := acting[n]) is not None:
                    yield acts, reads

        chosen = [task for task, plugin in self.tasks.items() if family in plugin.accepts]
        return {
            task: why
            for task in chosen
            if (why := _why(method, self.tasks[task], pairs(task))) is not None
        }

    def _acts(
        self, name: str, method: Method, depth: int, encoder: str | None = None
    ) -> Acts | None:
        """Return where a method acts. None where it names layers that are not there, which is a
        fault where the `encoder` is known.
        """
        try:
            return method.acts(depth)
        except RaxalignError as error:
            if encoder is not None:
                self._fault(("methods", name), encoder, error)
            return None

    def _read(self, name: str, depth: int, encoder: str, *, told: bool) -> Reads | None:
        """Return what a task reads, remembered by depth; None likewise."""
        if (name, depth) not in self._reads or (told and self._reads[name, depth] is None):
            try:
                self._reads[name, depth] = self.tasks[name].reads(depth)
            except RaxalignError as error:
                self._reads[name, depth] = None
                if told:
                    self._fault(("tasks", name), encoder, error)
        return self._reads[name, depth]

    def _fault(self, path: tuple[str, ...], encoder: str, error: RaxalignError) -> None:
        from raxalign.config.yaml_file import line_of

        key, problem = ".".join((*path, "layers")), f"{error} ({encoder})"
        self.faults[Fault(line_of(self.grid.text_of_file, *path, "layers"), key, problem)] = None


def _why(method: Method, task: Task, pairs: Iterator[tuple[Acts, Reads]]) -> Untouched | None:
    """Return why the two do not meet; None where they meet at some depth, or fit no depth."""
    seen = []
    for acts, reads in pairs:
        if meet(acts, reads) or (
            method.effect().inside and reads.tunes
        ):  # what lies below an inside transform is not trained
            return None
        seen.append((acts, reads))
    if not seen:
        return None
    (acts, reads), *others = seen
    acting, reading = _acts_told(acts), _reads_told(reads)
    if any(other != acts for other, _ in others):
        acting = f"fitted at {_as_written(method)}"
    if reads.layers and any(other != reads for _, other in others):
        reading = _as_written(task)
    fits = acts.readouts and reads.layers and not others
    return Untouched(acting, reading, _written(reads.layers) if fits else "")


def told(trials: Sequence[Trial], axes: Mapping[str, Sequence[str]]) -> list[str]:
    """Write one line per reason: how many evaluations of some trials are untouched, and what to do.
    `axes` are the params that vary, by method.
    """
    groups: dict[tuple[str, Untouched], dict[str, list[Trial]]] = {}
    touched: dict[tuple[str, str], list[Trial]] = {}
    for trial in trials:
        for task, why in trial.untouched.items():
            groups.setdefault((task, replace(why, instead="")), {}).setdefault(
                trial.method, []
            ).append(trial)
        for task in trial.evaluations:
            touched.setdefault((trial.method, task), []).append(trial)
    alike: dict[tuple[tuple[str, ...], Untouched], Counter[str]] = {}
    for (task, why), methods in groups.items():
        names = tuple(
            _named(name, found, touched.get((name, task), []), axes.get(name, ()))
            for name, found in methods.items()
        )
        alike.setdefault((names, why), Counter())[task] += sum(map(len, methods.values()))
    return [_line(why, names, tasks) for (names, why), tasks in alike.items()]


def _line(why: Untouched, methods: Sequence[str], tasks: Counter[str]) -> str:
    count = tasks.total()
    how_many = f"{count:,} evaluations are untouched and will not run, as they"
    if count == 1:
        how_many = "1 evaluation is untouched and will not run, as it"
    layers = f"`layers: {why.remedy}` or a range that contains it"
    remedy = f"; to fit what is read, set {layers}" if why.remedy else ""
    return f"{how_many} would repeat the encoder's own: {why.told(methods, list(tasks))}{remedy}"


def _named(
    method: str, untouched: Sequence[Trial], touched: Sequence[Trial], axes: Sequence[str]
) -> str:
    """Name a method, with the params that distinguish its untouched trials from its other trials,
    where there are any.
    """
    own = [axis for axis in axes if len({trial.params.get(axis) for trial in untouched}) == 1]
    value = untouched[0].params
    apart = [
        f"{axis}={_short(value.get(axis))}"
        for axis in own
        if touched and all(trial.params.get(axis) != value.get(axis) for trial in touched)
    ]
    return " ".join([method, *apart])


def _short(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def meet(acts: Acts, reads: Reads) -> bool:
    """Check whether a method changes anything that a task reads."""
    highest = max([*reads.layers, *([] if reads.stream is None else [reads.stream])], default=-1)
    begins = acts.stream_from
    return bool(acts.readouts & reads.layers) or (begins is not None and begins <= highest)


def _acts_told(acts: Acts) -> str:
    if acts.readouts:
        return f"fitted at {_layers(acts.readouts)}"
    begins = acts.stream_from
    return "without effect" if begins is None else f"at work from layer {begins} on"


def _reads_told(reads: Reads) -> str:
    return _layers(reads.layers) if reads.layers else "what leaves the encoder, past all readouts"


def _as_written(plugin: Method | Task) -> str:
    """Write `layers` as the file has it, where the encoder's own numbers are not known."""
    return f"layers: {getattr(plugin.params, 'layers', 'its own')}"


def _layers(layers: frozenset[int]) -> str:
    low, high = min(layers), max(layers)
    if low == high:
        return f"layer {low}"
    whole = len(layers) == high - low + 1
    return f"layers {low} to {high}" if whole else f"layers {', '.join(map(str, sorted(layers)))}"


def _written(layers: frozenset[int]) -> str:
    low, high = min(layers), max(layers)
    return str(low) if low == high else f"{low}-{high}"
