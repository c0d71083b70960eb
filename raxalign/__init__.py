"""raxalign: grids of cross-lingual alignment experiments on multilingual encoders.

``import raxalign as rx`` has the names of `__all__`, each loaded when it is first asked for;
docs/reference/python.md shows them at work.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from raxalign.version import VERSION

__version__ = VERSION
__all__ = [
    "AlignedEncoder",
    "Corpus",
    "Encoder",
    "EncoderKind",
    "Finished",
    "Measured",
    "Method",
    "Metric",
    "Needs",
    "Opened",
    "Outcome",
    "Params",
    "RaxalignError",
    "Section",
    "Task",
    "TaskNeeds",
    "WordAligner",
    "align",
    "compare",
    "confirmed",
    "curves",
    "evaluate",
    "nearest_neighbors",
    "plan",
    "results",
    "run",
    "word_pairs",
]

if TYPE_CHECKING:
    from raxalign.api import Finished, align, compare, curves, evaluate, results, run, word_pairs
    from raxalign.corpora.base import Corpus
    from raxalign.encoders.base import Encoder, EncoderKind
    from raxalign.encoders.models.aligned import AlignedEncoder
    from raxalign.errors import RaxalignError
    from raxalign.grid.load import Opened
    from raxalign.grid.load import open_grid as plan
    from raxalign.measured import Measured
    from raxalign.methods.base import Method, Needs
    from raxalign.metrics.base import Metric
    from raxalign.options.params import BaseParams as Params
    from raxalign.pairing.aligners.base import WordAligner
    from raxalign.report.sections.base import Section
    from raxalign.search.words import confirmed
    from raxalign.similarity.neighbors import nearest_neighbors
    from raxalign.tasks.base import Outcome, Task, TaskNeeds

_PLACES = {
    **dict.fromkeys(
        ("Finished", "align", "compare", "curves", "evaluate", "results", "run", "word_pairs"),
        "raxalign.api",
    ),
    "AlignedEncoder": "raxalign.encoders.models.aligned",
    "Corpus": "raxalign.corpora.base",
    "Encoder": "raxalign.encoders.base",
    "EncoderKind": "raxalign.encoders.base",
    "Measured": "raxalign.measured",
    "Method": "raxalign.methods.base",
    "Metric": "raxalign.metrics.base",
    "Needs": "raxalign.methods.base",
    "Opened": "raxalign.grid.load",
    "RaxalignError": "raxalign.errors",
    "Section": "raxalign.report.sections.base",
    **dict.fromkeys(("Outcome", "Task", "TaskNeeds"), "raxalign.tasks.base"),
    "confirmed": "raxalign.search.words",
    "WordAligner": "raxalign.pairing.aligners.base",
    "nearest_neighbors": "raxalign.similarity.neighbors",
}
_RENAMED = {
    "Params": ("raxalign.options.params", "BaseParams"),
    "plan": ("raxalign.grid.load", "open_grid"),
}


def __getattr__(name: str) -> Any:
    """Load a public name from the module that defines it."""
    if name in _RENAMED:
        module, there = _RENAMED[name]
        return getattr(import_module(module), there)
    if name in _PLACES:
        return getattr(import_module(_PLACES[name]), name)
    raise AttributeError(f"module 'raxalign' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names."""
    return sorted([*__all__, "__version__"])
