"""Libraries that not everybody needs, each in an extra: ``pip install 'raxalign[EXTRA]'``."""

from __future__ import annotations

from importlib.util import find_spec

from raxalign.errors import DependencyError

EXTRAS = {
    "eflomal": "eflomal",
    "gensim": "static",
    "peft": "lora",
    "jieba": "segment",
    "pythainlp": "segment",
    "mteb": "mteb",
    "sentence_transformers": "sentences",
    "s3fs": "s3",
    "gcsfs": "gcs",
}
"""The extra of each library, by the name under which it is imported."""


def missing(library: str, what: str) -> list[str]:
    """Return the fault that `what` has where a library is not installed; nothing where it is."""
    if find_spec(library) is not None:
        return []
    return [
        f"{what}: the library {library} is not installed. Run: pip install"
        f" 'raxalign[{EXTRAS[library]}]'"
    ]


def require(library: str, what: str) -> None:
    """Raise `DependencyError` where a library that `what` needs is not installed."""
    for fault in missing(library, what):
        raise DependencyError(fault)
