"""The plans that a storage keeps of the grids that ran in it. Each is named after the digest of its
text. A worker gets the name from the driver, and so reads the plan that the driver wrote and no
other one.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass

from raxalign.errors import StorageError
from raxalign.grid.plan import Plan
from raxalign.store.files import split_place
from raxalign.store.key import digest
from raxalign.store.storage import Storage

_FOLDER = "plans"


@dataclass(frozen=True)
class StoredPlans:
    """The plans that a storage keeps."""

    storage: Storage

    def write(self, plan: Plan) -> str:
        """Put a plan into the storage, where every worker finds it; returns its place."""
        text = plan.to_json()
        path = self.path(text)
        self.storage.files.write(path, text.encode())
        return f"{self.storage}/{path}"

    @staticmethod
    def path(text: str) -> str:
        """Return where the text of a plan is below the storage root."""
        return f"{_FOLDER}/{digest(text)[:32]}.json"

    @classmethod
    def at(cls, place: str) -> Plan:
        """Return the plan at a place (a storage root and the path below it).

        Raises `StorageError` where its text is not the one that it is named after, or not a
        plan of this version.
        """
        storage, name = split_place(place)
        try:
            return Plan.from_json(cls._sealed(storage.read(name), place))
        except ValueError as error:
            raise StorageError(f"{place}: is not a plan of this version: it {error}") from error

    def __iter__(self) -> Iterator[Plan]:
        """Yield the plans of all grids that ran in the storage, with a warning in place of those
        that were changed, and one for all that are not plans of this version.
        """
        files, others = self.storage.files, list[str]()
        paths = [f"{_FOLDER}/{name}" for name in files.names(_FOLDER) if name.endswith(".json")]
        for path, data in sorted(files.read_many(paths).items()):
            try:
                yield Plan.from_json(self._sealed(data, f"{self.storage}/{path}"))
            except StorageError as error:
                warnings.warn(f"{error} It is passed over", stacklevel=2)
            except ValueError as error:
                others.append(f"{self.storage}/{path} {error}")
        if others:
            more = f", and {len(others) - 1} more" if len(others) > 1 else ""
            told = "is passed over, since it is not a plan of this version"
            warnings.warn(f"{others[0]}{more}: {told}", stacklevel=2)

    @classmethod
    def _sealed(cls, data: bytes, place: str) -> str:
        """Return the text of a plan that is the one that its place is named after."""
        text = data.decode("utf-8", "replace")
        if not place.endswith(cls.path(text).removeprefix(_FOLDER)):
            raise StorageError(
                f"{place}: was changed: it is not the plan whose digest it is named after. Run its"
                " grid again to write it anew, or delete it."
            )
        return text
