"""A small XNLI for tests: one word of the hypothesis decides, in English and in German."""

from pathlib import Path

import numpy as np

from raxalign.tasks.xnli import Xnli

ANSWERS = {"en": ("yes", "maybe", "no"), "de": ("ja", "vielleicht", "nein")}
WORDS = [f"w{i}" for i in range(30)] + [word for words in ANSWERS.values() for word in words]
FAST = {"learning_rate": 1e-2, "epochs": 3, "batch_size": 24, "max_length": 16}


def write(path, lang, n, seed):
    """A TSV file of n rows, the labels in turn."""
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(n):
        premise = " ".join(f"w{k}" for k in rng.integers(0, 30, 3))
        rows.append(f"{premise}\t{ANSWERS[lang][i % 3]} w{rng.integers(0, 30)}\t{i % 3}")
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")


def write_all(folder):
    """All splits in both languages; the path templates of a zero-shot training."""
    folder.mkdir()
    for k, lang in enumerate(("en", "de")):
        for split, n, seed in (("train", 120, 5 * k), ("dev", 30, 10 + k), ("test", 33, 20 + k)):
            write(folder / f"{split}-{lang}.tsv", lang, n, seed)
    paths = {split: f"{folder}/{split}-{{lang}}.tsv" for split in ("dev", "test")}
    return {"train": f"{folder}/train-{{pivot}}.tsv", **paths}


def translated(files):
    """The path templates of a training on translations."""
    return {**files, "train": files["train"].replace("{pivot}", "{lang}")}


def at(template, lang):
    """The file of a language."""
    return Path(template.replace("{lang}", lang).replace("{pivot}", lang))


def task(files, **params):
    """The task over these files, with settings that learn in seconds."""
    return Xnli(Xnli.Params(**{"data": files, **FAST, **params}))
