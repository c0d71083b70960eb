"""The mean vectors of words over their occurrences in a text (Schuster et al. 2019)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from raxalign.arrays import Ints
from raxalign.corpora.text.words import look_up_form
from raxalign.encoders.models.vectors import WordVectors
from raxalign.lazy import np, torch

ReadWords = Callable[[Sequence[Sequence[str]]], WordVectors]
"""Gives the vectors of the words of some sentences of one language."""


def word_means(
    read: ReadWords,
    chunks: Iterable[Sequence[Sequence[str]]],
    asked: tuple[str, Sequence[str]],
    shape: tuple[int, int],
    device: str,
    most: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the means (V, L, H), in float64, of the vectors of words over their occurrences in a
    text (lists of sentences), zero for a word that does not occur; and the occurrences that were
    counted (V,). `shape` is (L, H).

    `asked` are a language and words of it, all different, in the form in which they are looked up.
    Sentences are read in their order; one is encoded where it holds a word that was met less than
    `most` times before it (None: any word), and then all its words count.
    """
    lang, words = asked
    numbers, met = {word: i for i, word in enumerate(words)}, np.zeros(len(words), np.int64)
    sums_VLH = torch.zeros((len(words), *shape), dtype=torch.float64, device=device)
    counts_V = torch.zeros(len(words), dtype=torch.int64, device=device)
    for chunk in chunks:
        places = [
            [numbers.get(look_up_form(word, lang), -1) for word in sentence] for sentence in chunk
        ]
        chosen = list(_wanted(places, met, most))
        if not chosen:
            continue
        vectors = read([chunk[i] for i in chosen])
        numbers_N = torch.tensor([n for i in chosen for n in places[i]], device=device)
        kept_N = (numbers_N >= 0) & vectors.present_N
        sums_VLH.index_add_(0, numbers_N[kept_N], vectors.vectors_NLH[kept_N].double())
        counts_V += torch.bincount(numbers_N[kept_N], minlength=len(words))
    return sums_VLH / counts_V.clamp(min=1)[:, None, None], counts_V


def _wanted(places: Sequence[Sequence[int]], met: Ints, most: int | None) -> Iterator[int]:
    """Yield the sentences with a word met too seldom, and count what they hold into `met`."""
    for i, row in enumerate(places):
        held = {number for number in row if number >= 0}
        if any(most is None or met[number] < most for number in held):
            met[list(held)] += 1
            yield i
