"""What a card computes, and what it does where memory runs out: precisions compared with one
another, XNLI at several batch sizes with a profile, memory that runs out, the share of checkpoints,
a decoder of 8 billion weights with LoRA, and a grid at BERT's size. It needs neither Ray nor
MLflow. Prints one JSON object per part.

usage: python -m benchmarks.card_checks [PART ...] [--device cuda] [--tiny]

Parts:
  precisions   states of packed rows and losses of fine-tuning in fp32, tf32 and bf16, plain,
               compiled and with steps that are recorded, each against plain fp32
  xnli         training of XNLI: rows per second, share of the peak, and the largest kernels
  memory       fine-tuning in ever less memory: what was done, and losses against those of the whole
  checkpoints  seconds of steps with a checkpoint every few steps against those without
  large        a Llama of 8 billion random weights, held in float32 and in bfloat16, with
               adapters: a forward pass, steps, memory
  grid         a grid of Cao et al. at BERT's size with random weights: time and memory per stage

With `--tiny` everything is small, so that a machine without a card runs the same code.
"""

from __future__ import annotations

import argparse
import gc
import json
import shutil
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.bare import packed, states, there
from benchmarks.card import _TINY, _VOCABULARY, SIZES, encoder_of, random_pairs, rows_of
from benchmarks.sentences import random_bert
from benchmarks.steps import TRAINED, peak
from raxalign.catalog import catalog
from raxalign.corpora.text.dataset import read_table
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.blocks import Blocks
from raxalign.encoders.models.held_base import hold
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.methods.base import MethodInputs
from raxalign.options.run import BasePrecision, Checkpointing
from raxalign.store.storage import Storage
from raxalign.tasks.base import TaskInputs
from raxalign.train.runtime import Runtime

Found = dict[str, Any]
WAYS = {  # precision, variant of benchmarks.card
    "fp32": ("fp32", "plain"),
    "tf32": ("tf32", "plain"),
    "bf16": ("bf16", "plain"),
    "bf16 compiled": ("bf16", "compiled"),
    "fp32 replayed": ("fp32", "replayed"),
    "bf16 replayed": ("bf16", "replayed"),
}


class Bench:
    """What all parts share: random pairs, a tokenizer for them, and the options."""

    def __init__(self, scratch: Path, options: argparse.Namespace) -> None:
        self.scratch, self.options = scratch, options
        self.on_card = options.device.startswith("cuda")
        self.pairs = random_pairs(scratch / "pairs", 40 * options.steps, 25)
        folder = random_bert(scratch / "tokenizer", self.pairs)
        self.tokenizer = TransformerEncoder.from_folder(folder).tokenizer

    def encoder(self, precision: str, variant: str, model: str = "mbert") -> TransformerEncoder:
        """Make a random encoder without dropout."""
        named = argparse.Namespace(**{**vars(self.options), "precision": precision})
        encoder = encoder_of(model, variant, self.tokenizer, named)
        for module in encoder.model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
            if hasattr(module, "dropout_prob"):
                module.dropout_prob = 0.0
        return encoder

    def runtime(self, encoder: TransformerEncoder, **more: Any) -> Runtime:
        """The runtime of an encoder."""
        return Runtime(
            device=self.options.device,
            precision=encoder.precision,
            compiled=encoder.compiled,
            **more,
        )

    def finetune(self, encoder: TransformerEncoder, runtime: Runtime, **params: Any) -> list[float]:
        """Fine-tune on all pairs; returns the loss of each step."""
        losses: list[float] = []

        def report(values: Mapping[str, float], _: int) -> None:
            losses.extend(value for name, value in values.items() if name.endswith("/loss"))

        method = catalog("methods")["finetune"]
        inputs = MethodInputs(("de",), "en", {"de": self.pairs})
        made = method(method.Params(**{"batch_size": 40, **params}))
        made.align(encoder, inputs, replace(runtime, report=report))
        return losses

    def wait(self) -> None:
        """Wait for the card."""
        if self.on_card:
            torch.cuda.synchronize()


