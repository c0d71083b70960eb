"""Studies on disk: Optuna's journal in the storage, which several drivers share and
`optuna-dashboard` opens.
"""

from __future__ import annotations

import fcntl
import math
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState, create_trial

from raxalign.errors import StorageError
from raxalign.plan.study import Study
from raxalign.store.lease import lease
from raxalign.store.lock import turn
from raxalign.store.storage import Storage
from raxalign.store.studies import FOLDER
from raxalign.sweep.search.samplers import Proposal, directions, distributions

JOURNAL = "journal.log"
PAUSE = 10.0
"""Seconds between two turns at an object store of a driver that has nothing to report."""
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
    it is in the machine's own folder. A turn there holds a lock in the store: it begins with what
    other machines have added to the store's copy, and ends with the whole journal in the store. So
    the store's copy only grows, and its length says which one it is.
    """

    storage: Storage
    folder: Path
    _storage: JournalStorage | None = field(default=None, init=False)
    _there: int = field(default=0, init=False)  # bytes that the object store has
    _left: float = field(default=-math.inf, init=False)  # when the last turn ended

    @classmethod
    def open(cls, storage: Storage, local: Path) -> Journal:
        """Open the journal of a storage; `local` is the machine's own folder of it."""
        journal = cls(storage, local / FOLDER)
        journal.folder.mkdir(parents=True, exist_ok=True)
        return journal

    @contextmanager
    def turn(self) -> Iterator[JournalStorage]:
        """Wait until no other driver of the storage reads and writes studies, and keep others out
        meanwhile.

        Raises `StorageError` where the store cannot be used, or this machine was silent for so long
        in its turn that another one has begun its own.
        """
        with turn(self.folder / "turn.lock"), self._alone():
            self._fetch()
            if self._storage is None:
                self._storage = self._opened()
            yield self._storage
            self._bring()
        self._left = time.monotonic()

    @property
    def rests(self) -> bool:
        """Whether a turn should wait, since it costs requests to an object store and the last one
        was a moment ago.
        """
        return self.storage.is_remote and time.monotonic() - self._left < PAUSE

    def _alone(self) -> AbstractContextManager[object]:
        return lease(self.storage, FOLDER) if self.storage.is_remote else nullcontext()

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
        """Add what other machines have written. What this machine alone has stays where nobody has
        written since (a driver was killed before its turn ended), and is dropped otherwise: its
        points have not run.
        """
        if not self.storage.is_remote or (size := self._size_there()) == self._there:
            return
        there = self.storage.files.read(_PLACE)
        here = self.path.read_bytes() if self.path.exists() else b""
        if there.startswith(here):
            with self.path.open("ab") as file:
                file.write(there[len(here) :])
        elif not here.startswith(there):
            if self._storage is not None:
                raise self._overtaken()
            self.path.write_bytes(there)
        self._there = size

    def _bring(self) -> None:
        """Copy the journal to an object store, where it has grown since."""
        size = self.path.stat().st_size if self.path.exists() else 0
        if not self.storage.is_remote or size == self._there:
            return
        if self._size_there() != self._there:
            raise self._overtaken()
        self.storage.files.write(_PLACE, self.path.read_bytes())
        self._there = size

    def _size_there(self) -> int:
        return self.storage.files.names(FOLDER).get(JOURNAL, 0)

    def _overtaken(self) -> StorageError:
        return StorageError(
            f"{self.storage}/{_PLACE}: another machine has written to it during this one's turn,"
            " which took too long. Run the grid again: nothing that has run is lost"
        )


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
