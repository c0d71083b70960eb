"""What the steps of trainings wait for, and how much of the machine they use: fine-tuning, XNLI and
the extraction of word vectors, in each precision (on a CPU in float32). Prints one JSON object.

usage: python -m benchmarks.steps [ENCODER_FOLDER WORD_PAIRS_FOLDER] [--device cuda] [--steps 8]
[--batch 40] [--threads 2] [--precisions fp32 bf16]

Per part and precision: `waits_per_step`, the operations for which the host waits until the device
has caught up (reading a value, looking for the places of a mask), and `wait_share`, their part of
the host's time, from the end of the first step to that of the last; budget: none besides the
reading of the losses every few steps. The same code runs
on a CPU, where the operations are counted although nothing has to be waited for, and on a GPU,
where copies from memory that is not pinned count too. With tokens per second, on a GPU also the
share of its peak of floating-point operations (two per weight and token and 6 with gradients; the
peak of the precision is measured by a product of large matrices), and the largest memory. Without
folders, a random BERT (4 layers of 256) and sentences of the phrasebook are used.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.profiler import ProfilerActivity, profile, record_function

from benchmarks.sentences import first_rows, folders
from benchmarks.table import Row, at_most, show
from raxalign.catalog import catalog
from raxalign.corpora.text.dataset import read_table
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.blocks import Blocks
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.methods.base import MethodInputs
from raxalign.options.run import Precision
from raxalign.tasks.base import TaskInputs
from raxalign.train.devices import arithmetic
from raxalign.train.runtime import Runtime

WAITS = (
    "aten::_local_scalar_dense",
    "aten::nonzero",
    "aten::masked_select",
    "aten::is_nonzero",
    "aten::_unique2",
    "aten::bincount",
    "aten::equal",
    "cudaStreamSynchronize",
    "cudaDeviceSynchronize",
)
STEP = "benchmark::step"
FORWARD, TRAINED = 2, 6  # operations per weight and token


@dataclass(frozen=True)
class Part:
    """One part: what is run, and how many steps (or batches) that is."""

    run: Callable[[TransformerEncoder, Runtime], None]
    steps: int


def finetune(pairs: Path, options: argparse.Namespace) -> Part:
    """Fine-tuning alignment, whose frozen copy reads half of the tokens too, in a forward pass."""
    method = catalog("methods")["finetune"]

    def run(encoder: TransformerEncoder, runtime: Runtime) -> None:
        with tempfile.TemporaryDirectory() as folder:
            rows = first_rows(pairs, Path(folder), options.steps * options.batch)
            inputs = MethodInputs(("de",), "en", {"de": rows})
            method(method.Params(batch_size=options.batch)).align(encoder, inputs, runtime)

    return Part(run, options.steps)


def xnli(options: argparse.Namespace) -> Part:
    """The training of XNLI on sentences of the phrasebook."""
    task = catalog("tasks")["xnli"]
    made = {"train": options.steps * options.batch, "dev": 30, "test": 30}
    params = task.Params(
        data="phrasebook", phrasebook=made, batch_size=options.batch, epochs=1, selection="last"
    )

    def run(encoder: TransformerEncoder, runtime: Runtime) -> None:
        with tempfile.TemporaryDirectory() as folder:
            aligned = AlignedEncoder(encoder)
            task(params).train(aligned, ("en",), TaskInputs("en"), runtime, Path(folder))

    return Part(run, options.steps)


def extraction(pairs: Path, options: argparse.Namespace) -> Part:
    """The vectors of all words of a text, batch by batch."""
    sentences = read_table(pairs).column("src").to_pylist()[: options.steps * options.batch]

    def run(encoder: TransformerEncoder, runtime: Runtime) -> None:  # noqa: ARG001
        for _ in encoder.iter_words(sentences, "de", layers=(encoder.n_layers,), pooling="mean"):
            pass

    return Part(run, options.steps)


def peak(precision: Precision, device: str) -> float:
    """Operations per second of a product of large square matrices."""
    n = 8192
    left, right = (torch.randn(n, n, device=device) for _ in range(2))
    with arithmetic(precision, device):
        left @ right
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(10):
            left @ right
        torch.cuda.synchronize()
    return 20 * n**3 / (time.perf_counter() - start)


def _mark() -> None:
    """Leave the end of an optimiser's step in the profile."""
    with record_function(STEP):
        pass


def _within_steps(events: Sequence[Any]) -> tuple[int, list[Any]]:
    """Return the number of steps after the first one, and the operations from its end to the end
    of the last one; of what has no steps, 0 and all.
    """
    ends = [event.time_range.start for event in events if event.name == STEP]
    if len(ends) < 2:
        return 0, list(events)
    first, last = min(ends), max(ends)
    return len(ends) - 1, [e for e in events if first <= e.time_range.start <= last]


