"""What tasks that answer by spans of a context have in common: how answers are compared, by MLQA's
rules for each language or by those of SQuAD v1.1; metrics, options and data.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from raxalign.corpora.readers.codes import hub_code
from raxalign.languages import language
from raxalign.measured import share
from raxalign.options.params import LATER, Removed
from raxalign.sample import Sample
from raxalign.tasks.answers.rows import WindowSizes
from raxalign.tasks.base import TaskInputs
from raxalign.tasks.transfer import params as shared
from raxalign.tasks.transfer.params import HubSet, LanguageNames
from raxalign.tasks.transfer.task import TransferTask
from raxalign.train.options import RateSchedule

if TYPE_CHECKING:
    from raxalign.tasks.answers.head import SpanHead

Rules = Literal["mlqa", "squad"]

_ARTICLES = {
    "en": r"\b(?:a|an|the)\b",
    "es": r"\b(?:un|una|unos|unas|el|la|los|las)\b",
    "de": r"\b(?:ein|eine|einen|einem|eines|einer|der|die|das|den|dem|des)\b",
    "vi": r"\b(?:của|là|cái|chiếc|những)\b",
    "ar": "ال",  # the official rule takes these two letters out wherever they stand
}
"""What is replaced by a space. Hindi has none, and other languages than MLQA's keep theirs."""

_SCRIPTS = {
    "Hans": "\u4e00-\u9fa5",
    "Hant": "\u4e00-\u9fa5",
    "Jpan": "\u3040-\u30ff\u4e00-\u9fa5",
    "Thai": "\u0e00-\u0e7f",
    "Laoo": "\u0e80-\u0eff",
    "Mymr": "\u1000-\u109f",
    "Khmr": "\u1780-\u17ff",
}
"""Scripts written without spaces: each character is a token of its own, the rest is divided at
white space. MLQA has Chinese alone of them.
"""


def normalized(text: str, lang: str, rules: Rules = "mlqa") -> list[str]:
    """Divides an answer into tokens, in lower case, without punctuation and articles.

    By `mlqa` without Unicode's punctuation and ASCII's symbols and without the language's articles,
    by characters in some scripts; by `squad` without ASCII's punctuation and symbols alone and
    without English articles, at white space, whatever the language is.

    >>> normalized("Der Rhein-Kanal!", "de"), normalized("在2000年的ABC。", "zh")
    (['rheinkanal'], ['在', '2000', '年', '的', 'abc'])
    >>> normalized("Der Rhein-Kanal!", "de", "squad"), normalized("在2000年的ABC。", "zh", "squad")
    (['der', 'rheinkanal'], ['在2000年的abc。'])
    """
    kept = [character for character in text.lower() if character not in string.punctuation]
    if rules == "squad":
        return re.sub(_ARTICLES["en"], " ", "".join(kept)).split()
    text = "".join(c for c in kept if not unicodedata.category(c).startswith("P"))
    known = language(lang)
    if known.base in _ARTICLES:
        text = re.sub(_ARTICLES[known.base], " ", text)
    script = _SCRIPTS.get(known.script)
    return re.findall(rf"[{script}]|[^\s{script}]+", text) if script else text.split()


def f1(prediction: str, gold: str, lang: str, rules: Rules = "mlqa") -> float:
    """The harmonic mean of precision and recall over tokens, as bags; 0 where none is shared.

    >>> f1("the red house", "a house", "en")
    0.6666666666666666
    """
    found, wanted = normalized(prediction, lang, rules), normalized(gold, lang, rules)
    shared = sum((Counter(found) & Counter(wanted)).values())
    return 2 * shared / (len(found) + len(wanted)) if shared else 0.0


def exact_match(prediction: str, gold: str, lang: str, rules: Rules = "mlqa") -> float:
    """1 where both have the same tokens in the same order, else 0.

    >>> exact_match("The house.", "a house", "en"), exact_match("houses", "a house", "en")
    (1.0, 0.0)
    """
    return float(normalized(prediction, lang, rules) == normalized(gold, lang, rules))


