"""Every task of the catalogue with its smallest options, and the files that these name."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.families.sentences import TEXTS, sentences

OWN_MTEB_TASKS = Path(__file__).with_name("own_mteb_tasks.py")

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
