"""Published data sets of tagged sentences, as options of the task `tagging`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

TagPresetName = Literal["masakhaner", "panx"]


@dataclass(frozen=True)
class TagPreset:
    """One data set of entities: its name on the hub, the branch that has its rows as files, its
    types of entities, and its licence.
    """

    dataset: str
    revision: str
    labels: tuple[str, ...]
    licence: str


PRESETS: Mapping[TagPresetName, TagPreset] = {
    "masakhaner": TagPreset(
        "masakhane/masakhaner2",
        "refs/convert/parquet",
        ("PER", "LOC", "ORG", "DATE"),
        "AFL 3.0; its texts are news for research",
    ),
    "panx": TagPreset("unimelb-nlp/wikiann", "main", ("PER", "ORG", "LOC"), "ODC-BY"),
}
"""MasakhaNER 2.0: news in 20 African languages (Adelani et al. 2022); it has no English, so that
training data is named in `data`, or the pivot is one of its languages. PAN-X: WikiANN as XTREME has
it (Pan et al. 2017, Rahimi et al. 2019). Both are scored by entity F1.
"""
