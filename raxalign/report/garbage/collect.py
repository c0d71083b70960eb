"""Removing what no grid needs from a storage."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from raxalign.errors import RaxalignError, StorageError
from raxalign.plan.estimates.cost import volume
from raxalign.plan.load import Opened, open_grid, reopened
from raxalign.plan.plan import Plan
from raxalign.plan.stored import plan_at
from raxalign.report.garbage.searches import unfinished
from raxalign.report.garbage.waste import Needs, Waste, waste
from raxalign.store.drivers import Sign, signs
from raxalign.store.ledger import Ledger


def collect(
    files: list[Path], storage: str | None, local_of: Callable[[str], Path], *, delete: bool
) -> str:
    """Report what may go, and remove it with `delete`; results in the ledger never go.

    Args:
        files: The grids whose needs are kept. All must use one storage.
        storage: The flag ``--storage``.
        local_of: Returns the machine's own folder of a storage root.
        delete: Whether it is removed.

    Raises:
        RaxalignError: What is needed cannot be known: a grid cannot be read, has unresolved data
            or uses another storage, or the plan of a living driver cannot be read.
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
    root = roots.pop()
    local = local_of(root)
    needs = _needs(opened, root, local)
    found = list(waste(needs))
    if delete or not needs.quiet:
        # a search plans trials all the time: what had been made when it was listed above, had been
        # planned before, and is needed now
        needs = _needs([reopened(entry) for entry in opened], root, local)
        still = {(entry.kind, entry.name) for entry in waste(needs)}
        found = [entry for entry in found if (entry.kind, entry.name) in still]
    if delete:
        for entry in found:
            entry.remove()
    return "\n".join([*_kept(needs), *_lines(found, delete=delete)])


def _needs(opened: list[Opened], root: str, local: Path) -> Needs:
    known = signs(root)
    alive = [sign for sign in known if sign.lives]
    living = [_plan_of(sign) for sign in alive]
    searches = unfinished(root, living)
    plans = [*(entry.plan for entry in opened), *living, *searches.plans]
    given = {study.name for entry in opened for study in entry.plan.studies}
    there = Ledger(root).keys()
    own = {key for entry in opened for t in entry.plan.trials for key in t.evaluations.values()}
    return Needs(
        root,
        local,
        frozenset(key for plan in plans for key in plan.stages),
        frozenset(trial.key for plan in plans for trial in plan.trials),
        frozenset(plan.name for plan in plans),
        frozenset(sign.plan.rpartition("/")[2] for sign in alive),
        tuple(known),
        finished=own <= there,
        searches=tuple(name for name in searches.studies if name not in given),
    )


def _plan_of(sign: Sign) -> Plan:
    """Return the plan that a living driver runs."""
    try:
        return plan_at(sign.plan)
    except (OSError, StorageError, ValueError, KeyError, TypeError) as error:
        raise RaxalignError(
            f"a driver runs on this storage (process {sign.pid} of {sign.host}), and its plan"
            f" {sign.plan} cannot be read, so what it needs is not known: {error}. Wait until it"
            " has ended"
        ) from error


def _kept(needs: Needs) -> list[str]:
    """Return a line on the searches that no given grid has and whose artifacts are kept."""
    if not needs.searches:
        return []
    names = ", ".join(needs.searches)
    return [
        f"kept what searches need that are not finished: {names}. To give one up, delete its file"
        f" in {needs.root}/studies"
    ]


def _lines(found: Iterable[Waste], *, delete: bool) -> list[str]:
    """Return a line per artifact, one per kind with number, bytes and reason, and the sum."""
    found = list(found)
    would = "removed" if delete else "would remove"
    lines = [
        f"{would} {entry.name} ({volume(entry.size)})"
        for entry in found
        if entry.kind == "artifacts"
    ]
    for kind in dict.fromkeys(entry.kind for entry in found):
        own = [entry for entry in found if entry.kind == kind]
        size = volume(sum(entry.size for entry in own))
        lines.append(f"{would} {len(own)} {kind} ({size}): {own[0].why}")
    total = volume(sum(entry.size for entry in found))
    return [*lines, f"{total} {'freed' if delete else 'could be freed with --delete'}"]
