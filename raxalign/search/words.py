"""The searches of a grid in words: what they may cost, how far they are, and what they
found; and what a grid chose on dev, run again with fresh seeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from raxalign.analysis.cells import Cell, Value
from raxalign.errors import RaxalignError
from raxalign.grid.estimates import duration
from raxalign.grid.load import Opened
from raxalign.grid.plan import Plan
from raxalign.grid.study import Study, StudyRecord, Tried
from raxalign.grid.trial import plain
from raxalign.printing import counted
from raxalign.store.storage import Storage
from raxalign.values.comparisons import baseline_cells
from raxalign.values.numbers import NumberFormat
from raxalign.values.results import dev_scores, rows
from raxalign.values.scoreboard import Scoreboard


def confirmed(opened: Opened, seeds: int) -> Opened:
    """Return a finished grid as one of what it chose: for each task, encoder and number of
    sentences the point of each method with the best mean on dev, and the baseline, with as many
    fresh seeds. It is named `<name>-confirmed`.

    Raises `RaxalignError` where it is not finished, or its searches confirm their points.
    """
    grid, ledger = opened.grid, opened.storage.ledger
    methods = tuple(spec for spec in grid.methods if spec.searched is None)
    if len(methods) < len(grid.methods):
        raise RaxalignError(
            f"{grid.path}: --confirm is for grids without a search: a search runs its best"
            " configurations again by itself (`search.confirm`)"
        )
    results = Scoreboard.of(rows(opened.plan, ledger), opened.plan, ledger)
    if told := results.lacking.short:
        first = f"nothing can be chosen yet: run `raxalign grid {grid.path.name}` first"
        raise RaxalignError(f"{grid.path}: {first}. {told}")
    chosen = list(baseline_cells(results.cells, results.plan))
    for task in results.tasks:
        chosen += [points[0] for points in results.points_of_methods(task)]
    kept = len(grid.seeds) - 1
    fresh = grid.fresh_seeds(kept + seeds)[kept:]
    again = replace(grid, name=f"{grid.name}-confirmed", seeds=fresh)
    return replace(opened, grid=again, cells=frozenset(cell.key for cell in chosen)).again()


class SearchReport:
    """The searches of a plan in words, by their records and the ledger of a storage."""

    def __init__(self, plan: Plan, storage: Storage) -> None:
        self._plan, self._storage = plan, storage

    def plan_lines(self) -> list[str]:
        """Return what the searches of a plan may still run, and how long where that is known."""
        lines = []
        for study in self._plan.studies:
            record = study.record(self._storage)
            spaces = ", ".join(space.told() for space in study.spaces)
            so_far = f", {len(record.tried)} tried" if record.tried else ""
            seeds = len(study.fresh_seeds)
            confirm = f", then the best configuration with {seeds} fresh seeds" if seeds else ""
            lines.append(
                f"search {study.about}: at most {_limit(study)}{so_far}{confirm}"
                f"{_time(study, record)} ({study.sampler} over {spaces})"
            )
            if study.unwatched:
                lines.append(f"  nothing can be pruned: {study.unwatched}")
            elif study.prunes:
                how = f"{study.objective.name} is measured at each dev selection"
                lines.append(f"  pruned by {study.pruner}: {how}")
        return lines

    def as_json(self) -> list[dict[str, Any]]:
        """Return the searches of a plan as `plan --format json` prints them."""
        return [
            {
                **{name: getattr(study, name) for name in ("name", "method", "encoder")},
                "languages": list(study.languages),
                "sentences": study.sentences,
                "metric": study.objective.name,
                "at_most": study.most,
                "seconds": study.seconds,
                "tried": len(record.tried),
                "pruned": len(record.pruned),
                "pruner": {"name": study.pruner, "cannot_act": study.unwatched or None},
                "confirm": list(study.fresh_seeds),
            }
            for study in self._plan.studies
            for record in [study.record(self._storage)]
        ]

    def status_lines(self) -> list[str]:
        """Return how far each search is, with the best point so far."""
        lines = []
        for study in self._plan.studies:
            record = self.measured(study)
            states: list[str] = [entry.state for entry in record.tried]
            counts = [f"{len(states)} of at most {_limit(study)}"]
            shown = ("running", "failed", "pruned")
            counts += [f"{n} {name}" for name in shown if (n := states.count(name))]
            counts += ["finished"] if record.finished else []
            best = record.chosen and f"; best {self._best_in_words(study, record.chosen)}"
            lines.append(f"search {study.about}: {', '.join(counts)}{best or ''}")
        return lines

    def best_lines(self, rows: Sequence[Mapping[str, Any]]) -> list[str]:
        """Return the best point of each search: its dev score, and the test scores of the runs that
        confirm it, which are among the rows of the plan.
        """
        lines = []
        for study in self._plan.studies:
            record = self.measured(study)
            pruned = f", {len(record.pruned)} more pruned" if record.pruned else ""
            count = f"{counted(len(record.done), 'trial')}{pruned}"
            count += "" if record.finished else ", not finished"
            best = "nothing yet"
            if (chosen := record.chosen) is not None:
                confirmed = self._confirmed(study, chosen, rows)
                best = f"{self._best_in_words(study, chosen)}; {confirmed}"
            lines += [f"{study.about} ({count}):", f"  {best}"]
        return lines

    def measured(self, study: Study) -> StudyRecord:
        """Return the record of a study with the scores that the ledger has of the trials of a plan:
        they are the truth, and what is best is so by them.
        """
        record = study.record(self._storage)
        asked = [a for a in self._plan.asked if a.study == study.name and not a.confirmed]
        trials = {
            a.number: self._plan.by_key[a.trial] for a in asked if a.trial in self._plan.by_key
        }

        def with_score(entry: Tried) -> Tried:
            trial = trials.get(entry.number)
            with suppress(RaxalignError):  # not in the ledger
                if trial is not None and entry.state == "done":
                    found = study.objective.of(
                        trial, dev_scores(self._plan, self._storage.ledger, trial)
                    )
                    return replace(entry, score=found)
            return entry

        tried = tuple(map(with_score, record.tried))
        return StudyRecord.of(study, tried, finished=record.finished)

    def confirming(self, study: Study, entry: Tried) -> set[str]:
        """Return the keys of the trials that run a chosen point again with fresh seeds."""
        return {
            asked.trial
            for asked in self._plan.asked
            if asked.confirmed and (asked.study, asked.number) == (study.name, entry.number)
        }

    def _confirmed(self, study: Study, chosen: Tried, rows: Sequence[Mapping[str, Any]]) -> str:
        """Return the test score of the runs with fresh seeds."""
        objective, asked = study.objective, self.confirming(study, chosen)
        name = (objective.task, objective.lang, objective.metric, "test")
        own = [r for r in rows if r.get("searched") == Cell.CONFIRMED and r["trial"] in asked]
        values = [
            row["value"]
            for row in own
            if (row["task"], row["lang"], row["metric"], row["split"]) == name
        ]
        if values:
            found = Value.of(values)
            shown = self._shown(study, found.mean, found.sd)
            return f"confirmed: {shown} on test over {found.n} seeds"
        ran = any(row["trial"] in asked for row in rows)
        return "confirmed on dev alone: its data has no test values" if ran else "not confirmed yet"

    def _best_in_words(self, study: Study, entry: Tried) -> str:
        assert entry.score is not None
        values = " ".join(f"{name}={plain(value)}" for name, value in entry.values.items())
        return f"{self._shown(study, entry.score)} on dev ({values})"

    def _shown(self, study: Study, value: float, sd: float | None = None) -> str:
        """A score as tables show it, with its spread where it has one: ``61.2 ± 0.4 %``."""
        objective = study.objective
        unit = NumberFormat.of(self._plan.measured(objective.task, objective.metric), (value,))
        spread = "" if sd is None else f" ± {unit.show(sd)}"
        return f"{objective.name} {unit.show(value)}{spread}{unit.sign and f' {unit.sign}'}"


def _limit(study: Study) -> str:
    """What a study may spend: ``40 trials``."""
    amounts = [counted(study.most, "trial")] if study.most is not None else []
    amounts += [f"{duration(study.seconds)} of worker time"] if study.seconds is not None else []
    return " or ".join(amounts)


def _time(study: Study, record: StudyRecord) -> str:
    timed = [entry.seconds for entry in record.tried if entry.seconds is not None]
    if not timed or study.most is None:
        return ""
    left = max(study.most - len(record.tried), 0)
    left += 0 if record.finished else len(study.fresh_seeds)
    return f", about {duration(left * sum(timed) / len(timed))} of worker time" if left else ""
