"""Tasks of a user's own, derived from mteb's classes; the tests name this file as `definitions`."""

from __future__ import annotations

from typing import Any, ClassVar

from datasets import Dataset, DatasetDict
from mteb.abstasks import AbsTaskClassification
from mteb.abstasks.clustering import AbsTaskClustering
from mteb.abstasks.task_metadata import TaskMetadata
from mteb.abstasks.text.bitext_mining import AbsTaskBitextMining

from tests.tasks.own_mteb_texts import ENGLISH, GERMAN


def described(name: str, kind: str, score: str, languages: Any) -> TaskMetadata:
    return TaskMetadata(
        name=name,
        type=kind,
        main_score=score,
        eval_langs=languages,
        description="Sentences of tests.",
        reference="https://example.org",
        dataset={"path": "in this file", "revision": "1"},
        category="t2t",
        modalities=["text"],
        eval_splits=["test"],
        date=("2026-01-01", "2026-01-01"),
        domains=[],
        task_subtypes=[],
        license="cc0-1.0",
        annotations_creators="derived",
        dialect=[],
        sample_creation="created",
        bibtex_citation="",
    )


class OwnPairs(AbsTaskBitextMining):
    """Both sides in columns whose names mteb does not pass on, the pivot's column first."""

    metadata = described(
        "OwnPairs", "BitextMining", "accuracy", {"de-en": ["deu-Latn", "eng-Latn"]}
    )

    def load_data(self, **_: Any) -> None:
        rows = Dataset.from_dict({"sentence2": ENGLISH, "sentence1": GERMAN})
        self.dataset = {"de-en": DatasetDict(test=rows)}
        self.data_loaded = True


class OwnMirror(OwnPairs):
    """The same texts on both sides."""

    metadata = described("OwnMirror", "BitextMining", "f1", {"de-en": ["deu-Latn", "eng-Latn"]})

    def load_data(self, **_: Any) -> None:
        rows = Dataset.from_dict({"sentence1": GERMAN, "sentence2": GERMAN})
        self.dataset = {"de-en": DatasetDict(test=rows)}
        self.data_loaded = True


class OwnTopics(AbsTaskClassification):
    """Whether a sentence has a dog, in two languages."""

    metadata = described(
        "OwnTopics", "Classification", "accuracy", {"de": ["deu-Latn"], "en": ["eng-Latn"]}
    )
    n_experiments = 2
    samples_per_label = 2

    def load_data(self, **_: Any) -> None:
        self.dataset = {}
        for lang, texts in (("de", GERMAN), ("en", ENGLISH)):
            labels = [int("Hund" in text or "dog" in text) for text in texts]
            rows = Dataset.from_dict({"text": texts * 2, "label": labels * 2})
            self.dataset[lang] = DatasetDict(train=rows, test=rows.select(range(5)))
        self.data_loaded = True


class OwnGroups(AbsTaskClustering):
    """Clusters, for which mteb has no score per example."""

    metadata = described("OwnGroups", "Clustering", "v_measure", ["deu-Latn"])
    max_document_to_embed = 10
    max_fraction_of_documents_to_embed: ClassVar[None] = None

    def load_data(self, **_: Any) -> None:
        rows = Dataset.from_dict({"sentences": GERMAN, "labels": [0, 1, 2, 0, 1]})
        self.dataset = DatasetDict(test=rows)
        self.data_loaded = True
