"""Paraphrases across languages (Yang et al. 2019)."""

from __future__ import annotations

from typing import final

from raxalign.tasks.classifiers.scheme import Columns
from raxalign.tasks.classifiers.task import ClassificationTask


@final
class Pawsx(ClassificationTask):
    """Transfer of a classifier that decides whether two sentences with nearly the same words are
    paraphrases, scored on dev and test of every language, the pivot too.

    Model, settings, training and metrics are those of `xnli`.

    Data: labelled sentence pairs: training data in the pivot, dev and test data in every language.

    Reference: Yang et al. (2019) for the data, Hu et al. (2020) for its use.

    Relations: `xnli` with other data, in which word overlap says nothing; `classification` takes
    any labels.

    Example:
        tasks:
          pawsx: {data: hub, epochs: 3, selection: pivot-dev}
    """

    VERSION = 3
    papers = ("yang2019pawsx", "hu2020")
    labels = ("different", "paraphrase")  # 0 and 1 in the data
    columns = Columns(first="sentence1", second="sentence2", no_text="NS")

    class Params(ClassificationTask.Params):
        """`data` is `hub` or files, whose paths may hold {lang} and {pivot}.

        Files are those of PAWS-X as they are published (id, sentence1, sentence2, label), or
        XTREME's without a header. Rows of one first sentence are resampled together. Ids begin
        again in each split, so they are not compared between splits. Rows of which a sentence is
        blank, or ``NS``, have no translation: they are left out and counted.
        """

        dataset: str = "google-research-datasets/paws-x"
