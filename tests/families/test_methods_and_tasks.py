"""Methods and tasks of the catalogue on families of encoders, in pairs: every family meets every
sort of method and task, and each method and task encoders with a head and without one, and
decoders. With RAXALIGN_TEST_ALL (``make test-all``) each method and task meets each family.
"""

from __future__ import annotations

import copy
import json
import re
from collections import Counter
from functools import cache
from itertools import product
from pathlib import Path

import pytest
import torch

from raxalign.catalog import catalog
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.errors import RaxalignError
from raxalign.plan.load import open_grid
from raxalign.single.evaluate import EvaluateRequest, evaluate_encoder
from raxalign.train.runtime import Runtime
from tests.every import EVERY
from tests.families.catalogue import FAMILIES
from tests.families.sentences import TEXTS, sentences
from tests.families.subject import Subject
from tests.methods.contract import TRANSFORMER_METHODS, asked_for, make, vectors
from tests.methods.toy import toy_inputs

pytestmark = pytest.mark.slow

OWN_MTEB_TASKS = Path(__file__).parents[1] / "tasks" / "own_mteb_tasks.py"

TASKS = {
    "retrieval": "{layers: 0-1}",
    "dictionary_retrieval": "{dictionary: words.txt}",
    "mteb": f"{{tasks: [OwnPairs, OwnTopics], definitions: {OWN_MTEB_TASKS}}}",
    "sentence_retrieval": "{}",
    "representation": "{max_sentences: 20, occurrences: 5, types: 5}",
    "token_translation": "{alpha: [1.0], block_size: 60, max_blocks: 2, dev_sentences: 10}",
    "word_alignment": "{data: {test: {text: text.txt, links: links.txt}}}",
    "xnli": "{data: phrasebook, epochs: 1, phrasebook: {train: 9, dev: 6, test: 6}}",
    "pawsx": (
        "{data: {train: 'train.{pivot}.tsv', dev: 'dev.{lang}.tsv', test: 'test.{lang}.tsv'},"
        " epochs: 1}"
    ),
    "mlqa": (
        "{data: phrasebook, epochs: 1, max_length: 96, doc_stride: 32,"
        " phrasebook: {train: 6, dev: 4, test: 4}}"
    ),
    "ner": "{data: phrasebook, epochs: 1, phrasebook: {train: 8, dev: 4, test: 4}}",
    "pos": "{data: phrasebook, epochs: 1, phrasebook: {train: 8, dev: 4, test: 4}}",
    "slots": "{data: phrasebook, epochs: 1, phrasebook: {train: 8, dev: 4, test: 4}}",
    "classification": (
        "{columns: {first: sentence1, second: sentence2}, labels: [no, yes], epochs: 1,"
        " data: {train: 'train.{pivot}.tsv', dev: 'dev.{lang}.tsv', test: 'test.{lang}.tsv'}}"
    ),
    "bitext_mining": (
        "{data: {dev: {text: 'mined.{side}', gold: mined.gold},"
        " test: {text: 'mined.{side}', gold: mined.gold}}}"
    ),
    "tagging": (
        "{scheme: plain, data: {train: 'train.{pivot}.tags', dev: 'dev.{lang}.tags', test:"
        " 'test.{lang}.tags'}, epochs: 1}"
    ),
    "massive_slots": (
        "{data: {train: 'train.{pivot}.slots', dev: 'dev.{lang}.slots', test: 'test.{lang}.slots'},"
        " codes: {en: en, de: de}, epochs: 1}"
    ),
    "tydiqa": (
        "{data: {train: 'train.{pivot}.json', test: 'test.{lang}.json'}, epochs: 1,"
        " codes: {en: en, de: de}, max_length: 96, doc_stride: 32}"
    ),
    "belebele": (
        "{data: {train: 'train.{pivot}.jsonl', dev: 'dev.{lang}.jsonl', test:"
        " 'test.{lang}.jsonl'}, codes: {en: en, de: de}, epochs: 1}"
    ),
    "spans": (
        "{data: {train: 'train.{pivot}.json', dev: 'dev.{lang}.json', test: 'test.{lang}.json'},"
        " epochs: 1, max_length: 96, doc_stride: 32}"
    ),
}
"""The smallest options of every task of the catalogue."""
GRID = """
name: families
pivot: en
encoder: {encoder}
languages: {{each: [de]}}
corpus: {{source: phrasebook, size: 120, split: {{test: 20, dev: 20}}}}
pairs: {{aligner: fast_align}}
sentences: 60
methods: {{none: {{}}}}
tasks:
"""


