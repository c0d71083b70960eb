"""Word vectors against the bare forward of the same encoder, in one run.

usage: python -m benchmarks.word_vectors [ENCODER_FOLDER TEXT_FILE] [--sentences 4000]
[--threads 1] [--device cpu] [--pooling mean] [--repeats 3]

Prints two ratios. `sorted`: tokens/s of `iter_words` (tokenising, batching, forward, pooling) to
that of the bare forward on the same sorted batches, ready-made; budget 0.8. `file order`: the gain
over the bare forward on batches of a fixed number of sentences in file order, divided by the gain
in padded tokens that sorting promises; budget 0.9.

Without folders, a random BERT (4 layers of 256) is used and German sentences of the phrasebook;
where RAXALIGN_TEST_DATA names a folder of real data, those of Tatoeba too. All sides run in turn,
and the best round of each counts. With one thread on a CPU the seconds are those of its core, else
those of the wall.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from benchmarks.sentences import TOKEN, folders, sources
from benchmarks.table import Row, at_least, clock_of, in_turn, show, spread
from raxalign.corpora.text.dataset import read_table
from raxalign.encoders.models.pieces import token_batches
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.encoders.models.vectors import Batch

SORTED, IN_FILE_ORDER = 0.8, 0.9


def forward(encoder: TransformerEncoder, batches: list[Batch]) -> None:
    """The bare forward: no head, no hidden states kept."""
    base = encoder.model.base_model
    with torch.no_grad():
        for batch in batches:
            base(
                input_ids=batch.ids_BT,
                attention_mask=batch.mask_BT,
                token_type_ids=batch.segments_BT,
            )


def measure(
    encoder: TransformerEncoder,
    sentences: list[list[str]],
    source: str,
    options: argparse.Namespace,
) -> None:
    """Run all sides in turn and print their ratios."""
    rows = encoder.pieces(sentences, "xx")
    tokens = int(rows.lengths.sum())
    ordered = [
        encoder.collate(rows, chosen)
        for chosen in token_batches(rows.lengths.tolist(), encoder.batch_tokens)
    ]
    size = max(1, round(len(rows) / len(ordered)))
    in_file_order = [
        encoder.collate(rows, np.arange(start, min(start + size, len(rows))))
        for start in range(0, len(rows), size)
    ]

    def words() -> None:
        layers = (encoder.n_layers,)
        for _ in encoder.iter_words(sentences, "xx", layers=layers, pooling=options.pooling):
            pass

    def waited(work: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            work()
            if options.device.startswith("cuda"):
                torch.cuda.synchronize()

        return run

    works = [words, lambda: forward(encoder, ordered), lambda: forward(encoder, in_file_order)]
    for work in works:
        work()
    clock = clock_of(options.threads if options.device == "cpu" else 0)
    ours, by_length, by_line = in_turn(options.repeats, clock, *map(waited, works))
    padded_sorted, padded_plain = (
        sum(batch.ids_BT.numel() for batch in batches) for batches in (ordered, in_file_order)
    )
    promised = padded_plain / padded_sorted
    print(
        f"{len(sentences)} sentences, {tokens} pieces; padded: sorted {padded_sorted}, file order"
        f" {padded_plain}, {promised:.2f} x\ntokens/s: {tokens / min(ours):,.0f} (bare, sorted:"
        f" {tokens / min(by_length):,.0f})"
    )
    what = f"word vectors, {len(sentences):,} sentences of {source}: tokens/s"
    ratio, noise = min(by_length) / min(ours), spread(ours, by_length)
    show(Row(what, ratio, at_least(SORTED), noise, "bare forward, sorted batches"))
    ratio, noise = min(by_line) / min(ours) / promised, spread(ours, by_line)
    beside = f"bare forward in file order and {promised:.2f} x its padding"
    show(Row(what, ratio, at_least(IN_FILE_ORDER), noise, beside))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("encoder", nargs="?")
    parser.add_argument("text", nargs="?", type=Path)
    parser.add_argument("--sentences", type=int, default=4_000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--pooling", default="mean")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.text:
        with options.text.open(encoding="utf-8") as lines:
            sentences = [
                TOKEN.findall(line)
                for _, line in zip(range(options.sentences), lines, strict=False)
            ]
        encoder = TransformerEncoder.from_folder(options.encoder, device=options.device)
        measure(encoder, sentences, options.text.name, options)
        return
    for source in sources():
        with folders(options.encoder, None, options.sentences, source) as (folder, pairs):
            sentences = read_table(pairs).column("src").to_pylist()
            encoder = TransformerEncoder.from_folder(folder, device=options.device)
            measure(encoder, sentences, source, options)


if __name__ == "__main__":
    main()