def _of_adam(event: Any) -> bool:
    """Whether an operation is part of Adam's kernel, which on a CPU reads the number of its step
    for each tensor; on a card it does not.
    """
    while event is not None:
        if event.name == "aten::_fused_adamw_":
            return True
        event = event.cpu_parent
    return False


def waits_of(part: Part, encoder: TransformerEncoder, runtime: Runtime) -> dict[str, object]:
    """Return for what the host waits in each step of a part, and the share of its time, by a
    profile.
    """
    activities = [ProfilerActivity.CPU]
    if runtime.device.startswith("cuda"):
        activities.append(ProfilerActivity.CUDA)
    hook = register_optimizer_step_post_hook(lambda *_: _mark())
    with profile(activities=activities) as seen:
        part.run(encoder, runtime)
    hook.remove()
    steps, events = _within_steps(seen.events() or [])
    waits = [event for event in events if event.name in WAITS and not _of_adam(event)]
    whole = sum(event.self_cpu_time_total for event in events)
    return {
        "waits_per_step": len(waits) / (steps or part.steps),
        "wait_share": sum(event.self_cpu_time_total for event in waits) / whole,
    }


def measure(
    part: Part,
    loaded: Callable[[], TransformerEncoder],
    options: Any,
    profiled: Part | None = None,
    *,
    replays: bool = False,
) -> dict[str, object]:
    """Run a part once for its tokens and what is done once, once for its speed, with steps that are
    recorded where it `replays`, and elsewhere once for its waits, each time with an encoder as it
    is loaded, in its precision. Padding counts neither as tokens nor as operations. `profiled` is
    what is run for the waits, where that is less: a profile of many steps takes minutes to read.
    """
    encoder = loaded()
    runtime = Runtime(device=options.device, precision=encoder.precision)
    pad, tokens, done = encoder.tokenizer.pad_token_id, [0], [0]

    def count(_: torch.nn.Module, given: tuple[Any, ...]) -> None:
        real = (given[0] != pad).sum()  # a tensor: nothing waits for it
        tokens[0] += real
        done[0] += real * (TRAINED if torch.is_grad_enabled() else FORWARD)

    on_card = options.device.startswith("cuda")
    encoder.model.get_input_embeddings().register_forward_pre_hook(count)
    part.run(encoder, runtime)
    encoder = loaded()
    if on_card:
        torch.cuda.reset_peak_memory_stats()
    start = time.perf_counter()
    part.run(encoder, replace(runtime, replays=replays))
    if on_card:
        torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    found: dict[str, object] = {"tokens_per_second": round(int(tokens[0]) / seconds)}
    if not replays:  # what a graph starts is in no profile of the host
        found |= waits_of(profiled or part, loaded(), runtime)
    if on_card:
        blocks = Blocks.of(encoder.model.base_model).parts
        weights = sum(p.numel() for block in blocks for p in block.parameters())
        rate = weights * int(done[0]) / seconds
        found["share_of_peak"] = rate / peak(encoder.precision, options.device)
        # with the memory that graphs keep
        used = torch.cuda.max_memory_reserved if replays else torch.cuda.max_memory_allocated
        found["peak_memory_gib"] = used() / 2**30
    return found


def _loaded(folder: Path, precision: Precision, device: str) -> TransformerEncoder:
    encoder = TransformerEncoder.from_folder(folder, device=device)
    encoder.precision = precision
    return encoder


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("encoder", nargs="?")
    parser.add_argument("pairs", nargs="?")
    for name, value in (("steps", 8), ("batch", 40), ("threads", 2)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--precisions", nargs="+")
    options = parser.parse_args()
    on_card = options.device.startswith("cuda")
    options.precisions = options.precisions or (["fp32", "bf16"] if on_card else ["fp32"])
    torch.set_num_threads(options.threads)
    found: dict[str, object] = {"device": options.device, "torch": torch.__version__}
    with folders(options.encoder, options.pairs, options.steps * options.batch) as (
        encoder,
        pairs,
    ):
        parts = {
            "finetune": finetune(pairs, options),
            "xnli": xnli(options),
            "extraction": extraction(pairs, options),
        }
        for precision in options.precisions:
            for name, part in parts.items():
                load = partial(_loaded, encoder, precision, options.device)
                made = found[f"{name} {precision}"] = measure(part, load, options)
                what = f"{name}, {precision}, {options.device}: waits of the host per step"
                waits = float(str(made["waits_per_step"]))
                limit = at_most(1.0 if name == "extraction" else 0.0)  # a check per batch
                show(Row(what, waits, limit, None, "operations in the profile"))
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
