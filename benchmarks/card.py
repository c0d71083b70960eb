"""What a card makes of fine-tuning and of CSLS: random encoders of the size of mBERT and of
ModernBERT, at 40 pairs per step, plain or compiled. It needs neither Ray nor MLflow. Prints one
JSON object.

usage: python -m benchmarks.card [--models mbert modernbert]
[--variants plain compiled replayed] [--steps 20] [--batch 40] [--words 25] [--n 50000]
[--device cuda] [--precision bf16] [--tiny]

Per model and variant: tokens per second (padding does not count), the share of the card's peak
(`share_of_peak`: two operations per weight of the blocks and token forward, six with gradients;
the peak is that of a product of large matrices in the same precision, measured here), the largest
memory, and the host's waits per step with their share of its time, by torch.profiler. `rows` is how
rows really went through the encoder. CSLS is compared with one bare product of the same two
clouds. Goals on a card: half of the peak for fine-tuning, 0.6 of a product's speed for CSLS.

Sentences have random words and random lengths, with a mean of `--words`. On a machine without a
card everything runs on the CPU, at a tiny size with `--tiny`, and the output says so: no share of a
peak is printed then.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.csls import clouds, product
from benchmarks.sentences import random_bert, write_pairs
from benchmarks.steps import finetune, measure
from benchmarks.table import Row, at_least, at_most, show
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.similarity.neighbors import nearest_neighbors

VARIANTS = ("plain", "compiled", "replayed")
NO_CARD = "no card was there: all numbers are those of the CPU and say nothing about a card"
SHARE, CSLS_SHARE = 0.5, 0.6
PROFILED = 4  # steps; reading the profile of 40 steps of a BERT takes longer than a minute
_POSITIONS, _VOCABULARY = 512, 119_547
_MBERT = {
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
}
_MODERN = {**_MBERT, "num_hidden_layers": 22, "intermediate_size": 1152}
_TINY = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
}
SIZES = {"mbert": ("BertConfig", _MBERT), "modernbert": ("ModernBertConfig", _MODERN)}


def random_pairs(folder: Path, rows: int, words: int) -> Path:
    """Write sentence pairs of random words with links along the diagonal; lengths are log-normal
    with a mean of about `words`.
    """
    random = np.random.default_rng(0)
    lengths = np.exp(random.normal(np.log(words) - 0.18, 0.6, (rows, 2))).astype(int).clip(3, 100)
    made = []
    for i, (source, target) in enumerate(lengths.tolist()):
        diagonal = [(k, k) for k in range(min(source, target))]
        drawn = [[f"w{k}" for k in random.integers(0, 2000, n)] for n in (source, target)]
        made.append((i, *drawn, *zip(*diagonal, strict=True)))
    return write_pairs(folder, made)


def encoder_of(
    name: str, variant: str, tokenizer: Any, options: argparse.Namespace
) -> TransformerEncoder:
    """Make a random masked LM of a name's size, on the device, to compute as a variant says."""
    import transformers
    from transformers import AutoModelForMaskedLM

    kind, size = SIZES[name]
    config = getattr(transformers, kind)(
        vocab_size=len(tokenizer) if options.tiny else _VOCABULARY,
        max_position_embeddings=_POSITIONS,
        pad_token_id=tokenizer.pad_token_id,
        **(_TINY if options.tiny else size),
        **({"cls_token_id": 2, "sep_token_id": 3} if name == "modernbert" else {}),
        **({"bos_token_id": 2, "eos_token_id": 3} if name == "modernbert" else {}),
    )
    torch.manual_seed(0)
    model = AutoModelForMaskedLM.from_config(config).eval()
    encoder = TransformerEncoder(model, tokenizer, options.device, options.precision)
    encoder.compiled = variant == "compiled"
    return encoder


def rows_of(encoder: TransformerEncoder) -> str:
    """Return how rows go through an encoder."""
    return "packed" if encoder.can_pack() else "padded"


def fine_tuning(
    name: str, variant: str, pairs: Path, tokenizer: Any, options: argparse.Namespace
) -> dict[str, object]:
    """Measure a model in a variant."""
    load = partial(encoder_of, name, variant, tokenizer, options)
    few = argparse.Namespace(**{**vars(options), "steps": min(options.steps, PROFILED)})
    whole, profiled = finetune(pairs, options), finetune(pairs, few)
    replays = variant == "replayed"
    return {"rows": rows_of(load()), **measure(whole, load, options, profiled, replays=replays)}