@contextmanager
def peak_gib(bench: Bench, found: Found) -> Iterator[None]:
    """Record the seconds of the block and the largest memory of the card within it."""
    if bench.on_card:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    start = time.perf_counter()
    yield
    bench.wait()
    found["seconds"] = round(time.perf_counter() - start, 3)
    if bench.on_card:
        found["peak_memory_gib"] = round(torch.cuda.max_memory_allocated() / 2**30, 3)


def _gap(found: torch.Tensor, truth: torch.Tensor) -> float:
    return float((found - truth).norm() / truth.norm())


def precisions(bench: Bench) -> Found:
    """States of one packed batch, and losses of fine-tuning, each way against fp32."""
    sentences = read_table(bench.pairs).column("src").to_pylist()[:80]
    found: Found = {}
    truth: torch.Tensor | None = None
    first: list[float] = []
    for way in bench.options.ways:
        precision, variant = WAYS[way]
        if not bench.on_card and precision == "tf32":
            continue
        encoder = bench.encoder(precision, variant)
        rows = packed(encoder, [encoder.pieces(sentences, "de").take()])
        with torch.no_grad(), encoder.arithmetic():
            made = states(encoder, rows).float().cpu()[there(rows)]
        truth = made if truth is None else truth
        entry: Found = {"rows": rows_of(encoder), "states": _gap(made, truth)}
        with peak_gib(bench, entry):
            runtime = bench.runtime(encoder, replays=variant == "replayed")
            losses = bench.finetune(encoder, runtime, learning_rate=5e-5)
        first = first or losses
        gaps = np.abs(np.array(losses) / np.array(first) - 1)
        entry["losses"] = [float(gaps[0]), float(np.median(gaps)), float(gaps.max())]
        entry["loss"] = [losses[0], losses[-1]]
        found[way] = entry
        del encoder
    return found


def _nli_file(bench: Bench, rows: int, seed: int) -> Path:
    """Write rows of random words as long as those of XNLI: 20 and 10 words on average."""
    random = np.random.default_rng(seed)
    path = bench.scratch / f"nli-{seed}.tsv"

    def text(mean: float) -> str:
        n = int(np.clip(random.lognormal(np.log(mean) - 0.18, 0.6), 3, 80))
        return " ".join(f"w{k}" for k in random.integers(0, 2000, n))

    labels = ("entailment", "neutral", "contradiction")
    lines = [f"{text(20)}\t{text(10)}\t{labels[i % 3]}" for i in range(rows)]
    path.write_text("premise\thypothesis\tlabel\n" + "\n".join(lines) + "\n", encoding="utf-8")
    return path


def xnli(bench: Bench) -> Found:
    """XNLI at several batch sizes, plain, with recorded steps and compiled, and the largest kernels
    of each.
    """
    found: Found = {}
    top = {} if not bench.on_card else {"bf16": peak("bf16", bench.options.device)}
    for batch in (8,) if bench.options.tiny else (32, 256):
        plain: Found = {}
        for variant in ("plain", "replayed", *(("compiled",) if bench.on_card else ())):
            encoder = bench.encoder("bf16", variant)
            runtime = bench.runtime(encoder, replays=variant == "replayed")
            made = _one_xnli(bench, encoder, runtime, batch, top, plain.get("tokens"))
            plain = plain or made
            found[f"{variant}, batch {batch}"] = made
            print(variant, batch, made.get("share_of_peak"), flush=True)
    return found


