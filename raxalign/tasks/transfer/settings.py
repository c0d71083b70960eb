"""What the tasks have in common that are trained on the pivot alone or on translations too:
settings, the languages that are trained on, and faults.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from raxalign.config.sources import differs_by_language
from raxalign.tasks.base import Reads
from raxalign.tasks.transfer.selection import Selection, kept
from raxalign.tasks.transfer.task import DataFiles, TransferParams, TransferTask

SETTING = Field(
    description=(
        "What is trained on: the pivot (`zero-shot`, and `g-xlt` where a task has it), the"
        " translations of its training data into all languages together (`translate-train`), or,"
        " where a task has it, one model per language on that language alone"
        " (`translate-train-each`)."
    )
)
SELECTION = Field(
    description=(
        "What chooses the weights that are evaluated: the pivot's development set, the mean of all"
        " of them, each language's own (then the result is not zero-shot), or nothing (the `last`"
        " ones)."
    )
)


EACH = "translate-train-each"
"""The setting with one model per language."""


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
    """Task that is trained on the pivot or on translations, and evaluated on every language."""

    params: SettingParams

    def translates(self) -> bool:
        """Whether the training data of every language is read."""
        return self.params.setting in ("translate-train", EACH)

    def reads(self, n_layers: int) -> Reads:
        """Returns the last layer, which the training changes with all below."""
        return Reads(frozenset({n_layers}), tunes=True)

    def trains_on(self, lang: str, pivot: str) -> bool:
        """Whether the language is the pivot, or translations are trained on."""
        return lang == pivot or self.translates()

    def training_languages(self, languages: tuple[str, ...], pivot: str) -> tuple[str, ...]:
        """Returns the pivot, and all languages where their translations are trained on."""
        return tuple(
            lang for lang in self.languages(languages, pivot) if self.trains_on(lang, pivot)
        )

    def check(self, languages: tuple[str, ...], pivot: str) -> list[str]:
        """Reports mixing without translations, a selection that the models of single languages
        cannot have, a language that the phrasebook does not have, one training file per language
        in a zero-shot setting, and one file for all where translations are trained on.
        """
        data, faults, translated = self.params.data, list[str](), self.translates()
        if self.params.code_switching != "none" and self.params.setting != "translate-train":
            faults.append(
                "code_switching mixes languages that are trained on: it needs `setting:"
                " translate-train`"
            )
        if self.params.setting == EACH and self.params.selection not in ("target-dev", "last"):
            faults.append(
                f"setting: {EACH} trains one model per language, which only that language's"
                " development set can choose: it needs `selection: target-dev` or `last`"
            )
        if self.refit() is not None and (translated or kept(self.params.selection) == "every"):
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
                f"data.train: {self.params.setting} reads one file per language; put {{lang}} in"
                " the path"
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
