"""A small grid file, and changes of it."""

from __future__ import annotations

SMALL = """\
name: small
pivot: en
encoder: bert-base-multilingual-cased
languages: {each: [de, no]}
corpus:
  source: moses
  path: data/{lang}-{pivot}
sentences: [1_000, 10_000]
methods:
  none: {}
  rotation: {center: [false, true], layers: [9, 9-12]}
tasks:
  retrieval: {}
"""


def change(old: str, new: str, text: str = SMALL) -> str:
    assert text.count(old) == 1
    return text.replace(old, new)


PARTS = "  path: {train: 'data/{lang}-{pivot}.train', dev: data/dev, test: data/test}"
"""A path for each part of the corpus."""


def cases(table: str) -> list[tuple[str, ...]]:
    r"""Return the rows of a table of texts: ``old => new => told``, or its end on lines that begin
    with ``=>`` and go on with ``..``. A text stands between bars where blanks at its ends count.
    """
    joined = table.replace("\n=> ", " => ").replace("\n.. ", " ").replace("\\n", "\0")
    rows = [line.split(" => ") for line in joined.splitlines() if line]
    return [
        tuple(text.removeprefix("|").removesuffix("|").replace("\0", "\n") for text in row)
        for row in rows
    ]
