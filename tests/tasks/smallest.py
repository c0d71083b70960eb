"""Every task of the catalogue with its smallest options, and the files that these name."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.families.sentences import TEXTS, sentences
from tests.tasks.word_qa import squad

OWN_MTEB_TASKS = Path(__file__).with_name("own_mteb_tasks.py")


def files(suffix: str, *others: str) -> str:
    """The files of a training in the pivot, and of other splits in each language, as a grid names
    them.
    """
    tested = "".join(f", {split}: '{split}.{{lang}}.{suffix}'" for split in others)
    return f"data: {{train: 'train.{{pivot}}.{suffix}'{tested}}}"


ALL = ("dev", "test")
ASKED = "epochs: 1, max_length: 96"
CODES = "codes: {en: en, de: de}, epochs: 1"
TASKS = {
    "retrieval": "{layers: 0-1}",
    "dictionary_retrieval": "{dictionary: words.txt}",
    "mteb": f"{{tasks: [OwnPairs, OwnTopics], definitions: {OWN_MTEB_TASKS}}}",
    "sentence_retrieval": "{}",
    "representation": "{max_sentences: 20, occurrences: 5}",
    "token_translation": "{alpha: [1.0], block_size: 60, max_blocks: 2, dev_sentences: 10}",
    "word_alignment": "{data: {test: {text: text.txt, links: links.txt}}}",
    "xnli": "{data: phrasebook, epochs: 1, phrasebook: {train: 9, dev: 6, test: 6}}",
    "pawsx": f"{{{files('tsv', *ALL)}, epochs: 1}}",
    "mlqa": f"{{data: phrasebook, {ASKED}, phrasebook: {{train: 6, dev: 4, test: 4}}}}",
    "ner": "{data: phrasebook, epochs: 1, phrasebook: {train: 8, dev: 4, test: 4}}",
    "pos": "{data: phrasebook, epochs: 1, phrasebook: {train: 8, dev: 4, test: 4}}",
    "slots": "{data: phrasebook, epochs: 1, phrasebook: {train: 8, dev: 4, test: 4}}",
    "classification": (
        "{columns: {first: sentence1, second: sentence2}, labels: [no, yes], epochs: 1,"
        f" {files('tsv', *ALL)}}}"
    ),
    "bitext_mining": (
        "{data: {dev: {text: 'mined.{side}', gold: mined.gold},"
        " test: {text: 'mined.{side}', gold: mined.gold}}}"
    ),
    "tagging": f"{{scheme: plain, {files('tags', *ALL)}, epochs: 1}}",
    "massive_slots": f"{{{files('slots', *ALL)}, {CODES}}}",
    "tydiqa": f"{{{files('json', 'test')}, {CODES}, max_length: 96}}",
    "belebele": f"{{{files('jsonl', *ALL)}, {CODES}}}",
    "spans": f"{{{files('json', *ALL)}, {ASKED}}}",
}
"""The smallest options of every task of the catalogue."""


def write_task_files(root):
    """Write the files that `TASKS` name: a few sentences of German and English in every format."""
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
            texts = {place: TEXTS[lang][place] for place in places}
            rows = [
                f"{place}\t{text}\t{texts[places[-k % 2]]}\t{k % 2}\n"
                for k, (place, text) in enumerate(texts.items())
            ]
            words = [text.split() for text in texts.values()]
            tags = "\n".join("".join(f"{word} T{len(word) % 2}\n" for word in row) for row in words)
            choices = [
                {"passage": text, "question": "What?", "options": list("abcd"), "answer": "ABCD"[k]}
                for k, text in enumerate(texts.values())
            ]
            asked = [
                (text, (f"{split}{place}", "What?", (text.split()[0], 0)))
                for place, text in texts.items()
            ]
            for suffix, text in {
                "tsv": "id\tsentence1\tsentence2\tlabel\n" + "".join(rows),
                "tags": tags,
                "slots": re.sub(r" T\d", " B-time", tags),
                "jsonl": "\n".join(map(json.dumps, choices)),
                "json": squad(*asked),
            }.items():
                (root / f"{split}.{lang}.{suffix}").write_text(text, encoding="utf-8")
