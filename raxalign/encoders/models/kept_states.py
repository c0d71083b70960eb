"""Hidden states of what an encoder of fixed weights has read, in files of this machine: the methods
and tasks of a grid read the same text by the same encoder, on a CPU for minutes each time.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from raxalign.lazy import np, torch
from raxalign.store.alive import PREFIX, temporary_name
from raxalign.store.key import digest, file_digest

if TYPE_CHECKING:
    from raxalign.encoders.models.rows import Packed
    from raxalign.encoders.models.vectors import Batch

_SHA = hashlib.sha256().digest_size  # bytes of a file before its states
_DIGITS = 32  # of a digest that is a name
_SHARE = 0.02  # of the room: what a process adds before it looks at all files again
_FULL = 60.0  # seconds between two looks at a full folder
_LEFT: dict[Path, tuple[float, float]] = {}
"""By folder what this process may add before its next look, and when that may be."""


@dataclass(frozen=True)
class KeptStates:
    """The states of one `model` in a `folder` of its own next to those of others, one file per
    batch and layer, named after what was read, and with its SHA-256: what is damaged is computed
    again.

    It is a help and never a need: what cannot be written is not kept. All together take at most
    `LIMIT` bytes, and a tenth of what the disk has for them. Where that is full, files that nothing
    has used for `STALE` seconds give way; new ones do not replace those in use, since a grid that
    reads more than there is room for would otherwise lose each file before it comes back to it.
    """

    LIMIT: ClassVar = 8 << 30
    STALE: ClassVar = 3600.0

    folder: Path
    model: Any
    start: str = ""
    """What names the weights that tasks train from, which may be those of this model; empty: the
    states of what was trained are not kept.
    """

    def of_trained(self, file: Path, model: Any) -> KeptStates | None:
        """Return where the states of a `model` are kept that a task trained, with all that training
        changed in a file; None where they are not.
        """
        if not self.start:
            return None
        name = digest([self.start, file_digest(file)])
        return KeptStates(self.folder.with_name(name), model)

    def recall(self, batch: Batch | Packed, layers: Sequence[int]) -> list[torch.Tensor] | None:
        """Return the states (B, T, H) of a batch after some layers; None unless all are there."""
        name, found = _name(batch), []
        for layer in layers:
            file = self.folder / f"{name}-{layer}"
            with suppress(OSError, ValueError):
                data = file.read_bytes()
                if hashlib.sha256(data[_SHA:]).digest() != data[:_SHA]:
                    return None
                flat = np.frombuffer(data, np.float32, offset=_SHA).copy()
                found.append(torch.from_numpy(flat).reshape(*batch.ids_BT.shape, -1))
                os.utime(file)
        return found if len(found) == len(layers) else None

    def has(self, batch: Batch, layers: Sequence[int]) -> bool:
        """Return whether there are files of a batch for some layers, which may be damaged."""
        name = _name(batch)
        return all((self.folder / f"{name}-{layer}").exists() for layer in layers)

    def keep(self, batch: Batch | Packed, states: Mapping[int, torch.Tensor]) -> None:
        """Keep the states (B, T, H) of a batch by their layers, where there is room."""
        name = _name(batch)
        for layer, states_BTH in states.items():
            if states_BTH.dtype != torch.float32:
                return
            data = states_BTH.contiguous().numpy().tobytes()
            file = self.folder / f"{name}-{layer}"
            whole = file.with_name(temporary_name(file.name))
            with suppress(OSError):
                self.folder.mkdir(parents=True, exist_ok=True)
                if not self._has_room(len(data)):
                    return
                try:
                    whole.write_bytes(hashlib.sha256(data).digest() + data)
                    whole.rename(file)
                finally:
                    whole.unlink(missing_ok=True)

    def _has_room(self, wanted: int) -> bool:
        """Whether the wanted bytes may be added. All files are looked at once in a while."""
        top, now = self.folder.parent, time.monotonic()
        left, again = _LEFT.get(top, (0.0, now))
        fits = wanted <= left
        if not fits and now >= again:
            free, room = self._look(top, wanted)
            fits = wanted <= free
            left, again = (
                (min(free, max(_SHARE * room, wanted)), now) if fits else (0.0, now + _FULL)
            )
        _LEFT[top] = (left - wanted if fits else left, again)
        return fits

    def _look(self, top: Path, wanted: int) -> tuple[float, float]:
        """Return how many bytes may be added below a folder and how many all files may take; stale
        files are removed first, until the wanted bytes fit.
        """
        entries = (entry for folder in os.scandir(top) for entry in os.scandir(folder.path))
        files = [(e.stat(), e.path) for e in entries if not e.name.startswith(PREFIX)]
        taken = sum(status.st_size for status, _ in files)
        room = min(self.LIMIT, (shutil.disk_usage(top).free + taken) / 10)
        for status, path in sorted(files, key=lambda found: found[0].st_mtime):
            if taken + wanted <= room or time.time() - status.st_mtime < self.STALE:
                break
            Path(path).unlink(missing_ok=True)
            taken -= status.st_size
        return room - taken, room


def _name(batch: Batch | Packed) -> str:
    """The digest of what states depend on: subword tokens, their places and their languages."""
    from raxalign.encoders.models.rows import Packed

    if isinstance(batch, Packed):
        arrays = [batch.ids_BT, batch.positions_BT, batch.sentences_BT, batch.segments_BT]
        arrays += [] if batch.langs_BT is None else [batch.langs_BT]
    else:
        tensors = (batch.ids_BT, batch.mask_BT, batch.segments_BT, batch.langs_BT)
        arrays = [tensor.numpy() for tensor in tensors]
    kind, shape = type(batch).__name__, tuple(batch.ids_BT.shape)
    found = hashlib.sha256(repr((kind, len(arrays), shape, batch.languages)).encode())
    for array in arrays:
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()[:_DIGITS]
