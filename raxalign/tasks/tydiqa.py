"""Questions that were asked in nine languages by their speakers: the gold passages of TyDi QA."""

from __future__ import annotations

from typing import ClassVar, final

from raxalign.corpora.readers.codes import names_in
from raxalign.tasks.answers.metrics import Rules
from raxalign.tasks.answers.params import HubSets, SpanParams
from raxalign.tasks.answers.task import SpanTask
from raxalign.tasks.transfer.outcome import Selection

TYDIQA = "google-research-datasets/tydiqa"


class TydiqaSets(HubSets):
    """All languages are in one configuration; ids begin with the name of the language."""

    dataset: str = TYDIQA
    config: str = "secondary_task"
    dev: str | None = None
    test: str | None = "validation"
    revision: str = "main"
    train_dataset: str = TYDIQA
    train_config: str = "secondary_task"
    translated_config: str = "secondary_task"
    ids: str = "{lang}-"


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

    VERSION = 2
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
        hub: TydiqaSets = TydiqaSets()

    params: Params
