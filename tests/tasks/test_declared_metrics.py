"""What tasks declare of their metrics, over the whole catalogue."""

from __future__ import annotations

import re
from itertools import product

import pytest

from raxalign.catalog import catalog
from raxalign.tasks.base import Task

KINDS: dict[str, type[Task]] = dict(catalog("tasks").items())


def examples(name):
    """Every name that a declaration stands for, with 3 for a number.

    >>> examples("layer{l}_{a|b}")
    ['layer3_a', 'layer3_b']
    """
    parts = re.split(r"\{([^{}]*)\}", name)
    choices = [
        [part] if place % 2 == 0 else part.split("|") if "|" in part else ["3"]
        for place, part in enumerate(parts)
    ]
    return ["".join(chosen) for chosen in product(*choices)]


@pytest.mark.parametrize("kind", KINDS)
def test_every_metric_has_one_declaration_and_one_sentence(kind):
    declared, main = KINDS[kind].metrics, KINDS[kind].measured(KINDS[kind].main_metric)
    assert main is not None
    assert (main.name, main.role) == (KINDS[kind].main_metric, "score")
    for entry in declared:
        assert re.fullmatch(r"[A-Z](?:(?!\. [A-Z]).)*\.", entry.about), entry
        for metric in examples(entry.name):
            assert [other for other in declared if other.names(metric)] == [entry]


ANISOTROPY = ("anisotropy", "anisotropy_pivot")
LAYERS = tuple(f"layer3_{name}" for name in ("language_probe", *ANISOTROPY))
NUMBERS = {"representation": (*ANISOTROPY, *LAYERS[1:])}
LOWER = {"word_alignment": ("alignment_error_rate",)}
NEITHER = {"representation": ("language_probe", *ANISOTROPY, *LAYERS)}


@pytest.mark.parametrize("kind", KINDS)
def test_units_and_directions_are_those_of_this_list(kind):
    """What is not a count, nor in one of the lists, is a share of which higher values are better;
    a standard error is in the unit of its share.
    """
    for entry in KINDS[kind].metrics:
        for metric in examples(entry.name):
            plain = "lower" if metric in LOWER.get(kind, ()) else "higher"
            neutral = entry.role in ("count", "error") or metric in NEITHER.get(kind, ())
            assert entry.better == ("neither" if neutral else plain), metric
            unit = "number" if metric in NUMBERS.get(kind, ()) else "share"
            assert entry.unit == ("count" if entry.role == "count" else unit), metric
            counted = metric.endswith(("_pairs", "_count"))
            assert (entry.role == "count") is counted, metric
            assert (entry.role == "error") is metric.endswith("_stderr"), metric
