"""Multiple-choice questions on passages of FLORES-200, in 122 languages and scripts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, final

from pydantic import Field

from raxalign.corpora.readers.codes import names_in, own_code
from raxalign.options.params import Removed
from raxalign.tasks.classifiers.scheme import Columns
from raxalign.tasks.classifiers.task import ClassificationTask
from raxalign.tasks.transfer.params import HubSet

if TYPE_CHECKING:
    from raxalign.tasks.base import TaskInputs
    from raxalign.tasks.classifiers.head import ChoiceHead

BELEBELE = "facebook/belebele"
RACE = HubSet("ehovy/race", "all", "main")
_OF_RACE = "leave it out: `data: hub` trains on RACE; name files of other questions in `data`"
"""The training and development questions."""


@final
class Belebele(ClassificationTask):
    """Belebele: transfer of a classifier that finds the right one of four answers to a question on
    a passage, trained on English questions, scored on the 900 questions of every language, the
    pivot too. All languages have the same questions, translated by people.

    The encoder reads the passage with the question and each answer; one linear layer on the last
    layer's [CLS] gives each answer a logit, and the largest one of the four is chosen. Settings,
    training and metrics are those of `xnli`, with rows of up to 512 subword tokens, of which
    passages are cut first. Questions on one passage are resampled together.

    Training data: Belebele is a test set alone. `data: hub` trains on RACE, whose own development
    set chooses the epoch; RACE is more than half of the training set of Bandarkar et al. (67,500
    questions of RACE, SciQ, MultiRC, MCTest, MCScript2.0 and ReClor), which their script makes:
    name the files of it in `data` to train on all of that.

    Data: RACE, or other questions with four answers, in the pivot; a test set in every language.

    Reference: Bandarkar et al. (2024) for the data; Lai et al. (2017) for RACE.

    Relations: `mlqa` and `tydiqa` ask for a span in place of one of four answers; choose this one
    for languages without other data: it has 122.

    Example:
        tasks:
          belebele: {data: hub, epochs: 3, max_length: 512}
    """

    VERSION = 2
    papers = ("bandarkar2024belebele", "data=hub lai2017race")
    licence: ClassVar[str] = "CC BY-SA 4.0; RACE is for research alone"
    accepts = frozenset({"transformer"})
    labels = ("1", "2", "3", "4")
    columns = Columns(first="flores_passage", label="correct_answer_num")
    unit = "passage"
    row_options = ()  # questions are divided into pieces where they are trained on
    listed = BELEBELE
    language_names = names_in(BELEBELE)

    class Params(ClassificationTask.Params):
        """`data` is `hub` or files with Belebele's columns, or those of its training set, whose
        paths may hold {lang} and {pivot}: languages have their codes in FLORES-200 there.
        """

        removed: ClassVar[Mapping[str, Removed]] = {
            "train_dataset": Removed(_OF_RACE, default=RACE.dataset),
            "train_config": Removed(_OF_RACE, default=RACE.config),
        }
        dataset: str = BELEBELE
        max_length: int = Field(512, ge=8)

    def head(self, inputs: TaskInputs) -> ChoiceHead:
        """Return the reader of the questions, and the maker and judge of classifiers."""
        from raxalign.tasks.classifiers.head import ChoiceHead

        return ChoiceHead(self, inputs)

    def hub_sets(self, lang: str, pivot: str) -> dict[str, HubSet]:
        """Return the data set, and for the pivot what is trained and chosen on."""
        config = own_code(lang, self.names)
        found = {"hub": HubSet(self.params.dataset, config, self.params.revision)}
        if lang == pivot:
            found |= {"train": RACE, "dev": RACE}
        return found

    def check(self, languages: tuple[str, ...], pivot: str) -> list[str]:
        """Report what all classifiers report, and training questions that the hub does not have."""
        faults = super().check(languages, pivot)
        reads = [lang for lang in languages if self.trains_on(lang, pivot)]
        if self.params.data == "hub" and [lang for lang in reads if lang != pivot]:
            faults.append(
                "the hub has training questions in English alone: write `setting: zero-shot`, or"
                " name files in `data`"
            )
        return faults
