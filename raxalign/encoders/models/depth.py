"""How many blocks a Hugging Face encoder has, by its ``config.json`` alone: a plan asks before
anything is loaded.
"""

from __future__ import annotations

import json
from pathlib import Path

from raxalign.errors import DataError, TransientError

_CONFIG = "config.json"
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
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise DataError(
            path,
            f"cannot be read as an encoder's config ({error})",
            remedy="Save the encoder again, or download it again",
        ) from error
    found = [
        config[name]
        for name in _NAMES
        if isinstance(config, dict) and isinstance(config.get(name), int)
    ]
    return found[0] if found else None


def cached_depth(name: str, revision: str | None) -> int | None:
    """The number of blocks of a hub name that is in the hub's local cache, None where it is not.
    Nothing is fetched; revision None is the main branch.
    """
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        path = try_to_load_from_cache(name, _CONFIG, revision=revision)
    except HFValidationError:  # no name that the hub can have, which `fetch` says
        return None
    return config_depth(Path(path)) if isinstance(path, str) else None


def fetched_depth(name: str, revision: str) -> int | None:
    """The same, fetched where the cache lacks it. Raises `TransientError` where the hub cannot be
    reached.
    """
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    try:
        path = hf_hub_download(name, _CONFIG, revision=revision)
    except (OfflineModeIsEnabled, HfHubHTTPError, OSError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise TransientError(
            f"{name}: the hub cannot be reached to look up how many layers it has ({reason})"
        ) from error
    return config_depth(Path(path))
