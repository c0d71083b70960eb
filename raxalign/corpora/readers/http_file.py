"""A file on an HTTP server, as one remote thing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from raxalign.corpora.readers.download import described, download, place_of, renew
from raxalign.corpora.readers.remote import Remote


@dataclass(frozen=True)
class HttpFile(Remote):
    """The file at a URL; `place` is where it lies among downloads."""

    url: str
    place: str

    def size(self, pin: str | None, downloads: Path) -> int:  # noqa: ARG002
        """Return what the server says; 0 where it does not say it."""
        return described(self.url)[0]

    def bring(self, pin: str | None, downloads: Path) -> int:
        """Download it, unless it is there; `pin` is its SHA-256."""
        target = place_of(downloads / self.place, pin)
        download(self.url, target, sha256=pin)
        return target.stat().st_size

    def renew(self, downloads: Path) -> None:
        """Download it again where the server may have another one now; the old one is kept."""
        renew(self.url, downloads / self.place)
