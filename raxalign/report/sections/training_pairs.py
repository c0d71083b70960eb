"""The sentence pairs that trainings used (Pan et al. 2021, Table 1)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, final

from raxalign.analysis.cells import Cell, Value
from raxalign.plan.names import ordered
from raxalign.report.document import EMPTY, Entry, Line, Part, Share, Table
from raxalign.report.sections.base import Fill, Measure, Section

if TYPE_CHECKING:
    from raxalign.plan.plan import Plan
    from raxalign.plan.stage import Stage
    from raxalign.plan.trial import Trial
    from raxalign.store.storage import Storage

_MEASURE = "training_pairs"  # as published tables call it


@final
class TrainingPairs(Section):
    """Sentence pairs of the training text per language: a table, where a corpus has fewer than were
    asked for; it also fills the published tables that say ``analysis: training_pairs``.
    """

    VERSION = 1
    place = 70

    def share(self) -> Share | None:
        """Return the table; None where every corpus has as many pairs as were asked for, or where
        the storage does not have the text.
        """
        storage = self.material.storage
        kept = _kept(self.material.plan, storage) if storage is not None else {}
        if not any(found < size for size, langs in kept.items() for found in langs.values()):
            return None
        langs = tuple(dict.fromkeys(lang for found in kept.values() for lang in found))
        caption = (
            "Sentence pairs that were kept for training, by the number that was asked for. A"
            " language without a figure has no training text of that size in the storage."
        )
        lines = []
        for size, found in sorted(kept.items()):
            cells = [Entry(f"{found[lang]:,}") if lang in found else EMPTY for lang in langs]
            lines.append(Line(f"{size:,}", (*cells, Entry(f"{sum(found.values()):,}"))))
        table = Table(
            "", "Training text", (*langs, "total"), tuple(lines), caption, corner="asked for"
        )
        return Part("analyses", "Analyses", tables=(table,)).alone()

    def measures(self) -> Mapping[str, Measure]:
        """Return the pairs that a cell's training used, per language and in all, under
        `training_pairs`.
        """
        plan, storage = self.material.plan, self.material.storage
        return {} if storage is None else {_MEASURE: lambda cell: _fill(plan, storage, cell)}


def _fill(plan: Plan, storage: Storage, cell: Cell) -> Fill | None:
    """The pairs of a cell, each language by the first of its trials that the storage has."""
    found: dict[str, int] = {}
    for key in cell.trials:
        trial = plan.by_key[key]
        if not found.keys() >= set(trial.languages):
            found = {**_used(plan, storage, trial), **found}
    if not found:
        return None
    values = {lang: Value(count, None, 1) for lang, count in found.items()}
    total = Value(sum(found.values()), None, 1)
    return Fill({**values, "total": total}, f"The total is over {', '.join(ordered(found, plan))}.")


def _used(plan: Plan, storage: Storage, trial: Trial) -> dict[str, int]:
    """Language -> the pairs that a trial's method records to have used, which leaves out those that
    are too short or too long for it; else the pairs of its training text.
    """
    made = (storage.manifest_of("aligned", key) for key in plan.aligned(trial))
    manifest = next((found for found in made if found is not None), None)
    if manifest is not None:
        notes: Mapping[str, Any] = manifest.notes
        counts = {lang: notes.get(lang) for lang in trial.languages}
        used = {
            lang: int(count["sentences"])
            for lang, count in counts.items()
            if isinstance(count, Mapping) and "sentences" in count
        }
        if len(used) == len(counts):
            return used
    return {
        str(stage.params["lang"]): count
        for stage in _read_by_method(plan, trial)
        if stage.params.get("sentences") == trial.sentences
        and (count := _training_text(stage, storage)) is not None
    }


def _read_by_method(plan: Plan, trial: Trial) -> list[Stage]:
    """The stages that a trial's method reads, without those of the encoder itself, whose own
    training may have read the same text.
    """
    aligned = (plan.stages[key].inputs for key in plan.aligned(trial))
    read = [key for inputs in aligned for name, key in inputs.items() if name != "encoder"]
    return [plan.stages[key] for key in plan.closure(read)]


def _kept(plan: Plan, storage: Storage) -> dict[int, dict[str, int]]:
    """The size that was asked for -> language -> the pairs that were kept, as far as the storage
    has the text.
    """
    kept: dict[int, dict[str, int]] = defaultdict(dict)
    for stage in plan.stages.values():
        count = _training_text(stage, storage)
        if count is not None:
            kept[int(str(stage.params["sentences"]))][str(stage.params["lang"])] = count
    return kept


def _training_text(stage: Stage, storage: Storage) -> int | None:
    """The pairs of a stage that is training text; None for another one, one that is not stored, or
    one that does not record them.
    """
    if stage.kind != "bitext" or stage.params["part"] != "training":
        return None
    if not storage.artifacts.has(stage.kind, stage.key):
        return None
    notes: Mapping[str, Any] = storage.artifacts.manifest(stage.kind, stage.key).notes
    kept = notes.get("counts", {}).get("training", {}).get("kept")
    return None if kept is None else int(kept)
