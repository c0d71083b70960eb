"""Tagging of words: the grid file describes data and tags."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, final

from raxalign.options.params import Removed
from raxalign.tasks.taggers.scheme import TagColumns
from raxalign.tasks.taggers.task import TaggingTask

TagPresetName = Literal["masakhaner", "panx"]


@dataclass(frozen=True)
class TagPreset:
    """One data set of entities: its name on the hub, the branch that has its rows as files, its
    types of entities, and its licence.
    """

    dataset: str
    revision: str
    labels: tuple[str, ...]
    licence: str


PRESETS: Mapping[TagPresetName, TagPreset] = {
    "masakhaner": TagPreset(
        "masakhane/masakhaner2",
        "refs/convert/parquet",
        ("PER", "LOC", "ORG", "DATE"),
        "AFL 3.0; its texts are news for research",
    ),
    "panx": TagPreset("unimelb-nlp/wikiann", "main", ("PER", "ORG", "LOC"), "ODC-BY"),
}
"""MasakhaNER 2.0: news in 20 African languages (Adelani et al. 2022); it has no English, so that
training data is named in `data`, or the pivot is one of its languages. PAN-X: WikiANN as XTREME has
it (Pan et al. 2017, Rahimi et al. 2019). Both are scored by entity F1.
"""


@final
class Tagging(TaggingTask):
    """Zero-shot transfer of a tagger of words that a grid file describes: where the data is, which
    columns it has, and its tags. No plug-in is needed.

    Taggers and metrics are those of `ner`, which equals this task with entities. With
    `preset` the name on the hub and the types of entities are those of a published data set; what
    is given besides replaces them. With `scheme: plain` the accuracy of words is the main metric,
    as in `pos`.

    Data: tagged words: training data in the pivot, dev and test data in every language.

    Reference: Hu et al. (2020) for the setting; Adelani et al. (2022) for `masakhaner`, Pan et al.
    (2017) for `panx`.

    Relations: `ner`, `pos` and `slots` are this task with data and tags of their own;
    `classification` labels whole texts.

    Example:
        tasks:
          panx: {kind: tagging, preset: panx, data: hub}
          own_tags:
            kind: tagging
            scheme: plain
            data: {train: train.en.tags, dev: "dev.{lang}.tags",
                   test: "test.{lang}.tags"}
    """

    VERSION = 2
    papers = ("hu2020", "preset=masakhaner adelani2022", "preset=panx pan2017")
    row_options = (*TaggingTask.row_options, "scheme", "labels", "words", "tags")
    columns = TagColumns(("tokens", "words"), ("ner_tags", "tags", "upos", "pos_tags"))

    class Params(TaggingTask.Params):
        """`data` is `hub` or files, whose paths may hold {lang} and {pivot}: a word per line, or
        tab-separated with a header; see also `ner`.
        """

        removed: ClassVar[Mapping[str, Removed]] = {
            "words": Removed(
                "leave it out: the hub's column is `tokens` or `words`", keyed="tokens"
            ),
            "tags": Removed(
                "leave it out: the hub's column is `ner_tags`, `tags`, `upos` or `pos_tags`; a"
                " plug-in may name another one",
                keyed="ner_tags",
            ),
        }
        preset: TagPresetName | None = None
        """Published data set whose name on the hub and types of entities are filled in (none: the
        options give them): MasakhaNER 2.0 (`masakhaner`), or WikiANN as XTREME has it (`panx`).
        """
        scheme: Literal["entities", "plain"] = "entities"
        """What tags are: O, B-type and I-type, which mark entities (`entities`, scored by F1), or
        one tag per word (`plain`, scored by accuracy).
        """
        labels: tuple[str, ...] = ()
        """All types of entities, or all plain tags (none: those of the data)."""

    params: Params

    def __init__(self, params: Params) -> None:
        super().__init__(params)
        self._preset = None if params.preset is None else PRESETS[params.preset]
        self.listed = self._preset.dataset if self._preset else params.dataset
        if self._preset and "revision" not in params.model_fields_set:
            self.params = self.params.model_copy(update={"revision": self._preset.revision})
        self.entities = params.scheme == "entities"
        self.labels = params.labels or (self._preset.labels if self._preset else ())
        if not self.entities:
            self.main_metric = "accuracy"

    def canonical(self) -> dict[str, Any]:
        """Return the options with what a preset fills in, without its name."""
        found = super().canonical()
        found.pop("preset")
        read = {} if self.params.data == "hub" else dict.fromkeys(("words", "tags"))
        kept = {name: value for name, value in found.items() if name not in read}
        return {**kept, "labels": list(self.labels)}
