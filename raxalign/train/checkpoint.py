"""Checkpoints of a training: where it is, and every tensor that it changes.

``<folder>/step-00000200/`` holds ``state.json`` (position, losses, a fingerprint of the training),
``state.safetensors`` (what changes of the module, and the optimiser) and, where the best weights so
far are kept, ``best.safetensors``. It is written aside, synced, and named by one rename; those of
earlier steps are then removed. The record is sealed and holds the SHA-256 of each file of tensors.
A folder of another training is passed over; a damaged one too, with a warning. Nothing is
unpickled. A thread writes them while the training goes on (`Saver`).

Two processes may write the checkpoints of one training: one that was silent for so long that
another took over, and does not know it yet. Both write the same states, and none removes what is
further than its own, so that the furthest checkpoint stays.
"""

from __future__ import annotations

import copy
import errno
import os
import shutil
import time
import warnings
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from pydantic import with_config

from raxalign.lazy import torch
from raxalign.store.alive import abandoned, discard, temporary_name
from raxalign.store.artifacts import Sha256, as_umask_says
from raxalign.store.key import file_digest
from raxalign.store.sealed import seal, unseal
from raxalign.train.group import share_state, share_value
from raxalign.train.runtime import Runtime

if TYPE_CHECKING:
    from raxalign.train.objective import Objective


def kept_steps(where: Path | Iterable[str]) -> int:
    """Return the step of the newest checkpoint, summed over the trainings of one stage (each has a
    folder of its own below `where`, a folder or the names of what is below it); 0 where there are
    none.

    >>> kept_steps(["train/step-00000200", "train/step-00000400/a", "warm/step-00000100"])
    500
    """
    names: Iterable[str]
    if isinstance(where, Path):
        names = (path.relative_to(where).as_posix() for path in where.glob("*/step-*"))
    else:
        names = where
    newest: dict[str, int] = {}
    for training, checkpoint in (PurePath(name).parts[:2] for name in names if "/" in name):
        step = checkpoint.removeprefix("step-")
        if step.isdecimal():
            newest[training] = max(int(step), newest.get(training, 0))
    return sum(newest.values())


Tensors = dict[str, "torch.Tensor"]
_RECORD, _STATE, _BEST = "state.json", "state.safetensors", "best.safetensors"


@dataclass(frozen=True)
class Checkpoint:
    """`record` is plain data, `tensors` the state of module and optimiser, `best` the module's best
    state so far, where one is kept. All tensors are on the CPU.
    """

    record: Mapping[str, Any]
    tensors: Tensors
    best: Tensors | None = None


def _copied(tensors: Tensors) -> Tensors:
    """Return copies on the CPU."""
    return {name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors.items()}


def training_state(objective: Objective, optimizer: torch.optim.Optimizer) -> Tensors:
    """Return what changes of a module (``module/NAME``) and the state of its optimiser
    (``optimizer/NUMBER.NAME``, by the number of the parameter); the tensors themselves.
    """
    own = {f"module/{name}": tensor for name, tensor in objective.changing_state().items()}
    state = optimizer.state_dict()["state"]
    return own | {
        f"optimizer/{number}.{name}": value
        for number, entry in state.items()
        for name, value in entry.items()
    }


def restore_training(
    objective: Objective, optimizer: torch.optim.Optimizer, tensors: Tensors
) -> None:
    """Put back what `training_state` gave; the options of the optimiser stay as they are."""
    own: Tensors = {}
    state: dict[int, Tensors] = {}
    for key, tensor in tensors.items():
        part, _, name = key.partition("/")
        if part == "module":
            own[name] = tensor
        else:
            number, _, name = name.partition(".")
            state.setdefault(int(number), {})[name] = tensor
    objective.restore(own)
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": groups})


