"""Intents of requests to an assistant, in 52 languages."""

from __future__ import annotations

from typing import Annotated, ClassVar, final

from raxalign.corpora.readers.codes import names_in
from raxalign.tasks.classifiers.params import ClassificationParams
from raxalign.tasks.classifiers.scheme import Columns
from raxalign.tasks.classifiers.task import ClassificationTask
from raxalign.tasks.transfer.params import DATASET, REVISION

MASSIVE = "AmazonScience/massive"


@final
class MassiveIntents(ClassificationTask):
    """MASSIVE's intents: transfer of a classifier of what a request asks for, of 60 intents, scored
    on dev and test of every language, the pivot too. `massive_slots` is about what is in it.

    Model, settings and training are those of `xnli`. Metrics are `accuracy` per language, and its
    means `avg` (over all languages) and `avg_zero_shot` (over all but the pivot). Requests that
    were trained on too are counted in the notes, and marked in the predictions.

    Reference: FitzGerald et al. (2023) for the data.
    """

    VERSION = 1
    papers = ("fitzgerald2023massive",)
    licence: ClassVar[str] = "CC BY 4.0"
    columns = Columns(first="utt", label="intent", language="locale", split="partition", group="id")
    repeats = True
    language_names = names_in(MASSIVE)
    covers = frozenset(language_names)

    class Params(ClassificationParams):
        """`data` is `hub` or MASSIVE's .jsonl, whose paths may hold {lang} and {pivot}: languages
        have MASSIVE's codes there (``de-DE``), and the column `partition` tells the splits apart.
        """

        dataset: Annotated[str, DATASET] = MASSIVE
        revision: Annotated[str, REVISION] = "refs/convert/parquet"

    params: Params
