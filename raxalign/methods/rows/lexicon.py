"""The translations of words, as the pieces that they have within a text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from raxalign.arrays import offsets_of

if TYPE_CHECKING:
    from raxalign.encoders.models.transformer import TransformerEncoder

Entries = Mapping[str, Sequence[tuple[str, str]]]
"""The dictionaries: language -> (word of the language, word of the pivot)."""


@dataclass(frozen=True)
class Lexicon:
    """Translations of words. Word type t has the groups ``group_offsets[t]`` to ``group_offsets[t +
    1]``, one for each language that it can be translated to; group g the translations
    ``entry_offsets[g]`` to ``entry_offsets[g + 1]``, all of the language ``group_langs[g]``.

    Translation e has `count_E[e]` pieces, those of `ids` from `first_E[e]` on. `types` tells the
    word types of each language.
    """

    types: dict[str, dict[str, int]]
    group_offsets: np.ndarray
    group_langs: np.ndarray
    entry_offsets: np.ndarray
    first_E: np.ndarray
    count_E: np.ndarray
    ids: np.ndarray

    def draw(self, types_W: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return (translation, its language) of each of some words, by their types: a language,
        then one of its translations, each as likely as another.
        """
        group = _pick(self.group_offsets, types_W, rng)
        return _pick(self.entry_offsets, group, rng), self.group_langs[group]


def _pick(offsets: np.ndarray, which: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One entry of each of some rows, by chance."""
    picked: np.ndarray = offsets[which] + rng.integers(np.diff(offsets)[which])
    return picked


def make_lexicon(
    encoder: TransformerEncoder, dictionaries: Entries, pivot: str, languages: tuple[str, ...]
) -> Lexicon:
    """Return the translations of `dictionaries`, both ways, by the lower-cased word; `languages`
    numbers the languages.

    An entry that is repeated counts once; one whose translation has no piece is left out.
    """
    found = _translations(dictionaries, pivot)
    spans, ids = _word_pieces(
        encoder,
        (word for by_lang in found.values() for group in by_lang.values() for word in group),
    )
    types: dict[str, dict[str, int]] = {lang: {} for lang in languages}
    groups: list[int] = []
    of_group: list[tuple[int, int]] = []
    of_entry: list[tuple[int, int]] = []
    for (lang, word), by_lang in found.items():
        read = {
            other: [spans[t] for t in translations if spans[t][1]]
            for other, translations in by_lang.items()
        }
        read = {other: entries for other, entries in read.items() if entries}
        if read:
            types[lang][word] = len(groups)
            groups.append(len(read))
            of_group += [(languages.index(other), len(part)) for other, part in read.items()]
            of_entry += [span for part in read.values() for span in part]
    langs_G, counts_G = np.array(of_group, np.int64).reshape(-1, 2).T
    first_E, count_E = np.array(of_entry, np.int64).reshape(-1, 2).T
    group_offsets = offsets_of(np.array(groups, np.int64))
    return Lexicon(types, group_offsets, langs_G, offsets_of(counts_G), first_E, count_E, ids)


def _word_pieces(
    encoder: TransformerEncoder, words: Iterable[str]
) -> tuple[dict[str, tuple[int, int]], np.ndarray]:
    """The pieces of words in the middle of a text, each word once, end to end: the first piece and
    the number of pieces of each word, and all pieces.
    """
    from raxalign.encoders.models.pieces import inner_pieces

    different = list(dict.fromkeys(words))
    pieces = inner_pieces(encoder.tokenizer, different)
    starts = offsets_of(np.array([len(ids) for ids in pieces], np.int64)).tolist()
    spans = {
        word: (start, len(ids))
        for word, start, ids in zip(different, starts[:-1], pieces, strict=True)
    }
    return spans, np.concatenate([np.zeros(0, np.int32), *pieces])


def _translations(
    dictionaries: Entries, pivot: str
) -> dict[tuple[str, str], dict[str, dict[str, None]]]:
    """(language, lower-cased word) -> language -> translations, in the order of the
    dictionaries.
    """
    found: dict[tuple[str, str], dict[str, dict[str, None]]] = {}
    for lang, entries in dictionaries.items():
        for word, translation in entries:
            found.setdefault((lang, word.lower()), {}).setdefault(pivot, {})[translation] = None
            found.setdefault((pivot, translation.lower()), {}).setdefault(lang, {})[word] = None
    return found
