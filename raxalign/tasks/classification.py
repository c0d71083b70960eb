"""Classification of any texts: data, columns, labels and metric are options."""

from __future__ import annotations

from typing import Annotated, Literal, Self, final

from pydantic import Field, field_validator, model_validator

from raxalign.config.params import BaseParams
from raxalign.tasks.classifiers.params import ClassificationParams
from raxalign.tasks.classifiers.scheme import MEASURED, Columns
from raxalign.tasks.classifiers.task import ClassificationTask
from raxalign.tasks.transfer.params import DATA, DataFiles


class TextColumns(BaseParams):
    """The names of columns, in any case of letters."""

    first: str = Field(description="Column of the text, or of the first of two texts.")
    second: str | None = Field(None, description="Column of the second text (none: there is one).")
    label: str = Field("label", description="Column of the label.")
    language: str = Field(
        "language", description="Column by which the rows of a language are picked from a file."
    )
    split: str | None = Field(
        None, description="Column by which the rows of a split are picked from a file (none: all)."
    )
    id: str | None = Field(
        None, description="Column of the name that a row has in the whole data set (none: no name)."
    )
    group: str | None = Field(
        None, description="Column of what is resampled together (none: the first text)."
    )
    order: tuple[str, ...] = Field(
        (), description="Columns of files without a header (empty: the texts, then the label)."
    )

    @model_validator(mode="after")
    def _two_columns(self) -> Self:
        names = [name for name in (self.first, self.second, self.label) if name is not None]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise ValueError(
                f"two of first, second and label are {twice[0]!r}: name a column for each, and"
                " leave out `second` where there is one text"
            )
        return self

    def columns(self) -> Columns:
        """Return the names for the readers."""
        return Columns(**{name: value or () for name, value in self.model_dump().items()})


@final
class Classification(ClassificationTask):
    """Transfer of a classifier of texts, or of pairs of texts, whose data, columns, labels and
    metric the grid names: a data set without a task of its own needs no code.

    Model, settings and training are those of `xnli`. Metrics are `accuracy` per language, and
    `macro_f1` too where `metric` asks for it, which then chooses the weights; their means are `avg`
    (over all languages) and `avg_zero_shot` (over all but the pivot).

    Reference: Hu et al. (2020) for the setting.
    """

    VERSION = 1
    papers = ("hu2020",)
    metrics = MEASURED
    row_options = (*ClassificationTask.row_options, "columns", "labels", "aliases")

    class Params(ClassificationParams):
        """`data` is `hub`, with the name of a `dataset`, or files, whose paths may hold {lang} and
        {pivot}: tab-separated with a header, or one JSON object per line. Labels have the same
        names in all languages.
        """

        data: Annotated[Literal["hub", "phrasebook"] | DataFiles, DATA]
        columns: TextColumns = Field(description="Columns of texts and labels.")
        labels: tuple[str, ...] = Field(
            (),
            description=(
                "All labels in their order, for which data may have their numbers from 0 (empty:"
                " those of the training data)."
            ),
        )
        aliases: dict[str, str] = Field(
            default_factory=dict, description="Other spellings of labels, by spelling."
        )
        metric: Literal["accuracy", "macro_f1"] = Field(
            "accuracy", description="The main metric, which chooses the weights."
        )
        repeats: bool = Field(
            False,
            description=(
                "Whether up to half of the evaluated rows may be training rows too, as short"
                " requests are, which predictions mark."
            ),
        )

        @field_validator("labels")
        @classmethod
        def _different(cls, labels: tuple[str, ...]) -> tuple[str, ...]:
            if len(labels) == 1 or len({*labels}) < len(labels):
                raise ValueError(
                    f"labels are {', '.join(labels)}: write two or more different ones, or leave"
                    " them out"
                )
            return labels

        @model_validator(mode="after")
        def _aliases_of_labels(self) -> Self:
            unknown = {*self.aliases.values()} - {*self.labels}
            if unknown:
                raise ValueError(
                    f"aliases: {', '.join(sorted(unknown))} is not among `labels`; an alias is"
                    " `spelling: label`"
                )
            return self

    params: Params

    def __init__(self, params: Params) -> None:
        super().__init__(params)
        self.columns = params.columns.columns()  # type: ignore[misc]
        self.labels, self.aliases = params.labels, params.aliases  # type: ignore[misc]
        self.main_metric, self.repeats = params.metric, params.repeats  # type: ignore[misc]
        told = params.labels and params.metric == "accuracy"
        self.guessing = 1 / len(params.labels) if told else None  # type: ignore[misc]
