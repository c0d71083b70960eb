"""What the ledger has in the spaces of a study before it begins: the trials of grids that have run
in the same storage.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from raxalign.config.spaces import Value, at_path
from raxalign.plan.stored import stored_texts
from raxalign.plan.study import Study


def known_points(
    trials: Iterable[Mapping[str, Any]], study: Study, kind: str
) -> list[dict[str, Value]]:
    """Return the different points in the spaces of a study that planned trials have.

    Whether they are trials of the study, and have results, is for their keys to say: another value
    of a param that is not searched makes another key.

    Args:
        trials: The trials (`planned_trials`).
        study: The study.
        kind: The kind of its method.
    """
    found: dict[str, dict[str, Value]] = {}
    for trial in trials:
        alike = trial["kind"] == kind and tuple(trial["languages"]) == study.languages
        if alike and trial["seed"] in (None, study.seed):
            point = _point(study, trial["params"])
            if point is not None:
                found[json.dumps(point, sort_keys=True)] = point
    return [found[text] for text in sorted(found)]


def _point(study: Study, params: Mapping[str, Any]) -> dict[str, Value] | None:
    """Return the values of the spaces that params have; None where one lies outside."""
    try:
        return {space.name: space.find(at_path(params, space.name)) for space in study.spaces}
    except LookupError:
        return None


def planned_trials(root: str) -> Iterator[Mapping[str, Any]]:
    """Yield the trials of all plans that were run in a storage. A plan that cannot be read belongs
    to another version, and is left out.
    """
    for text in stored_texts(root):
        try:
            yield from json.loads(text)["trials"]
        except (ValueError, KeyError):
            continue
