"""What tasks that answer questions by spans of a context have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from raxalign.corpora.readers.codes import hub_code
from raxalign.sample import Sample, of_column
from raxalign.tasks.answers.metrics import MEASURED, METRICS, Rules
from raxalign.tasks.answers.params import SpanParams, WindowSizes
from raxalign.tasks.base import SharedRows, TaskInputs
from raxalign.tasks.transfer.params import HubSet, LanguageNames
from raxalign.tasks.transfer.task import TransferTask

if TYPE_CHECKING:
    import pyarrow as pa

    from raxalign.tasks.answers.head import SpanHead


@dataclass(frozen=True)
class HubSets:
    """Data sets of the hub in SQuAD's columns: `dataset` is evaluated, `train_dataset` is the
    pivot's training set, and `translated_config` of `dataset` has those of the other languages for
    translate-train. `dev` and `test` are splits of `dataset` (None: there is none). The ids of a
    language's questions begin with `ids`, where a configuration has several languages.

    MLQA's own files need code that is not run: the default is the branch where the hub keeps the
    converted files.
    """

    dataset: str = "facebook/mlqa"
    config: str = "mlqa.{lang}.{lang}"
    dev: str | None = "validation"
    test: str | None = "test"
    revision: str = "refs/convert/parquet"
    train_dataset: str = "rajpurkar/squad"
    train_config: str = "plain_text"
    train_revision: str = "main"
    translated_config: str = "mlqa-translate-train.{lang}"
    ids: str = ""

    def identity(self) -> dict[str, object]:
        """Return what keys have of the sets."""
        return {name: value for name, value in asdict(self).items() if name != "ids"}

    def at(self, split: str, lang: str, pivot: str, names: LanguageNames) -> HubSet:
        """Return what has the rows of a split of a language."""
        own = hub_code(self.dataset, lang, names)
        part = self.ids.replace("{lang}", own)
        if split == "train" and lang == pivot:
            same = part if self.train_dataset == self.dataset else ""
            return HubSet(self.train_dataset, self.train_config, self.train_revision, same)
        config = self.translated_config if split == "train" else self.config
        return HubSet(self.dataset, config.replace("{lang}", own), self.revision, part)


class SpanTask(TransferTask):
    """Transfer of a reader that answers questions by spans of a context. A subclass says where its
    data is, and by which rules answers are compared.
    """

    metrics = MEASURED
    main_metric = "f1"
    row_options = (*TransferTask.row_options, "hub")
    not_of_training = TransferTask.not_of_training | {"rules"}
    predicts = frozenset({"answer", "context", "exact_match", "f1", "id", "prediction"})

    sets: HubSets = HubSets()
    """What `data: hub` reads."""
    rules: Rules = "mlqa"
    """How answers are compared: by MLQA's rules for each language, or SQuAD's."""
    sizes: WindowSizes = WindowSizes(question=64, stride=128, answer=30)
    """Those of XTREME (Hu et al. 2020)."""
    params: SpanParams

    def idle(self) -> set[str]:
        """Return mixing too, where nothing reads it."""
        mixing = {"code_switching"} if self.params.setting != "translate-train" else set()
        return super().idle() | mixing

    def canonical(self) -> dict[str, Any]:
        """Return the options without idle ones, the rules, and the sets of the hub where they are
        read.
        """
        sets = {"hub": self.sets.identity()} if self.params.data == "hub" else {}
        return {**super().canonical(), "rules": self.rules, **sets}

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
        return self.sets if self.params.data == "hub" else self.params.data

    def hub_sets(self, lang: str, pivot: str) -> Mapping[str, HubSet]:
        """Return the set that is evaluated, and the training set."""
        names = ("hub", "train") if self.trains_on(lang, pivot) else ("hub",)
        return {name: self.sets.at(name, lang, pivot, self.names) for name in names}

    def head(self, inputs: TaskInputs) -> SpanHead:
        """Return the reader of the questions, and the maker and judge of models."""
        from raxalign.tasks.answers.head import SpanHead

        return SpanHead(self, inputs)

    @classmethod
    def sample(cls, rows: pa.Table, metric: str) -> Sample | None:
        """Return the sample of F1 or exact match, with a unit per context."""
        return of_column(rows, metric) if metric in METRICS else None
