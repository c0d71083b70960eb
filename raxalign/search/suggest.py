"""What Optuna decides: the next point of a study, and whether a trial ends early. Pure functions of
the study and of what was tried.

Nothing is kept between two decisions, so that a search which was killed goes on as if it had not
been: a study is made anew in memory each time, with a seed from the study's and the number of
points.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.pruners import BasePruner, MedianPruner, SuccessiveHalvingPruner
from optuna.trial import FrozenTrial, TrialState

from raxalign.config.search import Space, Value
from raxalign.search.study import Study
from raxalign.store.key import digest

_ATTEMPTS, _DRAWS = 8, 1000
_PRUNERS: Mapping[str, Callable[[], BasePruner]] = {
    "median": MedianPruner,
    "asha": partial(SuccessiveHalvingPruner, min_resource=1),
}
optuna.logging.set_verbosity(optuna.logging.WARNING)


def distributions(spaces: Iterable[Space]) -> dict[str, BaseDistribution]:
    """Return the spaces as Optuna has them."""
    found: dict[str, BaseDistribution] = {}
    for space in spaces:
        if space.kind == "choice":
            found[space.name] = CategoricalDistribution(space.choices)
        elif space.kind == "int":
            found[space.name] = IntDistribution(int(space.low), int(space.high))
        else:
            found[space.name] = FloatDistribution(space.low, space.high, log=space.log)
    return found


def direction(study: Study) -> str:
    """Return the direction of the objective as Optuna names it."""
    return "minimize" if study.objective.lower else "maximize"


def suggest(study: Study, tried: Sequence[FrozenTrial]) -> dict[str, Value] | None:
    """Return the next point, which none of those that were tried or run is; None where all points
    of the space were tried.
    """
    there = {_identity(trial.params) for trial in tried}
    return next((p for p in _proposals(study, tried) if _identity(p) not in there), None)


def _proposals(study: Study, tried: Sequence[FrozenTrial]) -> Iterator[dict[str, Value]]:
    """Yield points until one is new: of the sampler, then random ones, then every one there is."""
    for attempt in range(_ATTEMPTS):
        yield _ask(study, tried, _seed(study, len(tried), attempt))
    chance = random.Random(_seed(study, len(tried), -1))
    for _ in range(_DRAWS):
        yield {space.name: space.at(chance.random()) for space in study.spaces}
    if all(space.kind in {"int", "choice"} for space in study.spaces):
        names = [space.name for space in study.spaces]
        for point in product(*(space.values() for space in study.spaces)):
            yield dict(zip(names, point, strict=True))


def _seed(study: Study, number: int, attempt: int) -> int:
    """Return the seed of the sampler for the point of a number."""
    return int(digest([study.name, study.sampler_seed, number, attempt])[:8], 16)


def _ask(study: Study, tried: Sequence[FrozenTrial], seed: int) -> dict[str, Value]:
    """Ask an Optuna sampler that knows all points so far."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        memory = optuna.create_study(direction=direction(study), sampler=_sampler(study, seed))
        memory.add_trials(tried)
        asked = memory.ask(distributions(study.spaces))
    return {space.name: space.tidy(asked.params[space.name]) for space in study.spaces}


def _sampler(study: Study, seed: int) -> optuna.samplers.BaseSampler:
    if study.sampler == "random":
        return optuna.samplers.RandomSampler(seed=seed)
    # a trial that runs counts as a bad one, so that parallel suggestions differ
    return optuna.samplers.TPESampler(
        multivariate=True,
        constant_liar=True,
        n_startup_trials=10 if study.most is None else min(10, max(2, study.most // 4)),
        seed=seed,
    )


def _identity(values: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, repr(value)) for name, value in values.items()))


def prunes(study: Study, own: Sequence[float], others: Sequence[FrozenTrial]) -> bool:
    """Return whether the study's pruner, with Optuna's defaults, ends a trial at its last dev
    selection. The selections are the steps: trainings of other lengths can be compared.

    Args:
        study: The study.
        own: The scores of the trial at its dev selections so far.
        others: The other trials, with their scores so far.
    """
    sampler = optuna.samplers.RandomSampler(seed=0)
    pruner = _PRUNERS[study.pruner]()
    memory = optuna.create_study(direction=direction(study), sampler=sampler, pruner=pruner)

    def replayed(scores: Iterable[float]) -> tuple[optuna.Trial, bool]:
        trial, ends = memory.ask(), False
        for number, score in enumerate(scores, start=1):
            trial.report(score, number)
            ends = bool(trial.should_prune())  # keeps what the rungs of `asha` compare
        return trial, ends

    for other in others:
        trial, _ = replayed(value for _, value in sorted(other.intermediate_values.items()))
        if other.state.is_finished() and other.intermediate_values:
            done = other.state == TrialState.COMPLETE
            memory.tell(trial, other.value if done else None, state=other.state)
    return replayed(own)[1]
