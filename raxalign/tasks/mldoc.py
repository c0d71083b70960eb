"""Subjects of news of Reuters, in eight languages."""

from __future__ import annotations

from typing import Annotated, ClassVar, final

from raxalign.tasks.classifiers.params import ClassificationParams
from raxalign.tasks.classifiers.scheme import Columns
from raxalign.tasks.classifiers.task import ClassificationTask
from raxalign.tasks.transfer.params import DATA, DataFiles, MaxLength


@final
class Mldoc(ClassificationTask):
    """MLDoc: transfer of a classifier of the subject of a news story (corporate CCAT, economics
    ECAT, government GCAT, markets MCAT), scored on dev and test of every language, the pivot too.

    Model, settings and training are those of `xnli`, with rows of up to 512 pieces, to which
    stories are cut. Metrics are `accuracy` per language, and its means `avg` (over all languages)
    and `avg_zero_shot` (over all but the pivot).

    Reference: Schwenk and Li (2018) for the data.
    """

    VERSION = 1
    papers = ("schwenk2018mldoc",)
    licence: ClassVar[str] = "of Reuters RCV1 and RCV2, by agreement with NIST"
    labels = ("CCAT", "ECAT", "GCAT", "MCAT")
    columns = Columns(first="text", label="label", order=("label", "text"))
    language_names: ClassVar = {
        "de": "german",
        "en": "english",
        "es": "spanish",
        "fr": "french",
        "it": "italian",
        "ja": "japanese",
        "ru": "russian",
        "zh": "chinese",
    }

    class Params(ClassificationParams):
        """The stories may not be passed on: `data` is the files that MLDoc's script makes
        (``{lang}.train.1000``, ``{lang}.dev``, ``{lang}.test``), a label, a tab and a text per
        line. Languages are called by their English names there (``english``).
        """

        data: Annotated[DataFiles, DATA]
        max_length: MaxLength[int] = 512

    params: Params