def _one_xnli(
    bench: Bench,
    encoder: TransformerEncoder,
    runtime: Runtime,
    batch: int,
    top: Found,
    read: int | None,
) -> Found:
    """Train once for what is done once, once for the time, and once over fewer rows for the
    profile. `read` are the tokens of the steps where they are known: those of recorded steps pass
    no module.
    """
    steps, short = (12, 4) if bench.options.tiny else (max(12, 6_000 // batch), 10)
    blocks = Blocks.of(encoder.model.base_model).parts
    weights = sum(p.numel() for block in blocks for p in block.parameters())
    pad, tokens, first = encoder.tokenizer.pad_token_id, [0], [0.0]

    def count(_: torch.nn.Module, given: tuple[Any, ...]) -> None:
        if torch.is_grad_enabled():
            first[0] = first[0] or time.perf_counter()
            tokens[0] += (given[0] != pad).sum()

    hook = encoder.model.get_input_embeddings().register_forward_pre_hook(count)
    _train_xnli(bench, encoder, runtime, batch, short)
    tokens[0], first[0] = 0, 0.0
    entry: Found = {"rows": rows_of(encoder)}
    start = time.perf_counter()
    with peak_gib(bench, entry):
        end = _train_xnli(bench, encoder, runtime, batch, steps)
    entry["whole_seconds"], entry["seconds"] = time.perf_counter() - start, end - first[0]
    entry["rows_per_second"] = steps * batch / entry["seconds"]
    entry["tokens"] = int(tokens[0]) if read is None else read
    entry["tokens_per_second"] = entry["tokens"] / entry["seconds"]
    if top:
        entry["share_of_peak"] = TRAINED * weights * entry["tokens_per_second"] / top["bf16"]
        entry["kernels"] = _kernels(partial(_train_xnli, bench, encoder, runtime, batch, short))
    hook.remove()
    return entry


def _train_xnli(
    bench: Bench, encoder: TransformerEncoder, runtime: Runtime, batch: int, steps: int
) -> float:
    """Train on some batches of random rows; returns when the last step was done, by the clock.
    Dev scores and the writing of the weights come after it.
    """
    task = catalog("tasks")["xnli"]
    params = task.Params(
        data={
            "train": str(_nli_file(bench, steps * batch, 0)),
            "dev": str(_nli_file(bench, 64, 1)),
        },
        batch_size=batch,
        epochs=1,
        selection="last",
        dropout=0.0,
    )
    ends: list[float] = []

    def note(values: Mapping[str, float], _: int) -> None:
        # a loss is there once the device has computed it
        ends.extend(time.perf_counter() for name in values if name.endswith("/loss"))

    with tempfile.TemporaryDirectory() as folder:
        aligned = AlignedEncoder(encoder)
        heard = replace(runtime, report=note)
        task(params).train(aligned, ("en",), TaskInputs("en"), heard, Path(folder))
    return ends[-1]


def _kernels(run: Callable[[], object], most: int = 12) -> list[str]:
    """The largest kernels of a run by their share of the device's time, and how busy it was."""
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        start = time.perf_counter()
        run()
        wall = time.perf_counter() - start
    averages = [event for event in seen.key_averages() if not event.key.startswith("aten::")]
    times = Counter({event.key[:90]: event.self_device_time_total for event in averages})
    whole = sum(times.values())
    shares = [f"{100 * took / whole:.1f} % {name}" for name, took in times.most_common(most)]
    return [f"device busy {whole / 1e6 / wall:.2f} of {wall:.2f} s", *shares]


def memory(bench: Bench) -> Found:
    """Fine-tuning with ever less memory of the card: how the training went on, and its losses."""
    found: Found = {}
    whole: list[float] = []
    total = torch.cuda.mem_get_info()[1] if bench.on_card else 0
    for gib in (None, 6.0, 4.5, 4.0, 3.75, 3.0) if bench.on_card else (None,):
        entry: Found = {}
        encoder = bench.encoder("bf16", "plain")
        if gib is not None:
            torch.cuda.empty_cache()
            torch.cuda.set_per_process_memory_fraction(gib * 2**30 / total)
        try:
            with peak_gib(bench, entry):
                losses = bench.finetune(encoder, bench.runtime(encoder), learning_rate=5e-5)
            whole = whole or losses
            entry["losses"] = float(np.abs(np.array(losses) / np.array(whole) - 1).max())
        except Exception as error:  # noqa: BLE001 (what is printed is the finding)
            entry["error"] = f"{type(error).__name__}: {error}"[:200]
            frames = traceback.extract_tb(error.__traceback__)
            entry["at"] = [f"{Path(f.filename).name}:{f.lineno}" for f in frames][-8:]
        finally:
            if bench.on_card:
                torch.cuda.set_per_process_memory_fraction(1.0)
        del encoder
        found["all" if gib is None else f"{gib} GiB"] = entry
    return found


def checkpoints(bench: Bench) -> Found:
    """What one checkpoint of a BERT in training costs its steps, and its share at the default of
    one per ten minutes.
    """
    found: Found = {}
    for name, writes in (("first", 0), ("without", 0), ("with", 1)):
        encoder, folder = bench.encoder("bf16", "plain"), bench.scratch / "checkpoints"
        more: Found = {}
        if writes:
            saved: list[float] = []
            more = {
                "checkpoints": folder,
                "checkpoint_seconds": 2.0,
                "saved": lambda saved=saved: saved.append(time.perf_counter()),
            }
        entry: Found = {}
        with peak_gib(bench, entry):
            bench.finetune(encoder, bench.runtime(encoder, **more), epochs=6)
        if writes:
            entry["checkpoints"] = len(saved)
        found[name] = entry
        shutil.rmtree(folder, ignore_errors=True)
    count = max(1, found["with"]["checkpoints"])
    cost = (found["with"]["seconds"] - found["without"]["seconds"]) / count
    return {**found, "seconds_per_checkpoint": cost, "share_at_10_minutes": cost / 600}


def large(bench: Bench) -> Found:
    """A Llama of 8 billion random weights, held in float32 and in bfloat16: the states of a batch,
    and steps with adapters. Each is made directly on the device.
    """
    found: Found = {}
    for base in ("fp32", "bf16"):
        try:
            found[f"{base} base"] = _with_base(bench, base)
        except torch.OutOfMemoryError as error:  # what does not fit is the finding
            found[f"{base} base"] = {"error": str(error)[:200]}
        gc.collect()
        print(json.dumps(found), flush=True)
    return found


def _with_base(bench: Bench, base: BasePrecision) -> Found:
    """Measure one of them."""
    found: Found = {}
    entry: Found = {}
    with peak_gib(bench, entry):
        encoder = _llama(bench, base)
    weights = list(encoder.model.parameters())
    frozen = sum(weight.numel() for weight in weights)
    found |= {"load": entry, "parameters": frozen}
    held = sum(weight.numel() * weight.element_size() for weight in weights)
    found["bytes per frozen parameter"] = held / frozen
    sentences = read_table(bench.pairs).column("src").to_pylist()[:80]
    with peak_gib(bench, entry := {}):
        middle = (encoder.n_layers // 2,)
        for _ in encoder.iter_words(sentences, "de", layers=middle, pooling="mean"):
            pass
    found["states of 80 sentences"] = entry
    del encoder, weights
    for way in ("auto", "always"):
        found[f"fine-tuning, activation_checkpointing {way}"] = _tuned(bench, base, way)
    return found


def _tuned(bench: Bench, base: BasePrecision, way: Checkpointing) -> Found:
    """Fine-tune with adapters, and count what a parameter takes."""
    encoder = _llama(bench, base)
    runtime = bench.runtime(encoder, checkpointing=way)
    with peak_gib(bench, entry := {}):
        losses = bench.finetune(
            encoder, runtime, batch_size=16, lora={"rank": 8}, learning_rate=1e-4
        )
    entry["loss"], entry["steps"] = [losses[0], losses[-1]], len(losses)
    weights = list(encoder.model.parameters())
    frozen = sum(weight.numel() for weight in weights)
    if bench.on_card:  # with adapters, what they are merged into, and what a batch leaves
        entry["peak bytes per parameter"] = torch.cuda.max_memory_allocated() / frozen
    after = sum(weight.numel() * weight.element_size() for weight in weights)
    entry["bytes per parameter after adapters were merged"] = after / frozen
    return entry


def _llama(bench: Bench, base: BasePrecision) -> TransformerEncoder:
    """Make the model on the device, with products in bfloat16. In bfloat16 it is never there in
    float32, as when a folder is loaded.
    """
    from transformers import LlamaConfig, LlamaForCausalLM

    size: Found = {
        "hidden_size": 4096,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "intermediate_size": 14_336,
    }
    if bench.options.tiny:
        size = {**size, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
        size = {**size, "num_key_value_heads": 2, "intermediate_size": 128}
    config = LlamaConfig(
        vocab_size=128_256 if not bench.options.tiny else len(bench.tokenizer),
        max_position_embeddings=2048,
        pad_token_id=bench.tokenizer.pad_token_id,
        **size,
    )
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float32 if base == "fp32" else torch.bfloat16)
    try:
        with torch.device(bench.options.device):
            model = LlamaForCausalLM(config).eval()
    finally:
        torch.set_default_dtype(torch.float32)
    if base == "bf16":
        hold(model)
    encoder = TransformerEncoder(model, bench.tokenizer, bench.options.device, "bf16")
    encoder.base_precision = base
    return encoder


GRID = """
name: card
pivot: en
encoder: {encoder}
languages: {{together: [de, es, fr]}}
corpus:
  source: moses
  path: "{data}/tatoeba/{{lang}}-{{pivot}}"
  split: {{test: 1024, dev: 1024}}
pairs: {{aligner: fast_align, symmetrization: intersection, one_to_one: true}}
sentences: {sentences}
seeds: [0]
methods:
  none: {{}}
  rotation: {{center: [false, true]}}
  finetune: {{lambda: 1.0, learning_rate: 5.0e-5, batch_size: 32}}
  strong_contrastive: {{learning_rate: 5.0e-5, batch_size: 64}}
tasks:
  retrieval: {{}}
  sentence_retrieval: {{}}
run: {{precision: bf16}}
"""


def grid(bench: Bench) -> Found:
    """Cao et al. (2020, Table 1) in miniature: every stage of the plan, one after the other, with a
    BERT of random weights.
    """
    from transformers import BertConfig, BertForMaskedLM, BertTokenizerFast

    from raxalign.grid.load import open_grid
    from raxalign.stages import Workshop

    root, data = bench.scratch / "storage", Path(bench.options.data).absolute()
    size = _TINY if bench.options.tiny else SIZES["mbert"][1]
    torch.manual_seed(0)
    BertForMaskedLM(BertConfig(vocab_size=_VOCABULARY, **size)).save_pretrained(
        bench.scratch / "encoder"
    )
    BertTokenizerFast(
        vocab=str(data / "mbert-vocab" / "vocab.txt"), do_lower_case=False, model_max_length=512
    ).save_pretrained(bench.scratch / "encoder")
    file = bench.scratch / "card.yaml"
    sentences = 200 if bench.options.tiny else 4_000
    file.write_text(
        GRID.format(encoder=bench.scratch / "encoder", data=data, sentences=sentences),
        encoding="utf-8",
    )
    opened = open_grid(file, storage=str(root))
    workshop = Workshop(
        opened.plan, Storage(str(root)), Runtime(bench.options.device, precision="bf16")
    )
    took: list[str] = []
    workshop.announce = lambda stage, seconds: took.append(f"{stage.kind} {seconds:.1f} s")
    found: Found = {}
    for trial in opened.plan.trials:
        with peak_gib(bench, entry := {}):
            records = workshop.run_trial(trial.key)
        entry["stages"], took[:] = list(took), []
        entry["values"] = {
            f"{record['task']}/{score['lang']}/{score['metric']}": round(score["value"], 4)
            for record in records
            for score in record["scores"]
            if score["split"] == "test" and score["lang"] == "avg"
        }
        found[f"{trial.method} {dict(trial.params)}"] = entry
    return found


PARTS = {part.__name__: part for part in (precisions, xnli, memory, checkpoints, large, grid)}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=list(PARTS))
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--data")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--tiny", action="store_true")
    options = parser.parse_args()
    for name in options.parts:
        start = time.perf_counter()
        with tempfile.TemporaryDirectory(prefix="raxalign-card-") as scratch:
            found = PARTS[name](Bench(Path(scratch), options))
        found["seconds of the part"] = round(time.perf_counter() - start, 1)
        print(json.dumps({name: found}, indent=1), flush=True)


if __name__ == "__main__":
    main()
