"""What a grid reads from outside, as one thing to ask about and to fetch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Remote(ABC):
    """Remote data by its `name` in locks. `pin` is a commit or SHA-256 where that is known, and
    `downloads` the folder that `Corpus.read` and tasks get as well. All raise `DataError` for what
    does not exist or is not given, and `TransientError` where nobody answers.
    """

    name: str

    def __str__(self) -> str:
        """Return what messages call it."""
        return self.name

    @abstractmethod
    def size(self, pin: str | None, downloads: Path) -> int:
        """Ask for its number of bytes; no more is fetched than what describes it."""

    @abstractmethod
    def bring(self, pin: str | None, downloads: Path) -> int:
        """Fetch all of it, unless it is there, so that it is read without a network; return its
        number of bytes.
        """

    def renew(self, downloads: Path) -> None:  # noqa: B027 (a commit is looked up, not kept)
        """Let what is there of it without a pin be what it is now."""

    def gated(self) -> bool:
        """Ask whether only those get it who have logged in and accepted its terms."""
        return False
