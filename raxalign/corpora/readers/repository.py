"""Repositories of the Hugging Face Hub at a commit: which files they have, and the files themselves
in the hub's cache. What the cache has of a commit is not asked for again.
"""

from __future__ import annotations

import glob
import re
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from raxalign.errors import DataError, TransientError
from raxalign.waits import retry_after, wait, within


@dataclass(frozen=True)
class Remote(ABC):
    """Remote data by its `name` in locks. `pin` is a commit or SHA-256 where that is known, and
    `downloads` the folder that `Corpus.read` and tasks get as well. All raise `DataError` for what
    does not exist or is not given, and `TransientError` where nobody answers.
    """

    name: str

    def __str__(self) -> str:
        """Return what messages call it."""
        return self.name

    @abstractmethod
    def size(self, pin: str | None, downloads: Path) -> int:
        """Ask for its number of bytes; no more is fetched than what describes it."""

    @abstractmethod
    def bring(self, pin: str | None, downloads: Path) -> int:
        """Fetch all of it, unless it is there, so that it is read without a network; return its
        number of bytes.
        """

    def renew(self, downloads: Path) -> None:  # noqa: B027 (a commit is looked up, not kept)
        """Let what is there of it without a pin be what it is now."""

    def gated(self) -> bool:
        """Ask whether only those get it who have logged in and accepted its terms."""
        return False


COMMIT = re.compile(r"[0-9a-f]{40}")
DESCRIPTION = ("README.md", "dataset_infos.json", ".huggingface.yaml")
"""The files by which the datasets library knows the configurations of a repository."""
_BUSY = frozenset({408, 429, 500, 502, 503, 504})
_CUT = frozenset({"RemoteProtocolError", "ReadError"})
_SILENT = frozenset({"TimeoutException"})
"""Errors of the HTTP library that come through; its module has another name at times."""
_LATER = "Try again later"
_LIMIT = 120.0  # seconds
_LOG_IN = "log in with `hf auth login` or set HF_TOKEN"
_Answer = TypeVar("_Answer")


@dataclass(frozen=True)
class Repository:
    """A repository by its name; its files are those of `commit`."""

    name: str
    commit: str
    kind: Literal["model", "dataset"]

    def sizes(self) -> Mapping[str, int]:
        """Return the bytes of each file by its path. The hub is asked once: the list of a commit is
        kept in its cache. Raises what the hub's client raises.
        """
        from huggingface_hub import get_cached_repo_tree
        from huggingface_hub.errors import CachedRepoTreeNotFoundError

        def kept() -> dict[str, int]:
            found = get_cached_repo_tree(self.name, repo_type=self.kind, revision=self.commit)
            return {file.path: file.size for file in found}

        try:
            return kept()
        except CachedRepoTreeNotFoundError:
            # the client keeps the list of a repository of which it downloads a part
            self._download(DESCRIPTION)
            try:
                return kept()
            except CachedRepoTreeNotFoundError as unknown:
                if found := self._of_others():
                    return found
                raise TransientError(
                    f"hub:{self.name}: the hub cannot be reached, and its cache does not say which"
                    f" files there are at {self.commit[:12]}. Run `raxalign fetch` on the grid"
                    " where there is a network"
                ) from unknown

    def files(self, paths: Collection[str]) -> Mapping[str, Path]:
        """Return where files are in the hub's cache, by their paths; those that it lacks are
        fetched. A file is there when it is whole. Raises what the hub's client raises.
        """
        found = self.held(paths)
        if missing := [path for path in paths if path not in found]:
            self._download(missing)
            found = self.held(paths)
            if lost := [path for path in missing if path not in found]:
                raise TransientError(
                    f"hub:{self.name}: {lost[0]} is not in the hub's cache, and the hub cannot be"
                    " reached. Run `raxalign fetch` on the grid where there is a network"
                )
        return found

    def _of_others(self) -> dict[str, int]:
        """The files of an encoder that another program has put into the cache: where some are
        missing, it is refused when it is opened. Of a data set nobody would see that.
        """
        config = self.held(["config.json"]) if self.kind == "model" else {}
        folders = [place.parent for place in config.values()]
        return {
            file.relative_to(folder).as_posix(): file.stat().st_size
            for folder in folders
            for file in folder.rglob("*")
            if file.is_file()
        }

    def _download(self, paths: Iterable[str]) -> None:
        from huggingface_hub import snapshot_download

        wanted = [glob.escape(path) for path in paths]
        patiently(
            self.name,
            lambda: snapshot_download(
                self.name, repo_type=self.kind, revision=self.commit, allow_patterns=wanted
            ),
            steady=True,
        )

    def held(self, paths: Collection[str]) -> dict[str, Path]:
        """Return where the hub's cache has files, of those that it has."""
        from huggingface_hub import try_to_load_from_cache

        places = {
            path: try_to_load_from_cache(self.name, path, revision=self.commit, repo_type=self.kind)
            for path in paths
        }
        return {path: Path(place) for path, place in places.items() if isinstance(place, str)}

    def outline(self, folder: Path) -> Path:
        """Return a folder with all paths of the repository, in which only its description has
        content: enough to see which files a configuration is made of. It is made once.
        """
        if folder.is_dir():
            return folder
        sizes = self.sizes()
        described = self.files([path for path in DESCRIPTION if path in sizes])
        folder.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=".", dir=folder.parent))
        for path in sizes:
            place = made / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.touch()
            if path in described:
                shutil.copyfile(described[path], place)
        try:
            made.rename(folder)
        except OSError:
            shutil.rmtree(made)
            if not folder.is_dir():  # else another process made it meanwhile
                raise
        return folder


