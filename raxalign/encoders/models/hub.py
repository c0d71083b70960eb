"""What the Hugging Face Hub records of an encoder: the commit that a name stands for, and its
config.
"""

from __future__ import annotations

from pathlib import Path

from raxalign.encoders.models.hub_errors import hub_call
from raxalign.errors import TransientError

_CONFIG = "config.json"


def hub_revision(name: str) -> str:
    """The commit of a hub name's main branch now. Raises `TransientError` where the hub cannot be
    reached, `DataError` where it has no such name or refuses access.
    """
    from huggingface_hub import HfApi

    with hub_call(name, "look up its revision"):
        revision = HfApi().model_info(name, timeout=20).sha
    if revision is None:
        raise TransientError(f"{name}: the hub gives no revision; try again later")
    return revision


def cached_config(name: str, revision: str | None) -> Path | None:
    """The ``config.json`` of a hub name in the hub's local cache, None where it is not there.
    Nothing is fetched; revision None is the main branch.
    """
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        path = try_to_load_from_cache(name, _CONFIG, revision=revision)
    except HFValidationError:  # no name that the hub can have, which `fetch` says
        return None
    return Path(path) if isinstance(path, str) else None


def fetched_config(name: str, revision: str, purpose: str) -> Path:
    """The same, fetched where the cache lacks it. `purpose` is for errors, as of `hub_call`, which
    it raises.
    """
    from huggingface_hub import hf_hub_download

    with hub_call(name, purpose, revision):
        return Path(hf_hub_download(name, _CONFIG, revision=revision))