def csls(options: argparse.Namespace) -> dict[str, float]:
    """Measure CSLS and one bare product of the same clouds in float32, and on a card in TF32."""
    x, y = (side.to(options.device) for side in clouds(options.n, 768))
    found: dict[str, float] = {}
    for kind in ("highest", "high") if x.is_cuda else ("highest",):
        torch.set_float32_matmul_precision(kind)
        bare = _seconds(lambda: product(x, y), options.device)
        ours = _seconds(lambda: nearest_neighbors(x, y), options.device)
        label = {"highest": "fp32", "high": "tf32"}[kind]
        found[f"{label} seconds"], found[f"{label} bare product"] = ours, bare
        found[f"{label} operations_per_second"] = 2 * options.n**2 * 768 / ours
    torch.set_float32_matmul_precision("highest")
    return found


def _seconds(run: Callable[[], object], device: str) -> float:
    """Return the seconds of the best of three runs, after one that is not counted."""
    best = float("inf")
    run()
    for _ in range(3):
        start = time.perf_counter()
        run()
        if device.startswith("cuda"):
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - start)
    return best


def report(name: str, found: dict[str, Any], options: argparse.Namespace) -> None:
    """Show the rows of one measurement."""
    where = f"{name}, {options.precision}, {options.device}"
    what = f"fine-tuning {where}, {options.batch} pairs per step ({found['rows']})"
    show(Row(f"{what}: tokens/s", found["tokens_per_second"], None, None, "", "tokens/s"))
    if "share_of_peak" in found:
        share = found["share_of_peak"]
        show(Row(f"{what}: share of peak", share, at_least(SHARE), None, "a bare product"))
        memory = found["peak_memory_gib"]
        show(Row(f"{what}: largest memory", memory, None, None, "", "GiB"))
    if (waits := found.get("waits_per_step")) is not None:
        show(Row(f"{what}: waits of the host per step", waits, at_most(0), None, "in the profile"))


def run(options: argparse.Namespace) -> dict[str, object]:
    """Measure everything that was asked for, and show it row by row."""
    on_card = options.device.startswith("cuda")
    name = torch.cuda.get_device_name() if on_card else NO_CARD
    print(f"device: {name}", flush=True)
    found: dict[str, Any] = {"device": name, "torch": torch.__version__, "cuda": torch.version.cuda}
    with tempfile.TemporaryDirectory(prefix="raxalign-card-") as scratch:
        rows = options.steps * options.batch
        pairs = random_pairs(Path(scratch) / "pairs", rows, options.words)
        folder = random_bert(Path(scratch) / "tokenizer", pairs)
        tokenizer = TransformerEncoder.from_folder(folder).tokenizer
        for model in options.models:
            for variant in options.variants:
                if (
                    variant == "replayed"
                    and not encoder_of(model, variant, tokenizer, options).can_pack()
                ):
                    continue  # its steps are not recorded
                label = f"{model}, {variant}"
                made = fine_tuning(model, variant, pairs, tokenizer, options)
                found[label] = made
                report(label, made, options)
    found["csls"] = products = csls(options)
    share = products["fp32 bare product"] / products["fp32 seconds"]
    what = f"CSLS, {options.n:,} x {options.n:,}, fp32, {options.device}"
    budget = at_least(CSLS_SHARE) if on_card else None
    show(Row(f"{what}: share of a product's speed", share, budget, None, "one bare product"))
    return found


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    on_card = torch.cuda.is_available()
    parser.add_argument("--models", nargs="+", choices=SIZES, default=list(SIZES))
    chosen = VARIANTS if on_card else VARIANTS[:1]
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=chosen)
    for name, value in (("steps", 20), ("batch", 40), ("words", 25), ("n", 50_000)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--device", default="cuda" if on_card else "cpu")
    parser.add_argument("--precision", default="bf16" if on_card else "fp32")
    parser.add_argument("--tiny", action="store_true")
    print(json.dumps(run(parser.parse_args()), indent=1))


if __name__ == "__main__":
    main()
