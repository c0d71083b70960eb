"""Questions for tests: the answer is the one word of the context that can be one."""

import json

import numpy as np

from raxalign.tasks.mlqa import Mlqa

ANSWERS = {"en": ("one", "two"), "de": ("eins", "zwei"), "es": ("uno", "dos")}
ASKED = {"en": "who", "de": "wer", "es": "quien"}
WORDS = [
    *(f"w{i}" for i in range(30)),
    *(word for words in ANSWERS.values() for word in words),
    *(*ASKED.values(), "here", "hier"),
]
FAST = {"learning_rate": 1e-2, "epochs": 3, "batch_size": 24, "max_length": 24}


def write(path, lang, n, seed, name="more"):
    """A file of n questions, whose ids begin with `name`."""
    rng = np.random.default_rng(seed)
    paragraphs = []
    for i in range(n):
        words = [f"w{k}" for k in rng.integers(0, 30, 7)]
        at = int(rng.integers(0, 7))
        words[at] = ANSWERS[lang][i % 2]
        start = len(" ".join([*words[:at], ""]))
        answers = [{"text": words[at], "answer_start": start}]
        asked = {"id": f"{name}{i}", "question": ASKED[lang], "answers": answers}
        paragraphs.append({"context": " ".join(words), "qas": [asked]})
    path.write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}), encoding="utf-8")


def write_all(folder):
    """All splits in three languages; their path templates."""
    folder.mkdir()
    for k, lang in enumerate(("en", "de", "es")):
        write(folder / f"train-{lang}.json", lang, 96, k, "train")
        write(folder / f"dev-{lang}.json", lang, 20, 10 + k, "dev")
        write(folder / f"test-{lang}.json", lang, 24, 20 + k, "test")
    paths = {split: f"{folder}/{split}-{{lang}}.json" for split in ("dev", "test")}
    return {"train": f"{folder}/train-{{pivot}}.json", **paths}


def task(files, **params):
    """The task over these files, with settings that learn in seconds."""
    return Mlqa(Mlqa.Params(**{"data": files, "max_answer_length": 2, **FAST, **params}))
