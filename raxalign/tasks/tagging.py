"""Tagging of any words: data, columns and tags are options."""

from __future__ import annotations

from typing import Annotated, Literal, final

from pydantic import Field

from raxalign.tasks.taggers.params import TaggingParams
from raxalign.tasks.taggers.scheme import TagColumns
from raxalign.tasks.taggers.task import TaggingTask
from raxalign.tasks.transfer.params import DATA, DataFiles


@final
class Tagging(TaggingTask):
    """Zero-shot transfer of a tagger whose data, columns and tags the grid names: a data set
    without a task of its own needs no code.

    Taggers, settings and training are those of `ner`. Metrics are `f1`, `precision` and `recall` of
    entities and `accuracy` of tags; with `tags: plain` they are `accuracy` alone, and it is the
    main one. Sentences that were trained on too are recorded in the notes, and marked in the
    predictions; more than half is an error.

    Reference: Hu et al. (2020) for the setting.
    """

    VERSION = 1
    papers = ("hu2020",)
    row_options = (*TaggingTask.row_options, "tags", "labels", "words", "tag_names", "layout")

    class Params(TaggingParams):
        """`data` is `hub`, with the name of a `dataset`, or files, whose paths may hold {lang} and
        {pivot}. Options left at `none` take the value of the profile, or else of the tagger; see
        also `ner`.
        """

        data: Annotated[Literal["hub", "phrasebook"] | DataFiles, DATA]
        tags: Literal["entities", "plain"] = Field(
            "entities",
            description=(
                "Whether tags are O, B-type and I-type and mark entities (`entities`), or each word"
                " has a tag of its own (`plain`)."
            ),
        )
        labels: tuple[str, ...] = Field(
            (), description="All types of entities, or all tags (empty: those of the data)."
        )
        words: str = Field("tokens", description="Column of the words in the data set of the hub.")
        tag_names: str | None = Field(
            None,
            description=(
                "Column of the tags in the data set of the hub (none: `ner_tags`, or else `tags`)."
            ),
        )
        layout: Literal["columns", "conllu"] = Field(
            "columns",
            description=(
                "Whether local files have a word and its tag per line (`columns`), or are CoNLL-U,"
                " of which UPOS is read (`conllu`)."
            ),
        )

    params: Params

    def __init__(self, params: Params) -> None:
        self.entities = params.tags == "entities"  # type: ignore[misc]
        self.labels = params.labels  # type: ignore[misc]
        names = params.tag_names or TagColumns().tags
        tag = 3 if params.layout == "conllu" else -1
        self.columns = TagColumns(params.words, names, params.layout, tag=tag)  # type: ignore[misc]
        self.main_metric = "f1" if self.entities else "accuracy"  # type: ignore[misc]
        super().__init__(params)
