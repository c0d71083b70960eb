"""The sentence pairs that trainings used (Pan et al. 2021, Table 1)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, final

from raxalign.analysis.cells import Cell, Value
from raxalign.grid.plan import Plan
from raxalign.grid.stage import Stage
from raxalign.grid.trial import Trial
from raxalign.report.document import Entry, Line, Part, Share, Table, caption
from raxalign.report.sections.base import Fill, Measure, Section
from raxalign.store.storage import Storage


@final
class TrainingPairs(Section):
    """Sentence pairs of the training text per language: a table, where a corpus has fewer than were
    asked for; it also fills the published tables that say ``analysis: training_pairs``.
    """

    VERSION = 1
    place = 70

    def share(self) -> Share | None:
        """Return the table; None where no stored corpus has fewer pairs than were asked for."""
        storage, kept = self.material.storage, defaultdict[int, dict[str, int]](dict)
        for stage in self.material.plan.stages.values() if storage is not None else ():
            assert storage is not None
            if (count := _training_text(stage, storage)) is not None:
                kept[int(str(stage.params["sentences"]))][str(stage.params["lang"])] = count
        if not any(found < size for size, langs in kept.items() for found in langs.values()):
            return None
        langs = tuple(dict.fromkeys(lang for found in kept.values() for lang in found))
        lines = []
        for size, found in sorted(kept.items()):
            cells = [Entry(f"{found[lang]:,}") if lang in found else Entry.EMPTY for lang in langs]
            lines.append(Line(f"{size:,}", (*cells, Entry(f"{sum(found.values()):,}"))))
        columns, corner = (*langs, "total"), "asked for"
        about = caption("training_text")
        table = Table("", "Training text", columns, tuple(lines), about, corner=corner)
        return self.one_part(Part("analyses", "Analyses"), tables=[table])

    def measures(self) -> Mapping[str, Measure]:
        """Return the pairs that a cell's training used, per language and in all."""
        plan, storage = self.material.plan, self.material.storage
        # as published tables call it
        return {} if storage is None else {"training_pairs": lambda c: _fill(plan, storage, c)}


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
    return Fill({**values, "total": total}, f"The total is over {', '.join(plan.ordered(found))}.")


def _used(plan: Plan, storage: Storage, trial: Trial) -> dict[str, int]:
    """Language -> the pairs that a trial's method records to have used, or else reads."""
    aligned = plan.aligned(trial)
    made = (storage.manifest_of("aligned", key) for key in aligned)
    manifest = next((found for found in made if found is not None), None)
    notes: Mapping[str, Any] = manifest.notes if manifest is not None else {}
    counts = [notes.get(lang) for lang in trial.languages]
    used = [count.get("sentences") for count in counts if isinstance(count, Mapping)]
    if len(used) == len(counts) and all(isinstance(count, int) for count in used):
        return {lang: int(n or 0) for lang, n in zip(trial.languages, used, strict=True)}
    # not what the encoder itself reads: its own training may have read the same text
    inputs = [item for key in aligned for item in plan.stages[key].inputs.items()]
    read = plan.closure([key for name, key in inputs if name != "encoder"])
    return {
        str(stage.params["lang"]): count
        for stage in map(plan.stages.__getitem__, read)
        if stage.params.get("sentences") == trial.sentences
        and (count := _training_text(stage, storage)) is not None
    }


def _training_text(stage: Stage, storage: Storage) -> int | None:
    """The pairs that are recorded of a stage of training text; else None."""
    if stage.kind != "bitext" or stage.params["part"] != "training":
        return None
    manifest = storage.artifacts.manifests([(stage.kind, stage.key)]).get(stage.key)
    with suppress(LookupError, TypeError):
        notes: Any = manifest.notes if manifest is not None else {}
        kept = notes["counts"]["training"]["kept"]
        return kept if isinstance(kept, int) else None
    return None
