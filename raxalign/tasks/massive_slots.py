"""Slots of requests to an assistant, in 52 languages."""

from __future__ import annotations

from typing import ClassVar, final

from raxalign.corpora.readers.codes import names_in
from raxalign.tasks.taggers.scheme import TagColumns
from raxalign.tasks.taggers.task import TaggingTask

MASSIVE = "AmazonScience/massive"


@final
class MassiveSlots(TaggingTask):
    """MASSIVE's slots: zero-shot transfer of a slot tagger, trained on the pivot, scored on dev and
    test of every language, the pivot too. `classification` has the intents (`preset:
    massive_intents`).

    Formula: slot F1 = 2PR / (P + R) over all requests, a slot being right with its type and both
    ends. Taggers and metrics are those of `ner`.

    The words of a request and their slots are those of its column `annot_utt` (``wake me at [time :
    nine am]``), divided at spaces, and in Japanese and Chinese into characters, Latin words whole,
    as MASSIVE's own code divides them. Two neighbouring slots of one type are two slots here; that
    code joins them.

    Data: requests with slots: training data in the pivot, dev and test data in every language.

    Reference: FitzGerald et al. (2023) for the data.

    Relations: `slots` reads requests of your own files; its intents are `classification` with
    `preset: massive_intents`.

    Example:
        tasks:
          massive_slots: {data: hub, tagger: linear, epochs: 5}
          intents: {kind: classification, preset: massive_intents}
    """

    VERSION = 2
    papers = ("fitzgerald2023",)
    licence: ClassVar[str] = "CC BY 4.0"
    columns = TagColumns(annotated="annot_utt")
    listed = MASSIVE
    language_names = names_in(MASSIVE)

    class Params(TaggingTask.Params):
        """`data` is `hub`, or files with a word per line and its tag, whose paths may hold {lang}
        and {pivot}: languages have MASSIVE's codes there (``de-DE``); see also `ner`.
        """

        dataset: str = MASSIVE
        revision: str = "refs/convert/parquet"
