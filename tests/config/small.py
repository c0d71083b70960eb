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
