"""Speed of fine-tuning alignment against the plain way, with the losses of both. Prints one JSON
object.

usage: finetune.py [ENCODER_FOLDER WORD_PAIRS_FOLDER] [--steps 50] [--batch 8] [--threads 2]
[--rounds 3]

Without folders, a random BERT (4 layers of 256) and sentences of the phrasebook are used. Where the
environment variable RAXALIGN_BENCH_REFERENCES names a folder with finetune_reference.py, that runs
too, in turns with ours, and the ratio is printed: the best round of ours over the best round of
theirs, in tokens per second.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook


@contextlib.contextmanager
def folders(encoder: str | None, pairs: str | None, rows: int) -> Iterator[tuple[Path, Path]]:
    """The folders that were given, or ones made for the purpose."""
    with tempfile.TemporaryDirectory(prefix="raxalign-bench-") as scratch:
        words = Path(pairs) if pairs else phrasebook_pairs(Path(scratch) / "pairs", rows)
        yield (Path(encoder) if encoder else random_bert(Path(scratch) / "encoder", words)), words


def phrasebook_pairs(folder: Path, rows: int) -> Path:
    """German-English sentence pairs with gold links."""
    from raxalign.corpora.base import CorpusInputs
    from raxalign.corpora.phrasebook import Phrasebook
    from raxalign.corpora.text.dataset import DatasetWriter
    from raxalign.pairing.schema import pairs_schema

    corpus = Phrasebook(Phrasebook.Params(size=rows))
    with DatasetWriter(folder, pairs_schema(), {}) as writer:
        for pair in corpus.read("de", "en", CorpusInputs({}, folder)):
            src, tgt = zip(*sorted(pair.links or ()), strict=True)
            values = (pair.id, pair.source_words, pair.target_words, src, tgt)
            writer.write(
                {name: [value] for name, value in zip(pairs_schema().names, values, strict=True)}
            )
    return folder


def random_bert(folder: Path, pairs: Path) -> Path:
    """A masked LM of the size of a small encoder, its vocabulary learnt from the sentences."""
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
        hidden_size=256,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=1024,
        max_position_embeddings=128,
    )
    torch.manual_seed(0)
    BertForMaskedLM(config).save_pretrained(folder)
    BertTokenizerFast(
        tokenizer_object=tokenizer._tokenizer, do_lower_case=False, model_max_length=128
    ).save_pretrained(folder)
    return folder


def ours(encoder: Path, pairs: Path, steps: int, batch: int) -> dict[str, object]:
    """One training in the `released` profile, without dropout; tokenisation, which happens once, is
    told apart.
    """
    from raxalign.encoders.models.transformer import TransformerEncoder
    from raxalign.methods.base import MethodInputs
    from raxalign.methods.finetune import Finetune
    from raxalign.methods.rows.linked_words import read_linked_rows
    from raxalign.train.runtime import Runtime

    loaded, losses, marks = TransformerEncoder.from_folder(encoder), [], []
    start = time.perf_counter()
    rows = read_linked_rows(loaded, pairs, 128)
    tokenising = (time.perf_counter() - start) / len(rows) * steps * batch

    def report(values: dict[str, float], _: int) -> None:  # some steps after the loss was computed
        losses.append(values["finetune/loss"])

    hook = register_optimizer_step_post_hook(lambda *_: marks.append(time.perf_counter()))
    params = Finetune.Params(profile="released", dropout=False, warmup=0, batch_size=batch)
    with tempfile.TemporaryDirectory() as folder:
        Finetune(params).align(
            loaded,
            MethodInputs(("de",), "en", {"de": first_rows(pairs, Path(folder), steps * batch)}),
            Runtime(report=report),
        )
    hook.remove()
    used = int(np.sum([side.offsets[steps * batch] for side in (rows.src, rows.tgt)]))
    seconds = (marks[-1] - marks[0]) * steps / (steps - 1) + tokenising
    return {"seconds": seconds, "tokens_per_second": used / seconds, "losses": losses}


def first_rows(pairs: Path, folder: Path, n: int) -> Path:
    """The first rows of a word-pair dataset as one of their own."""
    from raxalign.corpora.text.dataset import DatasetWriter, read_table

    table = read_table(pairs).slice(0, n)
    with DatasetWriter(folder / "data", table.schema, {}) as writer:
        for batch in table.to_batches():
            writer.write(batch.replace_schema_metadata(None))
    return folder / "data"


def theirs(
    program: Path, encoder: Path, pairs: Path, options: argparse.Namespace
) -> dict[str, object]:
    """One run of the plain way."""
    arguments = ["--steps", options.steps, "--batch", options.batch, "--threads", options.threads]
    done = subprocess.run(
        [sys.executable, program, encoder, pairs, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(json.loads(done.stdout))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("encoder", nargs="?")
    parser.add_argument("pairs", nargs="?")
    for name, value in (("steps", 50), ("batch", 8), ("threads", 2), ("rounds", 3)):
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    if not 2 <= options.steps <= 100:
        parser.error("--steps is 2 to 100: the curves have a point for each step up to there")
    torch.set_num_threads(options.threads)
    program = Path(os.environ.get("RAXALIGN_BENCH_REFERENCES", "")) / "finetune_reference.py"
    mine, reference = [], []
    with folders(options.encoder, options.pairs, max(options.steps * options.batch, 2000)) as (
        encoder,
        pairs,
    ):
        for _ in range(options.rounds):
            mine.append(ours(encoder, pairs, options.steps, options.batch))
            if program.is_file():
                reference.append(theirs(program, encoder, pairs, options))
    result = {"ours": max(run["tokens_per_second"] for run in mine)}
    if reference:
        result["reference"] = max(run["tokens_per_second"] for run in reference)
        result["ratio"] = result["ours"] / result["reference"]
        gap = np.abs(np.array(mine[0]["losses"]) / np.array(reference[0]["losses"]) - 1)
        result["largest_relative_difference_of_losses"] = float(gap.max())
    print(json.dumps(result))


if __name__ == "__main__":
    main()