NO_TRANSFORM = ("XLM", "EuroBERT", "mDeBERTa-v3", "RemBERT")
"""Families whose masked-LM head has no transform that weam can copy, which it says."""


def task_grid(root, encoder):
    """A grid with every task of the catalogue on a small corpus, its files written under `root`."""
    path = root / "grid.yaml"
    if not path.is_file():
        root.mkdir(parents=True, exist_ok=True)
        _write_task_files(root)
        path.write_text(
            GRID.format(encoder=encoder)
            + "".join(f"  {name}: {options}\n" for name, options in TASKS.items()),
            encoding="utf-8",
        )
    return opened(path)


@cache
def opened(path):
    return open_grid(path, storage=str(path.parent / "storage"))


def _write_task_files(root):
    entries = "Hund dog\nKatze cat\nHaus house\nBrot bread\nWasser water\n"
    (root / "words.txt").write_text(entries, encoding="utf-8")
    pairs = list(zip(sentences("de"), sentences("en"), strict=True))
    (root / "text.txt").write_text(
        "".join(f"{' '.join(a)} ||| {' '.join(b)}\n" for a, b in pairs), encoding="utf-8"
    )
    for lang, side in zip(("de", "en"), zip(*pairs, strict=True), strict=True):
        numbered = [f"{i}\t{' '.join(words)}" for i, words in enumerate(side)]
        (root / f"mined.{lang}").write_text("\n".join(numbered), encoding="utf-8")
    (root / "mined.gold").write_text("0\t0\n1\t1\n", encoding="utf-8")
    (root / "links.txt").write_text("0-0 1-1 2-2\n" * len(pairs), encoding="utf-8")
    for split, places in (("train", (0, 1, 2, 3)), ("dev", (4, 5, 6)), ("test", (7, 8, 9))):
        for lang in ("de", "en"):
            rows = [
                f"{place}\t{TEXTS[lang][place]}\t{TEXTS[lang][places[-k % 2]]}\t{k % 2}\n"
                for k, place in enumerate(places)
            ]
            header = "id\tsentence1\tsentence2\tlabel\n"
            (root / f"{split}.{lang}.tsv").write_text(header + "".join(rows), encoding="utf-8")
            texts = [TEXTS[lang][place] for place in places]
            tags = [
                "".join(f"{word} T{len(word) % 2}\n" for word in text.split()) for text in texts
            ]
            (root / f"{split}.{lang}.tags").write_text("\n".join(tags), encoding="utf-8")
            slots = re.sub(r" T\d", " B-time", "\n".join(tags))
            (root / f"{split}.{lang}.slots").write_text(slots, encoding="utf-8")
            choices = [
                {"passage": text, "question": "What?", "options": list("abcd"), "answer": "ABCD"[k]}
                for k, text in enumerate(texts)
            ]
            lines = "\n".join(map(json.dumps, choices))
            (root / f"{split}.{lang}.jsonl").write_text(lines, encoding="utf-8")
            asked = [
                {
                    "context": text,
                    "qas": [
                        {
                            "id": f"{split}{place}",
                            "question": "What?",
                            "answers": [{"text": text.split()[0], "answer_start": 0}],
                        }
                    ],
                }
                for place, text in zip(places, texts, strict=True)
            ]
            data = {"data": [{"title": "t", "paragraphs": asked}]}
            (root / f"{split}.{lang}.json").write_text(json.dumps(data), encoding="utf-8")


def traits(name):
    """What every method and every task meets: a family with a head or without, and decoders."""
    family = FAMILIES[name]
    return {f"head {family.head}", f"decoder {family.decoder}"}


