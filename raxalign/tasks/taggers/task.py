"""What tagging tasks have in common: what tags are, how data is written, scores and options."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field

from raxalign.arrays import Ints
from raxalign.corpora.phrasebook import tagged
from raxalign.encoders.models.vectors import layer_ends, parse_layers
from raxalign.lazy import np
from raxalign.measured import share
from raxalign.options.params import LATER, BaseParams, Removed
from raxalign.sample import Ratios, Sample
from raxalign.tasks.base import Reads, TaskInputs
from raxalign.tasks.transfer import params as shared
from raxalign.tasks.transfer.params import LanguageNames, Selection, Split
from raxalign.tasks.transfer.task import TransferTask
from raxalign.train.options import SCHEDULE, RateSchedule

if TYPE_CHECKING:
    from raxalign.tasks.taggers.head import TagHead

Tagger = Literal["bilstm_crf", "linear"]
PROFILES: Mapping[str, Mapping[str, Any]] = {
    "paper": {
        "tagger": "bilstm_crf",
        "selection": "target-dev",
    },
    "sane": {"tagger": "linear", "selection": "pivot-dev"},
}
EVALUATE_EVERY: Mapping[str, int | None] = {"paper": 150, "sane": None}
"""Steps between two evaluations of the development sets, by profile (None: one epoch)."""
TAGGERS: Mapping[str, Mapping[str, Any]] = {
    "bilstm_crf": {
        "learning_rate": 1e-4,
        "batch_size": 10,
        "epochs": 40,
        "max_length": 175,
        "dropout": 0.5,
        "schedule": "constant",
    },
    "linear": {
        "learning_rate": 2e-5,
        "batch_size": 32,
        "epochs": 10,
        "max_length": 128,
        "dropout": 0.1,
        "schedule": "linear",
    },
}
OF_BILSTM = ("crf", "layers", "hidden", "lstm_layers", "input_dropout")


LAST_FOUR = "last-four"


def feature_layers(layers: str, n_layers: int) -> tuple[int, ...]:
    """The layers that are added up: ``last-four`` (fewer where there are fewer blocks), or as
    `parse_layers` has them.

    >>> feature_layers("last-four", 12), feature_layers("last-four", 2), feature_layers("9-10", 12)
    ((9, 10, 11, 12), (1, 2), (9, 10))
    """
    if layers == LAST_FOUR:
        return tuple(range(max(1, n_layers - 3), n_layers + 1))
    return parse_layers(layers, n_layers)


def _named(layers: str) -> str:
    if layers != LAST_FOUR:
        try:
            layer_ends(layers)
        except ValueError as error:
            raise ValueError(f"{error} (or `{LAST_FOUR}`)") from None
    return layers


FeatureLayers = Annotated[str, AfterValidator(_named)]
"""A param that `feature_layers` reads."""


class SentenceCounts(BaseParams):
    """Sentences per language of the phrasebook."""

    train: shared.TrainingRows = 2000
    dev: shared.DevelopmentRows = 400
    test: shared.TestRows = 400


class TaggingParams(shared.TransferParams):
    """The options that all taggers have. Options left at `none` take the value of the profile, or
    else of the tagger.
    """

    removed: ClassVar[Mapping[str, Removed]] = {
        "configs": Removed("write them in `codes`", default=Removed.ANY),
        "encoding": Removed(
            "leave it out, and convert files to UTF-8, for example with `iconv -f LATIN1 -t UTF-8`",
            default="utf-8",
        ),
        "columns": Removed(
            "leave it out: files have the word first and the tag last; `cut -f` picks columns",
            default=None,
        ),
        "crf": Removed(
            "leave it out: the CRF is the conditioned one", keyed="conditioned", default=None
        ),
        "lstm_layers": Removed("leave it out: the BiLSTM has 2 layers", keyed=2),
        "input_dropout": Removed("leave it out: dropout before the BiLSTM is 0.5", keyed=0.5),
        "evaluate_every": Removed(
            "leave it out: weights are chosen after each epoch, or as the profile has it",
            default=None,
        ),
        **shared.of_papers({**shared.ADAM, "clip": None}),
        **shared.of_phrasebook(train=2000, dev=400, test=400),
    }
    mismatched: Annotated[Literal["refuse", "drop"], LATER] = "refuse"
    """Whether a row with other numbers of words and of tags, or a tag without a word, is an error
    (`refuse`), or is left out and counted (`drop`).
    """
    dataset: Annotated[str, shared.DATASET] = ""
    revision: Annotated[str, shared.REVISION] = "main"
    profile: Literal["paper", "sane"] = "sane"
    """Set of values for the options that are not given: `paper` is that of Kulshreshtha et al.
    (2020), `sane` that of XTREME.
    """
    tagger: Tagger | None = None
    """A linear layer on the encoder, which is fine-tuned (`linear`), or a BiLSTM and a CRF, whose
    scores of transitions depend on the word, on features of the frozen encoder (`bilstm_crf`).
    """
    layers: FeatureLayers = LAST_FOUR
    """Layers of the frozen encoder whose sum is the features of `bilstm_crf`: `last-four`, `last`,
    one number or a range such as `9-12`.
    """
    hidden: int = Field(384, ge=1)
    """Width of the BiLSTM per direction."""
    dropout: float | None = Field(None, ge=0, lt=1)
    selection: Selection | None = None
    learning_rate: float | None = Field(None, gt=0)
    epochs: int | None = Field(None, ge=1)
    batch_size: int | None = Field(None, ge=1)
    max_length: int | None = Field(None, ge=8)
    warmup: float = Field(0.0, ge=0)
    schedule: Annotated[RateSchedule | None, SCHEDULE, LATER] = None

    @property
    def optimizer(self) -> Mapping[str, Any]:
        """AdamW; the gradients of `linear` are clipped, as in XTREME (Hu et al. 2020)."""
        return {**shared.ADAM, "clip": 1.0 if self.tagger == "linear" else 0.0}


class BookTaggingParams(TaggingParams):
    """The options of taggers whose sentences the phrasebook has."""

    phrasebook: Annotated[SentenceCounts, shared.PHRASEBOOK] = SentenceCounts()


Names = str | tuple[str, ...]
OUTSIDE = "O"
MARKED = "Tags are O, and types after B-, I- and the like (IOB1, IOB2, IO, IOBES, BMES or BILOU)"
_BEGINS, _GOES_ON, _ENDS = "BSUW", "IMEL", "ESLUW"  # alone: in IOBES S-, in BILOU U-, in BMEWO W-
_MARKS = frozenset(_BEGINS + _GOES_ON)
_MOST_TAGS = 100  # what has more of them is a column of words
UPOS = (
    *("ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM", "PART", "PRON"),
    *("PROPN", "PUNCT", "SCONJ", "SYM", "VERB", "X"),
)
"""The universal parts of speech."""


@dataclass(frozen=True)
class TagColumns:
    """Where words and tags are: in the hub's column of `words` (the first of these names that a set
    has is read) and of `tags`, as text or as numbers that have names; in local files with one word
    per line in columns that tabs or blanks divide (`layout: columns`), or in the ten columns of
    CoNLL-U.

    `word` and `tag` are columns from 0; negative ones count from the end. `header` names the
    columns of tab-separated files with a header and one sentence per line, as MultiATIS++ has them.
    `annotated` is the hub's column of whole requests with their slots in brackets, as MASSIVE has
    them (empty: there is none).
    """

    words: Names = "tokens"
    tags: Names = ("ner_tags", "tags")
    layout: Literal["columns", "conllu"] = "columns"
    word: int = 0
    tag: int = -1
    header: tuple[str, str] = ("utterance", "slot_labels")
    annotated: str = ""


def listed(names: Names) -> tuple[str, ...]:
    """Return names as a tuple.

    >>> listed("tokens"), listed(("ner_tags", "tags"))
    (('tokens',), ('ner_tags', 'tags'))
    """
    return (names,) if isinstance(names, str) else names


Made = tuple[Sequence[str], Sequence[str]]
"""Words and tags of a sentence."""


@dataclass(frozen=True)
class TagScheme:
    """What the data of a tagging task is, for its readers: whether tags mark entities; all types of
    entities, or all tags (none: those of the training data); the columns; the data set's own names
    of languages; what is done with a row that has other numbers of words and of tags; and whether
    tags are `bare` types, as IO is often written, without a mark such as B-.
    """

    entities: bool = True
    labels: tuple[str, ...] = ()
    columns: TagColumns = TagColumns()
    languages: LanguageNames = field(default_factory=dict)
    mismatched: Literal["refuse", "drop"] = "refuse"
    bare: bool = False

    def of_file(self, tags: Iterable[str]) -> TagScheme:
        """Return the scheme of a file with these tags: types are `bare` where none has a mark."""
        found = set(tags) if self.entities else set[str]()
        marked = any(tag[1:2] == "-" for tag in found)
        return replace(self, bare=OUTSIDE in found and 1 < len(found) < _MOST_TAGS and not marked)

    def knows(self, tag: str) -> bool:
        """Whether it is a tag of the task."""
        if not self.entities:
            return bool(tag) and (not self.labels or tag in self.labels)
        if tag == OUTSIDE:
            return True
        mark, _, kind = f"I-{tag}".partition("-") if self.bare else tag.partition("-")
        return mark in _MARKS and bool(kind) and (not self.labels or kind in self.labels)

    def known(self) -> str:
        """Says in a sentence what tags there are."""
        if not self.entities:
            return f"Tags are {', '.join(self.labels)}" if self.labels else "A tag is not empty"
        types = f"; types are {', '.join(self.labels)}" if self.labels else ""
        return f"{MARKED}{types}"

    def final(self, tags: Sequence[str]) -> tuple[str, ...]:
        """Return the tags of a sentence as they are learnt: entities in IOB2."""
        tags = [f"I-{tag}" if self.bare and tag != OUTSIDE else tag for tag in tags]
        return iob2(tags) if self.entities else tuple(tags)

    @property
    def missing(self) -> str:
        """The label of a word without a prediction: outside of entities, or no tag at all."""
        return OUTSIDE if self.entities else "_"


def iob2(tags: Sequence[str]) -> tuple[str, ...]:
    """Puts a B- at the beginning of every entity and an I- after it, as conlleval finds them: what
    goes on after another type, after O or after an end begins one too.

    So IOB1, where B- only divides neighbours of one type, and IOBES, BMES and BILOU become IOB2,
    and IOB2 stays as it is.

    >>> iob2(["I-PER", "I-PER", "B-PER", "O", "I-LOC", "I-ORG"])
    ('B-PER', 'I-PER', 'B-PER', 'O', 'B-LOC', 'B-ORG')
    >>> iob2(["B-PER", "M-PER", "E-PER", "S-PER", "O"])
    ('B-PER', 'I-PER', 'I-PER', 'B-PER', 'O')
    """
    found, inside = [], ""
    for tag in tags:
        mark, _, kind = tag.partition("-")
        begins = mark in _BEGINS or kind != inside
        found.append(f"{'B' if begins else 'I'}-{kind}" if kind else tag)
        inside = "" if mark in _ENDS else kind
    return tuple(found)


def in_brackets(text: str, *, characters: bool) -> tuple[list[str], list[str]]:
    """Return the words and tags of a request whose slots are in brackets, divided at blanks;
    with `characters` words that are not ASCII alone are divided into characters.

    >>> in_brackets("wake me at [time : nine am]", characters=False)[1]
    ['O', 'O', 'O', 'B-time', 'I-time']
    >>> in_brackets("[date : 明天] 叫 me", characters=True)
    (['明', '天', '叫', 'me'], ['B-date', 'I-date', 'O', 'O'])
    """
    words, tags = list[str](), list[str]()
    for plain, kind, inside in re.findall(r"([^\[]+)|\[\s*([^\s:]+)\s*:([^\]]*)\]", text):
        found = (plain or inside).split()
        if characters:
            found = [part for word in found for part in ([word] if word.isascii() else word)]
        words += found
        follow = [f"{'I' if at else 'B'}-{kind}" for at in range(len(found))]
        tags += follow if kind else [OUTSIDE] * len(found)
    return words, tags


ENTITIES = TagScheme()
"""Entities of any type, in columns."""
UNIVERSAL = TagScheme(entities=False, labels=UPOS, columns=TagColumns(layout="conllu", tag=3))
"""Universal parts of speech, in CoNLL-U."""

Counts = Mapping[str, tuple[Ints, Ints]]
"""For each metric two numbers per sentence; the metric is the sum of the first ones divided by that
of the second ones.
"""

_RATIOS: Ratios = {
    "f1": (("n_right", "n_right"), ("n_gold", "n_predicted")),
    "precision": (("n_right",), ("n_predicted",)),
    "recall": (("n_right",), ("n_gold",)),
    "accuracy": (("n_tokens_right",), ("n_tokens",)),
}
_counted = partial(share, sample=partial(Sample.of_ratio, ratios=_RATIOS))
WORDS_MEASURED = (_counted("accuracy", "Share of the words whose tag is right."),)
"""What taggers of words report."""
ENTITIES_MEASURED = (
    _counted("f1", "Harmonic mean of precision and recall over entities."),
    _counted("precision", "Share of the entities found that are right in type and both ends."),
    _counted("recall", "Share of the given entities that are found with type and both ends."),
    *WORDS_MEASURED,
)
"""What taggers of entities report."""


def entities_of(tags: Sequence[str]) -> set[tuple[str, int, int]]:
    """Return (type, first word, last word) of each entity, found as conlleval finds them.

    >>> sorted(entities_of(["I-PER", "I-PER", "B-PER", "O", "I-LOC"]))
    [('LOC', 4, 4), ('PER', 0, 1), ('PER', 2, 2)]
    """
    found, begin = set(), 0
    for place, (tag, following) in enumerate(pairwise([*iob2(tags), OUTSIDE])):
        begin = place if tag.startswith("B-") else begin
        if tag != OUTSIDE and not following.startswith("I-"):
            found.add((tag[2:], begin, place))
    return found


def count(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], *, entities: bool
) -> Counts:
    """Right words and words of each sentence, and for entities those that are right (type and both
    ends), given and found.

    F1 is twice the right ones divided by those given and those found together.
    """
    pairs = list(zip(gold, predicted, strict=True))
    words = [(sum(x == y for x, y in zip(a, b, strict=True)), len(a)) for a, b in pairs]
    right, every = np.array(words, np.int64).reshape(-1, 2).T
    counts = {"accuracy": (right, every)}
    if entities:
        sets = [(entities_of(a), entities_of(b)) for a, b in pairs]
        sizes = [(len(a), len(b), len(a & b)) for a, b in sets]
        given, found, right = np.array(sizes, np.int64).reshape(-1, 3).T
        counts |= {
            "f1": (2 * right, given + found),
            "precision": (right, found),
            "recall": (right, given),
        }
    return counts


def values(counts: Counts) -> dict[str, float]:
    """The metrics over all sentences; what would be 0/0 is 0."""
    totals = {name: (int(part.sum()), int(whole.sum())) for name, (part, whole) in counts.items()}
    return {name: part / whole if whole else 0.0 for name, (part, whole) in totals.items()}


class TaggingTask(TransferTask):
    """Zero-shot transfer of a tagger. A subclass gives its tags and where its data has them."""

    entities: bool = True
    """Whether tags are O, B-type and I-type, and mark entities."""
    labels: tuple[str, ...] = ()
    """All types of entities, or all tags. Without them they are those of the data."""
    columns: TagColumns = TagColumns()
    """Where files and data sets have words and tags."""
    linear_epochs: ClassVar[int] = 10
    """Epochs of the tagger `linear` where none are given."""
    row_options = (*TransferTask.row_options, "mismatched")
    not_of_training = TransferTask.not_of_training - {"selection"}  # chooses as it goes
    word_pooling = "first"
    refit_needs = "`tagger: linear` and "
    predicts = frozenset({"id", "label", "n_tokens", "n_tokens_right", "predicted", "words"})

    class Params(TaggingParams):
        """`data` is `hub`, `phrasebook` or files, whose paths may hold {lang} and {pivot}."""

    params: TaggingParams

    def __init__(self, params: TaggingParams) -> None:
        super().__init__(params)
        self.evaluate_every = EVALUATE_EVERY[params.profile]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        known = [e.name for e in (ENTITIES_MEASURED if cls.entities else WORDS_MEASURED)]
        if "main_metric" not in vars(cls):
            cls.main_metric = known[0]
        if cls.main_metric not in known:
            raise TypeError(f"main_metric is {cls.main_metric!r}; write {' or '.join(known)}")
        if "metrics" not in vars(cls):
            cls.metrics = ENTITIES_MEASURED if cls.entities else WORDS_MEASURED

    def phrasebook(self, n: int, lang: str, split: Split, seed: int) -> Iterable[Made]:  # noqa: ARG002
        """Make n sentences of a language and split: by default the phrasebook's of this name."""
        return tagged(self.name, n, lang, split)

    def scheme(self) -> TagScheme:
        """Return what the class says about tags and data, as one value."""
        return TagScheme(
            self.entities, self.labels, self.columns, self.names, self.params.mismatched
        )

    def head(self, inputs: TaskInputs) -> TagHead:
        """Return the reader of the sentences, and the maker and judge of taggers."""
        from raxalign.tasks.taggers.head import TagHead

        return TagHead(self, inputs)

    def resolved(self) -> dict[str, Any]:
        """Return the params by their names, with the values of the profile or the tagger."""
        params = self.settings()
        every = {"evaluate_every": self.evaluate_every}
        return {**params.later(), **params.identity(), **every}

    def _defaults(self) -> dict[str, Any]:
        """The values of the profile, and of the tagger that it or the options name."""
        profile = PROFILES[self.params.profile]
        tagger = self.params.tagger or profile["tagger"]
        epochs = {"epochs": self.linear_epochs} if tagger == "linear" else {}
        return {**TAGGERS[tagger], **epochs, **profile}

    def settings(self) -> Any:
        """Return the params with every default of the profile or the tagger filled in."""
        given, defaults = self.params, self._defaults()
        missing = {name: value for name, value in defaults.items() if getattr(given, name) is None}
        return given.model_copy(update=missing)

    def canonical(self) -> dict[str, Any]:
        """Return the resolved options without the profile's name, without what names data (its own
        identity enters the key), without idle ones, and without `LATER` ones at their default.
        """
        resolved, usual = self.resolved(), {**self.params.later(), **self._defaults()}
        idle = {
            "phrasebook": self.params.data != "phrasebook",
            "readout": resolved["readout"] == "keep",
            "evaluate_every": resolved["selection"] == "last",
            "mismatched": self.params.data == "phrasebook",
            "codes": self.params.data == "hub",  # the configurations are in what names the data
            **dict.fromkeys(("profile", "dataset", "revision"), True),
            **dict.fromkeys(OF_BILSTM, resolved["tagger"] == "linear"),
        }
        later = {name for name in self.params.later() if resolved[name] == usual[name]}
        return {
            name: value
            for name, value in resolved.items()
            if not idle.get(name) and name not in later
        }

    def outdates(self) -> bool:
        """Return whether the tagger is `linear`; the other one reads a frozen encoder."""
        return (self.params.tagger or PROFILES[self.params.profile]["tagger"]) == "linear"

    def selection(self) -> Selection:
        """Return what chooses the weights."""
        chosen: Selection = self.params.selection or PROFILES[self.params.profile]["selection"]
        return chosen

    def reads(self, n_layers: int) -> Reads:
        """Return the last layer, which `linear` trains, or the `layers` of a frozen encoder."""
        if self.outdates():
            return super().reads(n_layers)
        return Reads(frozenset(feature_layers(self.params.layers, n_layers)))
