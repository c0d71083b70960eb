"""The plans that a storage keeps of the grids that ran in it."""

from __future__ import annotations

from collections.abc import Iterator

from raxalign.plan.plan import Plan
from raxalign.store.files import files_of


def stored_plans(root: str) -> Iterator[Plan]:
    """Yield the plans of all grids that ran in a storage; one that another version wrote is passed
    over.
    """
    storage = files_of(root)
    places = [f"plans/{name}" for name in storage.names("plans") if name.endswith(".json")]
    for _, text in sorted(storage.read_many(places).items()):
        try:
            yield Plan.from_json(text.decode())
        except (ValueError, KeyError, TypeError):
            continue
