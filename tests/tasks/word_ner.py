"""Named entities for tests: names are known by their words, and end where a plain word begins."""

import numpy as np

from raxalign.tasks.ner import Ner

NAMES = {"en": ["anna", "bert", "cleo"], "de": ["anna", "bernd", "klara"]}
PLACES = {"en": ["rome", "york"], "de": ["rom", "yorck"]}
WORDS = [f"w{i}" for i in range(12)] + [
    word for kind in (NAMES, PLACES) for words in kind.values() for word in words
]
FAST = {
    "linear": {"learning_rate": 1e-2, "max_length": 16},
    "bilstm_crf": {"learning_rate": 2e-2, "hidden": 16, "dropout": 0.1},
}


def write(path, lang, n, seed, unknown=False):
    """Columns of n sentences; `unknown`: the first has a tag that training lacks."""
    rng, lines = np.random.default_rng(seed), []
    for i in range(n):
        name, place = (list(rng.permutation(kind[lang])) for kind in (NAMES, PLACES))
        plain = [(f"w{rng.integers(12)}", "O") for _ in range(3)]
        names = [(name[0], "I-PER"), *([(name[1], "I-PER")] if i % 2 else [])]
        where = (place[0], "I-MISC" if unknown and i == 0 else "I-LOC")
        pairs = [plain[0], *names, plain[1], where, plain[2]]
        lines += [*(f"{word} x {tag}" for word, tag in pairs), ""]
    path.write_text("-DOCSTART- x O\n\n" + "\n".join(lines) + "\n", encoding="utf-8")


def write_all(folder):
    """Training in English, dev and test in both languages; their path templates."""
    folder.mkdir()
    write(folder / "train-en", "en", 120, 0)
    for k, lang in enumerate(("en", "de")):
        write(folder / f"dev-{lang}", lang, 24, 10 + k)
        write(folder / f"test-{lang}", lang, 20, 20 + k, unknown=lang == "de")
    paths = {split: f"{folder}/{split}-{{lang}}" for split in ("dev", "test")}
    return {"train": f"{folder}/train-{{pivot}}", **paths}


def task(files, tagger="linear", **params):
    """The task over these files, with settings that learn in seconds."""
    options = {"data": files, "tagger": tagger, "epochs": 2, "batch_size": 24, **FAST[tagger]}
    return Ner(Ner.Params(**{**options, **params}))
