"""The looks at comparisons: which were tested, when, and with which runs, so that a test that is
made again with more runs is known to be a further one.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import takewhile
from typing import Annotated

from pydantic import Field

from raxalign.errors import StorageError
from raxalign.store._filesystem import Files
from raxalign.store.key import digest
from raxalign.store.sealed import recorded, seal, unseal

FOLDER = "looks"


@dataclass(frozen=True)
class EarlierLook:
    """A look before the present one: the number of runs of a side, and when it was."""

    runs: int
    when: str


@recorded
class _Looked:
    """Comparisons that were tested at one time: the digest of the runs behind each, and how many
    these were.
    """

    when: Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT[\d:.+]+$")]
    tested: Mapping[str, tuple[str, Annotated[int, Field(ge=1)]]]


class Looks:
    """The records ``<root>/looks/<digest>.json``, which nothing changes or removes. The same
    comparisons with the same runs are one look, by whatever command and however often.
    """

    def __init__(self, files: Files) -> None:
        self._files = files

    def take(self, tested: Mapping[str, tuple[str, int]]) -> dict[str, tuple[EarlierLook, ...]]:
        """Return the earlier looks at each comparison, oldest first, and record those at which it
        is tested with runs that no look had. `tested` has the digest and the number of its runs.
        """
        known: dict[str, dict[str, EarlierLook]] = {name: {} for name in tested}
        for look in sorted(self._read(), key=lambda look: look.when):
            for name in look.tested.keys() & tested.keys():
                runs, count = look.tested[name]
                known[name].setdefault(runs, EarlierLook(count, look.when))
        if new := {name: entry for name, entry in tested.items() if entry[0] not in known[name]}:
            self._write(new)
        return {
            name: tuple(known[name][each] for each in takewhile(runs.__ne__, known[name]))
            for name, (runs, _) in tested.items()
        }

    def _read(self) -> Iterator[_Looked]:
        names = sorted(self._files.names(FOLDER))
        paths = [f"{FOLDER}/{name}" for name in names if name.endswith(".json")]
        for path, data in self._files.read_many(paths).items():
            try:
                yield unseal(data, _Looked)
            except ValueError as error:
                place = self._files.place(path)
                warnings.warn(f"{place}: this look does not count: it {error}", stacklevel=2)

    def _write(self, new: Mapping[str, tuple[str, int]]) -> None:
        record = _Looked(datetime.now(UTC).isoformat(), dict(sorted(new.items())))
        try:
            self._files.create(f"{FOLDER}/{digest(record.tested)}.json", seal(asdict(record)))
        except StorageError as error:
            told = "this look at comparisons is not recorded, and later ones do not correct for it"
            warnings.warn(f"{told}: {error}", stacklevel=2)
