"""How long the stages of a plan take: as long as others like them took in this storage, by the work
in each. Before anything like them has run, there is one plain estimate: operations from the
number of tokens and the encoder's parameters, and what each sentence takes besides.

The constants were fitted on one machine to a grid on sentences of Tatoeba and to the built-in
quickstart. An estimate is within a factor of about two for sentences of this length.
"""

from __future__ import annotations

import math
import os
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raxalign.catalog import catalog
from raxalign.plan.estimates.cost import duration, roughly
from raxalign.plan.expansion.data import EVERYTHING, row_count

if TYPE_CHECKING:
    from raxalign.encoders.models.folder import Footprint
    from raxalign.plan.plan import Plan
    from raxalign.plan.stage import Stage

GPU = 2e13
"""Operations per second that are assumed of a GPU, which a plan does not start."""
TOKENS = 14
"""Pieces per sentence."""
DATA = {  # seconds, and seconds per sentence pair, of what runs no encoder
    "bitext": (0.1, 1e-4),
    "text": (0.05, 2e-5),
    "pairs": (1.5, 5e-4),
    "seen": (0.05, 1e-5),
    "pieces": (1.0, 2e-4),
}
"""The kinds of stages that are data."""
_FORWARD, _TRAINED = 2, 6  # operations per parameter and token: forward, and with gradients
_FROZEN = 2  # a frozen copy of the encoder that reads the same tokens
_EFFICIENCY = 0.5  # of a bare product
_REFERENCE = 1.2e11  # operations per second of the core that all seconds here are of
_START, _OVERHEAD = 0.5, 4e-4  # seconds to load an encoder, and per sentence that it reads
_CANDIDATES = 8  # words per sentence that are candidates of a retrieval
_SEARCHES = 6  # products of all candidates that retrieval takes per split
_RAY_SECONDS, _WORKERS_SECONDS = 6.0, 4.0
_SHOWN = 0.5  # seconds: kinds of stages that take less are not named
_BUSY = 1.5  # times as long, from which on other work is worth a remark
_OWN_LOAD = 0.5  # processes: what this command itself has added to the load of a quiet machine
_PER_ADDITION = 4_650  # operations of a matrix product in the time of one addition of Python
_SECONDS, _ADDITIONS = 0.02, 10_000  # of a measurement, and between two looks at the clock


@dataclass(frozen=True)
class Speed:
    """Floating-point operations per second: `products` of a worker in the products of models,
    `core` of one core, which reads text and aligns words.
    """

    products: float
    core: float


def has_card() -> bool:
    """Return whether this machine has an NVIDIA card, as far as its files show."""
    return Path("/dev/nvidia0").exists()


def worker_speed(threads: int, *, gpu: bool) -> Speed:
    """Return the speed of a worker with some cores of this machine, or with a GPU."""
    core = core_speed()
    return Speed(GPU if gpu else core * threads, core)


def core_speed() -> float:
    """Return about how many operations per second one core does in products of float32 matrices.

    It is measured by additions of Python in a fiftieth of a second, since a library for products
    takes longer to load. Processor time counts, so that what else runs on the machine does not.
    """
    additions, began = 0, time.thread_time()
    while (used := time.thread_time() - began) < _SECONDS:
        total = 0.0
        for number in range(_ADDITIONS):
            total += number * 1.5
        additions += _ADDITIONS
    return additions / used * _PER_ADDITION


def start_seconds(core: float, *, ray: bool) -> float:
    """Return how long it takes until the first step of a grid begins: the start of its workers, and
    before it that of `ray`.

    Args:
        core: The speed of one core in operations per second.
        ray: Whether Ray is still to be started.
    """
    return (_WORKERS_SECONDS + ray * _RAY_SECONDS) * _REFERENCE / core


@dataclass(frozen=True)
class OtherWork:
    """The `load` of other processes that use a core of this machine, and its number of `cores`."""

    load: float
    cores: int

    def note(self, workers: int) -> str:
        """Return a remark on a machine that is so busy that workers of one core take half as long
        again or more; nothing for another one.
        """
        if self.load + min(workers, self.cores) < _BUSY * self.cores:
            return ""
        return (
            f"other work has a load of {self.load:.1f} on the {self.cores} cores of this machine;"
            " while that lasts, all takes longer"
        )


