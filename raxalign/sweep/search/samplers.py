"""The next point of a study: a pure function of the study and of what was tried.

Nothing is kept between two suggestions, so that a search which was killed goes on as if it had not
been: the sampler is made anew each time, with a seed from the study's and the number of points.
"""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import FrozenTrial

from raxalign.config.search_spaces import Space, Value
from raxalign.plan.study import Study
from raxalign.store.key import digest

Values = Mapping[str, Value]
_ATTEMPTS, _DRAWS = 8, 1000
optuna.logging.set_verbosity(optuna.logging.WARNING)


@dataclass(frozen=True)
class Proposal:
    """A suggested point: its values, and what the sampler keeps with it."""

    values: dict[str, Value]
    notes: Mapping[str, Any] = field(default_factory=dict)


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


def directions(study: Study) -> list[str]:
    """Return the directions of the objectives as Optuna names them."""
    return ["minimize" if objective.lower else "maximize" for objective in study.objectives]


def suggest(study: Study, tried: Sequence[FrozenTrial]) -> Proposal | None:
    """Return the next point, which none of those that were tried or run is; None where all points
    of the space were tried.
    """
    there = {_identity(trial.params) for trial in tried}
    return next((p for p in _proposals(study, tried) if _identity(p.values) not in there), None)


def _proposals(study: Study, tried: Sequence[FrozenTrial]) -> Iterator[Proposal]:
    """Yield points until one is new: of the sampler, then random ones."""
    if study.sampler == "grid":
        yield from (Proposal(values) for values in _grid(study))
        return
    if study.sampler == "qmc":
        yield from (Proposal(values) for values in _sobol(study, len(tried)))
    else:
        for attempt in range(_ATTEMPTS):
            yield _ask(study, tried, seed_of(study, len(tried), attempt))
    chance = random.Random(seed_of(study, len(tried), -1))
    for _ in range(_DRAWS):
        yield Proposal({space.name: space.at(chance.random()) for space in study.spaces})
    if all(space.kind in {"int", "choice"} for space in study.spaces):
        yield from (Proposal(values) for values in _every(study, int(1e6)))


def seed_of(study: Study, number: int, attempt: int = 0) -> int:
    """Return the seed of the sampler for the point of a number."""
    return int(digest([study.name, study.sampler_seed, number, attempt])[:8], 16)


def _ask(study: Study, tried: Sequence[FrozenTrial], seed: int) -> Proposal:
    """Ask an Optuna sampler that knows all points so far, in memory."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        memory = optuna.create_study(directions=directions(study), sampler=_sampler(study, seed))
        memory.add_trials(tried)
        memory.ask(distributions(study.spaces))
    (asked,) = memory.get_trials(deepcopy=False)[len(tried) :]
    values = {space.name: space.tidy(asked.params[space.name]) for space in study.spaces}
    return Proposal(values, asked.system_attrs)


def _sampler(study: Study, seed: int) -> optuna.samplers.BaseSampler:
    if study.sampler == "random":
        return optuna.samplers.RandomSampler(seed=seed)
    if study.sampler == "nsga2":
        # some generations have to fit into the budget
        most = study.most
        size = 20 if most is None else min(50, max(4, round(math.sqrt(most) * 2)))
        return optuna.samplers.NSGAIISampler(population_size=size, seed=seed)
    # a trial that runs counts as a bad one, so that parallel suggestions differ
    return optuna.samplers.TPESampler(
        multivariate=True,
        constant_liar=True,
        n_startup_trials=10 if study.most is None else min(10, max(2, study.most // 4)),
        seed=seed,
    )


def _sobol(study: Study, number: int) -> Iterator[dict[str, Value]]:
    """Yield the points of the scrambled Sobol sequence from one number on."""
    from scipy.stats import qmc

    sequence = qmc.Sobol(len(study.spaces), scramble=True, rng=seed_of(study, 0))
    if number:  # SciPy refuses to forward by nothing
        sequence.fast_forward(number)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a power of two is not what is asked for
        shares = sequence.random(_ATTEMPTS)
    for point in shares:
        pairs = zip(study.spaces, point, strict=True)
        yield {space.name: space.at(float(share)) for space, share in pairs}


def _grid(study: Study) -> list[dict[str, Value]]:
    """The points of a grid that has no more points than the study may have, in a random order:
    choices are taken whole, and ranges have as many values each as there is room for.
    """
    assert study.most is not None
    steps = 1
    while len(_every(study, steps + 1)) <= study.most and steps < study.most:
        steps += 1
    points = _every(study, max(steps, 2))
    random.Random(seed_of(study, 0)).shuffle(points)
    return points


def _every(study: Study, most: int) -> list[dict[str, Value]]:
    values = [space.values(most) for space in study.spaces]
    names = [space.name for space in study.spaces]
    return [dict(zip(names, point, strict=True)) for point in product(*values)]


def _identity(values: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, repr(value)) for name, value in values.items()))
