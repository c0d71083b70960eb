"""The workshop: makes the stages of a plan that are not in the storage, alone or in a group of
workers.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from raxalign.caveats import collecting
from raxalign.errors import LeaseLost, StorageError
from raxalign.plan.stage import Stage
from raxalign.stages.bench import Bench
from raxalign.stages.data import make_bitext, make_pairs, make_pieces, make_seen, make_text
from raxalign.stages.models import make_aligned, make_encoder, make_tuned
from raxalign.store.lease import Lease, lease
from raxalign.train.devices import peak_memory

TRAINED = frozenset({"aligned", "tuned"})
"""Kinds of stages that are trained for one trial. What several trials need is made before them."""
FITTED = TRAINED | {"encoder"}
"""Kinds of stages with checkpoints. Every worker of a trial takes part in making them."""

GPU_BYTES = "gpu_bytes"
"""The note with the memory of a card that making a stage took."""

_MAKERS: Mapping[str, Callable[[Bench, Stage, Path], Mapping[str, Any]]] = {
    "bitext": make_bitext,
    "text": make_text,
    "pairs": make_pairs,
    "seen": make_seen,
    "pieces": make_pieces,
    "encoder": make_encoder,
    "aligned": make_aligned,
    "tuned": make_tuned,
}


@dataclass
class Workshop(Bench):
    """Makes stages, each by the function for its kind."""

    def ensure(self, key: str) -> Path:
        """Return the folder of a stage's artifact. It is made first, with its inputs, where it is
        missing or damaged. Where another process takes over what this one makes, the result of the
        other one is waited for.
        """
        stage = self.plan.stages[key]
        while True:
            try:
                return self._ensure(stage)
            except LeaseLost as lost:
                # in a group the other workers wait for this one, so that all of them start again
                if self.runtime.world_size > 1:
                    raise
                self.tell(f"{stage.kind} {key[:12]}: {lost}")

    def _ensure(self, stage: Stage) -> Path:
        """Do what `ensure` does, or raise `LeaseLost`."""
        key, start, made = stage.key, time.monotonic(), list[Stage]()

        def build(folder: Path) -> Mapping[str, Any]:
            made.append(stage)
            with collecting() as found, peak_memory(self.runtime.device) as peak:
                notes = _MAKERS[stage.kind](self, stage, folder)
            took = {GPU_BYTES: peak.bytes} if stage.kind in FITTED and peak.bytes else {}
            return {**notes, **found.notes(), **took}

        alone = self.runtime.world_size == 1
        with self._turn(stage) as held:
            folder: Path = (
                self.store.make(stage.kind, key, build)
                if alone
                else self._ensure_together(stage, build)
            )
            if made and self.runtime.rank == 0 and stage.kind in FITTED and _keeps(held):
                self.checkpoints(key).remove()
        if made and self.runtime.rank == 0:
            self.announce(stage, time.monotonic() - start)
        return folder

    @contextmanager
    def _turn(self, stage: Stage) -> Iterator[Lease | None]:
        """Wait for another grid or another part of this one, on any machine, that makes the same
        stage on the same storage, and then find it made. The checkpoints of a training belong to
        one process: they are fetched first, and removed when the artifact is there. Yields the
        lock, where this process needs one.
        """
        key, kept = stage.key, self.checkpoints(stage.key)
        if self.runtime.rank != 0 or self.store.has(stage.kind, stage.key):
            yield None
            return
        told = partial(self._report_wait, stage)
        with lease(self.storage, f"making/{key}", told, self.patience) as held:
            if stage.kind in FITTED and not self.store.has(stage.kind, key):
                kept.restore()
            self._held[key] = held
            try:
                yield held
            finally:
                del self._held[key]

    def _report_wait(self, stage: Stage, holder: str) -> None:
        self.tell(
            f"waits for {holder}, which holds the lock of the same {stage.kind} {stage.key[:12]},"
            " until it is done or shows no sign of life for a minute or more"
        )

    def _ensure_together(self, stage: Stage, build: Callable[[Path], Mapping[str, Any]]) -> Path:
        """Do what `ensure` does in a group of workers: all take part in training, and the first one
        makes everything else and stores the results.
        """
        from raxalign.train.group import agree, barrier

        present = agree(
            self.runtime.rank == 0
            and self.store.has(stage.kind, stage.key)
            and self.store.verify(stage.kind, stage.key)
        )
        if not present:
            if self.runtime.rank == 0:
                self.store.make(stage.kind, stage.key, build)
            elif stage.kind in FITTED:
                with tempfile.TemporaryDirectory(prefix="raxalign-") as discarded:
                    build(Path(discarded))
            barrier()
        return self.store.open(stage.kind, stage.key)


def _keeps(held: Lease | None) -> bool:
    """Return whether checkpoints are this process's to remove. Who cannot ask leaves them."""
    with suppress(StorageError):
        return held is None or held.is_held()
    return False