def best(
    metric: Callable[[str, str, str, Rules], float],
    prediction: str,
    golds: Sequence[str],
    lang: str,
    rules: Rules = "mlqa",
) -> float:
    """The largest value over the gold answers; there is at least one.

    >>> best(exact_match, "house", ["the tower", "the house"], "en")
    1.0
    """
    return max(metric(prediction, gold, lang, rules) for gold in golds)


METRICS = {"f1": f1, "exact_match": exact_match}
"""The scores of an answer by their names."""

MEASURED = (
    share(
        "f1",
        "Harmonic mean of precision and recall over the tokens of an answer.",
        sample=Sample.of_column,
    ),
    share(
        "exact_match",
        "Share of the questions whose answer has the tokens of a gold answer.",
        sample=Sample.of_column,
    ),
)
"""What tasks on answers report."""


_OPTIMIZER: Mapping[str, Any] = {**shared.ADAM, "weight_decay": 1e-4, "clip": 1.0}


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
        """Return what keys have of the sets; the files of a local copy enter for themselves."""
        named = asdict(self).items()
        return {n: told for n, told in named if n != "ids" and not Path(str(told)).is_absolute()}

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
    also_watched = ("exact_match",)
    row_options = (*TransferTask.row_options, "hub")
    not_of_training = TransferTask.not_of_training | {"rules"}
    predicts = frozenset({"answer", "context", "exact_match", "f1", "id", "prediction"})

    sets: HubSets = HubSets()
    """What `data: hub` reads."""
    rules: Rules = "mlqa"
    """How answers are compared: by MLQA's rules for each language, or SQuAD's."""
    sizes = WindowSizes(question=64, stride=128, answer=30)
    """Those of XTREME (Hu et al. 2020)."""

    class Params(shared.SettingParams):
        """Options on what is trained on and how; see `mlqa` for what they mean together."""

        removed: ClassVar[Mapping[str, Removed]] = {
            "hub": Removed(
                "leave it out: the sets of the hub are those of the task; name files of others in"
                " `data`",
                default=Removed.ANY,
            ),
            "rules": Removed(
                "leave it out: `mlqa` has MLQA's rules, `spans` and `tydiqa` have SQuAD's",
                default=Removed.ANY,
            ),
            "max_question_length": Removed(
                "leave it out: questions are cut to 64 subword tokens", keyed=64
            ),
            "doc_stride": Removed(
                "leave it out: windows of a context begin 128 subword tokens apart", keyed=128
            ),
            "max_answer_length": Removed(
                "leave it out: answers have 30 subword tokens at most", keyed=30
            ),
            **shared.of_papers(_OPTIMIZER),
            "weight_decay": Removed(shared.OF_PAPERS, keyed=1e-4),
            **shared.of_phrasebook(train=2000, dev=300, test=300),
        }
        setting: Literal["zero-shot", "g-xlt", "translate-train"] = "zero-shot"
        learning_rate: float = Field(3e-5, gt=0)
        schedule: Annotated[RateSchedule, LATER] = "linear"
        dropout: float = Field(0.0, ge=0, lt=1)
        max_length: int = Field(384, ge=16)

        @property
        def optimizer(self) -> Mapping[str, Any]:
            """That of XTREME (Hu et al. 2020)."""
            return _OPTIMIZER

    params: Params

    def __init__(self, params: Params) -> None:
        super().__init__(params)
        if self.mixing != "none":  # questions are then read on contexts of other files
            self.row_options = ()  # type: ignore[misc]

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

    def compared(
        self, answers: Sequence[str], golds: Sequence[Sequence[str]], lang: str, rules: Rules
    ) -> dict[str, list[float]]:
        """Return the metrics of answers on contexts in a language, by rules; the best value over
        the gold answers of each.
        """
        return {
            name: [best(metric, a, g, lang, rules) for a, g in zip(answers, golds, strict=True)]
            for name, metric in METRICS.items()
        }
