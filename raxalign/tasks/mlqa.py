"""Extractive question answering across languages: MLQA, XQuAD and all in SQuAD's format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, final

from raxalign.sample import Sample, of_column
from raxalign.tasks.answers.metrics import MEASURED, METRICS
from raxalign.tasks.answers.params import SpanParams
from raxalign.tasks.base import SharedRows
from raxalign.tasks.transfer.few_shot import with_shots
from raxalign.tasks.transfer.params import HubSet
from raxalign.tasks.transfer.task import TransferTask

if TYPE_CHECKING:
    import pyarrow as pa

    from raxalign.tasks.answers.head import SpanHead
    from raxalign.tasks.base import TaskInputs


@final
class Mlqa(TransferTask):
    """Answers as spans of the context, by two logits per piece of the last layer, trained on
    SQuAD's questions in the pivot.

    `setting` is `zero-shot` (XLT: question and context in one language), `g-xlt` (the same
    training, and each language's questions on each language's contexts, by the questions' ids;
    labels are ``de-es`` for German questions on Spanish contexts) or `translate-train` (trained on
    all languages together; Pan et al. 2021), there also with `code_switching: sentence`: each
    (q_xx, c_xx) of another language is used as (q_xx, c_pivot) and (q_pivot, c_xx), both in one
    batch. The answer is the span of at most `max_answer_length` pieces with the largest sum of
    start and end logit over all windows, returned as the context's characters. Metrics are `f1` and
    `exact_match` as shares, the larger value of several gold answers; `avg` and `avg_zero_shot`
    (all but the pivot's own) are means. `rules: mlqa` compares answers by MLQA's rules for the
    context's language (other languages: no articles; Thai, Japanese, Lao, Burmese and Khmer by
    character), `rules: squad` by those of SQuAD v1.1, which XQuAD and TyDiQA are scored by: in all
    languages at white space, without English articles and ASCII's punctuation. The two are not
    comparable; Chinese differs most. Transforms apply to each piece by its language, readouts as
    fitted again on the encoder that the training left (`readout: refit`), on words as the method's
    `pooling` has it, or as fitted before it (`keep`). Training follows XTREME (Hu et al. 2020)
    except for the warm-up, which is a share here, since 500 steps are longer than a small training.

    Reference: Lewis et al. (2020) for the data; Hu et al. (2020); Pan et al. (2021).
    """

    VERSION = 3
    papers = ("lewis2020", "rajpurkar2016", "data=xquad artetxe2020")
    metrics = with_shots(MEASURED, "f1")
    main_metric = "f1"
    row_options = (*TransferTask.row_options, "hub")
    not_of_training = TransferTask.not_of_training | {"rules"}
    predicts = frozenset({"answer", "context", "exact_match", "f1", "id", "prediction"})

    class Params(SpanParams):
        """`data` is `hub` (sets named under `hub`), `phrasebook`, or files, whose paths may hold
        {lang} and {pivot}. `max_length`, `max_question_length` and `doc_stride` shrink to fit the
        encoder's positions. `selection` chooses the epoch by F1 (`pivot-dev` by MLQA's rules in
        every case). `rules` do not follow from the data: files in SQuAD's format may be MLQA's or
        XQuAD's. Questions that are evaluated have ids of their own and answers that are not empty;
        training needs ids only for `code_switching: sentence`.
        """

    params: Params

    def idle(self) -> set[str]:
        """Return the data sets of the hub too, and mixing, where nothing reads them."""
        mixing = {"code_switching"} if self.params.setting != "translate-train" else set()
        return super().idle() | mixing | (set() if self.params.data == "hub" else {"hub"})

    def training(self) -> Mapping[str, object]:
        """Return what XLT and G-XLT share, and all rules."""
        crossed = {"setting": "zero-shot"} if self.params.setting == "g-xlt" else {}
        return {**super().training(), **crossed}

    def watches(self, metric: str) -> bool:
        """Return whether it is a score of answers that dev selections make."""
        asked = self.params.selection != "last" and self.params.setting != "g-xlt"
        return asked and metric in ("f1", "exact_match")

    def prepares(self, lang: str, pivot: str) -> SharedRows | None:
        """Return what decides on the training questions of a language; None where two languages are
        mixed: the questions of one are then read on the contexts of the other.
        """
        return None if self.params.code_switching != "none" else super().prepares(lang, pivot)

    def evaluated_sets(self) -> Any:
        """Return what names the data of each split."""
        return self.params.hub if self.params.data == "hub" else self.params.data

    def hub_sets(self, lang: str, pivot: str) -> Mapping[str, HubSet]:
        """Return the set that is evaluated, and the training set."""
        names = ("hub", "train") if self.reads_training(lang, pivot) else ("hub",)
        return {name: self.params.hub.at(name, lang, pivot, self.names) for name in names}

    def head(self, inputs: TaskInputs) -> SpanHead:
        """Return the reader of the questions, and the maker and judge of models."""
        from raxalign.tasks.answers.head import SpanHead

        return SpanHead(self, inputs)

    @classmethod
    def sample(cls, rows: pa.Table, metric: str) -> Sample | None:
        """Return the sample of F1 or exact match, with a unit per context."""
        return of_column(rows, metric) if metric in METRICS else None
