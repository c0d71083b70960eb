from __future__ import annotations

import subprocess
import sys

import pytest

from raxalign.catalog import catalog
from raxalign.corpora.base import Corpus


@pytest.mark.parametrize("kind", sorted(catalog("corpora")))
def test_every_corpus_has_a_licence(kind):
    assert issubclass(catalog("corpora")[kind], Corpus)
    assert catalog("corpora")[kind].licence


CODE = """
import sys
import raxalign.corpora.text.bitext
from raxalign.catalog import catalog
for kind in catalog("corpora"):
    catalog("corpora")[kind]
heavy = {"torch", "transformers", "datasets", "pandas", "ray", "mlflow", "sacremoses"}
heavy &= set(sys.modules)
sys.exit(str(heavy) if heavy else 0)
"""


def test_corpora_are_imported_without_heavy_libraries():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