def other_work() -> OtherWork:
    """Look at the load of this machine in the last minute."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return OtherWork(max(load - _OWN_LOAD, 0.0), os.cpu_count() or 1)


@dataclass(frozen=True)
class Forecast:
    """The time of some stages and evaluations.

    Attributes:
        seconds: Key -> seconds, of those whose time can be estimated.
        kinds: Kind of stage -> seconds of all of its kind.
        unknown: Kind of stage -> how many have no estimate.
        measured: How many are of a kind and maker that has run in the storage.
    """

    seconds: Mapping[str, float]
    kinds: Mapping[str, float]
    unknown: Mapping[str, int]
    measured: int

    @property
    def total(self) -> float:
        """Seconds of all that can be estimated."""
        return math.fsum(self.seconds.values())

    def told(self, workers: int, start: float = 0.0) -> str:
        """Return the line of `plan`, with the time on a number of workers at once, until the end,
        and `start`, the seconds before they begin.
        """
        if not self.seconds and not self.unknown:
            return "nothing is left to run"
        unknown = ", ".join(f"{count} {kind}" for kind, count in self.unknown.items())
        rest = f"not known before something like it has run: {unknown}" if unknown else ""
        if not self.seconds:
            return f"time: {rest}"
        kinds = ", ".join(
            f"{kind} {duration(seconds)}"
            for kind, seconds in sorted(self.kinds.items(), key=lambda entry: -entry[1])
            if seconds >= _SHOWN
        )
        whole, basis = len(self.seconds), "from what has run in this storage"
        if not self.measured:
            basis = "before a first run, from the size of the work: within a factor of about 2"
        elif self.measured < whole:
            basis = f"{self.measured} of {whole} {basis}, the others from the size of the work"
        shared = max(self.total / workers, *self.seconds.values())
        ways = [f"{workers} workers"] * (workers > 1) + ["the start of Ray"] * bool(start)
        wall = f", {roughly(shared + start)} with {' and '.join(ways)}" if ways else ""
        bound, rest = ("at least", f"; {rest}") if rest else ("about", "")
        return f"time, {bound}: {roughly(self.total)} of worker time{wall} ({basis}): {kinds}{rest}"


def forecast(plan: Plan, took: Mapping[str, float], left: Iterable[str], speed: Speed) -> Forecast:
    """Estimate the time of stages and evaluations.

    A stage of a kind and maker that has run costs its share of what those took, by the work in
    each.

    Args:
        plan: The plan.
        took: Key -> seconds of what has run.
        left: The keys of what is to run.
        speed: The speed of a worker.
    """
    work, seconds = Work(plan, speed), dict[str, float]()
    kinds, unknown, measured = defaultdict[str, float](float), Counter[str](), 0
    ran: dict[str, list[tuple[float, float | None]]] = defaultdict(list)
    for key, value in took.items():
        if key in plan.stages and not plan.stages[key].inline:
            ran[_alike(plan.stages[key])].append((value, work.seconds(key)))
    for key in left:
        stage, cost = plan.stages[key], work.seconds(key)
        like = [(value, own) for value, own in ran[_alike(stage)] if own or cost is None]
        if cost is None and like:
            cost = math.fsum(value for value, _ in like) / len(like)
        elif cost is not None and like:
            cost *= math.fsum(value for value, _ in like) / math.fsum(own or 0.0 for _, own in like)
        if cost is None:
            unknown[stage.kind] += 1
        else:
            seconds[key] = cost
            kinds[stage.kind] += cost
            measured += bool(like)
    return Forecast(seconds, dict(kinds), dict(unknown), measured)


def _alike(stage: Stage) -> str:
    """Return what stages have in common whose estimates err alike: kind, maker and encoder."""
    readout = "" if stage.kind in DATA else stage.params.get("readout")
    return f"{stage.kind} {stage.maker} {readout}"


def family(plan: Plan, key: str) -> str:
    """Return what stages have in common whose times say something of each other: `data` are made
    without an encoder, `model` with one.
    """
    return "data" if plan.stages[key].kind in DATA else "model"


def quicker_links(plan: Plan, times: Forecast) -> str:
    """Return a line that names a quicker word aligner, where word alignment takes more than half of
    the time that is left; empty elsewhere.
    """
    took: dict[str, float] = defaultdict(float)
    for key, seconds in times.seconds.items():
        took[plan.stages[key].maker] += seconds * (plan.stages[key].kind == "pairs")
    for maker, seconds in took.items():
        if seconds > times.total / 2 and (quicker := catalog("aligners")[maker].QUICKER):
            return (
                f"  most of it is {maker}, about {duration(seconds)}: `pairs: {{aligner:"
                f" {quicker}}}` is much quicker, and makes other links"
            )
    return ""


@dataclass
class Work:
    """The size of a plan's stages, and what they cost on a worker of a speed."""

    plan: Plan
    speed: Speed = Speed(_REFERENCE, _REFERENCE)
    _known: dict[str, float | None] = field(default_factory=dict)
    _footprints: dict[str, Footprint | None] = field(default_factory=dict)
    _sizes: dict[str, float] = field(default_factory=dict)

    def seconds(self, key: str) -> float | None:
        """Return the seconds that making a stage may take; None where its data or its encoder say
        too little.
        """
        if key not in self._known:
            found = self._estimate(self.plan.stages[key])
            self._known[key] = found if found is not None and math.isfinite(found) else None
        return self._known[key]

    def sentences(self, key: str) -> float:
        """Return the number of sentence pairs that a stage of data reads; infinity where it reads
        all of a corpus whose size is not known.
        """
        if key not in self._sizes:
            stage = self.plan.stages[key]
            read = [self.sentences(k) for k in stage.inputs.values() if self._is_data(k)]
            if stage.kind == "bitext":
                self._sizes[key] = _sentences_of(stage)
            elif stage.kind == "pieces" and "data" not in stage.inputs:
                self._sizes[key] = row_count(stage)
            else:
                self._sizes[key] = max(read, default=0.0) if stage.kind == "seen" else sum(read)
        return self._sizes[key]

    def kept(self, key: str) -> float:
        """Return the number of sentence pairs that a stage of data is a training set of."""
        cut = self.plan.stages[key].params.get("sentences")
        inputs = [k for n, k in self.plan.stages[key].inputs.items() if "training" in n]
        if self.plan.stages[key].kind != "bitext" and isinstance(cut, int):  # out of a larger run
            return float(cut)
        return max(map(self.sentences, inputs), default=self.sentences(key))

    def start(self, stage: Stage) -> Stage | None:
        """Return the stage of the encoder that a stage starts from."""
        while stage.kind != "encoder":
            names = ("encoder", "aligned", "trained")
            before = next((stage.inputs[name] for name in names if name in stage.inputs), None)
            if before is None:
                return None
            stage = self.plan.stages[before]
        return stage

    def footprint(self, stage: Stage) -> Footprint | None:
        """Return the sizes of the encoder that a stage reads or starts from."""
        start = self.start(stage)
        if start is None:
            return None
        if start.key not in self._footprints:
            revision = start.digests.get("encoder")
            self._footprints[start.key] = start.plugin().footprint(
                lambda name: revision if name.startswith("hub:") else None
            )
        return self._footprints[start.key]

    def _is_data(self, key: str) -> bool:
        return self.plan.stages[key].kind in DATA

    def _estimate(self, stage: Stage) -> float | None:
        if stage.kind in DATA:
            fixed, each = DATA[stage.kind]
            folder = stage.catalogue if stage.kind == "pairs" else None
            share = 1.0 if folder is None else float(catalog(folder)[stage.maker].SHARE)
            took = (fixed + each * self.sentences(stage.key)) * share
            return took * _REFERENCE / self.speed.core
        found = self.footprint(stage)
        if found is None:
            return None
        if stage.kind == "encoder":
            return self._pretraining(stage, found)
        parameters, languages = found.blocks or found.parameters, stage.params.get("languages", [])
        if stage.kind == "aligned":
            return self._aligned(stage, parameters)
        rows, count = _rows(stage.params.get("task")), len([*languages])  # type: ignore[misc]
        if stage.kind == "tuned" and rows is not None:
            read = rows["train"] * _passes(stage.params.get("task"), rows["train"])
            return self._reading(read * count, 2 * _TRAINED, parameters)
        if "trained" in stage.inputs and rows is not None:
            return self._reading((rows["dev"] + rows["test"]) * count, 2 * _FORWARD, parameters)
        if stage.kind == "tuned" or "trained" in stage.inputs:
            return None
        return self._evaluated(stage, parameters, found.width)

    def _pretraining(self, stage: Stage, found: Footprint) -> float | None:
        steps, batch, window = (stage.params.get(n) for n in ("steps", "batch_size", "window"))
        if not (isinstance(steps, int) and isinstance(batch, int)):
            return None
        tokens = steps * batch * (window if isinstance(window, int) else TOKENS)
        vocabulary = stage.params.get("vocab_size")
        head = vocabulary * found.width if isinstance(vocabulary, int) else 0
        return self._operations(tokens * _TRAINED * (found.blocks + head))

    def _aligned(self, stage: Stage, parameters: int) -> float:
        """Return the cost of a method: a training over its pairs, or one reading of them."""
        pairs = math.fsum(self.kept(key) for name, key in stage.inputs.items() if name != "encoder")
        if not stage.plugin().effect().weights:
            return self._reading(2 * pairs, _FORWARD, parameters)
        passes = _passes(stage.params.get("method"), pairs)
        return self._reading(2 * pairs * passes, _TRAINED + _FROZEN, parameters)

    def _evaluated(self, stage: Stage, parameters: int, width: int) -> float | None:
        """Return the cost of reading held-out sentences and searching among their words."""
        total = 0.0
        for name, key in stage.inputs.items():
            if not name.startswith("heldout/"):
                continue
            pairs = self.plan.stages[key]
            texts = [key] if pairs.kind == "bitext" else list(pairs.inputs.values())
            held = (k for k in texts if self.plan.stages[k].params.get("part") == "heldout")
            count = max(map(self.sentences, held), default=0.0)
            words = _CANDIDATES * count / 2  # dev and test are searched apart
            search = 2 * _SEARCHES * 2 * words * words * width
            total += self._reading(2 * count, _FORWARD, parameters) + self._operations(search)
        return total or None

    def _reading(self, sentences: float, each: int, parameters: int) -> float:
        besides = (_START + sentences * _OVERHEAD) * _REFERENCE / self.speed.core
        return self._operations(sentences * TOKENS * each * parameters) + besides

    def _operations(self, number: float) -> float:
        return number / (_EFFICIENCY * self.speed.products)


