"""What a classification task's labels are, and how its data is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

from raxalign.tasks.transfer.params import LanguageNames, Split

Names = str | tuple[str, ...]
_SPLITS: Mapping[Split, frozenset[str]] = {
    "train": frozenset({"train"}),
    "dev": frozenset({"dev", "validation", "valid"}),
    "test": frozenset({"test"}),
}


@dataclass(frozen=True)
class Columns:
    """The names of a data set's columns by what they hold, in any case of letters; several names of
    one column are tried in their order, and messages use the last one.

    `first` and `second` are the texts; no `second` means one text per example. The name of a text
    may also end in ``_`` and the name of a language. `language` picks the rows of a language and
    `split` those of a split (train, dev or validation, test), in files that have such a column.
    `id` names an example in the whole data set: rows of one id are neither trained on and evaluated
    nor translations of different examples, so numbers that begin again in each split are not ids.
    Rows with the same value of `group`, or else the same first text, are resampled together.
    `order` names the columns of files without a header (none: the texts, then the label). Rows are
    left out of which a text is blank, or `no_text`.
    """

    ROLES: ClassVar = ("first", "second", "label", "language", "id", "group", "split")
    first: Names
    second: Names = ()
    label: Names = "label"
    language: Names = "language"
    id: Names = ()
    group: Names = ()
    split: Names = ()
    order: tuple[str, ...] = ()
    no_text: str = ""

    def names(self, role: str) -> tuple[str, ...]:
        """The names of a column, the first one first; none where there is no such column."""
        given: Names = getattr(self, role)
        return (given,) if isinstance(given, str) else given

    def shown(self, role: str) -> str:
        """The name of a column in messages."""
        return self.names(role)[-1]

    @property
    def texts(self) -> tuple[str, ...]:
        """The columns of an example's texts: one or two."""
        return ("first", "second") if self.second else ("first",)

    @property
    def needed(self) -> tuple[str, ...]:
        """The columns that every file has."""
        return (*self.texts, "label")


@dataclass(frozen=True)
class LabelScheme:
    """What the data of a classification task is, for its readers: the columns of files and data
    sets; all labels in their order, which also are numbers from 0 (none: those of the training
    data, sorted); other spellings of labels; and the data set's own names of languages. A published
    one has its name on the hub (`dataset`, empty: it is not there), and what a reader has to know
    of its `licence`.
    """

    columns: Columns
    labels: tuple[str, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)
    languages: LanguageNames = field(default_factory=dict)
    dataset: str = ""
    licence: str = ""

    @cached_property
    def _spellings(self) -> Mapping[str, str]:
        numbers = {str(i): label for i, label in enumerate(self.labels)}
        # Labels that are numbers themselves mean these, and not their places.
        numbered = any(label.lstrip("-").isdigit() for label in self.labels)
        lowered = {label.lower(): label for label in (*self.aliases, *self.labels)}
        known = ({} if numbered else numbers) | lowered | {label: label for label in self.labels}
        return {text: self.aliases.get(label, label) for text, label in known.items()}

    @cached_property
    def _unlabelled(self) -> frozenset[str]:
        return frozenset({"", "-", *(("-1",) if self.labels else ())}) - self._spellings.keys()

    def is_unlabelled(self, text: str) -> bool:
        """Whether a cell says that there is no label: it is empty, ``-`` or ``-1``."""
        return text.strip() in self._unlabelled

    def label(self, text: str) -> str | None:
        """The label that a cell names; None where there is no such label."""
        text = text.strip()
        if not self.labels:
            return text
        return self._spellings.get(text) or self._spellings.get(text.lower())

    def known(self) -> str:
        """All labels as messages list them."""
        numbers = [str(i) for i in range(len(self.labels)) if str(i) in self._spellings]
        either = f", or {', '.join(numbers)}" if numbers and not {*numbers} & {*self.labels} else ""
        return f"{', '.join(self.labels)}{either}"

    def of_split(self, text: str, split: Split) -> bool:
        """Whether a cell of the column `split` names a split.

        >>> XNLI.of_split("Validation", "dev"), XNLI.of_split("Validation", "test")
        (True, False)
        """
        return text.strip().lower() in _SPLITS[split]


XNLI = LabelScheme(
    Columns(
        first=("sentence1", "premise"),
        second=("sentence2", "hypo", "hypothesis"),
        label=("gold_label", "label"),
        id="pairID",
        group="promptID",
    ),
    ("entailment", "neutral", "contradiction"),  # numbered as in the hub's data sets
    {"contradictory": "contradiction"},
    dataset="facebook/xnli",
)