def is_gated(name: str, kind: str) -> bool:
    """Return whether the hub gives the files of a repository only to those who have accepted its
    terms. Raises what the hub's client raises, for a user who has not, too.
    """
    from huggingface_hub import HfApi

    found = patiently(name, lambda: HfApi().repo_info(name, repo_type=kind))
    gated = bool(getattr(found, "gated", False))
    if gated:
        patiently(name, lambda: HfApi().auth_check(name, repo_type=kind))
    return gated


@dataclass(frozen=True)
class HubUse:
    """What messages say of repositories that hold a `noun`: what to do where there is none, beside
    logging in (`absent`), and what to do without the hub (`instead`).
    """

    noun: str
    absent: str
    instead: str

    def explained(
        self, name: str, error: BaseException, purpose: str = "", revision: str = "such revision"
    ) -> DataError | TransientError | None:
        """Return the user's error for what came of an error of the hub's client, or caused it; None
        for one of others. `purpose` is what the hub was asked to do, `revision` what it looked for.
        """
        asked, here = f", asked to {purpose}" if purpose else "", ""
        if (folder := Path(name.removeprefix("hub:")).absolute()).is_dir():
            here = f". The folder {folder} is not read: paths are relative to the grid file"
        for cause in reversed(causes(error)):
            if found := _refusal(cause, self.noun, self.absent, revision):
                return DataError(name, found[0], remedy=found[1].removesuffix(".") + here)
            if told := _silence(cause):
                remedy = f"{told[1]}, or {self.instead}{here}"
                return TransientError(f"{name}: {told[0]}{asked}. {remedy}")
        return None


def _silence(error: BaseException) -> tuple[str, str] | None:
    """What an error says of a hub that is not reached or fails, and what to do."""
    if _is_one_of(_CUT, error):
        return f"the connection to the Hugging Face Hub was cut ({first_line(error)})", _LATER
    if _is_lost(error):
        return f"the Hugging Face Hub cannot be reached ({first_line(error)})", "Go online"
    if (status := status_of(error)) in (408, 429) or status >= 500:
        return f"the Hugging Face Hub fails to answer ({status})", _LATER
    return None


