"""What the tasks have in common that are trained on the pivot alone or on translations too:
settings, the languages that are trained on, and faults.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from raxalign.config.sources import differs_by_language
from raxalign.tasks.base import Reads
from raxalign.tasks.transfer.selection import Selection
from raxalign.tasks.transfer.task import DataFiles, TransferParams, TransferTask

SETTING = Field(
    description=(
        "What is trained on: the pivot (`zero-shot`, and `g-xlt` where a task has it), or the"
        " translations of its training data into all languages (`translate-train`)."
    )
)
SELECTION = Field(
    description=(
        "What chooses the weights that are evaluated: the pivot's development set, the mean of all"
        " of them, each language's own (then the result is not zero-shot), or nothing (the `last`"
        " ones)."
    )
)


class SettingParams(TransferParams):
    """Options on what is trained on and which epoch is evaluated; each task lists its settings."""

    setting: Annotated[str, SETTING]
    code_switching: Literal["none", "sentence"] = Field(
        "none",
        description=(
            "Whether each translated training example of two texts is replaced by two, one text of"
            " each in its own language and the other in the pivot (`sentence`)."
        ),
    )
    selection: Annotated[Selection, SELECTION] = "pivot-dev"


class SettingTask(TransferTask):
    """Task that is trained on the pivot, or on all languages together (`translate-train`), and
    evaluated on every language.
    """

    params: SettingParams

    def reads(self, n_layers: int) -> Reads:
        """Returns the last layer, which the training changes with all below."""
        return Reads(frozenset({n_layers}), tunes=True)

    def outdates(self) -> bool:
        """Whether translations are not trained on: their training goes through the readouts."""
        return self.params.setting != "translate-train"

    def selection(self) -> Selection:
        """What chooses the epoch."""
        return self.params.selection

    def trains_on(self, lang: str, pivot: str) -> bool:
        """Whether the language is the pivot, or the setting is translate-train."""
        return lang == pivot or self.params.setting == "translate-train"

    def training_languages(self, languages: tuple[str, ...], pivot: str) -> tuple[str, ...]:
        """Returns the pivot, and all languages where their translations are trained on."""
        return tuple(
            lang for lang in self.languages(languages, pivot) if self.trains_on(lang, pivot)
        )

    def check(self, languages: tuple[str, ...], pivot: str) -> list[str]:
        """Reports mixing without translations, a language that the phrasebook does not have, one
        training file per language in a zero-shot setting, and one file for all in translate-train.
        """
        data, faults, translated = (
            self.params.data,
            list[str](),
            self.params.setting == "translate-train",
        )
        if self.params.code_switching != "none" and not translated:
            faults.append(
                "code_switching mixes languages that are trained on: it needs `setting:"
                " translate-train`"
            )
        if self.refit() is not None and not self.leaves_one_encoder():
            faults.append(
                "readout: refit fits on the one encoder that a zero-shot training keeps: it needs"
                " `selection: pivot-dev` or `last`"
            )
        faults += super().check(languages, pivot)
        if isinstance(data, DataFiles) and differs_by_language(data.train) and not translated:
            faults.append(
                f"data.train holds {{lang}}: {self.params.setting} training reads the pivot alone;"
                " write {pivot}"
            )
        if isinstance(data, DataFiles) and not differs_by_language(data.train) and translated:
            faults.append(
                "data.train: translate-train reads one file per language; put {lang} in the path"
            )
        return faults


def split_faults(dev: str | None, test: str | None, selection: str, needed: str) -> list[str]:
    """Reports selection or evaluation without its data; `needed` is what selection needs, as the
    message names it.
    """
    faults = []
    if dev is None and selection != "last":
        faults.append(f"selection: {selection} needs {needed}; without one write `selection: last`")
    if dev is None and test is None:
        faults.append("data has neither dev nor test: there is nothing to evaluate")
    return faults
