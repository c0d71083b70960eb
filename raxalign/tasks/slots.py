"""Slots of requests across languages: a tagger that is trained on the pivot."""

from __future__ import annotations

from typing import Literal, final

from raxalign.tasks.taggers.scheme import TagColumns
from raxalign.tasks.taggers.task import TaggingTask
from raxalign.tasks.transfer.params import DataFiles


@final
class Slots(TaggingTask):
    """Zero-shot transfer of a slot tagger: trained on the pivot, scored on dev and test of every
    language, the pivot too.

    Taggers, metrics and options are those of `ner`, with slots as entities.

    Formula: slot F1 = 2PR / (P + R) over all sentences, a slot being right with its type and both
    ends (counted as conlleval does).

    Data: a word per line, a tab or spaces, its BIO tag, blank lines between requests; or
    MultiATIS++'s .tsv with their header (id, utterance, slot_labels, intent), words and labels
    separated by spaces (some of its rows have other numbers of words and of labels: `mismatched:
    drop` leaves these out, and the results say how many); or the phrasebook's requests.

    Reference: Kulshreshtha et al. (2020, §4).

    Relations: `massive_slots` has slots of 51 languages; `ner` is for entities in running text.

    Example:
        tasks:
          slots:
            profile: paper
            data:
              train: "atis/train.{pivot}.conll"
              dev: "atis/dev.{lang}.conll"
              test: "atis/test.{lang}.conll"
    """

    VERSION = 4
    papers = ("kulshreshtha2020", "data=hub xu2020")
    columns = TagColumns(tags=("slots", "tags", "ner_tags"))

    class Params(TaggingTask.PaperParams):
        """`data` is `phrasebook`, files, whose paths may hold {lang} and {pivot}, or `hub` with the
        name of a `dataset` that has the columns `tokens` and `slots`, `tags` or `ner_tags`; see
        also `ner`.
        """

        data: Literal["hub", "phrasebook"] | DataFiles
