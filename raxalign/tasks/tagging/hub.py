"""Tagged sentences from data sets of the Hugging Face Hub."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from raxalign.corpora.readers.hub import load_rows
from raxalign.errors import DataError
from raxalign.tasks.tagging.columns import unknown
from raxalign.tasks.tagging.scheme import Split, TagScheme, listed
from raxalign.tasks.tagging.sentences import Sentences, Tagged
from raxalign.tasks.transfer.task import HubSet

_RANGE = "_"
"""The tag that a range of words (``2-3 zum``) has among its words (``2 zu``, ``3 dem``) where they
are in one list.
"""
_REMEDY = "`mismatched: drop` leaves such rows out"


def read_hub(found: HubSet, split: Split, scheme: TagScheme, cache: Path | None) -> Sentences:
    """Reads the sentences of a data set of the hub, or of a local copy of its repository.

    Tags are text, or numbers whose names the data set has. Where tags do not mark entities, words
    with the tag ``_`` are left out.

    Args:
        found: the data set and its configuration.
        split: `dev` is the split `validation`, or `dev`.
        scheme: the columns, and the tags that there are.
        cache: a folder for what is downloaded (None: the hub's own).

    Returns:
        the sentences that have words, and how many were left out.

    Raises:
        DataError: a column is missing, or a tag is unknown; it names the row.
        TransientError: the hub cannot be reached.
    """
    hub_split = "validation" if split == "dev" else split
    where = f"{found.dataset}/{found.config}:{hub_split}"
    table = load_rows(found.dataset, found.config, hub_split, found.revision, cache)
    words, tags = (
        next((name for name in listed(names) if name in table.column_names), None)
        for names in (scheme.columns.words, scheme.columns.tags)
    )
    if words is None or tags is None:
        expected = " and ".join(
            " or ".join(listed(names)) for names in (scheme.columns.words, scheme.columns.tags)
        )
        told = f"has the columns {', '.join(table.column_names)}, expected {expected}"
        raise DataError(where, told)
    names = getattr(getattr(table.features[tags], "feature", None), "names", None)
    rows = list(_rows(where, zip(table[words], table[tags], strict=True), names, scheme))
    kept = [row for row in rows if row is not None]
    if not kept:
        raise DataError(where, "has no sentences")
    return Sentences(where, kept, len(rows) - len(kept))


def _rows(
    where: str,
    rows: Iterable[tuple[Sequence[str], Sequence[object]]],
    names: Sequence[str] | None,
    scheme: TagScheme,
) -> Iterator[Tagged | None]:
    """Yields the sentences that have words, and None for one that is left out."""
    for number, (words, tags) in enumerate(rows, 1):
        if len(words) != len(tags):
            if scheme.mismatched == "refuse":
                told, remedy = f"{len(words)} words, but {len(tags)} tags", _REMEDY
                raise DataError(where, told, line=number, remedy=remedy)
            yield None
            continue
        named = [
            (word, _tag(where, number, tag, names)) for word, tag in zip(words, tags, strict=True)
        ]
        if not scheme.entities:
            named = [(word, tag) for word, tag in named if tag != _RANGE]
        wrong = next((tag for _, tag in named if not scheme.knows(tag)), None)
        if wrong is not None:
            told, remedy = unknown(wrong, scheme)
            raise DataError(where, told, line=number, remedy=remedy)
        if named:
            final = scheme.final([tag for _, tag in named])
            yield Tagged(tuple(word for word, _ in named), final, number)


def _tag(where: str, number: int, tag: object, names: Sequence[str] | None) -> str:
    """A tag as text; a number is the place of its name."""
    if isinstance(tag, str):
        return tag
    if not isinstance(tag, int) or names is None or not 0 <= tag < len(names):
        told = f"the tag {tag!r} is not text and has no name in the data set"
        raise DataError(
            where, told, line=number, remedy="Tags are text, or numbers of a `ClassLabel`"
        )
    return str(names[tag])
