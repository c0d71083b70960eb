"""What tasks that answer questions by spans of a context have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from raxalign.sample import Sample, of_column
from raxalign.tasks.answers.metrics import MEASURED, METRICS
from raxalign.tasks.answers.params import SpanParams
from raxalign.tasks.base import SharedRows, TaskInputs
from raxalign.tasks.transfer.few_shot import with_shots
from raxalign.tasks.transfer.params import HubSet
from raxalign.tasks.transfer.task import TransferTask

if TYPE_CHECKING:
    import pyarrow as pa

    from raxalign.tasks.answers.head import SpanHead


class SpanTask(TransferTask):
    """Transfer of a reader that answers questions by spans of a context. A subclass says where its
    data is, and by which rules answers are compared.
    """

    metrics = with_shots(MEASURED, "f1")
    main_metric = "f1"
    row_options = (*TransferTask.row_options, "hub")
    not_of_training = TransferTask.not_of_training | {"rules"}
    predicts = frozenset({"answer", "context", "exact_match", "f1", "id", "prediction"})

    params: SpanParams

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
