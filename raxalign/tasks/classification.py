"""Classification of texts or pairs of texts: the grid file describes data and labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, final

from pydantic import field_validator, model_validator

from raxalign.options.params import BaseParams, Removed
from raxalign.tasks.classifiers.scheme import Columns, LabelScheme
from raxalign.tasks.classifiers.task import ClassificationTask

LabelPresetName = Literal["sib200", "massive_intents", "mldoc"]


PRESETS: Mapping[LabelPresetName, LabelScheme] = {
    "sib200": LabelScheme(
        Columns(first="text", label="category"),
        (
            *("science/technology", "travel", "politics", "sports", "health"),
            *("entertainment", "geography"),
        ),
        dataset="Davlan/sib200",
        licence="CC BY-SA 4.0",
    ),
    "massive_intents": LabelScheme(
        Columns(first="text", label="label_text"),
        dataset="mteb/amazon_massive_intent",
        licence="CC BY 4.0",
    ),
    "mldoc": LabelScheme(
        Columns(first="text", order=("label", "text")),
        ("CCAT", "ECAT", "GCAT", "MCAT"),
        licence="Reuters' own: the corpora RCV1 and RCV2 are given to researchers who ask for them",
    ),
}
"""SIB-200: topics of FLORES sentences in 205 languages (Adelani et al. 2024). MASSIVE: 60 intents
of requests in 51 languages (FitzGerald et al. 2023). MLDoc: four topics of news in 8 languages
(Schwenk and Li 2018), in the files that its program writes. All are scored by the accuracy.
"""


class LabelColumns(BaseParams):
    """Names of the columns of files and data sets, in any case of letters."""

    removed: ClassVar[Mapping[str, Removed]] = {
        "language": Removed(
            "leave it out: the column that picks the rows of a language is called `language`",
            default="language",
        )
    }
    first: str = "text"
    """Column of the text, or of the first of two."""
    second: str | None = None
    """Column of the second text (none: there is one)."""
    label: str = "label"
    """Column of the label."""
    group: str | None = None
    """Column by which rows are resampled together (none: rows with the same first text are)."""

    @model_validator(mode="after")
    def _are_different(self) -> LabelColumns:
        names = [self.first, self.second, self.label]
        twice = [name for name in names if name is not None and names.count(name) > 1]
        if twice:
            raise ValueError(
                f"the column {twice[0]!r} is named twice: first, second and label are different"
                " columns"
            )
        return self

    def scheme(self) -> Columns:
        """Return the columns as readers take them."""
        return Columns(self.first, self.second or (), self.label, group=self.group or ())


@final
class Classification(ClassificationTask):
    """Transfer of a classifier of texts, or of pairs of texts, that a grid file describes: where
    the data is, which columns it has, and its labels. No plug-in is needed.

    Model, settings, training and metrics are those of `xnli`, which equals this task with XNLI's
    columns and labels; `metrics: [macro_f1]` adds that one. With `preset` the name on the hub, the
    columns and the labels are those of a published data set; what is given besides replaces them.

    Data: labelled texts or pairs of texts: training data in the pivot, dev and test data in every
    language.

    Reference: Hu et al. (2020) for the setting; Adelani et al. (2024) for `sib200`, FitzGerald et
    al. (2023) for `massive_intents`, Schwenk and Li (2018) for `mldoc`.

    Relations: `xnli` and `pawsx` are this task with data of their own; `tagging` labels words.

    Example:
        tasks:
          topics: {kind: classification, preset: sib200, epochs: 20}
          paraphrases:
            kind: classification
            data: {train: train.en.tsv, dev: "dev.{lang}.tsv",
                   test: "test.{lang}.tsv"}
            columns: {first: sentence1, second: sentence2}
            labels: [no, yes]
    """

    VERSION = 2
    papers = (
        *("hu2020", "preset=sib200 adelani2024", "preset=massive_intents fitzgerald2023"),
        "preset=mldoc schwenk2018",
    )
    columns = Columns(first="text")
    row_options = (*ClassificationTask.row_options, "columns", "labels", "aliases")

    class Params(ClassificationTask.Params):
        """`data` is `hub` or files, whose paths may hold {lang} and {pivot}.

        Files are tab-separated with a header, or with the columns in the order text, second text,
        label; or hold one JSON object per line.
        """

        removed: ClassVar[Mapping[str, Removed]] = {
            "aliases": Removed(
                "leave it out, and write one spelling of each label in the data", keyed={}
            ),
            "metric": Removed(
                "leave it out: `metrics: [macro_f1]` adds F1, and the accuracy chooses the epoch",
                keyed="accuracy",
            ),
        }
        preset: LabelPresetName | None = None
        """Published data set whose name on the hub, columns and labels are filled in (none: the
        options give them): SIB-200 (`sib200`), MASSIVE (`massive_intents`), or MLDoc (`mldoc`).
        """
        columns: LabelColumns | None = None
        """Columns of the data (none: those of the preset, or `text`, `label`)."""
        labels: tuple[str, ...] = ()
        """All labels in their order, whose numbers from 0 data may have instead (none: those of the
        training data).
        """
        dataset: str = ""

        @field_validator("labels")
        @classmethod
        def _are_two_or_more(cls, labels: tuple[str, ...]) -> tuple[str, ...]:
            if len(labels) == 1 or len({*labels}) < len(labels):
                raise ValueError(f"{', '.join(labels)}: write two or more different ones, or none")
            return labels

    params: Params

    def __init__(self, params: Params) -> None:
        super().__init__(params)
        self._preset = None if params.preset is None else PRESETS[params.preset]
        self.listed = self._preset.dataset if self._preset else params.dataset
        given = params.columns
        if given is not None:
            self.columns = given.scheme()
        elif self._preset is not None:
            self.columns = self._preset.columns
        self.labels = params.labels or (self._preset.labels if self._preset else ())
        if self.labels:
            self.guessing = 1 / len(self.labels)

    def canonical(self) -> dict[str, Any]:
        """Return the options with what a preset fills in, without its name."""
        found = super().canonical()
        found.pop("preset")
        columns = {name: value for name, value in vars(self.columns).items() if value}
        return {**found, "columns": columns, "labels": list(self.labels)}

    def check(self, languages: tuple[str, ...], pivot: str) -> list[str]:
        """Report what all classifiers report, and a preset that is not on the hub."""
        if self.params.data == "hub" and self._preset and not (self.params.dataset or self.listed):
            return [
                f"preset: {self.params.preset} is not on the hub (licence: {self._preset.licence});"
                " name its files in `data`"
            ]
        return super().check(languages, pivot)
