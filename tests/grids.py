"""Small grid files for tests, on the phrasebook and a scratch encoder: nothing is read from
outside.
"""

from __future__ import annotations

from pathlib import Path

BASE = """
name: small
pivot: en
encoder: {encoder}
languages: {languages}
corpus:
  source: phrasebook
  size: {size}
  split: {{test: 30, dev: 30}}
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
) -> Path:
    """Write a grid file with these parts; returns its path. Checkpoints are frequent, so that
    trainings of seconds have some.
    """
    text = BASE.format(
        encoder=encoder,
        languages=languages,
        size=size,
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
