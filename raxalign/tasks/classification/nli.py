"""How the data of XNLI and MultiNLI is written, for every task that reads it."""

from __future__ import annotations

from collections.abc import Mapping

from raxalign.tasks.classification.scheme import Columns, LabelScheme

XNLI = "facebook/xnli"
"""The data set of the hub."""
LABELS = ("entailment", "neutral", "contradiction")  # numbered as in the hub's data sets
ALIASES: Mapping[str, str] = {"contradictory": "contradiction"}
COLUMNS = Columns(
    first=("sentence1", "premise"),
    second=("sentence2", "hypo", "hypothesis"),
    label=("gold_label", "label"),
    id="pairID",
    group="promptID",
)
SCHEME = LabelScheme("xnli", COLUMNS, LABELS, ALIASES)
"""The data without a task of its own."""
