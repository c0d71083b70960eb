"""Who runs a point of a study, and whether that driver lives."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field

from raxalign.store.storage import Storage
from raxalign.store.studies import SIGNS
from raxalign.tracking.drivers import Driver, this_driver

BEAT = 60.0  # seconds between two signs of life


@dataclass
class Owner:
    """This driver. On its own machine a driver is recognised by its process; on others by a file
    next to the journal in the storage, which it renews every minute: one that did not for five
    minutes is dead.
    """

    storage: Storage
    driver: Driver = field(init=False)
    token: str = field(default_factory=lambda: uuid.uuid4().hex[:12])

    def __post_init__(self) -> None:
        """Ask for this process and the clock of the storage."""
        self.driver = this_driver(self.storage)

    @property
    def sign(self) -> str:
        """What is kept with a point that this driver runs."""
        return json.dumps({**json.loads(self.driver.sign()), "token": self.token})

    def beat(self) -> None:
        """Give a sign of life. Raises `StorageError` where the storage cannot be written."""
        self.storage.files.write(_place(self.token), self.driver.sign().encode())

    def leave(self) -> None:
        """Remove the sign: the driver ends."""
        self.storage.files.delete(_place(self.token))

    def owns(self, sign: str) -> bool:
        """Return whether a sign is this driver's."""
        return bool(json.loads(sign)["token"] == self.token)

    def lives(self, sign: str) -> bool:
        """Return whether the driver that left a sign lives."""
        if self.owns(sign):
            return True
        try:
            latest = self.storage.files.read(_place(json.loads(sign)["token"]))
        except FileNotFoundError:  # it has left
            return False
        return self.driver.finds_alive(latest.decode())


def _place(token: str) -> str:
    return f"{SIGNS}/{token}.json"
