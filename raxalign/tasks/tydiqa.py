"""Questions that were asked in nine languages by their speakers: the gold passages of TyDi QA."""

from __future__ import annotations

from typing import Annotated, ClassVar, final

from raxalign.corpora.readers.codes import names_in
from raxalign.tasks.answers.metrics import Rules
from raxalign.tasks.answers.params import HubSets, SpanParams
from raxalign.tasks.answers.task import SpanTask
from raxalign.tasks.transfer.outcome import Selection
from raxalign.tasks.transfer.params import DATASET, REVISION

TYDIQA = "google-research-datasets/tydiqa"


class TydiqaSets(HubSets):
    """All languages are in one configuration; ids begin with the name of the language."""

    dataset: Annotated[str, DATASET] = TYDIQA
    config: str = "secondary_task"
    """Configuration of `dataset`."""
    dev: str | None = None
    """Split of `dataset` for development (none: there is none)."""
    test: str | None = "validation"
    """Split of `dataset` that is the test set."""
    revision: Annotated[str, REVISION] = "main"
    train_dataset: str = TYDIQA
    """Data set of the hub with the pivot's training questions."""
    train_config: str = "secondary_task"
    """Configuration of `train_dataset`."""
    translated_config: str = "secondary_task"
    """Configuration of `dataset` with the training questions of other languages."""
    ids: str = "{lang}-"
    """What the ids of a language's questions begin with in `dataset`."""


@final
class Tydiqa(SpanTask):
    """TyDi QA's gold passages: answers as spans of a passage of Wikipedia, to questions that
    speakers of each language asked without knowing the answer; trained on the questions of the
    pivot, scored on the set that is called validation, which is the test set of XTREME.

    Model and training are those of `mlqa`. The epoch is the last one: there is no development set.
    Metrics are `f1` and `exact_match` by the rules of SQuAD v1.1. Questions are not translations of
    each other, so `translate-train` trains on the questions of all languages, and `g-xlt` finds no
    question twice.

    Reference: Clark et al. (2020) for the data; Hu et al. (2020) for its use.
    """

    VERSION = 1
    papers = ("clark2020tydiqa", "hu2020")
    licence: ClassVar[str] = "Apache-2.0"
    listed = TYDIQA
    language_names = names_in(TYDIQA)

    class Params(SpanParams):
        """`data` is `hub`, or files in SQuAD's format, whose paths may hold {lang} and {pivot}:
        languages are called by their English names there (``english``).
        """

        selection: Selection = "last"
        rules: Rules = "squad"
        """How answers are compared: by MLQA's rules for each language, or SQuAD's."""
        hub: TydiqaSets = TydiqaSets()
        """Data sets of the hub, for `data: hub`."""

    params: Params
