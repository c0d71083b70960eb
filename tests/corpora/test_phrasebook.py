"""The rows that the package carries: what is promised of sentences, links and labelled examples."""

import hashlib
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from raxalign.catalog import catalog
from raxalign.corpora.base import CorpusInputs
from raxalign.corpora.phrasebook import FILE, LANGS, PhrasebookCorpus, held, links, read, record
from raxalign.errors import DataError

CONTENT = {"NOUN", "PROPN", "VERB", "ADJ", "NUM", "ADV"}
MOST_BYTES = 4_000_000
CHECKED = "1f9590b630975d3515a9b6fade23e244f61526c16d5f6d3ca3e26c730694baf2"
"""The rows that were checked once: sentences are different and their content words linked, each
word has a tag and senses, entailment is balanced and the same in all languages, no context,
hypothesis or tagged sentence is in two splits, tags are BIO with the same spans in all languages,
and answers stand in their contexts. Another file is checked anew (see the history of this test).
"""


def pairs(lang, pivot="en", size=200, seed=0):
    corpus = PhrasebookCorpus(PhrasebookCorpus.Params(size=size, seed=seed))
    return list(corpus.read(lang, pivot, CorpusInputs({}, Path())))


def test_the_file_is_the_one_that_its_record_describes_and_is_small():
    content = FILE.read_bytes()
    assert len(content) < MOST_BYTES
    assert hashlib.sha256(content).hexdigest() == record()["sha256"] == CHECKED
    meta = pq.ParquetFile(FILE).metadata
    found = {}
    for group in (meta.row_group(i) for i in range(meta.num_row_groups)):
        kind, part = (group.column(i).statistics.min for i in range(2))
        found.setdefault(kind, {})[part] = group.num_rows
    assert found == record()["rows"]


def test_there_are_as_many_rows_as_the_defaults_ask_for():
    assert PhrasebookCorpus.Params().size <= held("sentences")["0"]
    for kind in record()["rows"].keys() - {"sentences", "text"}:
        task = catalog("tasks")[kind]
        assert held(kind) == task.Params(data="phrasebook").phrasebook.model_dump()


def test_the_same_id_is_the_same_sentence_in_all_languages():
    by_lang = {lang: pairs(lang) for lang in LANGS if lang != "en"}
    for found in by_lang.values():
        assert [pair.id for pair in found] == list(range(200))
        assert [pair.target for pair in found] == [pair.target for pair in by_lang["de"]]
    crossed = pairs("bg", "el")
    assert [pair.source for pair in crossed] == [pair.source for pair in by_lang["bg"]]
    assert [pair.target for pair in crossed] == [pair.source for pair in by_lang["el"]]


def test_smaller_sizes_are_prefixes_and_seeds_differ():
    assert pairs("fr", size=50) == pairs("fr", size=200)[:50]
    assert [p.target for p in pairs("fr", seed=1)] != [p.target for p in pairs("fr")]


def test_words_that_are_parts_link_to_the_whole():
    """She slept, `durmió`: a pronoun that is dropped belongs to the verb; `im` is `in the`."""
    assert links(((0,), (200,)), ((200, 0),)) == ((0, 0), (1, 0))
    assert links(((305,), (301,), (300,)), ((305, 301), (300,))) == ((0, 0), (1, 0), (2, 1))
    assert links(((201,), (200,)), ((200,),)) == ((0, 0), (1, 0))


def test_more_than_there_is_and_what_is_not_known_are_refused_with_what_there_is():
    for asked in ({"size": 20_000}, {"seed": 7}, {"seed": 1, "size": 4_000}):
        with pytest.raises(ValidationError, match=r"13,000 with seed 0 and 3,000 with seed 1.*mos"):
            PhrasebookCorpus.Params(**asked)
    with pytest.raises(DataError, match="en, de, es, fr, bg, el"):
        pairs("nl")
    with pytest.raises(DataError, match="use train, dev, test"):
        read("xnli", "validation", ("en",), range(3))


def test_more_rows_of_a_task_than_there_are_are_refused_with_what_there_is():
    kind = catalog("tasks")["xnli"]
    task = kind(kind.Params(data="phrasebook", phrasebook={"train": 5_000}))
    (fault,) = task.check(("de",), "en")
    assert "phrasebook.train: there are 3,000 rows for this task, not 5,000" in fault
    with pytest.raises(DataError, match="has 3,000 rows of xnli train, not 5,000"):
        read("xnli", "train", ("en",), range(5_000))
