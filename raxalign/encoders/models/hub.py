"""What the Hugging Face Hub records of an encoder (the commit that a name stands for, its config),
and what its client raises, as errors with the encoder's name and a remedy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from raxalign.corpora.readers.repository import (
    COMMIT,
    HubUse,
    Remote,
    Repository,
    causes,
    first_line,
    is_gated,
    patiently,
)
from raxalign.encoders.models.folder import read_config, read_paths
from raxalign.errors import DataError, RaxalignError, TransientError

NO_NAME = "is neither a folder nor a name on the Hugging Face Hub"
NAMES = "A folder exists or begins with ./, ../, / or ~; a hub name is `name` or `owner/name`"
_ENCODERS = HubUse(
    "encoder",
    "Is it a folder? Then write ./name.",
    "name a folder, or as `revision` a commit that the local cache has",
)
_CONFIG = "config.json"
_LOOK, _LOAD = "look up its files", "load it"


@contextmanager
def hub_call(name: str, purpose: str, revision: str | None = None) -> Iterator[None]:
    """Turn what the hub's client raises in the block into the user's errors; others pass:
    `DataError` where the hub does not have `name` or refuses access, `TransientError` where it
    cannot be reached or fails. `purpose` is what the call is for, as in ``look up its revision``;
    revision None is the main branch.
    """
    from huggingface_hub.errors import HFValidationError, RemoteEntryNotFoundError

    try:
        yield
    except RaxalignError:
        raise
    except Exception as error:
        explained = _ENCODERS.explained(name, error, purpose, f"revision {revision!r}")
        for cause in causes(error):
            if isinstance(cause, HFValidationError):
                explained = DataError(name, NO_NAME, remedy=NAMES)
            elif isinstance(cause, RemoteEntryNotFoundError):
                lacks = f"lacks a file that encoders have ({first_line(cause)})"
                remedy = "Name one with config.json, a tokenizer and safetensors weights"
                explained = DataError(name, lacks, remedy=remedy)
        if explained is None:
            raise
        raise explained from error


def hub_revision(
    name: str, revision: str | None = None, purpose: str = "look up its revision"
) -> str:
    """Return the commit that a branch or tag of a hub name is at now (None: its main branch).
    Arguments and errors as `hub_call`.
    """
    from huggingface_hub import HfApi

    with hub_call(name, purpose, revision):
        found = patiently(name, lambda: HfApi().model_info(name, revision=revision, timeout=20)).sha
    if found is None:
        raise TransientError(f"{name}: the hub gives no revision; try again later")
    return found


def cached_config(name: str, revision: str | None) -> Mapping[str, Any] | None:
    """Return the config of a hub name in the hub's local cache, None where it is not there. Nothing
    is fetched; revision None is the main branch.
    """
    path = HubEncoder(name, name, revision).cached(_CONFIG)
    return None if path is None else read_config(path)


def fetched_config(name: str, revision: str, purpose: str) -> Mapping[str, Any]:
    """Return the same, fetched where the cache lacks it. Arguments and errors as `hub_call`."""
    from huggingface_hub import hf_hub_download

    with hub_call(name, purpose, revision):
        found = patiently(name, lambda: hf_hub_download(name, _CONFIG, revision=revision))
        return read_config(Path(found))


def encoder_sizes(name: str, commit: str, purpose: str = _LOOK) -> Mapping[str, int]:
    """Return the bytes of the files of a hub name that an encoder is read from, by path (see
    `read_paths`): of its own weights in safetensors one file goes before several. Raises as
    `hub_call`, and `DataError` where there are no such weights.
    """
    with hub_call(name, purpose, commit):
        sizes = Repository(name, commit, "model").sizes()
    in_parts = (p for p in sizes if "/" not in p and PurePath(p).match("model-*.safetensors"))
    weights = {"model.safetensors"} & sizes.keys() or set(in_parts)
    if not weights:
        remedy = "Name one with safetensors weights, or a folder as ./name"
        raise DataError(name, "has no *.safetensors on the hub", remedy=remedy)
    weights |= {"adapter_model.safetensors"} & sizes.keys()
    read = {p for p in read_paths(sizes) if not p.endswith(".safetensors")}
    return {path: sizes[path] for path in sizes if path in read | weights}


@dataclass(frozen=True)
class HubEncoder(Remote):
    """An encoder on the hub; `revision` is that of one without a pin."""

    encoder: str
    revision: str | None

    def size(self, pin: str | None, downloads: Path) -> int:  # noqa: ARG002
        """Return the bytes of the files that it is read from."""
        return sum(encoder_sizes(self.encoder, self._commit(pin)).values())

    def bring(self, pin: str | None, downloads: Path) -> int:
        """Fetch these files into the hub's cache."""
        encoder_folder(self.encoder, self._commit(pin))
        return self.size(pin, downloads)

    def gated(self) -> bool:
        """Return whether the hub asks for a login."""
        with hub_call(self.encoder, "look up whether it is gated"):
            return is_gated(self.encoder, "model")

    def cached(self, path: str) -> Path | None:
        """Return a file that is in the hub's local cache. Nothing is fetched."""
        from huggingface_hub import try_to_load_from_cache
        from huggingface_hub.errors import HFValidationError

        try:
            found = try_to_load_from_cache(self.encoder, path, revision=self.revision)
        except HFValidationError:  # no name that the hub can have, which `fetch` says
            return None
        return Path(found) if isinstance(found, str) else None

    def lacks(self, path: str) -> bool:
        """Return whether the hub has no such file of it. Raises as `hub_call`."""
        from huggingface_hub import file_exists

        name, revision = self.encoder, self.revision
        with hub_call(name, f"look up its {path}", revision):
            return not patiently(name, lambda: file_exists(name, path, revision=revision))

    def _commit(self, pin: str | None) -> str:
        # one of its own is meant: the lock has that of the same name without a revision
        known = next((r for r in (self.revision, pin) if r and COMMIT.fullmatch(r)), None)
        return known or hub_revision(self.encoder, pin or self.revision)


def encoder_place(name: str, revision: str | None = None) -> Path:
    """Return the folder of an encoder that is one, an absolute path, or of a hub name (see
    `encoder_folder`).
    """
    return Path(name) if Path(name).is_absolute() else encoder_folder(name, revision)


def encoder_folder(name: str, revision: str | None) -> Path:
    """Return the folder of the hub's cache with the files of `encoder_sizes`, fetched where they
    are missing. Nothing is asked of the hub where `revision` is a commit and they are there, nor
    for a branch that the cache has where the hub is not reached. Raises as these.
    """
    from huggingface_hub import try_to_load_from_cache

    commit = revision if revision and COMMIT.fullmatch(revision) else ""
    try:
        commit = commit or hub_revision(name, revision, _LOAD)
    except TransientError:
        place = try_to_load_from_cache(name, _CONFIG, revision=revision)
        if not isinstance(place, str):
            raise
        commit = Path(place).parent.name
    paths = encoder_sizes(name, commit, _LOAD)
    with hub_call(name, _LOAD, revision):
        return Repository(name, commit, "model").files(paths)[_CONFIG].parent
