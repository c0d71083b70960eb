"""Much text through a grid, without Ray: time and memory of the plan, of the stages of data, of
pieces, and of the first steps of trainings.

usage: python -m benchmarks.pieces [--pairs 50000] [--rows 50000] [--words 20] [--steps 20]
[--languages 1] [--threads 2] [--methods finetune ppa] [--aligner fast_align] [--keep FOLDER]

The sentences are synthetic (`benchmarks.synthetic_text`), `--pairs` of them per language. The
encoder is random and tiny, so that what is measured is the way of the text. Every part is one
process: its seconds, its peak memory without mapped files (what it needs), and with them.

With `--keep`, the texts, the storage and what was measured stay in a folder, which takes about 2 kB
per pair and 1 kB per row. A run with the same options goes on there: a part that was measured is
shown again, and not run. The whole size is::

    python -m benchmarks.pieces --pairs 2000000 --rows 6000000 --threads 2 --keep FOLDER

Goals: the first step of a training within 5 s, and less than 2 GiB beyond the model, at 250,000 x 5
pairs (`--pairs 250000 --languages 5 --rows 0`) and at 2,000,000 pairs and 6,000,000 task rows; word
pairs below 4 GiB.
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
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.peak_memory import Memory
from benchmarks.synthetic_text import HELD_OUT, Texts, write_encoder
from benchmarks.table import Row, at_most, show

DATA, TRAINING, FIRST_STEP = 4096, 2048, 5.0  # MiB, MiB, seconds
LANGUAGES = ("de", "fr", "es", "el", "ru", "bg", "zh")
STAGES = ("bitext", "pairs", "text", "pieces", "rows")
GRID = """
name: pieces
pivot: en
encoder: {folder}/encoder
languages: {{together: [{codes}]}}
corpus: {{source: moses, path: "{folder}/text.{{lang}}-{{pivot}}", pretokenized: true,
  overlap: keep, shortage: use-all, split: {{test: 100, dev: 100}}}}
pairs: {{aligner: {aligner}}}
sentences: {pairs}
methods:
{methods}
tasks:
  retrieval: {{}}
{task}"""
TASK = """
  xnli: {{data: {{train: "{folder}/nli.tsv", dev: "{folder}/nli-dev.tsv"}}, epochs: 1}}
