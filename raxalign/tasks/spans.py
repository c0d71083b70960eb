"""Question answering by spans of a context: the grid file names the data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, final

from raxalign.tasks.answers.task import HubSets, SpanTask

SpanPresetName = Literal["xquad", "mlqa"]
_XQUAD = HubSets(
    dataset="google/xquad", config="xquad.{lang}", dev=None, test="validation", revision="main"
)
_Rules = Literal["mlqa", "squad"]
PRESETS: Mapping[SpanPresetName, tuple[HubSets, _Rules]] = {
    "xquad": (_XQUAD, "squad"),
    "mlqa": (HubSets(), "mlqa"),
}
"""XQuAD: 1,190 questions in 12 languages (Artetxe et al. 2020), CC BY-SA 4.0. MLQA: 7 languages
(Lewis et al. 2020), CC BY-SA 3.0. Both are trained on SQuAD and scored by F1 and exact match.
"""


@final
class SpanAnswers(SpanTask):
    """Transfer of a reader that answers questions by spans of a context, on data in SQuAD's format
    that a grid file names. No plug-in is needed.

    Model, settings and metrics are those of `mlqa`, which equals this task with MLQA's sets and
    rules. TyDiQA's gold passages are files in SQuAD's format: name them in `data`.

    Data: SQuAD or files in its format in the pivot for training, dev and test files in every
    language.

    Reference: Hu et al. (2020) for the setting; Artetxe et al. (2020) for `xquad`, Lewis et al.
    (2020) for `mlqa`.

    Relations: `mlqa` and `tydiqa` are this task with data and rules of their own; `belebele` has
    answers to choose from.

    Example:
        tasks:
          xquad: {kind: spans, preset: xquad, data: hub, selection: last}
          own_questions:
            kind: spans
            data:
              train: train.en.json
              dev: "dev.{lang}.json"
              test: "test.{lang}.json"
    """

    VERSION = 2
    rules: _Rules = "squad"
    papers = ("hu2020", "rajpurkar2016", "preset=xquad artetxe2020", "preset=mlqa lewis2020")

    class Params(SpanTask.Params):
        """`data` is `hub` or files, whose paths may hold {lang} and {pivot}; see also `mlqa`."""

        preset: SpanPresetName | None = None
        """Published data set whose sets on the hub are read, by whose rules answers are compared
        (none: `data` has files, and the rules are SQuAD's): `xquad` or `mlqa`.
        """

    params: Params

    def __init__(self, params: Params) -> None:
        super().__init__(params)
        if params.preset is not None:
            self.sets, self.rules = PRESETS[params.preset]
            self.listed = self.sets.dataset

    def canonical(self) -> dict[str, Any]:
        """Return the options with what a preset fills in, without its name."""
        return {name: value for name, value in super().canonical().items() if name != "preset"}

    def check(self, languages: tuple[str, ...], pivot: str) -> list[str]:
        """Report what all such tasks report, and no sets of the hub."""
        faults = super().check(languages, pivot)
        if self.params.data == "hub" and not self.listed:
            faults.append("data: hub needs a `preset`; name files of other data in `data`")
        return faults