def _sentences_of(bitext: Stage) -> float:
    """Return the number of sentence pairs of a `bitext` stage; infinity where it is all of a corpus
    whose size is not among its params.
    """
    params = bitext.params
    if params.get("part") == "heldout":
        split = params.get("split")
        sizes = split.values() if isinstance(split, Mapping) else ()
        return math.fsum(float(size) for size in sizes if isinstance(size, int))
    wanted, corpus = params.get("sentences"), params.get("corpus")
    size = corpus.get("size") if isinstance(corpus, Mapping) else None
    if not isinstance(wanted, int):
        return 0.0
    if isinstance(size, int):
        return float(min(wanted, size))
    return math.inf if wanted == EVERYTHING else float(wanted)


def _rows(task: Any) -> Mapping[str, float] | None:
    """Return how many rows the data of a task has per split, where its params record that."""
    made = task.get("phrasebook") if isinstance(task, Mapping) else None
    if isinstance(made, Mapping) and task.get("data") == "phrasebook":
        return {name: float(made.get(name, 0)) for name in ("train", "dev", "test")}
    return None


def _passes(params: Any, rows: float) -> float:
    """Return how often a training reads its rows: by its steps, or by its epochs."""
    if not isinstance(params, Mapping):
        return 1.0
    steps, batch, epochs = (params.get(name) for name in ("steps", "batch_size", "epochs"))
    if isinstance(steps, int) and steps and isinstance(batch, int) and rows:
        return steps * batch / rows
    return float(epochs) if isinstance(epochs, int | float) else 1.0
