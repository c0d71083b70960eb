"""What a tagging task's tags are, and how its data is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from raxalign.tasks.transfer.params import LanguageNames

Names = str | tuple[str, ...]
OUTSIDE = "O"
BIO = "Tags are O, B-type and I-type (IOB1 or IOB2)"
UPOS = (
    *("ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM", "PART", "PRON"),
    *("PROPN", "PUNCT", "SCONJ", "SYM", "VERB", "X"),
)
"""The universal parts of speech."""


@dataclass(frozen=True)
class TagColumns:
    """Where words and tags are.

    Attributes:
        words: the names of the hub's column of words; the first one that a set has is read.
        tags: the names of the hub's column of tags, as text or as numbers that have names.
        layout: of local files: one word per line in columns that tabs or blanks divide
            (`columns`), or the ten columns of CoNLL-U (`conllu`).
        word: the column of a file with the word, from 0; negative ones count from the end.
        tag: the column of a file with its tag.
        given: whether the user named both columns, so that they do not follow from the file.
        header: the columns of words and tags in tab-separated files with a header and one sentence
            per line, as MultiATIS++ has them.
    """

    words: Names = "tokens"
    tags: Names = ("ner_tags", "tags")
    layout: Literal["columns", "conllu"] = "columns"
    word: int = 0
    tag: int = -1
    given: bool = False
    header: tuple[str, str] = ("utterance", "slot_labels")


def listed(names: Names) -> tuple[str, ...]:
    """Returns names as a tuple.

    >>> listed("tokens"), listed(("ner_tags", "tags"))
    (('tokens',), ('ner_tags', 'tags'))
    """
    return (names,) if isinstance(names, str) else names


Made = tuple[Sequence[str], Sequence[str]]
"""Words and tags of a sentence."""


@dataclass(frozen=True)
class TagScheme:
    """What the data of a tagging task is, for its readers.

    Attributes:
        entities: whether tags are O, B-type and I-type, and mark entities.
        labels: all types of entities, or all tags (none: those of the training data).
        columns: where words and tags are.
        languages: the data set's own names of languages.
        mismatched: what is done with a row that has other numbers of words and of tags.
    """

    entities: bool = True
    labels: tuple[str, ...] = ()
    columns: TagColumns = TagColumns()
    languages: LanguageNames = field(default_factory=dict)
    mismatched: Literal["refuse", "drop"] = "refuse"

    def knows(self, tag: str) -> bool:
        """Whether it is a tag of the task."""
        if not self.entities:
            return bool(tag) and (not self.labels or tag in self.labels)
        if tag == OUTSIDE:
            return True
        kind = tag[2:]
        return tag[:2] in ("B-", "I-") and bool(kind) and (not self.labels or kind in self.labels)

    def known(self) -> str:
        """Says in a sentence what tags there are."""
        if not self.entities:
            return f"Tags are {', '.join(self.labels)}" if self.labels else "A tag is not empty"
        types = f"; types are {', '.join(self.labels)}" if self.labels else ""
        return f"{BIO}{types}"

    def final(self, tags: Sequence[str]) -> tuple[str, ...]:
        """Returns the tags of a sentence as they are learnt: entities in IOB2."""
        return iob2(tags) if self.entities else tuple(tags)

    @property
    def missing(self) -> str:
        """The label of a word without a prediction: outside of entities, or no tag at all."""
        return OUTSIDE if self.entities else "_"


def iob2(tags: Sequence[str]) -> tuple[str, ...]:
    """Puts a B- at the beginning of every entity, as conlleval finds them: an I- after another
    type, or after O, begins one too.

    So IOB1, where B- only divides neighbours of one type, becomes IOB2, and IOB2 stays as it is.

    >>> iob2(["I-PER", "I-PER", "B-PER", "O", "I-LOC", "I-ORG"])
    ('B-PER', 'I-PER', 'B-PER', 'O', 'B-LOC', 'B-ORG')
    """
    found, inside = [], ""
    for tag in tags:
        kind = tag[2:]
        found.append(f"B-{kind}" if tag.startswith("I-") and kind != inside else tag)
        inside = kind
    return tuple(found)


ENTITIES = TagScheme()
"""Entities of any type, in columns."""
UNIVERSAL = TagScheme(entities=False, labels=UPOS, columns=TagColumns(layout="conllu", tag=3))
"""Universal parts of speech, in CoNLL-U."""
