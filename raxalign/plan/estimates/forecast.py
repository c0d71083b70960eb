"""How long the stages of a plan take and how large they are: as others like them in this storage,
in proportion to the work in each. Before anything like them has run, there is one plain estimate
per kind: by sentences, and for what runs an encoder by its parameters and the tokens that it reads.
Their number comes from the plan, and for the rows of a task from the sizes of its files.

The constants were fitted on one machine to a grid on sentences of Tatoeba and to the built-in
quickstart. On a similar machine an estimate is within a factor of about two for such sentences.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from raxalign.catalog import catalog
from raxalign.encoders.models.folder import Footprint
from raxalign.options.run import Keep
from raxalign.plan.estimates.cost import duration, roughly, volume
from raxalign.plan.expansion.data import EVERYTHING, ROW_BYTES, row_count
from raxalign.plan.expansion.identity import UNRESOLVED
from raxalign.plan.plan import Plan
from raxalign.plan.stage import Stage
from raxalign.plan.values.retention import below, weights_of
from raxalign.printing import counted

CORE, GPU = 1.2e11, 2e13
"""Operations per second that are assumed of one core, and of a GPU."""
TOKENS = 14
"""Pieces per sentence."""
WORKERS_SECONDS, RAY_SECONDS = 4.0, 6.0
"""Seconds until workers have started, and before that until Ray has."""
_DATA = {  # seconds, and seconds and bytes per sentence pair, of what runs no encoder
    "bitext": (0.1, 1e-4, 140),
    "text": (0.05, 2e-5, 85),
    "pairs": (1.5, 5e-4, 190),
    "seen": (0.05, 1e-5, 25),
    "pieces": (1.0, 2e-4, 480),
}
_ROW_BYTES = {".conllu": 1_700, ".json": 70}
"""Bytes of a task's files per row of twice `TOKENS` pieces, where `ROW_BYTES` are too few or too
many, by suffix: CoNLL-U has ten columns per word, and each question of SQuAD's JSON is read with
its whole paragraph.
"""
_FORWARD, _TRAINED = 2, 6  # operations per parameter and token: forward, and with gradients
_FROZEN = 2  # a frozen copy of the encoder that reads the same tokens
_EFFICIENCY = 0.5  # of a bare product
_START, _OVERHEAD = 0.5, 4e-4  # seconds to load an encoder, and per sentence that it reads
_SHOWN = 0.5  # seconds: kinds of stages that take less are not named
_FLOAT = 4  # bytes: encoders are loaded and saved in float32
_HELD = 2.2  # where they are held in bfloat16, with what adapters were merged into
_RECORD, _PREDICTED = 3_000, 40  # bytes of an evaluation, and of predictions per sentence read
_TAGGER, _DEEP = 28_000_000, 1_000  # bytes of one on a frozen encoder, of any number of layers
_COPIES = 3  # a checkpoint holds the weights and two moments of each


@dataclass(frozen=True)
class Forecast:
    """The time of some stages and evaluations."""

    seconds: Mapping[str, float]  # by key, of those whose time can be estimated
    kinds: Mapping[str, float]  # kind of stage -> seconds of all of its kind
    unknown: Mapping[str, int]  # kind of stage -> how many have no estimate
    measured: int  # how many are of a kind and maker that has run in the storage
    missing: str = ""  # what is not known, where that is most of it: a total would mislead

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
        if self.missing:
            return f"time, not known yet: {self.missing}"
        rest = f"not known before something like it has run: {_counts(self.unknown)}"
        if not self.seconds:
            return f"time: {rest}"
        whole, basis = len(self.seconds), "from what has run in this storage"
        if not self.measured:
            basis = "before a first run, from the size of the work: within a factor of about 2"
        elif self.measured < whole:
            basis = f"{self.measured} of {whole} {basis}, the others from the size of the work"
        shared = max(self.total / workers, *self.seconds.values())
        ways = [f"{workers} workers"] * (workers > 1) + ["the start of Ray"] * bool(start)
        wall = f", {roughly(shared + start)} with {' and '.join(ways)}" if ways else ""
        bound, rest = ("at least", f"; {rest}") if self.unknown else ("about", "")
        long = {kind: seconds for kind, seconds in self.kinds.items() if seconds >= _SHOWN}
        parts = f": {sizes}" if (sizes := _by_size(long, duration)) else ""
        return f"time, {bound}: {roughly(self.total)} of worker time{wall} ({basis}){parts}{rest}"


@dataclass(frozen=True)
class Disk:
    """Bytes of a grid's artifacts, and of its evaluations in the ledger."""

    kinds: Mapping[str, int]  # kind of stage -> bytes of all its stages, none of them dropped
    after: Mapping[str, int]  # value of `run.keep` -> bytes when the grid is done
    peak: Mapping[str, int]  # value of `run.keep` -> most bytes while it runs, with checkpoints
    unknown: Mapping[str, int]  # kind of stage -> how many of its stages have no known size
    measured: int  # how many sizes come from what was made
    missing: str = ""  # as of `Forecast`; there are then no totals in `after` and `peak`

    def told(self, keep: Keep) -> str:
        """Return the line of `plan`."""
        if self.missing:
            return f"disk, not known yet: {self.missing}"
        policies = "; ".join(
            f"run.keep: {name} {volume(self.after[name])} (peak {volume(self.peak[name])})"
            for name in sorted(self.after, key=lambda name: name != keep)
        )
        unknown = f"; not known yet: {_counts(self.unknown)}" if self.unknown else ""
        kinds = _by_size(self.kinds, volume) or "nothing"
        return f"disk, about: {policies}; all of it: {kinds}{unknown}"


