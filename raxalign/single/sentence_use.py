"""What sentence-transformers reads of an exported encoder, and which scores of its trial that
gives.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from raxalign.encoders.models.sentence_config import SentenceConfig
from raxalign.encoders.models.sentence_module import SentenceUse, layers_read, meets
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.encoders.models.vectors import parse_layers
from raxalign.single.ways import RAXALIGN, SENTENCES, WEIGHTS

if TYPE_CHECKING:
    from raxalign.encoders.models.aligned import AlignedEncoder
    from raxalign.plan.plan import Plan
    from raxalign.plan.trial import Trial

_OWN = "own"


@dataclass(frozen=True)
class _Reading:
    """How a task reads sentences."""

    layers: str
    pooling: str
    specials: bool


def use_of(
    plan: Plan, trial: Trial, aligned: AlignedEncoder, language: str | None = None
) -> SentenceUse:
    """Return how sentence-transformers is to read a trial's encoder: as the trial's tasks measured
    sentences, where they all did it in one way, or else as its own configuration says.
    """
    languages = (*trial.languages, plan.pivot)
    read = {
        reading
        for task in trial.evaluations
        if (reading := _reading(plan, trial, task)) and _possible(reading, aligned)
    }
    if len(read) != 1:
        return SentenceUse(languages, language)
    (reading,) = read
    pooling = None if reading.pooling == _OWN else reading.pooling
    return SentenceUse(languages, language, reading.layers, pooling)  # type: ignore[arg-type]


def ways(
    plan: Plan, trial: Trial, aligned: AlignedEncoder, use: SentenceUse
) -> dict[str, tuple[str, ...]]:
    """Return the ways of loading an export that give the scores of each task; none where a task's
    own training came before readouts that were fitted again.
    """
    found: dict[str, tuple[str, ...]] = {}
    for task, key in trial.evaluations.items():
        if plan.stages[key].inputs["aligned"] != trial.aligned:
            found[task] = ()
            continue
        found[task] = tuple(_ways(_reading(plan, trial, task), aligned, use))
    return found


def _ways(reading: _Reading | None, aligned: AlignedEncoder, use: SentenceUse) -> Iterator[str]:
    yield RAXALIGN
    if reading is not None and _same(reading, aligned, use):
        yield SENTENCES
    if not aligned.transforms and aligned.encoder.family == "transformer":
        yield WEIGHTS


def _reading(plan: Plan, trial: Trial, task: str) -> _Reading | None:
    """How a task of a trial reads sentences; None where it does not."""
    stage = plan.stages[trial.evaluations[task]]
    if stage.maker != "sentence_retrieval":
        return None
    params = stage.params["task"]
    assert isinstance(params, dict)
    specials = params.get("specials", "include") == "include"
    return _Reading(str(params["layers"]), str(params["pooling"]), specials)


def _possible(reading: _Reading, aligned: AlignedEncoder) -> bool:
    """Whether sentence-transformers can read like that."""
    encoder = aligned.encoder
    layers = parse_layers(reading.layers, aligned.n_layers)
    last = reading.pooling == "last"
    return (
        isinstance(encoder, TransformerEncoder)
        and reading.specials
        and not (last and encoder.trailing)
        and (layers == (aligned.n_layers,) or meets(aligned.transforms, layers))
    )


def _same(reading: _Reading, aligned: AlignedEncoder, use: SentenceUse) -> bool:
    """Whether sentence-transformers reads like that."""
    own = getattr(aligned.encoder, "sentences", None) or SentenceConfig()
    poolings = {use.pooling} if use.pooling is not None else {_OWN, own.prompt or own.pooling}
    layers = parse_layers(reading.layers, aligned.n_layers)
    return (
        _possible(reading, aligned)
        and layers == layers_read(use, aligned.transforms, aligned.n_layers)
        and reading.pooling in poolings
    )
