"""XQuAD's questions from the folder of real data."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from raxalign.tasks.spans.rows import Questions, read_squad

LANGUAGES = ("en", "de", "es", "zh", "ar", "el")


def real(lang: str) -> Questions:
    """The development questions of a language; skips where there is no real data."""
    folder = os.environ.get("RAXALIGN_TEST_DATA")
    if not folder:
        pytest.skip("RAXALIGN_TEST_DATA names no folder of real data")
    return read_squad(Path(folder) / "xquad" / f"dev.{lang}.json")
