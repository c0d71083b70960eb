"""How many blocks a Hugging Face encoder has, by its ``config.json`` alone: a plan asks before
anything is loaded.
"""

from __future__ import annotations

from pathlib import Path

from raxalign.encoders.models.head import read_config
from raxalign.encoders.models.hub import cached_config, fetched_config

_NAMES = (
    "num_hidden_layers",
    "n_layers",
    "num_layers",
    "n_layer",
)  # BERT and most others; DistilBERT and XLM; and what others call it


def config_depth(path: Path) -> int | None:
    """The number of blocks that a ``config.json`` records, None where it does not. Raises
    `DataError` where the file is not whole.
    """
    config = read_config(path)
    found = [config[name] for name in _NAMES if isinstance(config.get(name), int)]
    return found[0] if found else None


def cached_depth(name: str, revision: str | None) -> int | None:
    """The number of blocks of a hub name that is in the hub's local cache, None where it is not.
    Nothing is fetched; revision None is the main branch.
    """
    path = cached_config(name, revision)
    return None if path is None else config_depth(path)


def fetched_depth(name: str, revision: str) -> int | None:
    """The same, fetched where the cache lacks it. Raises `TransientError` where the hub cannot be
    reached, `DataError` where it has no such encoder or refuses access.
    """
    return config_depth(fetched_config(name, revision, "look up how many layers it has"))