"""
_QUEUE = {"ppa": ", queue_size: 64"}
_OPTIONS, _MEASURED = "options.json", "measured-{}.json"


@dataclass(frozen=True)
class Measured:
    """A part that was run: its seconds, MiB at its peak without mapped files, with them, and before
    it began, and what else is known of it. `first_step` is None where nothing is trained.
    """

    seconds: float
    own: float
    mapped: float
    before: float
    said: str
    first_step: float | None


def main() -> None:
    """Make the text, then run each part in a process of its own."""
    options = _options()
    if options.part:
        _run_part(options)
        return
    with tempfile.TemporaryDirectory(prefix="raxalign-bench-") as made:
        folder = Path(options.keep or made).absolute()
        folder.mkdir(exist_ok=True, parents=True)
        _refuse_others(folder, options)
        print(
            f"{options.pairs:,} pairs of {options.languages} languages and {options.rows:,} task"
            f" rows, texts of {options.words} words",
            flush=True,
        )
        total = 0.0
        for part in _parts(options):
            kept = folder / _MEASURED.format(part)
            if not kept.exists():
                given = [*sys.argv[1:], "--keep", str(folder), "--part", part]
                subprocess.run([sys.executable, "-m", "benchmarks.pieces", *given], check=True)
            found = Measured(**json.loads(kept.read_text(encoding="utf-8")))
            _show(part, found, options)
            total += found.seconds
        print(f"{'all':>10} {total:8.1f} s")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="pieces", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, value in (("pairs", 50_000), ("rows", 50_000), ("words", 20), ("steps", 20)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--languages", type=int, default=1, choices=range(1, len(LANGUAGES) + 1))
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--methods", nargs="*", default=["finetune", "ppa"])
    parser.add_argument("--aligner", default="fast_align")
    parser.add_argument("--keep")
    parser.add_argument("--part", help=argparse.SUPPRESS)
    return parser.parse_args()


def _parts(options: argparse.Namespace) -> Iterator[str]:
    yield from ("data", "plan", *STAGES[:-1])
    if options.rows:
        yield "rows"
    yield from options.methods
    if options.rows:
        yield "xnli"


def _refuse_others(folder: Path, options: argparse.Namespace) -> None:
    """Note the options of a folder; end the program where it was made with other ones."""
    ours = {name: value for name, value in vars(options).items() if name not in ("keep", "part")}
    file = folder / _OPTIONS
    if file.exists() and json.loads(file.read_text(encoding="utf-8")) != ours:
        sys.exit(f"{folder} was made with other options ({file}): name another folder")
    file.write_text(json.dumps(ours), encoding="utf-8")


def _show(part: str, found: Measured, options: argparse.Namespace) -> None:
    rows = part in ("rows", "xnli")
    trained = part in (*options.methods, "xnli")
    size = f"{options.rows:,} rows" if rows else f"{options.pairs:,} pairs"
    if not rows and options.languages > 1:
        size = f"{options.languages} x {size}"
    if part != "data":
        limit, bare = TRAINING if trained else DATA, "the process, without mapped files"
        show(Row(f"{part} of {size}: memory", found.own, at_most(limit), None, bare, "MiB"))
    if found.first_step is not None:
        bare = "the start of the training, its encoder loaded"
        what = f"{part} of {size}: time to the first step"
        show(Row(what, found.first_step, at_most(FIRST_STEP), None, bare, "s"))
    print(
        f"{part:>10} {found.seconds:8.1f} s, {found.own:6.0f} MiB ({found.mapped:.0f} with mapped"
        f" files, {found.before:.0f} before){found.said}",
        flush=True,
    )


def _run_part(options: argparse.Namespace) -> None:
    """Run one part in this process, and write what was measured."""
    folder, watch = Path(options.keep), Memory()
    watch.start()
    start, first = time.perf_counter(), None
    if options.part == "data":
        said = _make(folder, options)
    elif options.part in ("plan", *STAGES):
        said = _stages(folder, options)
    else:
        said, first = _training(folder, options)
    seconds = time.perf_counter() - start
    measured = Measured(seconds, *watch.peak(), said, first)
    file = folder / _MEASURED.format(options.part)
    file.write_text(json.dumps(asdict(measured)), encoding="utf-8")


def _make(folder: Path, options: argparse.Namespace) -> str:
    """Write the texts of all languages, the task rows, the encoder and the grid file."""
    texts, codes = Texts(options.words), LANGUAGES[: options.languages]
    write_encoder(folder / "encoder")
    for code in codes:
        texts.write_pairs(folder / f"text.{code}-en", code, "en", options.pairs + HELD_OUT)
    for name, count in (("nli", options.rows), ("nli-dev", HELD_OUT)):
        texts.write_rows(folder / f"{name}.tsv", count)
    lines = [f"  {name}: {{batch_size: 8{_QUEUE.get(name, '')}}}" for name in options.methods]
    task = TASK.format(folder=folder) if options.rows else ""
    found = {"folder": folder, "codes": ", ".join(codes), "task": task}
    methods = "\n".join(["  none: {}", *lines])
    text = GRID.format(**{**vars(options), **found, "methods": methods})
    (folder / "grid.yaml").write_text(text, encoding="utf-8")
    return ""


def _workshop(folder: Path, options: argparse.Namespace) -> Any:
    from raxalign.grid.load import open_grid
    from raxalign.stages import Workshop
    from raxalign.store.storage import Storage
    from raxalign.train.runtime import Runtime

    root = str(folder / "storage")
    plan = open_grid(folder / "grid.yaml", storage=root).plan
    runtime = Runtime(threads=options.threads)
    return Workshop(plan, Storage(root), runtime)


def _stages(folder: Path, options: argparse.Namespace) -> str:
    """Make all stages of a kind of data that the trainings read; just the plan, for ``plan``."""
    workshop = _workshop(folder, options)
    stages, rows = workshop.plan.stages, options.part == "rows"
    wanted = {
        entry
        for stage in stages.values()
        if stage.kind == ("tuned" if rows else "aligned")
        for entry in (*stage.prepared.values(), *(() if rows else stage.inputs.values()))
    }
    kind = "pieces" if rows else options.part
    found = [k for k in workshop.plan.closure(sorted(wanted)) if stages[k].kind == kind]
    sizes = []
    for key in found:
        workshop.ensure(key)
        sizes.append(workshop.store.size(kind, key))
    return f", {len(found)} stages of {sum(sizes) / 2**20:.0f} MiB" if found else ""


def _training(folder: Path, options: argparse.Namespace) -> tuple[str, float]:
    """Train for some steps; return in words when they ended, and the seconds to the first one."""
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
    said = f"; first step after {steps[0]:.1f} s, {len(steps)} after {steps[-1]:.1f} s"
    return said, steps[0]


if __name__ == "__main__":
    main()
