"""What the Hugging Face Hub records of an encoder (the commit that a name stands for, its config),
and what its client raises, as errors with the encoder's name and a remedy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from raxalign.corpora.readers.hub import causes, first_line, is_lost, status_of
from raxalign.encoders.models.folder import read_config
from raxalign.errors import DataError, RaxalignError, TransientError

NO_NAME = "is neither a folder nor a name on the Hugging Face Hub"
NAMES = "A folder exists or begins with ./, ../, / or ~; a hub name is `name` or `owner/name`"
_LOG_IN = "log in with `hf auth login` or set HF_TOKEN"
_CONFIG = "config.json"


@contextmanager
def hub_call(name: str, purpose: str, revision: str | None = None) -> Iterator[None]:
    """Turn what the hub's client raises in the block into the user's errors; others pass:
    `DataError` where the hub does not have `name` or refuses access, `TransientError` where it
    cannot be reached or fails. `purpose` is what the call is for, as in ``look up its revision``;
    revision None is the main branch.
    """
    try:
        yield
    except RaxalignError:
        raise
    except Exception as error:
        chain = causes(error)[::-1]
        found = (_refused(name, e, revision) or _unanswered(name, purpose, e) for e in chain)
        explained = next(filter(None, found), None)
        if explained is None:
            raise
        raise explained from error


def _refused(name: str, error: BaseException, revision: str | None) -> DataError | None:
    """The error for what the hub does not have or does not give."""
    from huggingface_hub import errors as hub

    if isinstance(error, hub.LocalEntryNotFoundError):
        return None
    known = [
        (hub.HFValidationError, NO_NAME, NAMES),
        (
            hub.GatedRepoError,
            "is a gated encoder, to which the hub refuses access",
            f"Accept its terms on its page of the hub, then {_LOG_IN}",
        ),
        (
            hub.RepositoryNotFoundError,
            "the hub has no such encoder",
            f"Is it a folder? Then write ./name. Is it private? Then {_LOG_IN}",
        ),
        (
            hub.RevisionNotFoundError,
            f"the hub has no revision {revision!r} of it",
            "Name a branch, tag or commit of it, or leave `revision` out",
        ),
        (
            hub.RemoteEntryNotFoundError,
            f"lacks a file that encoders have ({first_line(error)})",
            "Name one with config.json, a tokenizer and safetensors weights",
        ),
    ]
    if (status := status_of(error)) in (401, 403):
        refused = f"the hub refuses access ({status})"
        known.append((hub.HfHubHTTPError, refused, _LOG_IN.capitalize()))
    found = (DataError(name, fault, remedy=do) for k, fault, do in known if isinstance(error, k))
    return next(found, None)


def _unanswered(name: str, purpose: str, error: BaseException) -> TransientError | None:
    """The error for a hub that is not reached, or that fails."""
    if is_lost(error):
        return TransientError(
            f"{name}: the hub cannot be reached to {purpose} ({first_line(error)}). Go online, give"
            " `revision` (a commit that the local cache has), or name a folder"
        )
    status = status_of(error)
    if status == 429 or status >= 500:
        return TransientError(
            f"{name}: the hub fails to answer ({status}), asked to {purpose}. Try again later, or"
            " name a folder"
        )
    return None


def hub_revision(name: str) -> str:
    """Return the commit of a hub name's main branch now. Raises as `hub_call`."""
    from huggingface_hub import HfApi

    with hub_call(name, "look up its revision"):
        revision = HfApi().model_info(name, timeout=20).sha
    if revision is None:
        raise TransientError(f"{name}: the hub gives no revision; try again later")
    return revision


def cached_config(name: str, revision: str | None) -> Mapping[str, Any] | None:
    """Return the config of a hub name in the hub's local cache, None where it is not there. Nothing
    is fetched; revision None is the main branch.
    """
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        path = try_to_load_from_cache(name, _CONFIG, revision=revision)
    except HFValidationError:  # no name that the hub can have, which `fetch` says
        return None
    return read_config(Path(path)) if isinstance(path, str) else None


def fetched_config(name: str, revision: str, purpose: str) -> Mapping[str, Any]:
    """Return the same, fetched where the cache lacks it. Arguments and errors as `hub_call`."""
    from huggingface_hub import hf_hub_download

    with hub_call(name, purpose, revision):
        return read_config(Path(hf_hub_download(name, _CONFIG, revision=revision)))
