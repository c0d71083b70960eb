"""What the Hugging Face Hub records of an encoder: the commit that a name stands for, and its
config.

How many blocks a Hugging Face encoder has, by its ``config.json`` alone: a plan asks before
anything is loaded.

What the Hugging Face Hub's client raises, as errors with the encoder's name and a remedy.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from raxalign.encoders.models.head import read_config
from raxalign.errors import DataError, RaxalignError, TransientError

NO_NAME = "is neither a folder nor a name on the Hugging Face Hub"
NAMES = "A folder exists or begins with ./, ../, / or ~; a hub name is `name` or `owner/name`"
_LOG_IN = "log in with `hf auth login` or set HF_TOKEN"


@contextmanager
def hub_call(name: str, purpose: str, revision: str | None = None) -> Iterator[None]:
    """Turns what the hub's client raises in the block into the user's errors; others pass.

    Args:
        name: The hub name that is asked for.
        purpose: What the call is for, as in ``look up its revision``.
        revision: The revision that is asked for; None is the main branch.

    Raises:
        DataError: The hub does not have it, or refuses access.
        TransientError: The hub cannot be reached, or fails.
    """
    try:
        yield
    except RaxalignError:
        raise
    except Exception as error:
        explained = explain(name, purpose, error, revision)
        if explained is None:
            raise
        raise explained from error


def explain(
    name: str, purpose: str, error: BaseException, revision: str | None = None
) -> RaxalignError | None:
    """The user's error for one of the hub's client, or for one that was raised because of it; None
    for any other. The arguments are those of `hub_call`.
    """
    for cause in _causes(error):
        found = _refused(name, cause, revision) or _unanswered(name, purpose, cause)
        if found is not None:
            return found
    return None


def first_line(error: BaseException) -> str:
    """The first line of an error's message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The first causes first: transformers wraps the hub's errors in others."""
    chain: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in chain:
        chain.append(current)
        current = current.__cause__ or current.__context__
    return reversed(chain)


def _refused(name: str, error: BaseException, revision: str | None) -> DataError | None:
    """The error for what the hub does not have or does not give."""
    from huggingface_hub.errors import (
        GatedRepoError,
        HFValidationError,
        LocalEntryNotFoundError,
        RemoteEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    if isinstance(error, LocalEntryNotFoundError):
        return None
    if isinstance(error, HFValidationError):
        return DataError(name, NO_NAME, remedy=NAMES)
    if isinstance(error, GatedRepoError):
        return DataError(
            name,
            "is a gated encoder, to which the hub refuses access",
            remedy=f"Accept its terms on its page of the hub, then {_LOG_IN}",
        )
    if isinstance(error, RepositoryNotFoundError):
        return DataError(
            name,
            "the hub has no such encoder",
            remedy=f"Is it a folder? Then write ./name. Is it private? Then {_LOG_IN}",
        )
    if isinstance(error, RevisionNotFoundError):
        remedy = "Name a branch, tag or commit of it, or leave `revision` out"
        return DataError(name, f"the hub has no revision {revision!r} of it", remedy=remedy)
    if isinstance(error, RemoteEntryNotFoundError):
        return DataError(
            name,
            f"lacks a file that encoders have ({first_line(error)})",
            remedy="Name one with config.json, a tokenizer and safetensors weights",
        )
    status = _status(error)
    if status not in (401, 403):
        return None
    return DataError(name, f"the hub refuses access ({status})", remedy=_LOG_IN.capitalize())


def _unanswered(name: str, purpose: str, error: BaseException) -> TransientError | None:
    """The error for a hub that is not reached, or that fails."""
    if _is_unreachable(error):
        return TransientError(
            f"{name}: the hub cannot be reached to {purpose} ({first_line(error)}). Go online, give"
            " `revision` (a commit that the local cache has), or name a folder"
        )
    status = _status(error)
    if status is not None and (status == 429 or status >= 500):
        return TransientError(
            f"{name}: the hub fails to answer ({status}), asked to {purpose}. Try again later, or"
            " name a folder"
        )
    return None


def _status(error: BaseException) -> int | None:
    from huggingface_hub.errors import HfHubHTTPError

    if not isinstance(error, HfHubHTTPError):
        return None
    return getattr(getattr(error, "response", None), "status_code", None)


def _is_unreachable(error: BaseException) -> bool:
    """Whether an error is the network's. The hub's client lets those of its HTTP library through,
    whose module has another name at times.
    """
    from huggingface_hub.errors import LocalEntryNotFoundError, OfflineModeIsEnabled

    return isinstance(
        error, (OfflineModeIsEnabled, LocalEntryNotFoundError, ConnectionError, TimeoutError)
    ) or any(kind.__name__ == "TransportError" for kind in type(error).__mro__)


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
