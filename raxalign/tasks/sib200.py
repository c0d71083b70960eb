"""Topics of sentences of FLORES-200, in 205 languages."""

from __future__ import annotations

from typing import Annotated, ClassVar, final

from raxalign.corpora.readers.codes import names_in
from raxalign.tasks.classifiers.params import ClassificationParams
from raxalign.tasks.classifiers.scheme import Columns
from raxalign.tasks.classifiers.task import ClassificationTask
from raxalign.tasks.transfer.params import DATASET, REVISION

SIB200 = "Davlan/sib200"


@final
class Sib200(ClassificationTask):
    """SIB-200: transfer of a classifier of the topic of a sentence, of seven, scored on dev and
    test of every language, the pivot too. All languages have the same 701 training, 99 development
    and 204 test sentences, translated by people (FLORES-200).

    Model, settings and training are those of `xnli`; 701 sentences are few, so ask for more
    `epochs` than three. Metrics are `accuracy` per language, and its means `avg` (over all
    languages) and `avg_zero_shot` (over all but the pivot).

    Reference: Adelani et al. (2024) for the data.
    """

    VERSION = 1
    papers = ("adelani2024sib200",)
    licence: ClassVar[str] = "CC BY-SA 4.0"
    labels = (
        *("science/technology", "travel", "politics", "sports", "health", "entertainment"),
        "geography",
    )
    columns = Columns(first="text", label="category", group="index_id")
    language_names = names_in(SIB200)
    covers = frozenset(language_names)

    class Params(ClassificationParams):
        """`data` is `hub` or files with the columns `index_id`, `category` and `text`, whose paths
        may hold {lang} and {pivot}: languages have their codes in FLORES-200 there (``eng_Latn``).
        """

        dataset: Annotated[str, DATASET] = SIB200
        revision: Annotated[str, REVISION] = "refs/convert/parquet"

    params: Params
