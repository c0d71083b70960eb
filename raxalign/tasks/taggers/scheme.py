"""What a tagging task's tags are, how its data is written, and what scores count."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import ClassVar, Literal

from raxalign.arrays import Ints
from raxalign.lazy import np
from raxalign.tasks.transfer.params import LanguageNames

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
    per line in columns that tabs or spaces separate (`layout: columns`), or in the ten columns of
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


@dataclass(frozen=True)
class TagScheme:
    """What the data of a tagging task is, for its readers: whether tags mark entities; all types of
    entities, or all tags (none: those of the training data); the columns; the data set's own names
    of languages; what is done with a row that has other numbers of words and of tags; and whether
    tags are `bare` types, as IO is often written, without a mark such as B-.
    """

    OUTSIDE: ClassVar = OUTSIDE
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

    def counts(self, gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> Counts:
        """Return right words and words of each sentence, and for entities those that are right
        (type and both ends), given and found.

        F1 is twice the right ones divided by those given and those found together.
        """
        pairs = list(zip(gold, predicted, strict=True))
        words = [(sum(x == y for x, y in zip(a, b, strict=True)), len(a)) for a, b in pairs]
        right, every = np.array(words, np.int64).reshape(-1, 2).T
        counts = {"accuracy": (right, every)}
        if self.entities:
            sets = [(entities_of(a), entities_of(b)) for a, b in pairs]
            sizes = [(len(a), len(b), len(a & b)) for a, b in sets]
            given, found, right = np.array(sizes, np.int64).reshape(-1, 3).T
            counts |= {
                "f1": (2 * right, given + found),
                "precision": (right, found),
                "recall": (right, given),
            }
        return counts

    def values(
        self, gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]
    ) -> dict[str, float]:
        """Return the metrics over all sentences; what would be 0/0 is 0.

        >>> TagScheme(entities=False).values([["NOUN", "VERB"]], [["NOUN", "_"]])
        {'accuracy': 0.5}
        """
        totals = {
            name: (int(part.sum()), int(whole.sum()))
            for name, (part, whole) in self.counts(gold, predicted).items()
        }
        return {name: part / whole if whole else 0.0 for name, (part, whole) in totals.items()}

    @staticmethod
    def ordered(tags: Iterable[str]) -> tuple[str, ...]:
        """Return different tags in their order: what is outside of entities comes first.

        >>> TagScheme.ordered(["B-PER", "O", "B-LOC", "O"])
        ('O', 'B-LOC', 'B-PER')
        """
        return tuple(sorted(set(tags), key=lambda tag: (tag != OUTSIDE, tag)))

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


Counts = Mapping[str, tuple[Ints, Ints]]
"""For each metric two numbers per sentence; the metric is the sum of the first ones divided by that
of the second ones.
"""


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
