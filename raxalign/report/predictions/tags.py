"""Parts of speech of the pivot's words, as far as the storage and the data have them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from raxalign.analysis.retrieval_bins import (
    majority_tags,
    spacy_tags,
    tags_of_places,
    tags_of_types,
)
from raxalign.errors import DependencyError
from raxalign.store.storage import Storage

if TYPE_CHECKING:
    import pyarrow as pa

    from raxalign.plan.plan import Plan
    from raxalign.plan.stage import Stage

Tagger = Callable[["pa.Table"], Sequence[str | None]]
"""Predictions of one language to a part of speech for each row, of the pivot's word."""


def pivot_tags(plan: Plan, storage: Storage) -> tuple[str, Tagger] | None:
    """Return how the pivot's words are tagged, in words, and the tagger: the phrasebook's own tags,
    or of each form the most frequent one in the treebank files of the grid's tagging task, or
    spaCy's where it is installed with its small model of the pivot; None where there is none.
    """
    books = [
        stage
        for stage in plan.stages.values()
        if stage.kind == "bitext" and stage.params.get("part") == "heldout"
    ]
    if books and all(stage.maker == "phrasebook" for stage in books):
        return "the phrasebook's own", _of_phrasebook(books[0], plan.pivot)
    files = _treebanks(plan)
    if not files:
        return _of_spacy(plan, storage)
    from raxalign.tasks.tagging.reading import read_tagged
    from raxalign.tasks.tagging.scheme import UNIVERSAL

    rows = (row for file in files for row in read_tagged(file, scheme=UNIVERSAL).rows)
    lexicon = majority_tags((row.words, row.tags) for row in rows)
    names = " and ".join(file.name for file in files)
    return f"the most frequent one of each form in {names}", lambda table: tags_of_types(
        table, "tgt", lexicon
    )


def _of_phrasebook(stage: Stage, pivot: str) -> Tagger:
    from raxalign.corpora.phrases.rows import sentences

    corpus = stage.params["corpus"]
    seed = int(str(corpus.get("seed", 0))) if isinstance(corpus, Mapping) else 0

    def tags(table: pa.Table) -> Sequence[str | None]:
        count = max(table["id"].to_pylist(), default=-1) + 1
        said = enumerate(sentences((pivot,), count, seed))
        return tags_of_places(table, "tgt", {id_: own.tags for id_, (own,) in said})

    return tags


def _of_spacy(plan: Plan, storage: Storage) -> tuple[str, Tagger] | None:
    """By spaCy, in their sentences, which are the held-out ones in the storage; every language pair
    may have others.
    """
    if find_spec("spacy") is None:
        return None
    from raxalign.corpora.text.dataset import read_table

    store = storage.artifacts
    model = f"{plan.pivot}_core_{'web' if plan.pivot in ('en', 'zh') else 'news'}_sm"
    tagged: dict[str, dict[int, list[str]]] = {}
    for key, stage in plan.stages.items():
        heldout = stage.kind == "pairs" and stage.params.get("part") == "heldout"
        if heldout and store.has("pairs", key):
            table = read_table(store.open("pairs", key) / "data")
            sentences = dict(zip(table["id"].to_pylist(), table["tgt"].to_pylist(), strict=True))
            try:
                tagged[f"{stage.params['lang']}-{plan.pivot}"] = spacy_tags(sentences, model)
            except DependencyError:  # no model of the pivot: the table is for who has it
                return None
    if not tagged:
        return None
    return f"by spaCy ({model})", lambda table: tags_of_places(
        table, "tgt", tagged.get(table["lang"][0].as_py(), {}) if len(table) else {}
    )


def _treebanks(plan: Plan) -> list[Path]:
    """The CoNLL-U files of the pivot that a tagging task of the plan names."""
    files = [
        Path(place)
        for stage in plan.stages.values()
        if stage.kind == "evaluation"
        for name, place in stage.locations.items()
        if name.rpartition("/")[2] == plan.pivot and str(place).endswith(".conllu")
    ]
    return [file for file in dict.fromkeys(files) if file.is_file()]
