"""Further training on a few examples of one target language, and what it then answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from raxalign.arrays import Ints
from raxalign.caveats import listener
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.lazy import np
from raxalign.tasks.transfer.few_shot import refuse_too_few
from raxalign.tasks.transfer.head import Head, HeldOut
from raxalign.tasks.transfer.training import TrainingRun, Tuning
from raxalign.train.chance import SHOTS, mix
from raxalign.train.runtime import Runtime


class FewShots:
    """A model of one language, which begins with the weights of the pivot's training for each
    number of shots and each draw (Lauscher et al. 2020; Zhao et al. 2021).

    Batches and Adam are those of the task. The rate is constant, there is no warm-up, and the last
    weights count: to stop early, as Zhao et al. do, takes a development set of the language.
    Raises `DataError` where the training set of the language has too few rows that the model can
    learn: those whose labels the pivot's training set has too.
    """

    def __init__(self, head: Head, aligned: AlignedEncoder, lang: str, runtime: Runtime) -> None:
        self.head, self.lang, self.params = head, lang, head.params
        self.runtime = replace(runtime, checkpoints=None, watch=None, report=lambda *_: None)
        found = head.check_trained(head.rows("train", lang))
        usable = np.flatnonzero(head.learnable(found))
        self.rows, less = found.at(usable), len(found) - len(usable)
        told = f"{less:,} of {len(found):,} {found.noun} are not drawn as shots"
        told = f"{told}: the pivot's training set does not have their labels"
        self.notes = {f"{lang}/shots": {"left_out": less, "warning": told}} if less else {}
        refuse_too_few(found, len(usable), self.params.shots[-1])
        self.model = head.new_model(aligned, runtime.seed)

    def evaluate(
        self, start: Path, held_out: Sequence[HeldOut]
    ) -> Iterator[tuple[int, int, HeldOut, Any]]:
        """Yield the number of shots, the draw, and predictions on each held-out set, of models that
        begin with the weights of a file. Raises `DataError` where examples are evaluated too.
        """
        inputs = {held.place: self.head.inputs_of(self.model, held) for held in held_out}
        for draw in range(self.params.draws):
            seed = mix(self.runtime.seed, draw, SHOTS)
            places = drawn(self.head.strata(self.rows), seed)
            for shots in self.params.shots[1:]:
                rows = self.rows.at(places[:shots])
                known = np.sort(rows.fingerprints())
                seen = {
                    held.place: held.seen | held.rows.seen_in(known, self.head.allowed)
                    for held in held_out
                }
                self.train(start, rows, replace(self.runtime, seed=seed), shots)
                for held in held_out:
                    predicted = self.head.predict(self.model, inputs[held.place])
                    yield shots, draw, replace(held, seen=seen[held.place]), predicted

    def train(self, start: Path, rows: Any, runtime: Runtime, shots: int) -> None:
        """Train the model on rows of the language, from the weights of a file."""
        self.model.load(start)
        own, rate = self.head.settings(self.model), self.params.shot_learning_rate
        changed: dict[str, Any] = {"warmup": 0.0, "schedule": "constant"}
        changed |= {"learning_rate": rate or own.learning_rate, "epochs": self.params.shot_epochs}
        tuning = Tuning(self.model, self.head.batches(self.model, {self.lang: rows}))
        name = f"{self.head.task.name}-{self.lang}-shots{shots}"
        tuning.fit(replace(own, **changed), TrainingRun(runtime, name, start.parent), None)
        if (heard := listener()) is not None:  # few steps end where they end
            heard.still_falling.pop(name, None)


def drawn(strata: Ints, seed: int) -> Ints:
    """Return rows (R,) in the order in which they are drawn: at random, from the strata (their
    numbers (R,) from 0) in turn. The first k are what k shots are.

    >>> strata = np.array([0, 0, 0, 1, 1, 2])
    >>> sorted(strata[drawn(strata, seed=5)[:3]].tolist())
    [0, 1, 2]
    """
    random = np.random.Generator(np.random.PCG64(seed))
    places = random.permutation(len(strata))
    turns = random.permutation(int(strata.max()) + 1 if len(strata) else 0)
    given, ranks = strata[places], np.zeros(len(strata), np.int64)
    for stratum in np.unique(given):
        own = given == stratum
        ranks[own] = np.arange(own.sum())
    return np.asarray(places[np.lexsort((turns[given], ranks))])