def sorts():
    """Each method and task, and its sort: whether it trains, and on the masked-LM head."""
    found = {}
    for kind in TRANSFORMER_METHODS:
        trains = "learning_rate" in catalog("methods")[kind].Params.model_fields
        head = make(kind, Path("inputs")).needs().head
        found["method", kind] = f"method, trains {trains}, head {head}"
    for kind in TASKS:
        trains = "epochs" in catalog("tasks")[kind].Params.model_fields
        found["task", kind] = f"task, trains {trains}"
    return found


def pairs():
    """(family, "method" or "task", its kind) of every test, by family."""
    sort_of = sorts()
    if EVERY:
        return [(name, *subject) for name, subject in product(FAMILIES, sort_of)]
    chosen: list[tuple[str, tuple[str, str]]] = []
    used: Counter[object] = Counter()

    def choose(name, subject):
        chosen.append((name, subject))
        used.update((name, subject, (name, sort_of[subject])))

    for subject in sort_of:
        missing = set().union(*map(traits, FAMILIES))
        while missing:
            name = max(FAMILIES, key=lambda name: (len(missing & traits(name)), -used[name]))
            missing -= traits(name)
            choose(name, subject)
    for name, sort in product(FAMILIES, sorted(set(sort_of.values()))):
        if not used[name, sort]:
            choose(name, min((s for s in sort_of if sort_of[s] == sort), key=used.__getitem__))
    places = list(FAMILIES)
    return [(name, *subject) for name, subject in sorted(chosen, key=lambda c: places.index(c[0]))]


PAIRS = pairs()


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("families")
    toy_inputs(root / "inputs", 16, ("de", "fr"))
    return root


@pytest.fixture(scope="module")
def subject_of(root):
    return cache(lambda name: Subject.of(name, root / "families"))


def of(role):
    return [(name, kind) for name, own, kind in PAIRS if own == role]


@pytest.mark.parametrize(("name", "kind"), of("method"))
def test_a_method_aligns_saves_and_loads_or_refuses_what_has_no_head(
    name, kind, subject_of, root, tmp_path
):
    subject, inputs = subject_of(name), root / "inputs"
    method, encoder = make(kind, inputs), copy.deepcopy(subject.encoder)
    unknown = kind == "weam" and name in NO_TRANSFORM
    if method.needs().head and (unknown or not subject.family.head):
        with pytest.raises(RaxalignError, match=r"masked-LM head|mask token"):
            method.align(encoder, asked_for(method, inputs), Runtime(seed=1))
        return
    aligned = method.align(encoder, asked_for(method, inputs), Runtime(seed=1))
    found = vectors(aligned)
    assert torch.isfinite(found).all()
    aligned.save(tmp_path)
    loaded = AlignedEncoder.load(tmp_path, lambda: subject.encoder)
    assert torch.equal(vectors(loaded), found)


@pytest.mark.parametrize(("name", "task"), of("task"))
def test_a_task_evaluates_or_refuses_what_has_no_head(name, task, subject_of, root):
    """As `raxalign evaluate` runs it."""
    subject, kind = subject_of(name), catalog("tasks")[task]
    grid = task_grid(root / "tasks", subject.folder)
    request = EvaluateRequest(str(subject.folder), tasks=(task,), device="cpu")
    spec = next(spec for spec in grid.grid.tasks if spec.name == task)
    if kind(spec.params).needs().head and not subject.family.head:
        with pytest.raises(RaxalignError, match=r"masked-LM head|mask token"):
            evaluate_encoder(grid, request)
        return
    rows, _ = evaluate_encoder(grid, request)
    assert any(row["metric"] == kind(spec.params).main_metric for row in rows)


def test_every_method_and_task_is_tried_and_every_family_by_every_sort():
    sort_of = sorts()
    assert set(TASKS) == set(catalog("tasks"))
    assert {(role, kind) for _, role, kind in PAIRS} == set(sort_of)
    assert len({(name, sort_of[role, kind]) for name, role, kind in PAIRS}) == len(FAMILIES) * len(
        set(sort_of.values())
    )
