"""Extractive question answering on any data in SQuAD's format: the data are options."""

from __future__ import annotations

from typing import Annotated, Literal, final

from pydantic import Field

from raxalign.tasks.answers.metrics import Rules
from raxalign.tasks.answers.params import HubSets, SpanParams
from raxalign.tasks.answers.task import SpanTask
from raxalign.tasks.transfer.params import DATA, DATASET, REVISION, DataFiles


class SpanSets(HubSets):
    """Data sets of the hub in SQuAD's columns (id, question, context, answers)."""

    dataset: Annotated[str, DATASET] = ""
    config: str = Field("{lang}", description="Configuration of a language in `dataset`.")
    revision: Annotated[str, REVISION] = "main"
    translated_config: str = Field(
        "",
        description=(
            "Configuration of `dataset` with the training questions of another language than the"
            " pivot (empty: there are none)."
        ),
    )


@final
class Spans(SpanTask):
    """Answers as spans of the context, on data that the grid names: a data set without a task of
    its own needs no code.

    Model, settings, training and metrics are those of `mlqa`; answers are compared by the rules of
    SQuAD v1.1 unless `rules` says otherwise.

    Reference: Rajpurkar et al. (2016) for the format; Hu et al. (2020).
    """

    VERSION = 1
    papers = ("rajpurkar2016", "hu2020")

    class Params(SpanParams):
        """`data` is `hub` (sets named under `hub`), or files in SQuAD's format, whose paths may
        hold {lang} and {pivot}.
        """

        data: Annotated[Literal["hub", "phrasebook"] | DataFiles, DATA]
        rules: Rules = Field(
            "squad",
            description="How answers are compared: by MLQA's rules for each language, or SQuAD's.",
        )
        hub: SpanSets = Field(SpanSets(), description="Data sets of the hub, for `data: hub`.")

    params: Params
