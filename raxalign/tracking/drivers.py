"""Drivers that copy runs of one grid to MLflow: who they are, and whether they live.

A driver signs on by a tag of its own on the run of the grid, and signs off by deleting it, so no
driver overwrites another's sign. A driver that signs off and sees no other living driver ends that
run. Signs are dated by the clock of the storage: those of two machines may differ.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass

from raxalign.store.alive import lives, maker_name
from raxalign.store.drivers import clock_lead
from raxalign.store.storage import Storage

PREFIX = "raxalign.driver."
SILENCE = 300.0  # seconds after which a driver on another machine that gave no sign counts as dead


@dataclass(frozen=True)
class Driver:
    """A process that copies runs to MLflow: its name, which no other process has, and the seconds
    by which the clock of its storage is ahead of its own.
    """

    name: str
    lead: float = 0.0

    @property
    def tag(self) -> str:
        """The name of its tag."""
        return PREFIX + self.name

    def sign(self) -> str:
        """Return the value of its tag: who it is, and that it lived now."""
        who = {"name": self.name, "host": socket.gethostname(), "pid": os.getpid()}
        return json.dumps({**who, "at": time.time() + self.lead})

    def finds_alive(self, sign: str) -> bool:
        """Return whether the driver that left a sign lives: on this machine its process is asked,
        on another one the age of the sign decides. What cannot be read counts as none.
        """
        try:
            left = json.loads(sign)
            name, age = str(left.get("name")), time.time() + self.lead - float(left["at"])
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return False
        return lives(name, age, SILENCE)

    def living(self, tags: Mapping[str, str]) -> list[str]:
        """Return the tags of other living drivers on the run of a grid."""
        return [tag for tag in _others(tags, self.tag) if self.finds_alive(tags[tag])]

    def dead(self, tags: Mapping[str, str]) -> list[str]:
        """Return the tags of drivers that died without signing off."""
        return [tag for tag in _others(tags, self.tag) if not self.finds_alive(tags[tag])]


def this_driver(storage: Storage) -> Driver:
    """Return the driver that this process is, with the clock of a storage."""
    return Driver(maker_name(), clock_lead(storage))


def _others(tags: Mapping[str, str], own: str) -> list[str]:
    return [name for name in tags if name.startswith(PREFIX) and name != own]
