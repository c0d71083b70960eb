"""Which evaluations a method leaves untouched: where it acts is not what the task reads, so that
the encoder itself would be measured again.

Params and the encoder's number of layers decide whether a pair meets. Before that number is known
nothing counts as untouched, so that no result is ever missing. Whether it is known changes no key:
it decides what is run, and what is run has the key that it always has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from raxalign.config.specs import Grid
from raxalign.config.yaml_file import line_of
from raxalign.errors import Fault, RaxalignError
from raxalign.methods.base import Acts, Method
from raxalign.plan.trial import Trial, Untouched
from raxalign.tasks.base import Reads, Task

_Layers = TypeVar("_Layers")


@dataclass
class Meeting:
    """Compares methods with the tasks of a grid. `faults` gathers methods and tasks that name
    layers that an encoder does not have.
    """

    grid: Grid
    tasks: Mapping[str, Task]
    faults: dict[Fault, None] = field(default_factory=dict)  # layers that encoders do not have
    _reads: dict[tuple[str, int, str], Reads | None] = field(default_factory=dict)

    def untouched(
        self, name: str, method: Method, encoder: str, family: str, depth: int | None
    ) -> dict[str, Untouched]:
        """Return task -> why a method, called `name` in the grid, leaves it untouched. Of the
        encoder there are the label, the family and the number of blocks (None: not known yet).
        """
        found: dict[str, Untouched] = {}
        if depth is None:
            return found
        acts = self._layers(("methods", name), encoder, depth, method.acts)
        inside = method.effect().inside
        for task, plugin in self.tasks.items():
            if family not in plugin.accepts:
                continue
            key = (task, depth, encoder)
            if key not in self._reads:
                self._reads[key] = self._layers(("tasks", task), encoder, depth, plugin.reads)
            reads = self._reads[key]
            if acts is None or reads is None or meet(acts, reads) or (inside and reads.tunes):
                continue  # what lies below an inside transform is not trained
            remedy = ""
            if acts.readouts and reads.layers:
                low, high = min(reads.layers), max(reads.layers)
                remedy = str(low) if low == high else f"{low}-{high}"
            past = "what leaves the encoder, past all readouts"
            told = _in_words(reads.layers) if reads.layers else past
            found[task] = Untouched(_acts_told(acts), told, remedy)
        return found

    def _layers(
        self, path: tuple[str, ...], encoder: str, depth: int, of: Callable[[int], _Layers]
    ) -> _Layers | None:
        """Return where a plug-in acts or what it reads; None, after a fault, where it names layers
        that are not there.
        """
        try:
            return of(depth)
        except RaxalignError as error:
            text = self.grid.text_of_file
            line = line_of(text, *path, "layers") or line_of(text, *path)
            self.faults[Fault(line, f"{'.'.join(path)}.layers", f"{error} ({encoder})")] = None
            return None


def told(trials: Sequence[Trial], axes: Mapping[str, Sequence[str]]) -> list[str]:
    """Write one line per task and reason: how many evaluations of some trials are untouched, and
    what to do. `axes` are the params that vary, by method.
    """
    groups: dict[tuple[str, Untouched], dict[str, list[Trial]]] = {}
    for trial in trials:
        for task, why in trial.untouched.items():
            methods = groups.setdefault((task, replace(why, instead="")), {})
            methods.setdefault(trial.method, []).append(trial)
    lines = []
    for (task, why), methods in groups.items():
        names = []
        for name, own in methods.items():
            touched = [t.params for t in trials if t.method == name and task in t.evaluations]
            names.append(" ".join([name, *_apart(own, touched, axes.get(name, ()))]))
        count = sum(map(len, methods.values()))
        how_many = "1 evaluation is untouched and will not run, as it"
        if count > 1:
            how_many = f"{count:,} evaluations are untouched and will not run, as they"
        layers = f"`layers: {why.remedy}` or a range that contains it"
        remedy = f"; to fit what is read, set {layers}" if why.remedy else ""
        reason = f"{why.told(names, [task])}{remedy}"
        lines.append(f"{how_many} would repeat the encoder's own: {reason}")
    return lines


def _apart(
    untouched: Sequence[Trial], touched: Sequence[Mapping[str, object]], axes: Sequence[str]
) -> list[str]:
    """Return the params that distinguish the untouched trials of a method from its other ones."""
    first, *others = [trial.params for trial in untouched]
    values = {axis: first.get(axis) for axis in axes}
    return [
        f"{axis}={value:g}" if isinstance(value, float) else f"{axis}={value}"
        for axis, value in values.items()
        if touched
        and all(params.get(axis) == value for params in others)
        and all(params.get(axis) != value for params in touched)
    ]


def meet(acts: Acts, reads: Reads) -> bool:
    """Check whether a method changes anything that a task reads."""
    highest = max([*reads.layers, *([] if reads.stream is None else [reads.stream])], default=-1)
    begins = acts.stream_from
    return bool(acts.readouts & reads.layers) or (begins is not None and begins <= highest)


def _acts_told(acts: Acts) -> str:
    if acts.readouts:
        return f"fitted at {_in_words(acts.readouts)}"
    begins = acts.stream_from
    return "without effect" if begins is None else f"at work from layer {begins} on"


def _in_words(layers: frozenset[int]) -> str:
    low, high = min(layers), max(layers)
    if low == high:
        return f"layer {low}"
    whole = len(layers) == high - low + 1
    return f"layers {low} to {high}" if whole else f"layers {', '.join(map(str, sorted(layers)))}"
