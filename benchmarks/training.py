"""Tokens per second of TLM, word exchange and PPA against the bare forwards and backwards that a
step of each needs.

usage: python -m benchmarks.training [ENCODER_FOLDER WORD_PAIRS_FOLDER] [--batch 32] [--steps 30]
[--threads 1] [--rounds 3] [--methods tlm weam ppa]

Budget: at least 0.8. The bare side runs the encoder and the masked-LM head of `transformers` over
the same sentence pairs in the same batches, with the head at masked places alone, and back, without
an optimiser's step. Its rows are packed before the clock runs exactly as ours are, since padded
ones would flatter us. Ours is the whole training, the optimiser's step included, and tokenisation,
which happens once, as well.

Without folders, a random BERT (4 layers of 256) is used and sentences of the phrasebook; where
RAXALIGN_TEST_DATA names a folder of real data, those of Tatoeba too. Both sides run in turn, and
the best round of each counts; only the ratio means something. With one thread the seconds are those
of cores, else those of the wall.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import torch

from benchmarks.bare import packed, states, there
from benchmarks.sentences import first_rows, folders, sources
from benchmarks.table import Row, at_least, clock_of, in_turn, show, spread
from raxalign.catalog import catalog
from raxalign.corpora.text.dataset import read_table
from raxalign.encoders.models.rows import Packed
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.methods.base import MethodInputs
from raxalign.train.runtime import Runtime

BUDGET = 0.8
MASKED = {"tlm": 0.15, "weam": 0.3, "ppa": 0.15}


def ours(kind: str, encoder: Path, pairs: Path, batch: int) -> None:
    """Train for one epoch, from reading to the aligned encoder."""
    method = catalog("methods")[kind]
    small = {"queue_size": batch} if kind == "ppa" else {}
    params = method.Params(batch_size=batch, epochs=1, **small)
    method(params).align(
        TransformerEncoder.from_folder(encoder),
        MethodInputs(("de",), "en", {"de": pairs}, {"de": pairs}),
        Runtime(threads=torch.get_num_threads()),
    )


class Bare:
    """The forwards and backwards alone, over rows that were packed beforehand: per batch those that
    are read with gradients, and the keys of `ppa`, which are read without.
    """

    def __init__(self, kind: str, encoder: Path, pairs: Path, batch: int) -> None:
        self.encoder, self.kind = TransformerEncoder.from_folder(encoder), kind
        self.encoder.model.train()
        table = read_table(pairs)
        src, tgt = table.column("src").to_pylist(), table.column("tgt").to_pylist()
        order = np.random.default_rng(0).permutation(len(src))
        joint = self.encoder.pieces(src, "de", tgt, "en")
        queries, keys = self.encoder.pieces(src, "de"), self.encoder.pieces(tgt, "en")
        self.tokens = int(joint.lengths.sum())
        self.batches: list[tuple[Packed, Packed | None, torch.Tensor]] = []
        for start in range(0, len(order), batch):
            chosen = order[start : start + batch]
            read = [joint.take(chosen)]
            held = None
            if kind == "ppa":
                if start:  # keys of the first batch fill the queue, and are compared with nothing
                    read.append(queries.take(chosen))
                held = packed(self.encoder, [keys.take(chosen)])
            rows = packed(self.encoder, read)
            pieces = int(joint.lengths[chosen].sum())
            places = there(rows)[:pieces]  # as many as the pairs have, without the queries
            self.batches.append((rows, held, places[:: round(1 / MASKED[kind])]))

    def run(self) -> None:
        """Make all steps."""
        heads = 2 if self.kind == "weam" else 1
        for rows, held, masked in self.batches:
            flat = states(self.encoder, rows)
            answers = torch.from_numpy(rows.ids_BT.reshape(-1))[masked]
            losses = [
                torch.nn.functional.cross_entropy(self.encoder.lm_logits(flat[masked]), answers)
                for _ in range(heads)
            ]
            if held is not None:
                with torch.no_grad():
                    keys = states(self.encoder, held)[torch.from_numpy(held.starts_S)]
                if len(rows.starts_S) > len(keys):
                    queries = flat[torch.from_numpy(rows.starts_S[-len(keys) :])]
                    losses.append((queries * keys).sum())
            torch.stack(losses).sum().backward()
            self.encoder.model.zero_grad(set_to_none=True)


def measure(
    encoder: Path, pairs: Path, source: str, options: argparse.Namespace
) -> dict[str, object]:
    """Run both sides of each method in turn and show their ratios."""
    found: dict[str, object] = {}
    for kind in options.methods:
        bare = Bare(kind, encoder, pairs, options.batch)
        bare.run()
        theirs, mine = in_turn(
            options.rounds,
            clock_of(options.threads),
            bare.run,
            partial(ours, kind, encoder, pairs, options.batch),
        )
        ratio, noise = min(theirs) / min(mine), spread(theirs, mine)
        found[kind] = {
            "ratio": ratio,
            "noise": noise,
            "tokens_per_second": bare.tokens / min(mine),
            "bare_tokens_per_second": bare.tokens / min(theirs),
        }
        what = f"{kind}, {source}, {options.steps} batches of {options.batch}: tokens/s"
        show(Row(what, ratio, at_least(BUDGET), noise, "bare packed steps"))
    return found


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("encoder", nargs="?")
    parser.add_argument("pairs", nargs="?")
    parser.add_argument("--methods", nargs="+", choices=[*MASKED], default=[*MASKED])
    for name, value in (("steps", 30), ("batch", 32), ("threads", 1), ("rounds", 3)):
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rows = options.steps * options.batch
    for source in ("pairs given",) if options.pairs else sources():
        with (
            folders(options.encoder, options.pairs, rows, source) as (encoder, pairs),
            tempfile.TemporaryDirectory() as scratch,
        ):
            used = first_rows(pairs, Path(scratch), rows)
            print(json.dumps({source: measure(encoder, used, source, options)}, indent=1))


if __name__ == "__main__":
    main()
