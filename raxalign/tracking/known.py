"""What a driver knows of the runs of its grid, so that it need not search for each.

While a driver is the only one, the runs are those that it has read or made. `look` finds out
whether that still holds: who signs on leaves its mark on the run of the grid.
"""

from __future__ import annotations

from collections.abc import Mapping

from raxalign.tracking.drivers import Driver
from raxalign.tracking.registry import KIND, Entry, Registry
from raxalign.tracking.runs import Run

LATEST = "raxalign.signed_on"  # tag of the run of a grid: who has signed on last


class Known:
    """The runs of one grid. Entries of runs that this driver has finished are dropped."""

    def __init__(self, registry: Registry, driver: Driver) -> None:
        self._runs, self._driver = registry, driver
        self._mark = driver.sign()
        self._entries: dict[str, Entry] = {}
        self._keys: set[str] | None = None  # of all runs; None where others may have made some
        self._alone = False

    @property
    def signs(self) -> dict[str, str]:
        """The tags with which this driver signs on."""
        return {self._driver.tag: self._driver.sign(), LATEST: self._mark}

    @property
    def complete(self) -> bool:
        """Whether all runs are known."""
        return self._keys is not None

    def take(self, found: Mapping[str, Entry], *, alone: bool) -> None:
        """Take these runs for all that there are, until `check` finds another driver; `alone` means
        that nobody else makes runs meanwhile.
        """
        self._keys, self._alone = set(found), alone
        self._entries = {key: entry for key, entry in found.items() if entry.tags[KIND] == "cell"}

    def look(self, parent: Entry) -> Entry:
        """Read the run of the grid again, and check it."""
        parent = self._runs.again(parent)
        self.check(parent)
        return parent

    def check(self, parent: Entry | None) -> None:
        """Search for each run from now on where the run of the grid shows another driver."""
        tags = parent.tags if parent else {}
        if tags.get(LATEST) != self._mark or self._driver.living(tags):
            self.forget()

    def forget(self) -> None:
        """Search for each run from now on."""
        self._keys, self._entries, self._alone = None, {}, False

    def find(self, key: str) -> Entry | None:
        """Return the run of a key; None where there is none."""
        if key in self._entries:
            return self._entries[key]
        if self._keys is not None and key not in self._keys:
            return None
        return self._runs.find(key)

    def make(self, wanted: Run, tags: Mapping[str, str]) -> Entry:
        """Make the run of a key that was not found."""
        entry = self._runs.make(wanted, tags, alone=self._alone)
        if self._keys is not None:
            self._keys.add(entry.key)
            self._entries[entry.key] = entry
        return entry

    def drop(self, key: str) -> None:
        """Forget what is in a run: it is read again where it is needed."""
        self._entries.pop(key, None)
