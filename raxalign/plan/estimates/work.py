"""What making a stage costs, before anything like it ran: floating-point operations from the number
of tokens and the encoder's parameters, and what each sentence takes besides.

The constants were fitted on one machine to a grid on sentences of Tatoeba and to the built-in
quickstart. An estimate is within a factor of about two for sentences of this length; `forecast`
corrects it by what was measured.

How many sentence pairs the text of a plan has, as far as the plan says it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from raxalign.catalog import catalog
from raxalign.plan.expansion.data import EVERYTHING
from raxalign.plan.expansion.prepared import row_count

if TYPE_CHECKING:
    from raxalign.encoders.models.folder import Footprint
    from raxalign.plan.estimates.speed import Speed
    from raxalign.plan.plan import Plan
    from raxalign.plan.stage import Stage


def sentences_of(bitext: Stage) -> float:
    """Return the number of sentence pairs of a `bitext` stage; infinity where it is all of a corpus
    whose size is not among its params.
    """
    params = bitext.params
    if params.get("part") == "heldout":
        split = params.get("split")
        sizes = split.values() if isinstance(split, Mapping) else ()
        return math.fsum(float(size) for size in sizes if isinstance(size, int))
    wanted, corpus = params.get("sentences"), params.get("corpus")
    if not isinstance(wanted, int):
        return 0.0
    size = corpus.get("size") if isinstance(corpus, Mapping) else None
    if isinstance(size, int):
        return float(min(wanted, size))
    return math.inf if wanted == EVERYTHING else float(wanted)


TOKENS = 14
"""Pieces per sentence."""
_FORWARD, _TRAINED = 2, 6  # operations per parameter and token: forward, and with gradients
_FROZEN = 2  # a frozen copy of the encoder that reads the same tokens
_EFFICIENCY = 0.5  # of a bare product
_REFERENCE = 1.2e11  # operations per second of the core that the seconds below are of
_OVERHEAD = 4e-4  # seconds per sentence that an encoder reads
_CANDIDATES = 8  # words per sentence that are candidates of a retrieval
_SEARCHES = 6  # products of all candidates that retrieval takes per split
_PER_SENTENCE = {  # seconds, and seconds per sentence pair, of what runs no encoder
    "bitext": (0.1, 1e-4),
    "text": (0.05, 2e-5),
    "pairs": (1.5, 5e-4),
    "seen": (0.05, 1e-5),
    "pieces": (1.0, 2e-4),
}
_START = 0.5  # seconds to load an encoder


@dataclass
class Work:
    """The cost of a plan's stages on a worker of a speed."""

    plan: Plan
    speed: Speed
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
        """Return the number of sentence pairs that a stage of data holds or reads; infinity where
        it reads all of a corpus whose size is not known.
        """
        if key not in self._sizes:
            self._sizes[key] = self._count(self.plan.stages[key])
        return self._sizes[key]

    def _count(self, stage: Stage) -> float:
        if stage.kind == "bitext":
            return sentences_of(stage)
        if stage.kind == "pieces" and "data" not in stage.inputs:
            return row_count(stage)
        if stage.kind == "seen":
            return max((self.sentences(key) for key in stage.inputs.values()), default=0.0)
        if stage.kind in _PER_SENTENCE:
            return math.fsum(self.sentences(key) for key in stage.inputs.values())
        return 0.0

    def _estimate(self, stage: Stage) -> float | None:
        if stage.kind in _PER_SENTENCE:
            fixed, each = _PER_SENTENCE[stage.kind]
            took = (fixed + each * self.sentences(stage.key)) * _share(stage)
            return took * _REFERENCE / self.speed.core
        found = self._footprint(stage)
        if found is None:
            return None
        parameters = found.blocks or found.parameters
        if stage.kind == "encoder":
            return self._pretraining(stage, found)
        if stage.kind == "aligned":
            return self._aligned(stage, parameters)
        rows = _rows(stage.params.get("task"))
        if stage.kind == "tuned":
            return None if rows is None else self._tuned(stage, parameters, rows["train"])
        if "trained" in stage.inputs:
            if rows is None:
                return None
            count = (rows["dev"] + rows["test"]) * len(_languages(stage))
            return self._reading(count, 2 * _FORWARD, parameters)
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
        read = [self._read(key) for name, key in stage.inputs.items() if name != "encoder"]
        pairs = math.fsum(read)
        if not stage.plugin().effect().weights:
            return self._reading(2 * pairs, _FORWARD, parameters)
        passes = _passes(stage.params.get("method"), pairs)
        return self._reading(2 * pairs * passes, _TRAINED + _FROZEN, parameters)

    def _read(self, key: str) -> float:
        """Return the sentence pairs that a method reads from an input: those of a training set."""
        stage = self.plan.stages[key]
        if stage.kind in ("bitext", "text"):
            return self.sentences(key)
        cut = stage.params.get("sentences")  # of the pairs that are cut out of a larger run
        if isinstance(cut, int):
            return float(cut)
        inputs = [self.sentences(k) for n, k in stage.inputs.items() if "training" in n]
        return max(inputs, default=self.sentences(key))

    def _tuned(self, stage: Stage, parameters: int, rows: float) -> float:
        passes = _passes(stage.params.get("task"), rows)
        return self._reading(rows * passes * len(_languages(stage)), 2 * _TRAINED, parameters)

    def _evaluated(self, stage: Stage, parameters: int, width: int) -> float | None:
        """Return the cost of reading held-out sentences and searching among their words."""
        total = 0.0
        for name, key in stage.inputs.items():
            if not name.startswith("heldout/"):
                continue
            pairs = self.plan.stages[key]
            texts = [key] if pairs.kind == "bitext" else list(pairs.inputs.values())
            sizes = [
                self.sentences(text)
                for text in texts
                if self.plan.stages[text].params.get("part") == "heldout"
            ]
            count = max(sizes, default=0.0)
            words = _CANDIDATES * count / 2  # dev and test are searched apart
            search = 2 * _SEARCHES * 2 * words * words * width
            total += self._reading(2 * count, _FORWARD, parameters) + self._operations(search)
        return total or None

    def _reading(self, sentences: float, each: int, parameters: int) -> float:
        operations = sentences * TOKENS * each * parameters
        besides = (_START + sentences * _OVERHEAD) * _REFERENCE / self.speed.core
        return self._operations(operations) + besides

    def _operations(self, number: float) -> float:
        return number / (_EFFICIENCY * self.speed.products)

    def _footprint(self, stage: Stage) -> Footprint | None:
        """Return the sizes of the encoder that a stage reads or starts from."""
        while stage.kind != "encoder":
            names = ("encoder", "aligned", "trained")
            before = next((stage.inputs[name] for name in names if name in stage.inputs), None)
            if before is None:
                return None
            stage = self.plan.stages[before]
        if stage.key not in self._footprints:

            def revision(name: str) -> str | None:
                return stage.digests.get("encoder") if name.startswith("hub:") else None

            self._footprints[stage.key] = stage.plugin().footprint(revision)
        return self._footprints[stage.key]


def group(plan: Plan, key: str) -> str:
    """Return what stages have in common whose estimates err alike: kind, maker and encoder."""
    stage = plan.stages[key]
    readout = "" if stage.kind in _PER_SENTENCE else stage.params.get("readout")
    return f"{stage.kind} {stage.maker} {readout}"


def family(plan: Plan, key: str) -> str:
    """Return what stages have in common whose times say something of each other: `data` are made
    without an encoder, `model` with one.
    """
    return "data" if plan.stages[key].kind in _PER_SENTENCE else "model"


def _share(stage: Stage) -> float:
    """Return what the word aligner of a stage takes of the time of eflomal; 1 for other stages."""
    folder = stage.catalogue if stage.kind == "pairs" else None
    return 1.0 if folder is None else float(catalog(folder)[stage.maker].SHARE)


def _languages(stage: Stage) -> list[Any]:
    found: Any = stage.params.get("languages", [])
    return list(found)


def _rows(task: Any) -> Mapping[str, float] | None:
    """Return how many rows the data of a task has per split, where its params record that."""
    if not isinstance(task, Mapping):
        return None
    made = task.get("phrasebook")
    if task.get("data") == "phrasebook" and isinstance(made, Mapping):
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
