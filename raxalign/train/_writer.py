"""Checkpoints that a thread writes while the training goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raxalign import lazy
from raxalign.train.checkpoint import Checkpoint, Tensors, write_checkpoint

if TYPE_CHECKING:
    import torch
else:
    torch = lazy.load("torch")


class Writer:
    """Writes the checkpoints of one training into a folder, one at a time, from copies of its
    tensors. The copies are pinned where the tensors are on a GPU, and are used again.
    """

    def __init__(self, folder: Path, saved: Callable[[], None]) -> None:
        """Make one that writes nothing yet.

        Args:
            folder: Takes the checkpoints.
            saved: Called after each of them, by the thread that wrote it.
        """
        self._folder, self._saved = folder, saved
        self._copies: Tensors = {}
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    @property
    def busy(self) -> bool:
        """Whether a checkpoint is being written."""
        return self._thread is not None and self._thread.is_alive()

    def begin(
        self, step: int, record: Mapping[str, Any], tensors: Tensors, best: Tensors | None
    ) -> None:
        """Copy the tensors, and begin to write a checkpoint of them. The one before is waited for.

        Args:
            step: The step that the checkpoint is of.
            record: Its plain data, which nobody changes any more.
            tensors: Its tensors; the training may change them as soon as this returns.
            best: The best weights so far, which nobody changes any more (None: there are none).

        Raises what writing the one before raised.
        """
        self.wait()
        copied = self._copy(tensors)
        checkpoint = Checkpoint(record, dict(self._copies), best)
        self._thread = threading.Thread(
            target=self._write, args=(step, checkpoint, copied), name="raxalign-checkpoint"
        )
        self._thread.start()

    def wait(self) -> None:
        """Wait until the last checkpoint is written. Raises what writing it raised, once."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _copy(self, tensors: Tensors) -> Callable[[], None]:
        """Copy tensors; returns what waits until the copies are whole."""
        events: dict[torch.device, Any] = {}
        for name, tensor in tensors.items():
            kept, source = self._copies.get(name), tensor.detach()
            if kept is None or (kept.shape, kept.dtype) != (source.shape, source.dtype):
                kept = torch.empty(
                    source.shape, dtype=source.dtype, pin_memory=source.device.type == "cuda"
                )
                self._copies[name] = kept
            kept.copy_(source, non_blocking=True)
            if source.device.type == "cuda":
                events.setdefault(source.device, torch.cuda.Event())  # type: ignore[no-untyped-call]
        for name in self._copies.keys() - tensors.keys():
            del self._copies[name]
        for device, event in events.items():
            event.record(torch.cuda.current_stream(device))

        def wait() -> None:
            for event in events.values():
                event.synchronize()

        return wait

    def _write(self, step: int, checkpoint: Checkpoint, copied: Callable[[], None]) -> None:
        try:
            copied()
            write_checkpoint(self._folder, step, checkpoint)
            self._saved()
        # raised again in the training, at its next checkpoint or its end
        except BaseException as error:  # noqa: BLE001
            self._error = error
