"""What tasks declare of their metrics, over the whole catalogue."""

from __future__ import annotations

import re
from itertools import product
from typing import Any

import pytest

from raxalign.catalog import catalog
from raxalign.measured import Measured
from raxalign.report.catalogue import as_markdown, describe
from raxalign.tasks.base import Outcome, Score, Task
from tests.tasks.conftest import held_to_declaration

KINDS: dict[str, type[Task]] = dict(catalog("tasks").items())


def examples(name: str) -> list[str]:
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
def test_the_main_metric_is_a_declared_score(kind: str) -> None:
    main = KINDS[kind].measured(KINDS[kind].main_metric)
    assert main is not None
    assert main.name == KINDS[kind].main_metric
    assert main.role == "score"


@pytest.mark.parametrize("kind", KINDS)
def test_every_metric_has_one_declaration_and_one_sentence(kind: str) -> None:
    declared = KINDS[kind].metrics
    for entry in declared:
        assert re.fullmatch(r"[A-Z](?:(?!\. [A-Z]).)*\.", entry.about), entry
        for metric in examples(entry.name):
            assert [other for other in declared if other.names(metric)] == [entry]


ANISOTROPY = ("anisotropy", "anisotropy_pivot")
LAYERS = tuple(f"layer3_{name}" for name in ("language_probe", *ANISOTROPY))
NUMBERS = {"representation": (*ANISOTROPY, *LAYERS[1:])}
LOWER = {
    "word_alignment": ("alignment_error_rate",),
    "sentence_retrieval": ("own_language",),
}
NEITHER = {
    "representation": ("language_probe", *ANISOTROPY, *LAYERS),
    "sentence_retrieval": ("pivot_language",),
}


@pytest.mark.parametrize("kind", KINDS)
def test_units_and_directions_are_those_of_this_list(kind: str) -> None:
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


@pytest.mark.parametrize("kind", KINDS)
def test_pages_show_every_metric(kind: str) -> None:
    card, page = " ".join(describe("tasks", kind).split()), as_markdown("tasks", kind)
    for entry in KINDS[kind].metrics:
        assert " ".join(entry.about.split()) in card
        assert entry.about.replace("|", "\\|") in page
        assert entry.name.replace("|", "\\|") in page
    assert f"{KINDS[kind].main_metric}: main metric, " in card


def test_an_evaluation_that_reports_more_than_it_declares_fails_here() -> None:
    class Reports(Task):
        VERSION = 1
        main_metric = "f1"
        metrics = (Measured("f1", "Some share."), Measured("layer{l}_f1", "The same at a layer."))

        def evaluate(self, *args: Any, **kwargs: Any) -> Outcome:
            found = [Score("de", metric, "test", 1.0) for metric in ("f1", "layer2_f1", "recall")]
            return Outcome(found, None)  # type: ignore[arg-type]

    with pytest.raises(AssertionError, match=r"Reports.metrics lacks \['recall'\]"):
        held_to_declaration(Reports)(Reports(Task.Params()))
