"""What the benchmarks of encoders read: sentence pairs with links, of the phrasebook or real ones
of Tatoeba, and a random encoder for them.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import torch

PHRASEBOOK, TATOEBA = "phrasebook", "Tatoeba"
TOKEN = re.compile(r"\w+['’]?|[^\w\s]")


def sources() -> tuple[str, ...]:
    """Return the sources of sentences that are there: the phrasebook and, where the environment
    variable RAXALIGN_TEST_DATA names the folder of real data, Tatoeba. The phrasebook's sentences
    are of about equal length, so that there is less padding to save than in real ones.
    """
    return (PHRASEBOOK, TATOEBA) if os.environ.get("RAXALIGN_TEST_DATA") else (PHRASEBOOK,)


@contextlib.contextmanager
def folders(
    encoder: str | None, pairs: str | None, rows: int, source: str = PHRASEBOOK
) -> Iterator[tuple[Path, Path]]:
    """Yield the folders of an encoder and of sentence pairs: those that were given, or ones made
    for the purpose.

    Args:
        encoder: the folder of an encoder; None: a random BERT of 4 layers of 256.
        pairs: the folder of a word-pair dataset; None: German and English.
        rows: how many pairs are made.
        source: one of `sources`.
    """
    with tempfile.TemporaryDirectory(prefix="raxalign-bench-") as scratch:
        make = tatoeba_pairs if source == TATOEBA else phrasebook_pairs
        words = Path(pairs) if pairs else make(Path(scratch) / "pairs", rows)
        yield (Path(encoder) if encoder else random_bert(Path(scratch) / "encoder", words)), words


def phrasebook_pairs(folder: Path, rows: int) -> Path:
    """Write German-English sentence pairs with gold links, time and again the same ones where more
    are asked for than there are.
    """
    from raxalign.corpora.base import CorpusInputs
    from raxalign.corpora.phrasebook import PhrasebookCorpus

    corpus = PhrasebookCorpus(PhrasebookCorpus.Params(size=min(rows, 12_000)))
    found = list(corpus.read("de", "en", CorpusInputs({}, folder)))
    return write_pairs(
        folder,
        (
            (
                number,
                pair.source_words,
                pair.target_words,
                *zip(*sorted(pair.links or ()), strict=True),
            )
            for number, pair in enumerate(islice(cycle(found), rows))
        ),
    )


def tatoeba_pairs(folder: Path, rows: int) -> Path:
    """Write German-English sentence pairs with links along the diagonal, one per word of the
    shorter side.
    """
    data = Path(os.environ["RAXALIGN_TEST_DATA"])
    src, tgt = (list(tatoeba(data, "de", side)) for side in ("de", "en"))
    both = [(a, b) for a, b in zip(src, tgt, strict=True) if a and b][:rows]
    links = [
        [(i * len(a) // n, i * len(b) // n) for i in range(n)]
        for a, b in both
        for n in (min(len(a), len(b)),)
    ]
    return write_pairs(
        folder,
        ((i, a, b, *zip(*links[i], strict=True)) for i, (a, b) in enumerate(both)),
    )


def tatoeba(data: Path, lang: str, side: str) -> Iterator[list[str]]:
    """Yield the words of one side of the sentence pairs of a language with English."""
    with (data / "tatoeba" / f"{lang}-en.{side}").open(encoding="utf-8") as file:
        for line in file:
            yield TOKEN.findall(line)


def write_pairs(folder: Path, rows: Iterable[tuple[Any, ...]]) -> Path:
    """Write a word-pair dataset: ids, words of both sides, links of both sides."""
    from raxalign.corpora.text.dataset import DatasetWriter
    from raxalign.pairing.build import pairs_schema

    names = pairs_schema().names
    with DatasetWriter(folder, pairs_schema(), {}) as writer:
        for row in rows:
            writer.write({name: [value] for name, value in zip(names, row, strict=True)})
    return folder


def first_rows(pairs: Path, folder: Path, n: int) -> Path:
    """Write the first rows of a word-pair dataset as one of their own."""
    from raxalign.corpora.text.dataset import DatasetWriter, read_table

    table = read_table(pairs).slice(0, n)
    with DatasetWriter(folder / "data", table.schema, {}) as writer:
        for batch in table.to_batches():
            writer.write(batch.replace_schema_metadata(None))
    return folder / "data"


def random_bert(
    folder: Path, pairs: Path, positions: int = 512, layers: int = 4, width: int = 256
) -> Path:
    """Make a masked LM of the size of a small encoder, its vocabulary learnt from the sentences;
    `positions` are those of the usual encoders, into which the windows of MLQA fit.
    """
    from tokenizers import BertWordPieceTokenizer
    from transformers import BertConfig, BertForMaskedLM, BertTokenizerFast

    from raxalign.corpora.text.dataset import read_table

    table = read_table(pairs)
    tokenizer = BertWordPieceTokenizer(lowercase=False, strip_accents=False)
    tokenizer.train_from_iterator(
        (" ".join(words) for name in ("src", "tgt") for words in table.column(name).to_pylist()),
        vocab_size=16_000,
    )
    config = BertConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        intermediate_size=4 * width,
        max_position_embeddings=positions,
    )
    torch.manual_seed(0)
    BertForMaskedLM(config).save_pretrained(folder)
    BertTokenizerFast(
        tokenizer_object=tokenizer._tokenizer, do_lower_case=False, model_max_length=positions
    ).save_pretrained(folder)
    return folder
