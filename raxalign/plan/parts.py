"""The parts of a grid with searches: the trials that it names, and its studies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from raxalign.config.axes import LANGUAGE, Axis
from raxalign.errors import RaxalignError
from raxalign.plan.load import select

if TYPE_CHECKING:
    from raxalign.plan.plan import Plan
    from raxalign.plan.study import Study
    from raxalign.plan.trial import Trial

_KNOWN = (Axis.METHOD, LANGUAGE, Axis.ENCODER, Axis.SENTENCES)


def choose(
    plan: Plan, *, only: str | None = None, shard: str | None = None, limit: int | None = None
) -> tuple[Plan, tuple[Study, ...]]:
    """Return the plan of the chosen trials that the grid names, and the chosen studies.

    Args:
        plan: The plan of the whole grid.
        only: See `raxalign.plan.load.select`. In a grid with searches the conditions are on what
            studies have: method, language, encoder and sentences.
        shard: See there. Several processes share a search by running it as it is.
        limit: See there. A search is limited by its budget instead.

    Raises:
        RaxalignError: The conditions choose nothing, or a search cannot have them.
    """
    if not plan.studies:
        return select(plan, only=only, shard=shard, limit=limit), ()
    if shard is not None:
        raise RaxalignError(
            "--shard: a grid with a search has no shards: start the same command in each process,"
            " and they share its studies"
        )
    if limit is not None:
        raise RaxalignError("--limit: a search is limited by its own budget (`search.budget`)")
    conditions = _conditions(only)
    studies = tuple(study for study in plan.studies if _meets(study, conditions))
    named = [trial for trial in plan.trials if trial.searched is None]
    trials = [trial for trial in named if _meets(trial, conditions)]
    if not studies and not trials:
        raise RaxalignError(f"--only {only}: no trial and no study is selected")
    return plan.only(iter(trials)), studies


def _conditions(only: str | None) -> dict[str, str]:
    found: dict[str, str] = {}
    for condition in (only or "").split(","):
        name, equals, value = (part.strip() for part in condition.partition("="))
        if name and not equals:
            raise RaxalignError(f"--only {condition!r}: write name=value, as method=finetune")
        if name and name not in _KNOWN:
            raise RaxalignError(
                f"--only: unknown name {name!r} in a grid with a search; known: {', '.join(_KNOWN)}"
            )
        found |= {name: value} if name else {}
    return found


def _meets(entry: Study | Trial, conditions: Mapping[str, str]) -> bool:
    values: dict[str, tuple[str, ...]] = {
        Axis.METHOD: (entry.method,),
        LANGUAGE: entry.languages,
        Axis.ENCODER: (entry.encoder,),
        Axis.SENTENCES: (str(entry.sentences),),
    }
    return all(value in values[name] for name, value in conditions.items())
