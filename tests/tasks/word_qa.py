"""Questions for tests: the answer is the one word of the context that can be one."""

import json
from dataclasses import replace

import numpy as np

from raxalign.tasks.answers.rows import Answer, Question, Questions
from raxalign.tasks.mlqa import Mlqa

ANSWERS = {"en": ("one", "two"), "de": ("eins", "zwei"), "es": ("uno", "dos")}
ASKED = {"en": "who", "de": "wer", "es": "quien"}
WORDS = [
    *(f"w{i}" for i in range(30)),
    *(word for words in ANSWERS.values() for word in words),
    *(*ASKED.values(), "here", "hier"),
]
FAST = {"learning_rate": 1e-2, "epochs": 3, "batch_size": 24, "max_length": 24}


def squad(*paragraphs):
    """A file in SQuAD's format: a context and (id, question, (answer, start)...)... for each
    paragraph.
    """
    data = []
    for context, *questions in paragraphs:
        qas = []
        for id_, question, *answers in questions:
            given = [{"text": text, "answer_start": start} for text, start in answers]
            qas.append({"id": id_, "question": question, "answers": given})
        data.append({"context": context, "qas": qas})
    return json.dumps({"version": "1", "data": [{"title": "t", "paragraphs": data}]})


def questions(source, *rows):
    """The questions of (id, question, context, answer) each."""
    found = [Question(i, q, c, n, (Answer(a, c.index(a)),)) for n, (i, q, c, a) in enumerate(rows)]
    return Questions(source, found)


def write(path, lang, n, seed, name="more"):
    """A file of n questions, whose ids begin with `name`."""
    rng = np.random.default_rng(seed)
    paragraphs = []
    for i in range(n):
        words = [f"w{k}" for k in rng.integers(0, 30, 7)]
        at = int(rng.integers(0, 7))
        words[at] = ANSWERS[lang][i % 2]
        answer = words[at], len(" ".join([*words[:at], ""]))
        paragraphs.append((" ".join(words), (f"{name}{i}", ASKED[lang], answer)))
    path.write_text(squad(*paragraphs), encoding="utf-8")


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
    made = Mlqa(Mlqa.Params(**{"data": files, **FAST, **params}))
    made.sizes = replace(made.sizes, answer=2)
    return made
