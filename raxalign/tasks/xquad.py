"""Questions on paragraphs of SQuAD that were translated into eleven languages."""

from __future__ import annotations

from typing import Annotated, ClassVar, final

from pydantic import Field

from raxalign.corpora.readers.codes import names_in
from raxalign.tasks.answers.metrics import Rules
from raxalign.tasks.answers.params import HubSets, SpanParams
from raxalign.tasks.answers.task import SpanTask
from raxalign.tasks.transfer.outcome import Selection
from raxalign.tasks.transfer.params import DATASET, REVISION, SELECTION


class XquadSets(HubSets):
    """XQuAD has one split, called validation there, which is the test set."""

    dataset: Annotated[str, DATASET] = "google/xquad"
    config: str = Field("xquad.{lang}", description="Configuration of a language in `dataset`.")
    dev: str | None = Field(
        None, description="Split of `dataset` for development (none: there is none)."
    )
    test: str | None = Field("validation", description="Split of `dataset` that is the test set.")
    revision: Annotated[str, REVISION] = "main"
    translated_config: str = Field(
        "", description="Configuration of translated training questions (empty: there are none)."
    )


@final
class Xquad(SpanTask):
    """XQuAD: answers as spans of 240 paragraphs of SQuAD v1.1's development set, whose questions
    and contexts were translated by people; trained on SQuAD's questions in English, scored on the
    test set of every language, the pivot too.

    Model, settings and training are those of `mlqa`. The epoch is the last one: there is no
    development set, and SQuAD's own holds the paragraphs that are tested. Metrics are `f1` and
    `exact_match` by the rules of SQuAD v1.1.

    Reference: Artetxe et al. (2020) for the data; Hu et al. (2020) for its use.
    """

    VERSION = 1
    papers = ("artetxe2020", "rajpurkar2016", "hu2020")
    licence: ClassVar[str] = "CC BY-SA 4.0"
    covers = frozenset(names_in("google/xquad"))

    class Params(SpanParams):
        """`data` is `hub`, or files in SQuAD's format, whose paths may hold {lang} and {pivot}."""

        selection: Annotated[Selection, SELECTION] = "last"
        rules: Rules = Field(
            "squad",
            description="How answers are compared: by MLQA's rules for each language, or SQuAD's.",
        )
        hub: XquadSets = Field(XquadSets(), description="Data sets of the hub, for `data: hub`.")

    params: Params
