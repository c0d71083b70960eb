"""Word vectors against the bare forward of the same encoder, in one run.

    python -m benchmarks.word_vectors [ENCODER_FOLDER TEXT_FILE] [--sentences 4000] [--threads 2]
    [--device cpu] [--pooling mean]

Without folders, a random BERT (4 layers of 256) and German sentences of the phrasebook are used.
Prints two ratios. `sorted`: tokens/s of `iter_words` (tokenising, batching, forward, pooling) to
that of the bare forward on the same sorted batches, ready-made; budget 0.8. `file order`: the gain
over the bare forward on batches of a fixed number of sentences in file order, divided by the gain
in padded tokens that sorting promises; budget 0.9.
"""

from __future__ import annotations

import argparse
import re
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch

from benchmarks.finetune import folders
from raxalign.corpora.text.dataset import read_table
from raxalign.encoders.models.pieces import token_batches
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.encoders.models.vectors import Batch


def seconds(work: Callable[[], object], device: str) -> float:
    """Wall-clock seconds of some work."""
    start = time.perf_counter()
    work()
    if device.startswith("cuda"):
        torch.cuda.synchronize()
    return time.perf_counter() - start


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


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("encoder", nargs="?")
    parser.add_argument("text", nargs="?", type=Path)
    parser.add_argument("--sentences", type=int, default=4_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--pooling", default="mean")
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    if args.text:
        with args.text.open(encoding="utf-8") as lines:
            sentences = [
                re.findall(r"\w+|[^\w\s]", line)
                for _, line in zip(range(args.sentences), lines, strict=False)
            ]
        encoder = TransformerEncoder.from_folder(args.encoder, device=args.device)
    else:
        with folders(None, None, args.sentences) as (folder, pairs):
            sentences = read_table(pairs).column("src").to_pylist()
            encoder = TransformerEncoder.from_folder(folder, device=args.device)
    rows = encoder.pieces(sentences, "xx")
    tokens = sum(len(row) for row in rows)
    ordered = [
        encoder.collate([rows[i] for i in chosen])
        for chosen in token_batches([len(row) for row in rows], encoder.batch_tokens)
    ]
    size = max(1, round(len(rows) / len(ordered)))
    in_file_order = [
        encoder.collate(rows[start : start + size]) for start in range(0, len(rows), size)
    ]
    layers = (encoder.n_layers,)

    def words() -> None:
        for _ in encoder.iter_words(sentences, "xx", layers=layers, pooling=args.pooling):
            pass

    works = {
        "words": words,
        "sorted": lambda: forward(encoder, ordered),
        "file order": lambda: forward(encoder, in_file_order),
    }
    for work in works.values():
        work()
    # Interleaved, so that other load on the machine falls on all of them alike.
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(args.repeats):
        for name, work in works.items():
            times[name].append(seconds(work, args.device))
    padded_sorted, padded_plain = (
        sum(batch.ids_BT.numel() for batch in batches) for batches in (ordered, in_file_order)
    )
    to_sorted = statistics.median(
        bare / ours for bare, ours in zip(times["sorted"], times["words"], strict=True)
    )
    to_plain = statistics.median(
        bare / ours for bare, ours in zip(times["file order"], times["words"], strict=True)
    )
    print(
        f"{len(sentences)} sentences, {tokens} pieces; padded: sorted {padded_sorted}, file order"
        f" {padded_plain}"
    )
    print(
        f"tokens/s: {tokens / statistics.median(times['words']):,.0f} (bare, sorted:"
        f" {tokens / statistics.median(times['sorted']):,.0f})"
    )
    print(f"sorted: {to_sorted:.2f} of the bare forward (budget 0.8)")
    promised = padded_plain / padded_sorted
    print(
        f"file order: {to_plain:.2f} x, padded tokens {promised:.2f} x, ratio"
        f" {to_plain / promised:.2f} (budget 0.9)"
    )


if __name__ == "__main__":
    main()
