"""Checkpoints of a training: where it is, and every tensor that it changes.

``<folder>/step-00000200/`` holds ``state.json`` (position, losses, a fingerprint of the training),
``state.safetensors`` (module and optimiser) and, where the best weights so far are kept,
``best.safetensors``. It is written aside, synced, and named by one rename; those of earlier steps
are then removed. The record is sealed and holds the SHA-256 of each file of tensors. A folder of
another training is passed over; a damaged one too, with a warning. Nothing is unpickled.

Two processes may write the checkpoints of one training: one that was silent for so long that
another took over, and does not know it yet. Both write the same states, and none removes what is
further than its own, so that the furthest checkpoint stays.
"""

from __future__ import annotations

import errno
import os
import shutil
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from raxalign.lazy import torch
from raxalign.store.alive import maker_name, process_of
from raxalign.store.artifacts import as_umask_says
from raxalign.store.key import file_digest
from raxalign.store.sealed import seal, unseal

if TYPE_CHECKING:
    from torch import nn


def kept_steps(folder: Path) -> int:
    """Return the step of the newest checkpoint, summed over the trainings of one stage (each has a
    folder of its own below `folder`); 0 where there are none.
    """
    return newest_steps(path.relative_to(folder).as_posix() for path in folder.glob("*/step-*"))


def newest_steps(names: Iterable[str]) -> int:
    """Return the same from the names of what is below the folder.

    >>> newest_steps(["train/step-00000200", "train/step-00000400/a", "warm/step-00000100"])
    500
    """
    newest: dict[str, int] = {}
    for training, checkpoint in (PurePath(name).parts[:2] for name in names if "/" in name):
        step = checkpoint.removeprefix("step-")
        if step.isdigit():
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


def module_state(module: nn.Module) -> Tensors:
    """Return the parameters and buffers by name, each shared tensor once, not copied."""
    return {
        **{name: p.data for name, p in module.named_parameters()},
        **dict(module.named_buffers()),
    }


def copied(tensors: Tensors) -> Tensors:
    """Return copies on the CPU."""
    return {name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors.items()}


def restore_module(module: nn.Module, tensors: Tensors) -> None:
    """Put a module's state back, in place; every parameter and buffer must be there."""
    with torch.no_grad():
        for name, tensor in module_state(module).items():
            tensor.copy_(tensors[name])


def training_state(module: nn.Module, optimizer: torch.optim.Optimizer) -> Tensors:
    """Return the state of a module (``module/NAME``) and of its optimiser
    (``optimizer/NUMBER.NAME``, by the number of the parameter); the tensors themselves.
    """
    own = {f"module/{name}": tensor for name, tensor in module_state(module).items()}
    state = optimizer.state_dict()["state"]
    return own | {
        f"optimizer/{number}.{name}": value
        for number, entry in state.items()
        for name, value in entry.items()
    }


def restore_training(module: nn.Module, optimizer: torch.optim.Optimizer, tensors: Tensors) -> None:
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
    restore_module(module, own)
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": groups})


def write_checkpoint(folder: Path, step: int, checkpoint: Checkpoint) -> None:
    """Publish a checkpoint, then remove those of earlier steps and of other trainings."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    final, aside = folder / f"step-{step:08d}", folder / f".{maker_name()}.part"
    for left in folder.glob(".*.part"):
        if left == aside or process_of(left.name[1 : -len(".part")]) is False:
            shutil.rmtree(left, ignore_errors=True)
    aside.mkdir()
    for name, tensors in ((_STATE, checkpoint.tensors), (_BEST, checkpoint.best)):
        if tensors is not None:
            save_file({key: tensor.contiguous() for key, tensor in tensors.items()}, aside / name)
    as_umask_says(aside)
    files = {path.name: file_digest(path) for path in sorted(aside.iterdir())}
    (aside / _RECORD).write_bytes(seal({**checkpoint.record, "files": files}))
    for file in aside.iterdir():
        _sync(file)
    fingerprint = checkpoint.record["fingerprint"]
    _publish(aside, final, fingerprint)
    _sync(folder)
    for old in _steps(folder):
        if old.name < final.name or not _is_of(old, fingerprint):
            shutil.rmtree(old, ignore_errors=True)


def _is_of(path: Path, fingerprint: str) -> bool:
    try:
        return bool(unseal((path / _RECORD).read_bytes())["fingerprint"] == fingerprint)
    except (OSError, ValueError, KeyError, TypeError):
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
            shutil.rmtree(aside)
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
        record = unseal((path / _RECORD).read_bytes())
        if record["fingerprint"] != fingerprint:
            return None
        return Checkpoint(record, *_tensors(path, record["files"]))
    except FileNotFoundError as error:
        problem = f"{error.filename} is missing"
    except (OSError, ValueError, KeyError, TypeError) as error:
        problem = str(error)
    warnings.warn(f"{path}: a damaged checkpoint is passed over ({problem})", stacklevel=3)
    return None


def _tensors(path: Path, files: Mapping[str, str]) -> tuple[Tensors, Tensors | None]:
    """Return the state and the best weights. Raises `ValueError` for a file that changed."""
    from safetensors.torch import load_file

    for name in files:
        if name not in (_STATE, _BEST) or file_digest(path / name) != files[name]:
            raise ValueError(f"{name} was changed: its bytes have another SHA-256")
    best = load_file(path / _BEST) if _BEST in files else None
    return load_file(path / _STATE), best


def _steps(folder: Path) -> list[Path]:
    """Checkpoints, the newest first."""
    return sorted(folder.glob("step-*"), reverse=True)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
