"""Vectors with a known structure: an encoder that looks words up, and text and pairs made of
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from raxalign.catalog import catalog
from raxalign.encoders.base import Encoder
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.transforms import Transform
from raxalign.encoders.models.vectors import Pooling, WordVectors
from raxalign.methods.base import Method, MethodInputs
from raxalign.train.runtime import Runtime
from tests.methods.toy import columns_of, write_pairs, write_text


class TableEncoder(Encoder):
    """A static encoder of one layer: language -> word -> vector; other words are absent. It keeps
    the dtype of its vectors.
    """

    family = "static"
    n_layers = 0
    device = "cpu"

    def __init__(self, tables: Mapping[str, torch.Tensor]) -> None:
        self.tables = tables
        self.hidden_size = next(iter(tables.values())).shape[1]

    def iter_words(
        self,
        sentences: Sequence[Sequence[str]],
        lang: str,
        *,
        layers: tuple[int, ...],
        pooling: Pooling,
    ) -> Iterator[tuple[Sequence[int], WordVectors]]:
        table = self.tables[lang]
        for i, sentence in enumerate(sentences):
            present = torch.tensor([word.startswith("w") for word in sentence], dtype=torch.bool)
            vectors = torch.zeros(len(sentence), len(layers), self.hidden_size, dtype=table.dtype)
            for k, word in enumerate(sentence):
                if present[k]:
                    vectors[k] = table[int(word[1:])]
            yield [i], WordVectors(vectors, [0, len(sentence)], present)

    def save(self, folder: Path | str) -> None:
        raise NotImplementedError


def one_word_each(n: int) -> list[list[str]]:
    """Every word once, two to a sentence, and one that no encoder reads."""
    return [[f"w{i}", f"w{i + 1}"][: n - i] for i in range(0, n, 2)] + [["?"]]


def planted_inputs(root: Path, n: int, languages: Sequence[str] = ("de",)) -> MethodInputs:
    """Text of all words, and pairs that link word i with word i."""
    sentences = one_word_each(n)
    columns = columns_of(sentences, sentences)
    pairs = {lang: write_pairs(root / f"pairs-{lang}", columns) for lang in languages}
    text = {lang: write_text(root / f"text-{lang}", sentences) for lang in (*languages, "en")}
    return MethodInputs(tuple(languages), "en", pairs, pairs, text)


def method(kind: str, **params: Any) -> Method:
    made = catalog("methods")[kind]
    return made(made.Params.model_validate(params))


def fitted(
    kind: str,
    root: Path,
    tables: Mapping[str, torch.Tensor],
    inputs: MethodInputs | None = None,
    **params: Any,
) -> AlignedEncoder:
    """What a method makes of vectors, by their own text and pairs unless others are given."""
    others = [lang for lang in tables if lang != "en"]
    inputs = inputs or planted_inputs(root, len(tables["en"]), others)
    return method(kind, **params).align(TableEncoder(tables), inputs, Runtime())


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def rotation(d: int, seed: int = 1) -> torch.Tensor:
    return torch.linalg.qr(normal(d, d, seed=seed))[0]


def applied(
    transforms: Sequence[Transform], lang: str, x: torch.Tensor, toward: str | None = "de"
) -> torch.Tensor:
    """Float32 vectors of a language after its transforms."""
    for transform in transforms:
        if transform.lang == lang and transform.toward in (None, toward):
            x = transform(x.float())
    return x