def write_checkpoint(folder: Path, step: int, checkpoint: Checkpoint) -> None:
    """Publish a checkpoint, then remove those of earlier steps and of other trainings."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    final = folder / f"step-{step:08d}"
    aside = folder / temporary_name(final.name)
    for left in abandoned(folder):
        discard(left)
    aside.mkdir()
    fingerprint = checkpoint.record["fingerprint"]
    try:
        for name, tensors in ((_STATE, checkpoint.tensors), (_BEST, checkpoint.best)):
            if tensors is not None:
                kept = {key: tensor.contiguous() for key, tensor in tensors.items()}
                save_file(kept, aside / name)
        as_umask_says(aside)
        files = {path.name: file_digest(path) for path in sorted(aside.iterdir())}
        (aside / _RECORD).write_bytes(seal({**checkpoint.record, "files": files}))
        for file in aside.iterdir():
            _sync(file)
        _publish(aside, final, fingerprint)
    finally:
        discard(aside)
    _sync(folder)
    for old in _steps(folder):
        if old.name < final.name or not _is_of(old, fingerprint):
            shutil.rmtree(old, ignore_errors=True)


def _is_of(path: Path, fingerprint: str) -> bool:
    try:
        return unseal((path / _RECORD).read_bytes(), _Record).fingerprint == fingerprint
    except (OSError, ValueError):
        return False


def _publish(aside: Path, final: Path, fingerprint: str) -> None:
    """Name a whole checkpoint. One of the same training that has this name already stays, so that a
    reader finds it at any moment; what else is there is replaced.
    """
    while True:
        try:
            aside.rename(final)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            if _read(final, fingerprint) is None:
                shutil.rmtree(final, ignore_errors=True)
                continue
        return


def read_checkpoint(folder: Path, fingerprint: str) -> Checkpoint | None:
    """Return a training's newest whole checkpoint (None: it has none), on the CPU."""
    paths = _steps(folder)
    for path in paths:
        found = _read(path, fingerprint)
        if found is not None:
            return found
    # one that was removed meanwhile was removed for a newer one
    return read_checkpoint(folder, fingerprint) if set(_steps(folder)) - set(paths) else None


def _read(path: Path, fingerprint: str) -> Checkpoint | None:
    """Return a checkpoint; None where it is another training's, or damaged (with a warning)."""
    try:
        record = unseal((path / _RECORD).read_bytes(), _Record)
        if record.fingerprint != fingerprint:
            return None
        return Checkpoint(vars(record), *_tensors(path, record.files))
    except FileNotFoundError as error:
        problem = f"{error.filename} is missing"
    except (OSError, ValueError) as error:
        problem = str(error)
    warnings.warn(f"{path}: a damaged checkpoint is passed over ({problem})", stacklevel=3)
    return None


