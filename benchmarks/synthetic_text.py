"""Synthetic texts of a Zipf distribution over 50,000 forms per language, as files of sentence pairs
and of task rows, with a tiny random encoder that divides each form into two or three pieces.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

HELD_OUT = 200
"""Sentence pairs, and rows of the task, beyond those that are trained on."""
_FORMS, _AT_ONCE = 50_000, 100_000
_LABELS = ("entailment", "neutral", "contradiction")


class Texts:
    """Makes texts of about so many words. The pivot's forms begin with e, those of all other
    languages with d.
    """

    def __init__(self, words: int) -> None:
        self.words, self._chance = words, np.random.default_rng(0)
        self._forms = [[f"{lang}{number:x}" for number in range(_FORMS)] for lang in ("d", "e")]

    def write_pairs(self, path: Path, lang: str, pivot: str, count: int) -> None:
        """Write the two files of a bitext, each called `path` with a language."""
        for number, code in enumerate((lang, pivot)):
            with path.with_name(f"{path.name}.{code}").open("w", encoding="utf-8") as file:
                for size in _parts(count):
                    file.writelines(f"{line}\n" for line in self._made(number, size))

    def write_rows(self, path: Path, count: int) -> None:
        """Write task rows of two texts of the pivot and a label."""
        with path.open("w", encoding="utf-8") as file:
            for size in _parts(count):
                both = zip(self._made(1, size), self._made(1, size), strict=True)
                file.writelines(
                    f"{first}\t{second}\t{_LABELS[i % 3]}\n"
                    for i, (first, second) in enumerate(both)
                )

    def _made(self, lang: int, count: int) -> list[str]:
        lengths = self._chance.poisson(self.words, count).clip(1)
        words = (self._chance.zipf(1.3, int(lengths.sum())) % _FORMS).tolist()
        forms, ends = self._forms[lang], np.cumsum(lengths).tolist()
        return [
            " ".join([forms[word] for word in words[end - length : end]])
            for end, length in zip(ends, lengths.tolist(), strict=True)
        ]


def write_encoder(folder: Path) -> None:
    """Write a tiny random encoder whose tokenizer knows the forms."""
    from tests.tiny import tiny_bert

    syllables = [f"{lang}{i:x}" for lang in ("d", "e") for i in range(256)]
    hexes = [f"##{i:x}" for i in range(16)] + [f"##{i:02x}" for i in range(256)]
    tiny_bert(folder, [*syllables, *hexes], positions=128)


def _parts(count: int) -> Iterator[int]:
    """Yield sizes of parts that are made at once."""
    for start in range(0, count, _AT_ONCE):
        yield min(_AT_ONCE, count - start)
