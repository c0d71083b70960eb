"""What enters the identity of options."""

from __future__ import annotations

from typing import Annotated

import pytest
from pydantic import Field

from raxalign.catalog import catalog
from raxalign.config.params import LATER, BaseParams


class Before(BaseParams):
    rate: float = 0.1


class After(BaseParams):
    rate: float = 0.1
    swap: Annotated[bool, LATER] = False
    codes: Annotated[dict[str, str], LATER] = Field(default_factory=dict)


def test_an_option_that_came_later_keeps_the_identity_of_results_made_without_it() -> None:
    assert After().identity() == Before().identity() == {"rate": 0.1}
    assert After(swap=False, codes={}).identity() == {"rate": 0.1}


def test_the_options_that_came_later_are_known_with_their_defaults() -> None:
    assert After.later() == {"swap": False, "codes": {}}
    assert Before.later() == {}


def test_at_another_value_it_is_part_of_the_identity() -> None:
    assert After(swap=True, codes={"nl": "nld"}).identity() == {
        "rate": 0.1,
        "swap": True,
        "codes": {"nl": "nld"},
    }


LOOP = {"betas", "clip", "eps", "schedule", "select_every", "selection", "weight_decay"}


@pytest.mark.parametrize(
    ("folder", "kind", "names"),
    [
        ("methods", "rotation", {"max_pieces", "swap", "toward_identity"}),
        ("methods", "strong_contrastive", {"lora", "negatives", *LOOP}),
        ("corpora", "moses", {"pretokenized", "codes"}),
        ("tasks", "dictionary_retrieval", {"swap"}),
    ],
)
def test_these_options_came_later(folder: str, kind: str, names: set[str]) -> None:
    fields = catalog(folder)[kind].Params.model_fields
    assert {name for name, field in fields.items() if LATER in field.metadata} == names
