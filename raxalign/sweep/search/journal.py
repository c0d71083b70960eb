"""Studies on disk: Optuna's journal in the storage, which several drivers share and
`optuna-dashboard` opens.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState, create_trial

from raxalign.plan.study import Study
from raxalign.store.files import files_of, is_remote
from raxalign.store.lock import turn
from raxalign.store.studies import FOLDER
from raxalign.sweep.search.samplers import Proposal, directions, distributions

JOURNAL = "journal.log"
_PLACE = f"{FOLDER}/{JOURNAL}"


class _FileLock:
    """A lock that is freed when its process dies, however it dies; Optuna's own ones are waited for
    30 seconds then.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[str] | None = None

    def acquire(self) -> bool:
        """Wait for the lock."""
        file = self._path.open("w")
        fcntl.flock(file, fcntl.LOCK_EX)
        self._file = file
        return True

    def release(self) -> None:
        """Free the lock."""
        if self._file is not None:
            self._file.close()
            self._file = None


@dataclass
class Journal:
    """The journal of all studies of a storage.

    On a file system it is ``<root>/studies/journal.log``. For an object store, which cannot append,
    it is in the machine's own folder, and is copied to ``<root>/studies/journal.log`` whenever a
    driver leaves its turn: drivers on several machines do not share studies there.
    """

    root: str
    folder: Path
    _storage: JournalStorage | None = field(default=None, init=False)
    _brought: int = field(default=0, init=False)  # bytes that the object store has

    @classmethod
    def open(cls, root: str, local: Path) -> Journal:
        """Open the journal of a storage; `local` is the machine's own folder of it."""
        journal = cls(root, local / FOLDER)
        journal.folder.mkdir(parents=True, exist_ok=True)
        return journal

    @contextmanager
    def turn(self) -> Iterator[JournalStorage]:
        """Wait until no other driver of the storage reads and writes studies, and keep others out
        meanwhile.
        """
        with turn(self.folder / "turn.lock"):
            if self._storage is None:
                self._fetch()
                self._storage = self._opened()
            yield self._storage
            self._bring()

    @property
    def path(self) -> Path:
        """The file of the journal on this machine."""
        return self.folder / JOURNAL

    def _opened(self) -> JournalStorage:
        """Open the file, without the half line of a driver that was killed while it wrote."""
        if self.path.exists():
            data = self.path.read_bytes()
            whole = data.rfind(b"\n") + 1
            if whole < len(data):
                os.truncate(self.path, whole)
        lock = _FileLock(self.folder / "journal.lock")
        return JournalStorage(JournalFileBackend(str(self.path), lock))

    def _fetch(self) -> None:
        """Copy the journal from an object store, where it is longer than the one that is here."""
        if not is_remote(self.root):
            return
        here = self.path.stat().st_size if self.path.exists() else 0
        with suppress(FileNotFoundError):
            data = files_of(self.root).read(_PLACE)
            if len(data) > here:
                self.path.write_bytes(data)

    def _bring(self) -> None:
        """Copy the journal to an object store, where it has grown since."""
        size = self.path.stat().st_size if self.path.exists() else 0
        if not is_remote(self.root) or size == self._brought:
            return
        files_of(self.root).write(_PLACE, self.path.read_bytes())
        self._brought = size


@dataclass
class StudyLog:
    """One study in a journal. Used only within a turn."""

    storage: JournalStorage
    study: Study

    def __post_init__(self) -> None:
        self._optuna = optuna.create_study(
            storage=self.storage,
            study_name=self.study.name,
            directions=directions(self.study),
            load_if_exists=True,
            sampler=optuna.samplers.RandomSampler(seed=0),  # never asked; the default warns
        )

    def trials(self) -> list[FrozenTrial]:
        """Return all points, in the order of their numbers."""
        return list(self._optuna.get_trials(deepcopy=False))

    def add(self, proposal: Proposal, notes: Mapping[str, Any]) -> int:
        """Add a point that runs, in one write; returns its number."""
        trial = create_trial(
            state=TrialState.RUNNING,
            params=proposal.values,
            distributions=distributions(self.study.spaces),
            user_attrs=dict(notes),
            system_attrs=dict(proposal.notes),
        )
        self._optuna.add_trial(trial)
        return len(self.trials()) - 1

    def add_done(
        self, proposal: Proposal, scores: tuple[float, ...], notes: Mapping[str, Any]
    ) -> None:
        """Add a point that was measured before, in one write."""
        self._optuna.add_trial(
            create_trial(
                state=TrialState.COMPLETE,
                values=list(scores),
                params=proposal.values,
                distributions=distributions(self.study.spaces),
                user_attrs=dict(notes),
            )
        )

    def note(self, number: int, name: str, value: Any) -> None:
        """Keep something with a point that runs."""
        self.storage.set_trial_user_attr(self.trials()[number]._trial_id, name, value)

    def prune(self, number: int) -> None:
        """End a point that runs as pruned, at its last score. One that has ended stays as it is."""
        self._optuna.tell(number, state=TrialState.PRUNED, skip_if_finished=True)

    def keep_curve(self, number: int, points: Iterable[tuple[int, float]]) -> None:
        """Keep the scores of a point that runs on its way: (step, score)."""
        trial = self.trials()[number]
        for step, score in points if not trial.state.is_finished() else ():
            self.storage.set_trial_intermediate_value(trial._trial_id, step, score)

    def finish(self, number: int, scores: tuple[float, ...] | None) -> None:
        """End a point that runs: with its scores, or as failed. One that has ended stays as it
        is.
        """
        if scores is None:
            self._optuna.tell(number, state=TrialState.FAIL, skip_if_finished=True)
        else:
            self._optuna.tell(number, list(scores), skip_if_finished=True)

    def mark(self, name: str, value: Any) -> None:
        """Keep something with the study."""
        self._optuna.set_user_attr(name, value)

    @property
    def marks(self) -> dict[str, Any]:
        """What was kept with the study."""
        return dict(self._optuna.user_attrs)

    def importance(self) -> dict[str, dict[str, float]]:
        """Return how much of the scores' variance each param explains (fANOVA), by objective and
        param; nothing where there are too few points, or all scores are equal.
        """
        done = [t for t in self.trials() if t.state == TrialState.COMPLETE]
        found = {}
        for number, objective in enumerate(self.study.objectives):
            scores = [trial.values[number] for trial in done]
            if len(scores) < _FEW or len(set(scores)) < 2:
                continue
            found[objective.name] = optuna.importance.get_param_importances(
                self._optuna,
                evaluator=optuna.importance.FanovaImportanceEvaluator(seed=0),
                target=lambda trial, number=number: trial.values[number],
            )
        return found


_FEW = 4
"""Points below which importances are not estimated."""
