"""Small grid files for tests, on the phrasebook and a scratch encoder: nothing is read from
outside.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from raxalign.grid.expansion.expand import expand
from raxalign.grid.file import load
from raxalign.grid.plan import Plan
from raxalign.grid.stage import Stage

SPLIT = "split: {test: 30, dev: 30}"
BASE = """
name: small
pivot: en
encoder: {encoder}
languages: {languages}
corpus:
  {corpus}
pairs: {{aligner: {aligner}}}
sentences: {sentences}
seeds: {seeds}
methods:
{methods}
tasks:
{tasks}
"""

TINY = (
    "{kind: scratch, layers: 1, hidden_size: 16, heads: 2, intermediate: 32, vocab_size: 300,"
    " steps: 2, batch_size: 8}"
)
ENCODER = (
    "{kind: scratch, layers: 2, hidden_size: 32, heads: 2, intermediate: 64, vocab_size: 400,"
    " steps: 30, batch_size: 16}"
)


def write_grid(
    folder: Path,
    *,
    encoder: str = ENCODER,
    languages: str = "{each: [de, fr]}",
    size: int = 400,
    aligner: str = "fast_align",
    sentences: str = "[100, 200]",
    seeds: str = "[0]",
    methods: tuple[str, ...] = (
        "none: {}",
        "rotation: {center: [false, true]}",
        "finetune: {lambda: [0.1, 1.0], batch_size: 16}",
    ),
    tasks: tuple[str, ...] = ("retrieval: {}",),
    more: str = "",
    run: str = "checkpoint_minutes: 0.01",
    name: str = "grid.yaml",
    corpus: str = "",
) -> Path:
    """Write a grid file with these parts; returns its path. Checkpoints are frequent, so that
    trainings of seconds have some. `corpus` has the lines of another corpus than the phrasebook of
    `size` sentences.
    """
    text = BASE.format(
        encoder=encoder,
        languages=languages,
        corpus=corpus or f"source: phrasebook\n  size: {size}\n  {SPLIT}",
        aligner=aligner,
        sentences=sentences,
        seeds=seeds,
        methods="\n".join(f"  {line}" for line in methods),
        tasks="\n".join(f"  {line}" for line in tasks),
    )
    path = folder / name
    if "\nrun:" not in more and not more.startswith("run:"):
        more += f"run: {{{run}}}\n"
    path.write_text(text + more, encoding="utf-8")
    return path


def small_plan(folder: Path, **parts: object) -> Plan:
    """The plan of such a grid; no storage is looked at."""
    return expand(load(write_grid(folder, **parts)))  # type: ignore[arg-type]


def of_kind(plan: Plan, kind: str) -> list[Stage]:
    """The stages of a kind, in order."""
    return [stage for stage in plan.stages.values() if stage.kind == kind]


def kinds(plan: Plan) -> Counter[str]:
    """How many stages of each kind a plan has."""
    return Counter(stage.kind for stage in plan.stages.values())
