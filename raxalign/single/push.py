"""An exported encoder on the Hugging Face Hub."""

from __future__ import annotations

import re
from pathlib import Path

from raxalign.encoders.models.hub import first_line
from raxalign.errors import RaxalignError, TransientError
from raxalign.single.place import TRANSFORMS

_LOG_IN = "Log in with `hf auth login`, or set HF_TOKEN, with a token that may write"
_OF_NOBODY = {".gitattributes"}  # the hub puts it into each repository


def refuse_unready(name: str) -> None:
    """Raise `RaxalignError` for a name that the hub does not have, or without a token: before an
    export that may take hours.
    """
    from huggingface_hub import get_token

    if not re.fullmatch(r"([\w.-]+/)?[\w.-]+", name):
        raise RaxalignError(f"--push {name}: is not a name on the hub; write owner/name")
    if get_token() is None:
        raise RaxalignError(f"--push {name}: you are not logged in to the hub. {_LOG_IN}")


def push(folder: Path, name: str, *, private: bool = False) -> str:
    """Make a repository on the hub the same as an exported folder; return its address.

    Args:
        folder: What `export_trial` wrote.
        name: ``owner/name``, or the name alone of a repository of the user. One that is there has
            to be empty or an earlier export.
        private: Whether a repository that is made now is private.

    Raises:
        TransientError: The hub cannot be reached, or fails.
        RaxalignError: It refuses, or the repository holds something else.
    """
    from huggingface_hub import HfApi

    hub, again = HfApi(), f"the export is in {folder}: `hf upload {name} {folder}` pushes it later"
    try:
        repository = hub.create_repo(name, private=private or None, exist_ok=True)
        there = set(hub.list_repo_files(repository.repo_id)) - _OF_NOBODY
        if there and TRANSFORMS not in there:
            raise RaxalignError(
                f"--push {name}: the repository holds something else than an export"
                f" ({', '.join(sorted(there)[:3])}), which is left as it is. Give another name;"
                f" {again}"
            )
        hub.upload_folder(
            repo_id=repository.repo_id,
            folder_path=folder,
            delete_patterns="*",
            commit_message="Exported by raxalign",
        )
    except RaxalignError:
        raise
    except Exception as error:
        raise _explained(name, error, again) from error
    return str(repository)


def _explained(name: str, error: Exception, again: str) -> RaxalignError:
    """The user's error for one of the hub's client."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    told = f"--push {name}: %s ({first_line(error)}). %s; {again}"
    if status in (401, 403):
        return RaxalignError(told % ("the hub refuses", _LOG_IN))
    refused = status is not None and 400 <= status < 500 and status not in (408, 429)
    if refused or isinstance(error, ValueError):
        return RaxalignError(told % ("the hub does not take it", "Choose another name"))
    return TransientError(told % ("the hub does not answer", "Try again"))
