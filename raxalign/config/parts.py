"""Training, dev and test text as files of their own."""

from __future__ import annotations

from pydantic import Field

from raxalign.config.params import BaseParams
from raxalign.config.sources import DataPrefix


class Parts(BaseParams):
    """A path for each part of a corpus, as published splits have them; read with ``split: files``.

    Paths may hold ``{lang}`` and ``{pivot}``, and are completed as a single path is.
    """

    train: DataPrefix = Field(description="Path of the training text.")
    dev: DataPrefix | None = Field(
        None, description="Path of the dev text (none: there is no dev set)."
    )
    test: DataPrefix = Field(description="Path of the test text.")

    def paths(self) -> dict[str, str]:
        """Return the paths by part, in the order in which the parts make up the corpus: training,
        dev, test.
        """
        return {
            name: path
            for name, path in (("train", self.train), ("dev", self.dev), ("test", self.test))
            if path is not None
        }
