"""Every evaluation in these tests is held to what its task declares, and to its own predictions; a
tiny encoder of some words is made once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import wraps
from typing import Any

import pytest
import torch

from raxalign.analysis.cells import MEANS
from raxalign.catalog import catalog
from raxalign.caveats import Caveats
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.measured import Measured
from raxalign.tasks.base import Outcome, Task
from raxalign.values.predictions import samples_of
from tests.tiny import tiny_bert

UNTESTED = {"bleu1_sacrebleu"}  # it is over whole texts, and only some of them are kept
"""Scores whose predictions do not divide into independent units."""


def held_to_declaration(kind: type[Task]) -> Callable[..., Outcome]:
    """The evaluation of a task, which fails for a metric that the task does not declare, for a
    value that the declaration excludes, and for one that its predictions do not give; and for a
    note that holds a number and is neither told to the user nor said to be private.
    """
    evaluate: Callable[..., Outcome] = kind.evaluate

    @wraps(evaluate)
    def checked(task: Task, *args: Any, **kwargs: Any) -> Outcome:
        outcome = evaluate(task, *args, **kwargs)
        unknown = {
            score.metric
            for score in outcome.scores
            if Measured.find(kind.metrics, score.metric) is None
        }
        assert not unknown, f"{kind.__name__}.metrics lacks {sorted(unknown)}"
        for score in outcome.scores:
            declared = Measured.find(kind.metrics, score.metric)
            assert declared is not None
            fault = declared.fault(score.value, mean=score.lang in MEANS)
            assert not fault, f"{kind.__name__}: {score.metric} {fault}"
        refuse_other_samples(kind, outcome)
        untold = sorted(undeclared(outcome.notes))
        assert not untold, f"{kind.__name__}: Caveats.TOLD or PRIVATE lack the notes {untold}"
        return outcome

    return checked


def undeclared(notes: Mapping[str, Any]) -> Iterator[str]:
    """The notes that hold numbers or lists, and are neither told nor private."""
    for name, note in notes.items():
        if name in Caveats.TOLD or name in Caveats.PRIVATE:
            continue
        if isinstance(note, Mapping):
            yield from undeclared(note)
        elif isinstance(note, (int, list, tuple)):
            yield name


def refuse_other_samples(kind: type[Task], outcome: Outcome) -> None:
    """Fail where the sample of a score is not there, or is of another value."""
    found = {
        (score.lang, score.metric, score.split): score.value
        for score in outcome.scores
        if score.lang not in MEANS
    }
    for name, sample in samples_of(kind.metrics, outcome.predictions, found).items():
        declared = Measured.find(kind.metrics, name[1])
        assert declared is not None
        if sample is not None:
            assert sample.value == pytest.approx(found[name], abs=1e-9), f"{kind.__name__}: {name}"
            assert sample.influence().sum() == pytest.approx(0, abs=1e-9), name
        else:
            tested = declared.sign and declared.role in ("score", "part")
            assert not tested or name[1] in UNTESTED, f"{kind.__name__}: {name} has no sample"


@pytest.fixture(autouse=True, scope="session")
def _only_declared_metrics() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for kind in catalog("tasks").values():
            patch.setattr(kind, "evaluate", held_to_declaration(kind))
        yield


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., TransformerEncoder]:
    """Return the tiny encoder of some words, of 32 positions where no other number is given."""
    torch.set_num_threads(1)
    made: dict[object, TransformerEncoder] = {}

    def encoder(words: Iterable[str], **options: int) -> TransformerEncoder:
        words, options = tuple(words), {"positions": 32, **options}
        key = (words, *options.items())
        if key not in made:
            folder = tiny_bert(tmp_path_factory.mktemp("tiny"), words, **options)
            made[key] = TransformerEncoder.from_folder(folder)
        return made[key]

    return encoder
