"""Published data sets of labelled texts, as options of the task `classification`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from raxalign.tasks.classifiers.scheme import Columns

LabelPresetName = Literal["sib200", "massive_intents", "mldoc"]


@dataclass(frozen=True)
class LabelPreset:
    """One data set: its name on the hub (empty: it is not there), its columns, its labels in their
    order (none: those of the training data), and what a reader has to know of its licence.
    """

    dataset: str
    columns: Columns
    labels: tuple[str, ...] = ()
    licence: str = ""


PRESETS: Mapping[LabelPresetName, LabelPreset] = {
    "sib200": LabelPreset(
        "Davlan/sib200",
        Columns(first="text", label="category"),
        (
            *("science/technology", "travel", "politics", "sports", "health"),
            *("entertainment", "geography"),
        ),
        "CC BY-SA 4.0",
    ),
    "massive_intents": LabelPreset(
        "mteb/amazon_massive_intent", Columns(first="text", label="label_text"), (), "CC BY 4.0"
    ),
    "mldoc": LabelPreset(
        "",
        Columns(first="text", order=("label", "text")),
        ("CCAT", "ECAT", "GCAT", "MCAT"),
        "Reuters' own: the corpora RCV1 and RCV2 are given to researchers who ask for them",
    ),
}
"""SIB-200: topics of FLORES sentences in 205 languages (Adelani et al. 2024). MASSIVE: 60 intents
of requests in 51 languages (FitzGerald et al. 2023). MLDoc: four topics of news in 8 languages
(Schwenk and Li 2018), in the files that its program writes. All are scored by the accuracy.
"""
