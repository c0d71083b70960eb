"""Much text through a grid, without Ray: time and memory of the plan, of the stages of data, of
pieces, and of the first steps of trainings.

usage: python -m benchmarks.pieces [--pairs 50000] [--rows 50000] [--words 20] [--steps 20]
[--threads 2] [--methods finetune ppa] [--aligner fast_align] [--keep FOLDER]

The sentences are synthetic: words of a Zipf distribution over 50,000 forms per language. The
encoder is random and tiny, so that what is measured is the way of the text. Every line is one
process: its seconds, its peak memory without mapped files (what it needs), and with them.

Goals: the first step of a training within 5 s, and less than 2 GiB beyond the model, at 250,000 x 5
pairs and at 2,000,000 pairs and 6,000,000 task rows; word pairs below 4 GiB.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.table import Row, at_most, show

DATA, TRAINING = 4096, 2048  # MiB
GRID = """
name: pieces
pivot: en
encoder: {folder}/encoder
languages: {{each: [de]}}
corpus: {{source: moses, path: {folder}/text, pretokenized: true, overlap: keep, shortage: use-all,
  split: {{test: 100, dev: 100}}}}
pairs: {{aligner: {aligner}}}
sentences: {pairs}
methods:
{methods}
tasks:
  retrieval: {{}}
  xnli: {{data: {{train: "{folder}/nli.tsv", dev: "{folder}/nli-dev.tsv"}}, epochs: 1}}
