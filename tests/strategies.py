"""Hypothesis strategies: valid grid files, as data and as YAML text with the keys in any order."""

from __future__ import annotations

import io
from typing import Any

from hypothesis import strategies as st
from ruamel.yaml import YAML

from raxalign.config import published
from raxalign.languages import language
from raxalign.pairing.symmetrize import HEURISTICS

PIVOT = "en"
NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,9}", fullmatch=True)
LANGUAGES = ["de", "fr", "tr", "zh", "ja", "th", "ha", "am", "yo", "iw", "xyz"]
LANGUAGES += ["zh-Hant", "pt-BR", "sr-Latn", "swh_Latn"]
LANGUAGE_LISTS = st.lists(st.sampled_from(LANGUAGES), min_size=1, max_size=4, unique=True)
PLACES = st.sampled_from(["data/{lang}-{pivot}", "../data/europarl", "/data/{lang}", "x"])


def axes(values: st.SearchStrategy[Any], *, most: int = 3) -> st.SearchStrategy[Any]:
    """One value, or a list of different ones."""
    return st.one_of(values, st.lists(values, min_size=1, max_size=most, unique=True))


def optional(**entries: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """A mapping with any of the entries."""
    return st.fixed_dictionaries({}, optional=entries)


NAMED = ["bert-base-multilingual-cased", "xlm-roberta-base", "./encoder", "../encoders/mini"]
ENCODERS = st.one_of(
    st.sampled_from(NAMED),
    optional(steps=st.integers(1, 5_000), seed=st.integers(0, 9)).map(
        lambda entries: {"kind": "scratch", **entries}
    ),
)
SPLITS = optional(test=st.integers(1, 5_000), dev=st.integers(0, 5_000))
CORPORA = st.fixed_dictionaries(
    {"source": st.just("moses"), "path": PLACES},
    optional={
        "split": SPLITS,
        "overlap": st.sampled_from(["drop", "keep"]),
        "shortage": st.sampled_from(["refuse", "use-all"]),
        "max_words": st.integers(1, 500),
        "segmentation": st.sampled_from(["characters", "words"]),
    },
)
PAIRS = st.fixed_dictionaries(
    {"aligner": st.sampled_from(["eflomal", "fast_align"])},
    optional={
        "symmetrization": st.sampled_from(HEURISTICS),
        "one_to_one": st.sampled_from([True, False, "first"]),
        "align_on": st.sampled_from(["own", "largest"]),
    },
)
ROTATIONS = st.fixed_dictionaries(
    {"kind": st.just("rotation")},
    optional={
        "center": axes(st.booleans()),
        "pooling": axes(st.sampled_from(["first", "last", "mean", "sum"])),
        "layers": axes(st.sampled_from(["last", "3", "1-4"])),
        "dictionary": axes(st.sampled_from(["a/{lang}.txt", "b/{lang}-{pivot}.txt"])),
    },
)
METHODS = st.dictionaries(
    NAMES, st.one_of(st.just({"kind": "none"}), ROTATIONS), min_size=1, max_size=3
)
RETRIEVALS = st.fixed_dictionaries(
    {"kind": st.just("retrieval")},
    optional={"k": st.integers(1, 20), "measure": st.sampled_from(["csls", "cosine"])},
)
RUNS = optional(
    workers=st.integers(1, 8),
    gpus_per_worker=st.sampled_from([0, 0.5, 1]),
    threads=st.integers(1, 8),
    storage=st.sampled_from(["s3://bucket/raxalign", "store", "/store"]),
    max_failures=st.integers(0, 5),
)


@st.composite
def grids(draw: st.DrawFn) -> dict[str, Any]:
    """A valid grid as data, its keys in any order."""
    languages = draw(LANGUAGE_LISTS)
    corpus = draw(CORPORA)
    if any(not language(lang).spaced and not language(lang).segmenter for lang in languages):
        corpus.pop("segmentation", None)  # there are no words without a segmenter
    entries = {
        "name": draw(NAMES),
        "encoder": draw(ENCODERS),
        "languages": {draw(st.sampled_from(["together", "each"])): languages},
        "corpus": corpus,
        "sentences": draw(axes(st.integers(1, 1_000_000))),
        "methods": draw(METHODS),
        "tasks": draw(st.dictionaries(NAMES, RETRIEVALS, min_size=1, max_size=2)),
    }
    more = optional(
        pivot=st.just(PIVOT),
        text=st.just({"source": "parallel"}),
        pairs=PAIRS,
        seeds=axes(st.integers(0, 10_000)),
        published=st.lists(st.sampled_from(published.names()), max_size=2, unique=True),
        run=RUNS,
        exclude=st.just([{"method": next(iter(entries["methods"])), "language": languages[0]}]),
    )
    entries |= draw(more)
    return {name: entries[name] for name in draw(st.permutations(list(entries)))}


def to_yaml(data: Any) -> str:
    """YAML text, block style, the keys in the order of the data."""
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    stream = io.StringIO()
    yaml.dump(data, stream)
    return stream.getvalue()
