"""The rows that the package carries: what is promised of sentences, links and labelled examples."""

from __future__ import annotations

import hashlib
from collections import Counter
from itertools import permutations
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from raxalign.catalog import catalog
from raxalign.corpora.base import CorpusInputs, SentencePair
from raxalign.corpora.phrasebook import Phrasebook
from raxalign.corpora.phrases.rows import FILE, LANGS, held, links, read, record, sentences, tagged
from raxalign.errors import DataError

CONTENT = {"NOUN", "PROPN", "VERB", "ADJ", "NUM", "ADV"}
MOST_BYTES = 4_000_000
TYPES = {
    "ner": {"LOC", "ORG", "PER"},
    "slots": {
        *("artist", "city", "cuisine", "date", "genre", "goal", "hour", "origin", "people"),
        "person",
    },
}


def pairs(lang: str, pivot: str = "en", size: int = 200, seed: int = 0) -> list[SentencePair]:
    corpus = Phrasebook(Phrasebook.Params(size=size, seed=seed))
    return list(corpus.read(lang, pivot, CorpusInputs({}, Path())))


def rows(kind: str, split: str, lang: str = "en") -> list[list[str]]:
    return [cells for (cells,) in read(kind, split, (lang,), range(held(kind)[split]))]


def test_the_file_is_the_one_that_its_record_describes_and_is_small() -> None:
    content = FILE.read_bytes()
    assert len(content) < MOST_BYTES
    assert hashlib.sha256(content).hexdigest() == record()["sha256"]
    meta = pq.ParquetFile(FILE).metadata
    found: dict[str, dict[str, int]] = {}
    for group in (meta.row_group(i) for i in range(meta.num_row_groups)):
        kind, part = (group.column(i).statistics.min for i in range(2))
        found.setdefault(kind, {})[part] = group.num_rows
    assert found == record()["rows"]


def test_there_are_as_many_rows_as_the_defaults_ask_for() -> None:
    assert Phrasebook.Params().size <= held("sentences")["0"]
    for kind in record()["rows"].keys() - {"sentences", "text"}:
        task = catalog("tasks")[kind]
        assert held(kind) == task.Params(data="phrasebook").phrasebook.model_dump()


def test_the_same_id_is_the_same_sentence_in_all_languages() -> None:
    by_lang = {lang: pairs(lang) for lang in LANGS if lang != "en"}
    for found in by_lang.values():
        assert [pair.id for pair in found] == list(range(200))
        assert [pair.target for pair in found] == [pair.target for pair in by_lang["de"]]
    crossed = pairs("bg", "el")
    assert [pair.source for pair in crossed] == [pair.source for pair in by_lang["bg"]]
    assert [pair.target for pair in crossed] == [pair.source for pair in by_lang["el"]]


def test_smaller_sizes_are_prefixes_and_seeds_differ() -> None:
    assert pairs("fr", size=50) == pairs("fr", size=200)[:50]
    assert [p.target for p in pairs("fr", seed=1)] != [p.target for p in pairs("fr")]


def test_all_sentences_are_different_in_english() -> None:
    count = held("sentences")["0"]
    assert len({own.words for (own,) in sentences(("en",), count)}) == count


def test_every_content_word_is_linked_and_links_are_in_range() -> None:
    for row in sentences(LANGS, 620):
        for source, target in permutations(row, 2):
            found = links(source.senses, target.senses)
            linked = {i for i, _ in found}
            assert all(i < len(source.words) and 0 <= j < len(target.words) for i, j in found)
            missing = [
                word
                for i, word in enumerate(source.words)
                if source.tags[i] in CONTENT and i not in linked
            ]
            assert not missing, (source.words, target.words)


def test_words_that_are_parts_link_to_the_whole() -> None:
    """She slept, `durmió`: a pronoun that is dropped belongs to the verb; `im` is `in the`."""
    assert links(((0,), (200,)), ((200, 0),)) == ((0, 0), (1, 0))
    assert links(((305,), (301,), (300,)), ((305, 301), (300,))) == ((0, 0), (1, 0), (2, 1))
    assert links(((201,), (200,)), ((200,),)) == ((0, 0), (1, 0))


def test_each_word_has_a_tag_and_senses() -> None:
    for row in sentences(LANGS, 1_000, seed=1):
        for own in row:
            assert len(own.words) == len(own.tags) == len(own.senses)
            assert all(own.words)


def test_an_unknown_language_names_the_six() -> None:
    with pytest.raises(DataError, match="en, de, es, fr, bg, el"):
        Phrasebook(Phrasebook.Params()).read("nl", "en", CorpusInputs({}, Path()))


@pytest.mark.parametrize("asked", [{"size": 20_000}, {"seed": 7}, {"seed": 1, "size": 4_000}])
def test_more_sentences_than_there_are_are_refused_with_what_there_is(asked) -> None:
    with pytest.raises(ValidationError, match=r"13,000 with seed 0 and 3,000 with seed 1.*moses"):
        Phrasebook.Params(**asked)


def test_more_rows_of_a_task_than_there_are_are_refused_with_what_there_is() -> None:
    kind = catalog("tasks")["xnli"]
    task = kind(kind.Params(data="phrasebook", phrasebook={"train": 5_000}))
    (fault,) = task.check(("de",), "en")
    assert "phrasebook.train: there are 3,000 rows for this task, not 5,000" in fault
    with pytest.raises(DataError, match="has 3,000 rows of xnli train, not 5,000"):
        read("xnli", "train", ("en",), range(5_000))


def test_an_unknown_split_is_refused() -> None:
    with pytest.raises(DataError, match="use train, dev, test"):
        read("xnli", "validation", ("en",), range(3))


def test_entailment_is_balanced_in_every_prefix_and_parallel_by_place() -> None:
    labels = [label for _, _, label in rows("xnli", "train")]
    for n in (30, 300):
        assert set(Counter(labels[:n]).values()) == {n // 3}
    for lang in LANGS:
        assert [label for _, _, label in rows("xnli", "train", lang)] == labels


@pytest.mark.parametrize(("kind", "place"), [("xnli", 1), ("ner", 0), ("slots", 0), ("mlqa", 0)])
def test_no_hypothesis_sentence_or_context_is_in_two_splits(kind, place) -> None:
    train, dev, test = ({row[place] for row in rows(kind, s)} for s in ("train", "dev", "test"))
    assert not train & test
    assert not train & dev
    assert not dev & test


@pytest.mark.parametrize("kind", ["ner", "slots"])
def test_tags_are_valid_bio_and_the_same_spans_in_all_languages(kind) -> None:
    types: set[str] = set()
    for row in zip(*(tagged(kind, 150, lang, "train") for lang in LANGS), strict=True):
        spans = [Counter(tag[2:] for tag in tags if tag[0] == "B") for _, tags in row]
        assert all(found == spans[0] for found in spans), row
        types |= set(spans[0])
        for words, tags in row:
            assert len(words) == len(tags)
            assert all(
                tag[0] != "I" or (k > 0 and tags[k - 1][2:] == tag[2:])
                for k, tag in enumerate(tags)
            )
    assert types == TYPES[kind]


def test_answers_stand_in_their_contexts() -> None:
    for lang in LANGS:
        for context, question, answer, start in rows("mlqa", "test", lang):
            assert question
            assert answer
            assert context[int(start) :].startswith(answer)
    english = [question.split()[0] for _, question, _, _ in rows("mlqa", "test")[:3]]
    assert english == ["Who", "Where", "What"]
