from __future__ import annotations

import subprocess
import sys

import pytest

from raxalign.catalog import catalog
from raxalign.corpora.base import Corpus

KINDS = sorted(catalog("corpora"))


@pytest.mark.parametrize("kind", KINDS)
def test_every_corpus_keeps_the_contract(kind):
    corpus = catalog("corpora")[kind]
    assert issubclass(corpus, Corpus)
    assert corpus.licence
    assert corpus.__doc__
    assert corpus.Params.__doc__
    assert corpus.VERSION >= 1
    assert corpus.Params.model_config["extra"] == "forbid"
    assert corpus.Params.model_config["frozen"]


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
