"""Tokens per second of TLM, word exchange and PPA against the bare forwards and backwards that a
step of each needs.

usage: python -m benchmarks.training [ENCODER_FOLDER WORD_PAIRS_FOLDER] [--batch 32] [--steps 30]
[--threads 2] [--rounds 3]

Budget: at least 0.8. The bare side runs the encoder and the masked-LM head of `transformers` over
the same sentence pairs in the same batches, padded, with the head at masked places alone, and back,
without an optimiser's step; ours is the whole training, the optimiser's step included, and
tokenisation, which happens once, as well. Without folders, a random BERT (4 layers of 256) and
sentences of the phrasebook are used. Both sides run in turn, the best round of each counts; only
the ratio means something.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from benchmarks.finetune import first_rows, folders
from raxalign.catalog import catalog
from raxalign.corpora.text.dataset import read_table
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.encoders.models.vectors import Batch
from raxalign.methods.base import MethodInputs
from raxalign.train.runtime import Runtime

MASKED = {"tlm": 0.15, "weam": 0.3, "ppa": 0.15}


def ours(kind: str, encoder: Path, pairs: Path, batch: int) -> float:
    """Seconds of one epoch, from reading to the aligned encoder."""
    method = catalog("methods")[kind]
    small = {"queue_size": 4 * batch} if kind == "ppa" else {}
    params = method.Params(batch_size=batch, epochs=1, **small)
    loaded = TransformerEncoder.from_folder(encoder)
    start = time.perf_counter()
    method(params).align(
        loaded,
        MethodInputs(("de",), "en", {"de": pairs}, {"de": pairs}),
        Runtime(threads=torch.get_num_threads()),
    )
    return time.perf_counter() - start


class Bare:
    """The forwards and backwards alone, over batches that were made beforehand."""

    def __init__(self, kind: str, encoder: Path, pairs: Path, steps: int, batch: int) -> None:
        self.encoder, self.kind = TransformerEncoder.from_folder(encoder), kind
        table = read_table(pairs)
        src, tgt = table.column("src").to_pylist(), table.column("tgt").to_pylist()
        order = np.random.default_rng(0).permutation(len(src))[: steps * batch]
        rows = (
            self.encoder.pieces(src, "de"),
            self.encoder.pieces(tgt, "en"),
            self.encoder.pieces(src, "de", tgt, "en"),
        )
        chunks = [order[start : start + batch] for start in range(0, len(order), batch)]
        self.batches = [
            tuple(self.encoder.collate([side[i] for i in chunk]) for side in rows)
            for chunk in chunks
        ]
        self.tokens = sum(len(rows[2][i]) for i in order)

    def seconds(self) -> float:
        """All steps."""
        self.encoder.model.train()
        start = time.perf_counter()
        for src, tgt, joint in self.batches:
            if self.kind == "ppa":
                query = self.encoder.model.base_model(
                    input_ids=src.ids_BT, attention_mask=src.mask_BT
                ).last_hidden_state[:, 0]
                with torch.no_grad():
                    key = self.encoder.model.base_model(
                        input_ids=tgt.ids_BT, attention_mask=tgt.mask_BT
                    ).last_hidden_state[:, 0]
                (query * key).sum().backward()
            self.predict(joint, heads=2 if self.kind == "weam" else 1)
            self.encoder.model.zero_grad(set_to_none=True)
        return time.perf_counter() - start

    def predict(self, joint: Batch, heads: int) -> None:
        """A masked forward and backward of pairs."""
        states = self.encoder.model.base_model(
            input_ids=joint.ids_BT, attention_mask=joint.mask_BT, token_type_ids=joint.segments_BT
        )
        flat = states.last_hidden_state.reshape(-1, self.encoder.hidden_size)
        places = joint.mask_BT.reshape(-1).nonzero()[:, 0]
        chosen = places[:: round(1 / MASKED[self.kind])]
        losses = [
            torch.nn.functional.cross_entropy(
                self.encoder.lm_logits(flat[chosen]), joint.ids_BT.reshape(-1)[chosen]
            )
            for _ in range(heads)
        ]
        torch.stack(losses).sum().backward()


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("encoder", nargs="?")
    parser.add_argument("pairs", nargs="?")
    for name, value in (("steps", 30), ("batch", 32), ("threads", 2), ("rounds", 3)):
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    found: dict[str, object] = {
        "batch": options.batch,
        "steps": options.steps,
        "threads": options.threads,
        "budget": 0.8,
    }
    with (
        folders(options.encoder, options.pairs, options.steps * options.batch) as (encoder, pairs),
        tempfile.TemporaryDirectory() as scratch,
    ):
        used = first_rows(pairs, Path(scratch), options.steps * options.batch)
        for kind in MASKED:
            bare = Bare(kind, encoder, used, options.steps, options.batch)
            bare.seconds()
            theirs, mine = float("inf"), float("inf")
            for _ in range(options.rounds):
                theirs = min(theirs, bare.seconds())
                mine = min(mine, ours(kind, encoder, used, options.batch))
            found[kind] = {
                "ratio": theirs / mine,
                "tokens_per_second": bare.tokens / mine,
                "bare_tokens_per_second": bare.tokens / theirs,
            }
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
