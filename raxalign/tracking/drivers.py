"""Drivers that search: who they are, and whether they live. Signs are dated by the clock of the
storage: those of two machines may differ.
"""

from __future__ import annotations

import json
import os
import socket
import time
from dataclasses import dataclass

from raxalign.store.alive import lives, maker_name
from raxalign.store.drivers import clock_lead
from raxalign.store.storage import Storage

SILENCE = 300.0  # seconds after which a driver on another machine that gave no sign counts as dead


@dataclass(frozen=True)
class Driver:
    """A process: its name, which no other one has, and the seconds by which the clock of its
    storage is ahead of its own.
    """

    name: str
    lead: float = 0.0

    def sign(self) -> str:
        """Return its sign: who it is, and that it lived now."""
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


def this_driver(storage: Storage) -> Driver:
    """Return the driver that this process is, with the clock of a storage."""
    return Driver(maker_name(), clock_lead(storage))
