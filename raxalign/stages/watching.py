"""The watch of a trial that a search suggested: the training whose dev selections are compared with
those of the search's other trials, while it runs.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import fmean

from raxalign.analysis.search import prunes
from raxalign.plan.plan import Plan
from raxalign.plan.stage import Stage
from raxalign.plan.study import Study
from raxalign.store.storage import Storage
from raxalign.store.studies import DevCurve, DevCurves, DevPoint
from raxalign.train.runtime import Moment


@dataclass(frozen=True)
class Watched:
    """The part of a trial that is watched: the evaluation that its search judges by, and the
    training before it. `languages` are those whose mean `metric` is the score.
    """

    trial: str
    evaluation: Stage
    languages: tuple[str, ...]
    metric: str
    studies: tuple[Study, ...]

    @classmethod
    def of(cls, plan: Plan, trial: str) -> Watched | None:
        """Return what is watched of a trial: what its studies judge by. None where it is to be run
        whole: for the grid itself, for a study that does not prune, or to confirm.
        """
        asked = [entry for entry in plan.asked if entry.trial == trial]
        names = {entry.study for entry in asked}
        studies = [study for study in plan.studies if study.name in names]
        confirms = any(entry.confirmed for entry in asked)
        prunable = all(study.prunes for study in studies) and not confirms
        if plan.by_key[trial].searched is None or not studies or not prunable:
            return None
        objective = studies[0].objectives[0]
        if any(study.objectives[0] != objective for study in studies):
            return None
        evaluation = plan.stages[plan.by_key[trial].evaluations[objective.task]]
        unseen = evaluation.unseen
        languages = tuple(lang for lang in evaluation.languages if lang not in unseen)
        if objective.lang == "avg_zero_shot":
            languages = tuple(lang for lang in languages if lang != evaluation.params["pivot"])
        elif objective.lang == "avg_unseen":
            languages = unseen
        elif objective.lang != "avg":
            languages = (objective.lang,)
        return cls(trial, evaluation, languages, objective.metric, tuple(studies))

    @property
    def training(self) -> str:
        """The key of the training."""
        return self.evaluation.inputs["trained"]


class StudyWatch:
    """A watch that keeps the curve of a trial in the storage, and ends the trial where every study
    that suggested it would prune it.
    """

    def __init__(self, watched: Watched, storage: Storage) -> None:
        self.languages, self.metric = watched.languages, watched.metric
        self._watched = watched
        self._curves = [DevCurves(storage.files, study.name) for study in watched.studies]
        kept = self._curves[0].read(watched.trial)
        self._kept: tuple[DevPoint, ...] = kept.points if kept is not None else ()
        self._started = time.monotonic()
        self._before: float | None = None

    def ends(self, scores: Mapping[str, float], at: Moment) -> bool:
        """Keep the mean of the scores; return whether the trial is pruned here."""
        if self._before is None:  # what an earlier process has taken
            taken = [point.seconds for point in self._kept if point.step <= at.step]
            self._before = taken[-1] if taken else 0.0
        earlier = tuple(point for point in self._kept if point.step < at.step)
        seconds = self._before + time.monotonic() - self._started
        point = DevPoint(at.step, fmean(scores.values()), seconds)
        curve = DevCurve((*earlier, point), at.steps)
        for curves in self._curves:
            curves.write(self._watched.trial, curve)
        self._kept = curve.points
        ends = not at.is_last and all(map(self._prunes, self._watched.studies, self._curves))
        for curves in self._curves if ends else ():
            curves.write(self._watched.trial, replace(curve, pruned=True))
        return ends

    def _prunes(self, study: Study, curves: DevCurves) -> bool:
        sign = -1.0 if study.objectives[0].lower else 1.0
        others = [
            [sign * score for score in curve.scores]
            for trial, curve in curves.all().items()
            if trial != self._watched.trial
        ]
        return prunes(study.pruner, [sign * point.score for point in self._kept], others)


def pruned_at(plan: Plan, trial: str, storage: Storage) -> DevCurve | None:
    """Return the curve of a trial that was pruned; None for one that was not."""
    watched = Watched.of(plan, trial)
    if watched is None:
        return None
    curve = DevCurves(storage.files, watched.studies[0].name).read(trial)
    return curve if curve is not None and curve.pruned else None