def _tensors(path: Path, files: Mapping[str, str]) -> tuple[Tensors, Tensors | None]:
    """Return the state and the best weights. Raises `ValueError` for a file that changed."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    for name in files:
        if name not in (_STATE, _BEST) or file_digest(path / name) != files[name]:
            raise ValueError(f"{name} was changed: its bytes have another SHA-256")
    try:
        best = load_file(path / _BEST) if _BEST in files else None
        return load_file(path / _STATE), best
    except SafetensorError as error:
        raise ValueError(f"holds no tensors: {error}") from error


def _steps(folder: Path) -> list[Path]:
    """Checkpoints, the newest first."""
    return sorted(folder.glob("step-*"), reverse=True)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@dataclass
class TrainProgress:
    """Where a training is; all but the tensors of `best` goes into a checkpoint's record.

    `micro` and `recomputes` are what was found to fit into memory: the rows of a micro-batch, and
    whether the backward pass computes activations again.
    """

    step: int = 0
    micro: int = 1
    recomputes: bool = False
    losses: list[float] = field(default_factory=list)
    scores: list[tuple[int, float]] = field(default_factory=list)
    selected: int | None = None
    best: Tensors | None = None

    def record(self, fingerprint: str) -> dict[str, Any]:
        """Return the plain data of a checkpoint, which do not change with the training."""
        plain = {name: copy.copy(value) for name, value in vars(self).items() if name != "best"}
        return {"fingerprint": fingerprint, **plain}

    @classmethod
    def of(cls, record: Any, best: Tensors | None) -> TrainProgress:
        """Return the progress that `record` wrote down."""
        return cls(**{name: record[name] for name in vars(cls()) if name != "best"}, best=best)


@with_config(strict=True, extra="forbid")
@dataclass
class _Record(TrainProgress):
    """The form of a record. Earlier versions had no `recomputes`."""

    best: None = None
    fingerprint: str = ""
    files: Mapping[str, Sha256] = field(default_factory=dict)


class Saver:
    """Saves and restores one training. A thread writes the checkpoints, one at a time, from copies
    of the tensors, while the training goes on.
    """

    def __init__(
        self,
        objective: Objective,
        optimizer: torch.optim.Optimizer,
        runtime: Runtime,
        folder: Path | None,
        fingerprint: str,
    ) -> None:
        """Make what saves a training that has not begun, on the first worker alone, in a folder
        (None: nothing is saved). `fingerprint` tells it from others in the same folder.
        """
        self.objective, self.optimizer, self.runtime = objective, optimizer, runtime
        self.folder, self.fingerprint = folder, fingerprint
        self._thread = ThreadPoolExecutor(1, "raxalign-checkpoint")
        self._written: Future[None] | None = None
        self._saved_at = time.monotonic()

    @property
    def busy(self) -> bool:
        """Whether a checkpoint is being written."""
        return self._written is not None and not self._written.done()

    def due(self, step: int) -> bool:
        """Return whether this worker saves after a step. By the clock nothing is due while the
        checkpoint before is being written, so that no step waits for it.
        """
        every, late = self.runtime.checkpoint_every, time.monotonic() - self._saved_at
        if self.folder is None or self.runtime.rank != 0:
            return False
        if every is None:
            return late >= self.runtime.checkpoint_seconds and not self.busy
        return step % every == 0

    def save(self, progress: TrainProgress, *, now: bool = False) -> None:
        """Begin a checkpoint, on the first worker. One of a given step, and one that must be there
        `now`, is waited for. Raises what writing the one before raised.
        """
        if self.folder is None or self.runtime.rank != 0:
            return
        self.wait()
        tensors = _copied(training_state(self.objective, self.optimizer))
        checkpoint = Checkpoint(progress.record(self.fingerprint), tensors, progress.best)
        self._written = self._thread.submit(self._write, self.folder, progress.step, checkpoint)
        self._saved_at = time.monotonic()
        if now or self.runtime.checkpoint_every is not None:
            self.wait()

    def _write(self, folder: Path, step: int, checkpoint: Checkpoint) -> None:
        write_checkpoint(folder, step, checkpoint)
        self.runtime.saved()

    def weights(self) -> Tensors:
        """Return copies of what training may change of the module, on the CPU."""
        return _copied(self.objective.changing_state())

    def wait(self) -> None:
        """Wait until the last checkpoint is written. Raises what writing it raised, once."""
        written, self._written = self._written, None
        if written is not None:
            written.result()

    def close(self) -> None:
        """Likewise, and end the thread."""
        try:
            self.wait()
        finally:
            self._thread.shutdown()

    def resume(self) -> TrainProgress | None:
        """Go back to the last checkpoint, which the first worker reads; None where there is none.
        What no checkpoint holds, all workers have from the first one.
        """
        found = None
        if self.folder is not None and self.runtime.rank == 0:
            found = read_checkpoint(self.folder, self.fingerprint)
        best = found.best if found else None
        shared: Any = (found.record, found.tensors) if found else None
        if self.runtime.world_size > 1:
            share_state(self.objective.state().values())
            shared = share_value(shared)
        if shared is None:
            return None
        record, tensors = shared
        restore_training(self.objective, self.optimizer, tensors)
        return TrainProgress.of(record, best)

    def finish(self, progress: TrainProgress, *, selected: bool) -> None:
        """Put the best weights into the module, on every worker, where some were `selected`."""
        if progress.best is not None:
            self.objective.restore(progress.best)
        if selected and self.runtime.world_size > 1:
            share_state(self.objective.changing_state().values())
            progress.scores, progress.selected = share_value((progress.scores, progress.selected))  # type: ignore[misc]
        progress.best = None
        self.optimizer.zero_grad(set_to_none=True)
        self.objective.module.eval()
