"""New processes that begin with the heavy libraries loaded: a server loads them once, and each
process is a copy of it. As with `spawn`, they share nothing else with the process of the test.
"""

from __future__ import annotations

import multiprocessing
from multiprocessing.context import ForkServerContext

_LOADED = [
    "mlflow",
    "pytest",
    "torch",
    "torch._dynamo",  # the first optimiser loads it
    "transformers.models.bert.modeling_bert",
    "raxalign.encoders.models.transformer",
    "raxalign.tracking.recorder",
    "raxalign.train.loop",
]


def forks() -> ForkServerContext:
    """Return the context by which such processes are started."""
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(_LOADED)
    return found
