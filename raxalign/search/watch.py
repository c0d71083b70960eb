"""The watch of a training that its search may end early: through the journal in the storage alone,
so that one worker, a group and several drivers decide alike.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from raxalign.grid.plan import Plan
from raxalign.grid.stage import Stage
from raxalign.grid.study import Study
from raxalign.store.storage import Storage
from raxalign.train.runtime import Moment

if TYPE_CHECKING:
    from raxalign.search.journal import Journal


@dataclass(frozen=True)
class Watched:
    """The part of a trial that is watched: the evaluation that its search judges by, and the
    training before it. `languages` are those whose mean `metric` is the score, `numbers` those of
    the study's points that the trial runs.
    """

    study: Study
    numbers: tuple[int, ...]
    evaluation: Stage
    languages: tuple[str, ...]

    @classmethod
    def of(cls, plan: Plan, trial: str) -> Watched | None:
        """Return what is watched of a trial: what its study judges by. None where it is to be run
        whole: for the grid itself, to confirm, for a study that does not prune, or for several.
        """
        asked = [entry for entry in plan.asked if entry.trial == trial]
        names, confirms = {entry.study for entry in asked}, any(entry.confirmed for entry in asked)
        study = next((study for study in plan.studies if names == {study.name}), None)
        if plan.by_key[trial].searched is None or study is None or not study.prunes or confirms:
            return None
        objective = study.objective
        evaluation = plan.stages[plan.by_key[trial].evaluations[objective.task]]
        unseen = evaluation.unseen
        languages = tuple(lang for lang in evaluation.languages if lang not in unseen)
        if objective.lang == "avg_zero_shot":
            languages = tuple(lang for lang in languages if lang != evaluation.params["pivot"])
        elif objective.lang == "avg_unseen":
            languages = unseen
        elif objective.lang != "avg":
            languages = (objective.lang,)
        return cls(study, tuple(entry.number for entry in asked), evaluation, languages)

    @classmethod
    def pruned(cls, plan: Plan, trial: str, storage: Storage) -> str:
        """Return in words where a trial was pruned; nothing for one that was not."""
        watched = cls.of(plan, trial) if plan.studies else None
        if watched is None or all(map(storage.ledger.has, plan.by_key[trial].evaluations.values())):
            return ""
        stopped = watched.journal(storage).stopped(watched.numbers[0])
        return stopped[0] if stopped else ""

    def watch(self, storage: Storage) -> StudyWatch:
        """Return what ends the training where its study would."""
        return StudyWatch(self, storage)

    @property
    def training(self) -> str:
        """The key of the training."""
        return self.evaluation.inputs["trained"]

    def journal(self, storage: Storage) -> Journal:
        """Open the journal of the study."""
        from raxalign.search.journal import Journal  # Optuna, where a training is watched alone

        return Journal(storage, self.study)


class StudyWatch:
    """A watch that keeps the scores of a trial in the journal of its study, and ends the trial
    where the study's pruner would.
    """

    def __init__(self, watched: Watched, storage: Storage) -> None:
        self.languages, self.metric = watched.languages, watched.study.objective.metric
        self._numbers, self._journal = watched.numbers, watched.journal(storage)
        self._started = time.monotonic()

    def ends(self, scores: Mapping[str, float], at: Moment) -> bool:
        """Keep the mean of the scores; return whether the trial is pruned here."""
        self._journal.look()
        self._journal.heard(self._numbers, at.step, fmean(scores.values()))
        ends = not at.is_last and self._journal.prunes(self._numbers, at.step)
        if ends:
            place = f"pruned at step {at.step:,} of {at.steps:,}"
            self._journal.stop(self._numbers, place, time.monotonic() - self._started)
        return ends
