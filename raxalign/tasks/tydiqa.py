"""Questions that were asked in nine languages by their speakers: the gold passages of TyDi QA."""

from __future__ import annotations

from typing import ClassVar, final

from raxalign.corpora.readers.codes import names_in
from raxalign.tasks.answers.task import HubSets, SpanTask
from raxalign.tasks.transfer.params import Selection

TYDIQA = "google-research-datasets/tydiqa"


@final
class Tydiqa(SpanTask):
    """TyDi QA's gold passages: answers as spans of a passage of Wikipedia, to questions that
    speakers of each language asked without knowing the answer; trained on the questions of the
    pivot, scored on the set that is called validation, which is the test set of XTREME.

    Model and training are those of `mlqa`. The epoch is the last one: there is no development set.
    Metrics are `f1` and `exact_match` by the rules of SQuAD v1.1. Questions are not translations of
    each other, so `translate-train` trains on the questions of all languages, and `g-xlt` finds no
    question twice.

    Data: questions with their passages: training data in the pivot, a test set in every language.

    Reference: Clark et al. (2020) for the data; Hu et al. (2020) for its use.

    Relations: `mlqa` and `spans` (`preset: xquad`) have questions that were translated from
    English.

    Example:
        tasks:
          tydiqa: {data: hub, languages: [ar, bn, fi, ko, ru, sw], epochs: 3}
    """

    VERSION = 2
    papers = ("clark2020tydiqa", "hu2020")
    licence: ClassVar[str] = "Apache-2.0"
    listed = TYDIQA
    language_names = names_in(TYDIQA)
    rules = "squad"
    sets = HubSets(  # all languages are in one configuration
        dataset=TYDIQA,
        config="secondary_task",
        dev=None,
        test="validation",
        revision="main",
        train_dataset=TYDIQA,
        train_config="secondary_task",
        translated_config="secondary_task",
        ids="{lang}-",
    )

    class Params(SpanTask.Params):
        """`data` is `hub`, or files in SQuAD's format, whose paths may hold {lang} and {pivot}:
        languages are called by their English names there (``english``).
        """

        selection: Selection = "last"
