"""Training, dev and test text as files of their own."""

from __future__ import annotations

from raxalign.config.params import BaseParams
from raxalign.config.sources import DataPath


class Parts(BaseParams):
    """A path for each part of a corpus, as published splits have them; read with ``split: files``.

    Without `dev` there is no dev set. Paths may hold ``{lang}`` and ``{pivot}``, and are completed as a single path is.
    """

    train: DataPath
    dev: DataPath | None = None
    test: DataPath

    def paths(self) -> dict[str, str]:
        """The paths by part, in the order in which the parts make up the corpus: training, dev, test."""
        return {name: path for name, path in (("train", self.train), ("dev", self.dev), ("test", self.test)) if path is not None}
