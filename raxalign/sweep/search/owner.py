"""Who runs a point of a study, and whether that driver lives."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from pathlib import Path

from raxalign.tracking.drivers import Driver, lives, this_driver

BEAT = 60.0  # seconds between two signs of life


@dataclass
class Owner:
    """This driver. On its own machine a driver is recognised by its process; on others by a file
    next to the journal, which it renews every minute: one that did not for five minutes is dead.
    """

    folder: Path
    driver: Driver = field(default_factory=this_driver)
    token: str = field(default_factory=lambda: uuid.uuid4().hex[:12])

    @property
    def sign(self) -> str:
        """What is kept with a point that this driver runs."""
        return json.dumps({**json.loads(self.driver.sign()), "token": self.token})

    def beat(self) -> None:
        """Give a sign of life."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / f"{self.token}.json").write_text(self.driver.sign(), encoding="utf-8")

    def leave(self) -> None:
        """Remove the sign: the driver ends."""
        (self.folder / f"{self.token}.json").unlink(missing_ok=True)

    def owns(self, sign: str) -> bool:
        """Return whether a sign is this driver's."""
        return bool(json.loads(sign)["token"] == self.token)

    def lives(self, sign: str) -> bool:
        """Return whether the driver that left a sign lives."""
        if self.owns(sign):
            return True
        try:
            latest = (self.folder / f"{json.loads(sign)['token']}.json").read_text(encoding="utf-8")
        except OSError:  # it has left, or it is on a machine that shares no folder
            return False
        return lives(latest)