"""
_QUEUE = {"ppa": ", queue_size: 64"}
_FORMS, _DEV = 50_000, 200
_LABELS = ("entailment", "neutral", "contradiction")


def main() -> None:
    """Make the text, then run each part in a process of its own."""
    parser = argparse.ArgumentParser(prog="pieces", description=__doc__)
    for name, value in (("pairs", 50_000), ("rows", 50_000), ("words", 20), ("steps", 20)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--methods", nargs="*", default=["finetune", "ppa"])
    parser.add_argument("--aligner", default="fast_align")
    parser.add_argument("--keep")
    parser.add_argument("--part", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        _part(options)
        return
    with tempfile.TemporaryDirectory(prefix="raxalign-bench-") as made:
        folder = Path(options.keep or made).absolute()
        folder.mkdir(exist_ok=True)
        print(f"{options.pairs:,} pairs and {options.rows:,} task rows of {options.words} words")
        parts = ["data", "plan", "bitext", "pairs", "text", "pieces", *options.methods, "xnli"]
        for part in parts:
            given = [item for item in sys.argv[1:] if item != "--part"]
            command = [sys.executable, "-m", "benchmarks.pieces", *given]
            subprocess.run([*command, "--keep", str(folder), "--part", part], check=True)


def _part(options: argparse.Namespace) -> None:
    """One part, measured in this process."""
    folder, watch = Path(options.keep), Memory()
    watch.start()
    start = time.perf_counter()
    if options.part == "data":
        said = _make(folder, options)
    elif options.part in ("plan", "bitext", "pairs", "text", "pieces"):
        said = _stages(folder, options)
    else:
        said = _training(folder, options)
    seconds = time.perf_counter() - start
    own, mapped, before = watch.peak()
    limit = TRAINING if options.part in (*options.methods, "xnli") else DATA
    size = options.rows if options.part == "xnli" else options.pairs
    what = f"{options.part} of {size:,} {'rows' if options.part == 'xnli' else 'pairs'}: memory"
    if options.part != "data":
        bare = "the process, without mapped files"
        show(Row(what, own, at_most(limit), None, bare, "MiB"))
    print(
        f"{options.part:>10} {seconds:8.1f} s, {own:6.0f} MiB ({mapped:.0f} with mapped files,"
        f" {before:.0f} before){said}",
        flush=True,
    )


def _make(folder: Path, options: argparse.Namespace) -> str:
    """Write the text of both languages, the task rows, the encoder and the grid file."""
    from tests.tiny import tiny_bert

    chance = np.random.default_rng(0)
    forms = [[f"{lang}{number:x}" for number in range(_FORMS)] for lang in ("d", "e")]
    syllables = [f"{lang}{i:x}" for lang in ("d", "e") for i in range(256)]
    hexes = [f"##{i:x}" for i in range(16)] + [f"##{i:02x}" for i in range(256)]
    tiny_bert(folder / "encoder", [*syllables, *hexes], positions=128)

    def texts(lang: int, count: int) -> list[str]:
        lengths = chance.poisson(options.words, count).clip(1)
        words = (chance.zipf(1.3, int(lengths.sum())) % _FORMS).tolist()
        ends = np.cumsum(lengths).tolist()
        return [
            " ".join([forms[lang][word] for word in words[end - length : end]])
            for end, length in zip(ends, lengths.tolist(), strict=True)
        ]

    for lang, name in enumerate(("de", "en")):
        with (folder / f"text.{name}").open("w", encoding="utf-8") as file:
            for start in range(0, options.pairs + _DEV, 100_000):
                lines = texts(lang, min(100_000, options.pairs + _DEV - start))
                file.writelines(f"{line}\n" for line in lines)
    for name, count in (("nli", options.rows), ("nli-dev", _DEV)):
        with (folder / f"{name}.tsv").open("w", encoding="utf-8") as file:
            for start in range(0, count, 100_000):
                size = min(100_000, count - start)
                both = zip(texts(1, size), texts(1, size), strict=True)
                file.writelines(
                    f"{first}\t{second}\t{_LABELS[i % 3]}\n"
                    for i, (first, second) in enumerate(both)
                )
    lines = [f"  {name}: {{batch_size: 8{_QUEUE.get(name, '')}}}" for name in options.methods]
    methods = "\n".join(["  none: {}", *lines])
    (folder / "grid.yaml").write_text(
        GRID.format(**{**vars(options), "folder": folder, "methods": methods}), encoding="utf-8"
    )
    return ""


def _workshop(folder: Path, options: argparse.Namespace) -> Any:
    from raxalign.plan.load import open_grid
    from raxalign.stages import Workshop
    from raxalign.store.artifacts import ArtifactStore
    from raxalign.store.ledger import Ledger
    from raxalign.train.runtime import Runtime

    root = str(folder / "storage")
    plan = open_grid(folder / "grid.yaml", storage=root).plan
    runtime = Runtime(threads=options.threads)
    return Workshop(plan, ArtifactStore(root), Ledger(root), runtime, folder / "storage")


def _stages(folder: Path, options: argparse.Namespace) -> str:
    """Make all stages of a kind of data that the trainings read; just the plan, for ``plan``."""
    workshop = _workshop(folder, options)
    wanted = {
        entry
        for stage in workshop.plan.stages.values()
        if stage.kind == "aligned"
        for entry in (*stage.inputs.values(), *stage.prepared.values())
    }
    found = [
        key
        for key in workshop.plan.closure(sorted(wanted))
        if workshop.plan.stages[key].kind == options.part
    ]
    sizes = []
    for key in found:
        workshop.ensure(key)
        sizes.append(workshop.store.size(options.part, key))
    return f", {len(found)} stages of {sum(sizes) / 2**20:.0f} MiB" if found else ""


def _training(folder: Path, options: argparse.Namespace) -> str:
    """Train for some steps; say when the first one ended."""
    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook

    torch.set_num_threads(1)
    workshop = _workshop(folder, options)
    kind = "tuned" if options.part == "xnli" else "aligned"
    stage = next(
        stage
        for stage in workshop.plan.stages.values()
        if (stage.kind, stage.maker) == (kind, options.part) and "encoder" in stage.inputs
    )
    workshop.encoder(stage.inputs["encoder"])  # so that libraries are loaded before the clock runs
    began, steps = time.perf_counter(), list[float]()

    class Enough(Exception):
        """The steps that are measured have been made."""

    def stepped(*_: Any) -> None:
        steps.append(time.perf_counter() - began)
        if len(steps) >= options.steps:
            raise Enough

    register_optimizer_step_post_hook(stepped)
    with contextlib.suppress(Enough):
        workshop.ensure(stage.key)
    return f"; first step after {steps[0]:.1f} s, {len(steps)} after {steps[-1]:.1f} s"


class Memory(threading.Thread):
    """Looks at the memory of this process and of those that it started, ten times per second."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.before, self.own, self.mapped = _used(os.getpid())[0], 0.0, 0.0

    def run(self) -> None:
        """Look until the process ends."""
        while True:
            self.look()
            time.sleep(0.1)

    def look(self) -> None:
        """Look once."""
        found = [_used(pid) for pid in _family(os.getpid())]
        self.own = max(self.own, sum(own for own, _ in found))
        self.mapped = max(self.mapped, sum(own + mapped for own, mapped in found))

    def peak(self) -> tuple[float, float, float]:
        """Return MiB: the peak without mapped files, with them, and what was used at the start."""
        self.look()
        return self.own, self.mapped, self.before


def _used(pid: int) -> tuple[float, float]:
    """(MiB of a process that no file holds, MiB of mapped files); zeros where it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0, 0.0
    found = {line.split(":")[0]: line.split()[1] for line in lines if line.startswith("Rss")}
    own = int(found.get("RssAnon", 0)) + int(found.get("RssShmem", 0))
    return own / 1024, int(found.get("RssFile", 0)) / 1024


def _family(pid: int) -> list[int]:
    """The process and all that it has started."""
    found = [pid]
    for thread in Path(f"/proc/{pid}/task").glob("*"):
        try:
            children = (thread / "children").read_text().split()
        except OSError:
            continue
        found += [entry for child in children for entry in _family(int(child))]
    return found


if __name__ == "__main__":
    main()
