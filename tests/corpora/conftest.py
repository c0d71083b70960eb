from __future__ import annotations

import os
from pathlib import Path

import pytest

from raxalign.corpora.base import CorpusInputs
from raxalign.corpora.moses import Moses


@pytest.fixture
def real_data() -> Path:
    folder = os.environ.get("RAXALIGN_TEST_DATA")
    if not folder:
        pytest.skip("RAXALIGN_TEST_DATA is not set")
    return Path(folder)


@pytest.fixture
def moses(tmp_path):
    """Makes a Moses corpus de-en of two files with the given bytes or lines; returns it with its inputs."""

    def make(source, target, prefix="corpus"):
        for code, content in (("de", source), ("en", target)):
            data = content if isinstance(content, bytes) else "".join(f"{line}\n" for line in content).encode()
            (tmp_path / f"{prefix}.{code}").write_bytes(data)
        return _corpus_at(tmp_path / prefix, "de", "en")

    return make


@pytest.fixture
def corpus_at():
    """Makes the Moses corpus of a prefix, with its inputs."""
    return _corpus_at


def _corpus_at(prefix: Path, lang: str, pivot: str):
    corpus = Moses(Moses.Params(path=str(prefix)))
    locations = {name: str(source.path) for name, source in corpus.sources(lang, pivot).items()}
    return corpus, CorpusInputs(locations, prefix.parent / "downloads")
