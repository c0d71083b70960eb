"""Removing artifacts that no grid needs."""

from __future__ import annotations

from pathlib import Path

from raxalign.errors import RaxalignError
from raxalign.plan.load import open_grid
from raxalign.store.artifacts import ArtifactStore


def collect(files: list[Path], storage: str | None, *, delete: bool) -> str:
    """Say (or delete) what no given grid's plan holds. All grids must use one storage; a grid that
    cannot be read stops it.
    """
    opened = [open_grid(file, storage=storage) for file in files]
    roots = {entry.root for entry in opened}
    if len(roots) != 1:
        raise RaxalignError(
            f"the grids use several storages ({', '.join(sorted(roots))}): name one with --storage"
        )
    if any(entry.plan.unresolved for entry in opened):
        raise RaxalignError(
            "a grid has unresolved remote data, so what it needs is not known: run it first, or pin"
            " its revisions"
        )
    store = ArtifactStore(roots.pop())
    kept = {key for entry in opened for key in entry.plan.stages}
    lines, freed = [], 0
    for kind, key in store.keys():  # noqa: SIM118 a method, not a mapping
        if key not in kept:
            size = store.size(kind, key)
            freed += size
            lines.append(
                f"{'removed' if delete else 'would remove'} {kind} {key[:12]} ({size / 2**20:.1f}"
                " MiB)"
            )
            if delete:
                store.remove(kind, key)
    if delete and (left := store.sweep_temporaries()):
        lines.append(f"removed {left} half-written entries of processes that died")
    lines.append(f"{freed / 2**20:.1f} MiB {'freed' if delete else 'could be freed with --delete'}")
    return "\n".join(lines)