def _counts(numbers: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in numbers.items())


def _by_size(kinds: Mapping[str, float], told: Callable[[float], str]) -> str:
    ranked = sorted(kinds.items(), key=lambda entry: -entry[1])
    return ", ".join(f"{kind} {told(size)}" for kind, size in ranked if size)


def worker_speed(threads: int, *, gpu: bool) -> float:
    """Return the operations per second of a worker with some cores, or with a GPU."""
    return GPU if gpu else CORE * threads


def forecast(
    plan: Plan, took: Mapping[str, float], left: Iterable[str], speed: float = CORE
) -> Forecast:
    """Estimate the time of the stages and evaluations that are `left`, by the seconds that others
    `took`, both by key, and the operations per second of a worker (`speed`).
    """
    work, seconds, measured = Work(plan, speed), dict[str, float](), 0
    kinds, unknown = defaultdict[str, float](float), list[str]()
    for key, cost, like in _corrected(plan, took, left, work.seconds):
        if cost is None:
            unknown.append(key)
        else:
            seconds[key] = cost
            kinds[plan.stages[key].kind] += cost
            measured += like
    counts = dict(Counter(plan.stages[key].kind for key in unknown))
    missing = work.missing(unknown, {*unknown, *seconds})
    return Forecast(seconds, dict(kinds), counts, measured, missing)


def estimate_disk(plan: Plan, measured: Mapping[str, int], at_once: int | None = None) -> Disk:
    """Estimate the bytes of a plan's artifacts and evaluations by those that were `measured`, by
    key, also of what was dropped since. So many trials run `at_once` (None: one).
    """
    weights = weights_of(plan)
    work, kinds, unknown, sizes = Work(plan), Counter[str](), list[str](), dict[str, int]()
    stored = [key for key, stage in plan.stages.items() if not stage.inline]
    plain = {key: work.size(key, has_weights=key in weights) for key in stored}
    for key, size, _ in _corrected(plan, measured, stored, plain.get):
        found = measured.get(key, size)
        unknown += [key] * (found is None)
        sizes[key] = round(found or 0)
        kinds[plan.stages[key].kind] += sizes[key]
    counts, known = Counter(plan.stages[k].kind for k in unknown), measured.keys() & sizes.keys()
    missing = work.missing(unknown, stored)
    after, peak = _policies(plan, sizes, weights, at_once or 1)
    if missing:
        after, peak = {}, {}
    return Disk(dict(kinds), after, peak, dict(counts), len(known), missing)