def _refusal(error: BaseException, noun: str, absent: str, revision: str) -> tuple[str, str] | None:
    """What an error says of what the hub does not have or does not give, and what to do."""
    from huggingface_hub import errors

    if isinstance(error, errors.GatedRepoError):
        remedy = f"Accept its terms on its page of the hub, then {_LOG_IN}"
        return f"is a gated {noun}, to which the hub refuses access", remedy
    if isinstance(error, errors.RepositoryNotFoundError):
        return f"the hub has no such {noun}", f"{absent} Is it private? Then {_LOG_IN}"
    if isinstance(error, errors.RevisionNotFoundError):
        remedy = "Name a branch, tag or commit of it, or leave `revision` out"
        return f"the hub has no {revision} of it", remedy
    if (status := status_of(error)) in (401, 403):
        return f"the hub refuses access ({status})", _LOG_IN[0].upper() + _LOG_IN[1:]
    return None


def patiently(
    name: str, call: Callable[[], _Answer], *, tries: int = 4, steady: bool = False
) -> _Answer:
    """Return what a call to the hub about a repository returns. A hub that is busy, that fails, or
    that cuts the connection is asked again, after the time that it names (``Retry-After``) or 1, 2
    and 4 s; each wait is reported on stderr. What the hub's client has itself asked for five times
    more, with a warning for each, is not asked for again. A call has two minutes, one that fetches
    files (`steady`) more while they come.
    """
    from huggingface_hub import close_session

    def asked() -> _Answer:
        try:
            return within(_LIMIT, f"hub:{name}", call, steady=steady)
        except TimeoutError:
            close_session()  # else the client's threads read on, and the process waits for them
            raise

    for number in range(1, tries):
        try:
            return asked()
        except Exception as error:
            problem, pause = _problem(error, 2.0 ** (number - 1))
            if not problem:
                raise
        wait(pause, f"hub:{name}", problem, f"try {number + 1} of {tries}")
    return asked()


def _problem(error: BaseException, usual: float) -> tuple[str, float]:
    """Return what another try may mend, and after how many seconds; "" where none will."""
    for cause in causes(error):
        response: Any = getattr(cause, "response", None)
        if (status := status_of(cause)) in _BUSY:
            told, request = f"the hub answers {status}", response.request
            usual = retry_after(response.headers.get("Retry-After", ""), usual)
        elif _is_one_of(_CUT | _SILENT, cause):
            told = f"the connection to the hub was cut or timed out ({first_line(cause)})"
            request = getattr(cause, "request")  # noqa: B009
        else:
            continue
        return "" if _was_asked_again(request, status) else told, usual
    return "", usual


def _was_asked_again(request: Any, status: int) -> bool:
    """Whether the hub's client asks again by itself: for lists of files, for what a file is, and
    for its content where that is cut off or the hub is busy.
    """
    path = str(request.url.path)
    if "/api/" in path:
        return "/tree/" in path
    return request.method == "HEAD" or status < 500


def _is_one_of(names: Collection[str], error: BaseException) -> bool:
    return any(kind.__name__ in names for kind in type(error).__mro__)


def causes(error: BaseException) -> list[BaseException]:
    """Return an error and what it came from: libraries wrap the errors of the hub's client."""
    chain = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) and cause not in chain:
        chain.append(cause)
    return chain


def _is_lost(error: BaseException) -> bool:
    """Whether an error is that the hub was not reached."""
    from huggingface_hub.errors import LocalEntryNotFoundError, OfflineModeIsEnabled

    lost = (OfflineModeIsEnabled, LocalEntryNotFoundError, ConnectionError, TimeoutError)
    return isinstance(error, lost) or _is_one_of(("TransportError",), error)


def status_of(error: BaseException) -> int:
    """Return the status of an answer of the hub that is an error; 0 for another error."""
    from huggingface_hub.errors import HfHubHTTPError

    response = getattr(error, "response", None) if isinstance(error, HfHubHTTPError) else None
    status: int = getattr(response, "status_code", 0)
    return status


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or its name where it has none."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