def _corrected(
    plan: Plan,
    measured: Mapping[str, float],
    keys: Iterable[str],
    plain: Callable[[str], float | None],
) -> Iterator[tuple[str, float | None, bool]]:
    """Yield the estimate of each key (None: nothing is known), and whether it comes from what was
    measured of the same kind and maker: the `plain` estimate by the ratio of the two there, or
    without one the mean of what was measured.
    """
    made: dict[str, list[tuple[float, float | None]]] = defaultdict(list)
    for key, value in measured.items():
        if key in plan.stages and not plan.stages[key].inline:
            made[_alike(plan.stages[key])].append((value, plain(key)))
    for key in keys:
        own = plain(key)
        like = [(value, cost) for value, cost in made[_alike(plan.stages[key])] if cost or not own]
        if like:
            total = math.fsum(value for value, _ in like)
            own = own * total / math.fsum(c or 0.0 for _, c in like) if own else total / len(like)
        yield key, own, bool(like)


def _alike(stage: Stage) -> str:
    """Return what stages have in common whose estimates err alike: kind, maker and readout."""
    readout = "" if stage.kind in _DATA else stage.params.get("readout")
    return f"{stage.kind} {stage.maker} {readout}"


def family(plan: Plan, key: str) -> str:
    """Return what stages have in common whose times say something of each other: `data` are made
    without an encoder, `model` with one.
    """
    return "data" if plan.stages[key].kind in _DATA else "model"


def _policies(
    plan: Plan, sizes: Mapping[str, int], weights: AbstractSet[str], at_once: int
) -> tuple[dict[str, int], dict[str, int]]:
    """Return for each value of `run.keep` the bytes at the end and the most bytes."""

    def size(keys: Collection[str]) -> int:
        return sum(sizes[key] for key in keys)

    behind, users = below(plan, weights), Counter[str]()
    own: list[frozenset[str]] = []
    for trial in plan.trials:
        used = frozenset().union(*(behind[key] for key in trial.evaluations.values()))
        own.append(used)
        users.update(used)
    shared = {key for key, count in users.items() if count > 1}
    kept: dict[str, AbstractSet[str]] = {"all": weights, "none": frozenset()}
    running = at_once * max((size(used - shared) for used in own), default=0)
    largest = max((sizes[key] for key in weights if _trains_all(plan.stages[key])), default=0)
    total, training = size(sizes), min(at_once, len(weights)) * _COPIES * largest
    after = {name: total - size(weights - kept[name]) for name in get_args(Keep)}
    peak = {
        name: min(total, left + size(shared - kept[name]) + running) + training
        for name, left in after.items()
    }
    return after, peak


def _trains_all(stage: Stage) -> bool:
    """Whether a checkpoint holds all weights; one of adapters is small."""
    method: Any = stage.params.get("method", {})
    return "lora" not in method


def quicker_links(plan: Plan, times: Forecast) -> str:
    """Return a line that names a quicker word aligner, where word alignment takes more than half of
    the time that is left; empty elsewhere.
    """
    took: dict[str, float] = defaultdict(float)
    for key, seconds in times.seconds.items():
        took[plan.stages[key].maker] += seconds * (plan.stages[key].kind == "pairs")
    for maker, seconds in took.items() if not times.missing else ():
        if seconds > times.total / 2 and (quicker := catalog("aligners")[maker].QUICKER):
            return (
                f"  most of it is {maker}, about {duration(seconds)}: `pairs: {{aligner:"
                f" {quicker}}}` is much quicker, and makes other links"
            )
    return ""


@dataclass
class Work:
    """The plain estimates of a plan's stages, on a worker of a speed."""

    plan: Plan
    speed: float = CORE
    _footprints: dict[str, Footprint | None] = field(default_factory=dict)
    _sizes: dict[str, float] = field(default_factory=dict)
    _held: dict[str, float] = field(default_factory=dict)

    def seconds(self, key: str) -> float | None:
        """Return the seconds that making a stage may take; None where too little is known."""
        stage = self.plan.stages[key]
        if stage.kind in _DATA:
            fixed, each, _ = _DATA[stage.kind]
            aligns = stage.kind == "pairs" and stage.catalogue is not None
            share: float = catalog("aligners")[stage.maker].SHARE if aligns else 1.0
            seconds = (fixed + each * self.sentences(key)) * share
        else:
            found, (read, each) = self._footprint(stage), self._read(stage)
            if found is None:
                return None
            products = read * TOKENS * each * (found.blocks or found.parameters)
            seconds = _START + read * _OVERHEAD + products / (_EFFICIENCY * self.speed)
        return seconds if math.isfinite(seconds) else None

    def size(self, key: str, *, has_weights: bool) -> float | None:
        """Return the bytes of a stage, which may be trained weights or maps of an encoder's
        vectors, or a record with predictions; None where they are not known.
        """
        stage = self.plan.stages[key]
        if stage.kind in _DATA:
            size = self.kept(key) * _DATA[stage.kind][2]
            return size if math.isfinite(size) else None
        if stage.kind == "evaluation":
            size = _RECORD + self._read(stage)[0] * _PREDICTED
            return size if math.isfinite(size) else None
        if stage.kind == "tuned" and not stage.plugin().reads(_DEEP).tunes:
            return _TAGGER
        found = self._footprint(stage)
        if found is None or stage.kind != "aligned" or has_weights:
            each = _FLOAT if stage.base_precision == "fp32" else _HELD
            return None if found is None else found.parameters * each
        languages: Any = stage.params["languages"]
        return (len(languages) + 1) * found.width * (found.width + 1) * _FLOAT

    def missing(self, unknown: Collection[str], every: Collection[str]) -> str:
        """Return what is not known, where that is most trainings, or without any most stages."""
        trained = weights_of(self.plan).intersection(every)
        lacking = [self.plan.stages[key] for key in unknown if key in (trained or unknown)]
        if 2 * len(lacking) <= len(trained or every):
            return ""
        told = counted(len(lacking), "training run" if trained else "stage")
        if all(map(self._footprint, lacking)):
            return f"{told} on data whose size is not known yet"
        return f"{told} of an encoder whose size is not known yet (`raxalign fetch` looks it up)"

    def sentences(self, key: str) -> float:
        """Return the number of sentence pairs that a stage of data reads; infinity where it reads
        all of a corpus whose size is not known.
        """
        if key not in self._sizes:
            stage = self.plan.stages[key]
            read = [
                self.sentences(entry)
                for entry in stage.inputs.values()
                if self.plan.stages[entry].kind in _DATA
            ]
            if stage.kind == "bitext":
                self._sizes[key] = _sentences_of(stage)
            elif stage.kind == "pieces" and "data" not in stage.inputs:
                self._sizes[key] = row_count(stage)
            else:
                self._sizes[key] = max(read, default=0.0) if stage.kind == "seen" else sum(read)
        return self._sizes[key]

    def kept(self, key: str) -> float:
        """Return the number of sentence pairs that a stage of data is a training set of."""
        stage = self.plan.stages[key]
        cut = stage.params.get("sentences")
        if stage.kind != "bitext" and isinstance(cut, int):  # out of a larger run
            return float(cut)
        inputs = [entry for name, entry in stage.inputs.items() if "training" in name]
        return max(map(self.sentences, inputs), default=self.sentences(key))

    def _footprint(self, stage: Stage) -> Footprint | None:
        """Return the sizes of the encoder that a stage reads or starts from."""
        while stage.kind != "encoder":
            names = ("encoder", "aligned", "trained")
            before = next((stage.inputs[name] for name in names if name in stage.inputs), None)
            if before is None:
                return None
            stage = self.plan.stages[before]
        if stage.key not in self._footprints:
            found = stage.digests.get("encoder", UNRESOLVED)
            revision = None if found.startswith(UNRESOLVED) else found
            self._footprints[stage.key] = stage.plugin().footprint(
                lambda name: revision if name.startswith("hub:") else None
            )
        return self._footprints[stage.key]

    def _read(self, stage: Stage) -> tuple[float, int]:
        """Return the number of sentences that a stage reads by its encoder (infinity where it is
        not known), and the operations per parameter and token.
        """
        params = stage.params
        if stage.kind == "encoder":
            numbers = [params.get(name) for name in ("steps", "batch_size", "window")]
            steps, batch, window = (n if isinstance(n, int) else 0 for n in numbers)
            return steps * batch * (window or TOKENS) / TOKENS or math.inf, _TRAINED
        if stage.kind == "aligned":
            data = (entry for name, entry in stage.inputs.items() if name != "encoder")
            pairs = math.fsum(map(self.kept, data))
            if not stage.plugin().effect().weights:
                return 2 * pairs, _FORWARD
            if stage.task is not None:
                return self._read_jointly(stage.task, params["method"]), _TRAINED + _FROZEN
            return 2 * pairs * _passes(params.get("method"), pairs), _TRAINED + _FROZEN
        count, task = len([*params.get("languages", ())]), params.get("task")  # type: ignore[misc]
        if stage.kind == "tuned":
            rows = self._rows(stage, count, "train")
            return 2 * count * rows * _passes(task, rows), _TRAINED
        if "trained" in stage.inputs:
            return 2 * count * self._rows(stage, count, "dev", "test"), _FORWARD
        total = 0.0
        for key in (key for name, key in stage.inputs.items() if name.startswith("heldout/")):
            made = self.plan.stages[key]
            texts = [key] if made.kind == "bitext" else list(made.inputs.values())
            held = (k for k in texts if self.plan.stages[k].params.get("part") == "heldout")
            total += max(map(self.sentences, held), default=0.0)
        return 2 * total or math.inf, _FORWARD

    def _rows(self, stage: Stage, count: int, *splits: str) -> float:
        """Return how many rows the splits of a task have in each of `count` languages: as many as
        are made, or about as many as their files hold; infinity where neither is known.
        """
        task: Any = stage.params["task"]
        made = task.get("data") == "phrasebook" and task.get("phrasebook")
        if made:
            return float(sum(made.get(split, 0) for split in splits))
        wanted = (name for name in stage.locations if name.partition("/")[0] in splits)
        places = {stage.locations[name] for name in wanted}
        held = math.fsum(map(self._rows_in, places)) if places else math.inf
        most = task.get("max_train") if "train" in splits else None
        return min(held / max(count, 1), most or math.inf)

    def _rows_in(self, place: str) -> float:
        """Return the rows that a file of a task holds, about; infinity where it is not here."""
        if place not in self._held:
            path = Path(place)
            size = path.stat().st_size if path.is_absolute() and path.is_file() else math.inf
            self._held[place] = size / _ROW_BYTES.get(path.suffix, ROW_BYTES)
        return self._held[place]

    def _read_jointly(self, task: Stage, method: Any) -> float:
        """Return the number of sentences that a method and a task read in one training."""
        (rows, _), options = self._read(task), task.params.get("task")
        steps = rows / 2 / _batch(options)
        return rows + 2 * steps * _batch(method)


def _batch(params: Any) -> int:
    """Return the rows of a training step."""
    return int(params.get("batch_size") or 1)


def _sentences_of(bitext: Stage) -> float:
    """Return the number of sentence pairs of a `bitext` stage; infinity where it is all of a corpus
    whose size is not among its params.
    """
    params: Mapping[str, Any] = bitext.params
    if params.get("part") == "heldout":
        split = params.get("split")
        return float(sum(split.values())) if isinstance(split, Mapping) else 0.0
    wanted, size = params.get("sentences", 0), params["corpus"].get("size")
    if isinstance(size, int):
        return float(min(wanted, size))
    return math.inf if wanted == EVERYTHING else float(wanted)


def _passes(params: Any, rows: float) -> float:
    """Return how often a training reads its rows: by its steps, or by its epochs."""
    steps, batch, epochs = (params.get(name) for name in ("steps", "batch_size", "epochs"))
    if isinstance(steps, int) and steps and isinstance(batch, int) and rows:
        return steps * batch / rows
    return float(epochs) if isinstance(epochs, int | float) else 1.0
