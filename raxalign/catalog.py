"""The one discovery mechanism: a plug-in is one public class in one file, and the file's stem is
its kind in YAML.

Plug-ins come from three places. Public files (no leading underscore, not ``base.py``) of the
package's folders in `FOLDERS` are listed without being imported. Entry points of the groups
``raxalign.methods`` and so on, one group per folder, are listed by their names. Files that a grid
names (`plugins`) are known inside `plugin_files.visible` alone. There `Catalog.kind` gives the kind
of a name: ``my_method@`` and the beginning of the file's SHA-256 for ``my_method``. This kind is
what a plan holds and what enters keys. It means one content of one file in every process that has
loaded it, so that loading a file never changes another grid.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

from raxalign.errors import DataError, RaxalignError


@dataclass(frozen=True)
class Folder:
    """A folder of plug-ins: its package, what one of them and several of them are called, and the
    name of their base class in the package's ``base.py``.
    """

    package: str
    noun: str
    plural: str
    base: str


FOLDERS: Mapping[str, Folder] = MappingProxyType(
    {
        "methods": Folder("raxalign.methods", "method", "methods", "Method"),
        "tasks": Folder("raxalign.tasks", "task", "tasks", "Task"),
        "corpora": Folder("raxalign.corpora", "corpus", "corpora", "Corpus"),
        "encoders": Folder("raxalign.encoders", "encoder", "encoders", "EncoderKind"),
        "aligners": Folder(
            "raxalign.pairing.aligners", "word aligner", "word aligners", "WordAligner"
        ),
        "metrics": Folder("raxalign.metrics", "metric", "metrics", "Metric"),
        "sections": Folder(
            "raxalign.report.sections", "report section", "report sections", "Section"
        ),
    }
)
"""The folders that can be extended; one more line adds one more sort of plug-in."""


class UnknownKind(RaxalignError):
    """A name that no plug-in of a catalogue has; `nearest` is the most similar name that one has,
    or None.
    """

    def __init__(self, noun: str, name: str, known: list[str]) -> None:
        matches = get_close_matches(name, known, n=1, cutoff=0.5)
        self.nearest = matches[0] if matches else None
        hint = f"did you mean {self.nearest}?" if self.nearest else f"known: {', '.join(known)}"
        stem, _, digest = name.partition("@")
        super().__init__(
            f"the {noun} {stem} is in a plug-in file {stem}.py (SHA-256 {digest}...) that a stored"
            " plan names, and you do not: a storage alone makes no file run. Name yours with"
            " --plugins FILE"
            if digest
            else f"unknown {noun} {name!r}; {hint}"
        )


class PluginFault(DataError):
    """A plug-in from outside the package that cannot be used; the message begins with its file and
    line.
    """


@dataclass(frozen=True)
class PluginFile:
    """A file outside the package with one plug-in: its path, its SHA-256, and the folder in
    `FOLDERS` to which its class belongs.
    """

    path: str
    digest: str
    folder: str

    @property
    def name(self) -> str:
        """Its kind in YAML."""
        return Path(self.path).stem

    @property
    def kind(self) -> str:
        """Its kind in plans and keys: two files have the same one only with the same content."""
        return f"{self.name}@{self.digest[:16]}"


# Classes of loaded files by folder and kind. A kind means one content, so nothing is ever replaced.
_loaded: dict[tuple[str, str], Any] = {}
_of_entry_points: dict[tuple[str, str], Any] = {}  # likewise, those of entry points
visible_files: ContextVar[tuple[PluginFile, ...]] = ContextVar("visible_files", default=())
"""The plug-in files whose names are known here; `plugin_files.visible` sets it."""


class Catalog(Mapping[str, Any]):
    """The plug-ins of one folder, kind -> class, read-only; `noun` names one of them in messages.

    >>> "none" in Catalog("raxalign.methods", "method")
    True
    """

    def __init__(self, package: str, noun: str, folder: str = "", base: str = "") -> None:
        self.package, self.noun, self.folder, self._base = package, noun, folder, base
        spec = find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            raise ImportError(f"{package} is not a package")
        modules = pkgutil.iter_modules(spec.submodule_search_locations)
        self._kinds = sorted(
            m.name
            for m in modules
            if not m.ispkg and not m.name.startswith("_") and m.name != "base"
        )

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({*self._kinds, *self._entry_points(), *self._files()}))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __getitem__(self, kind: str) -> Any:
        if kind in self._kinds:
            return _load(self.package, kind)
        kind = self.kind(kind)
        if (self.folder, kind) in _loaded:
            return _loaded[self.folder, kind]
        if kind in self._entry_points():
            return _load_entry_point(self._entry_points()[kind], self.base)
        raise UnknownKind(self.noun, kind, list(self))

    def __contains__(self, kind: object) -> bool:
        return (
            kind in self._kinds
            or (self.folder, kind) in _loaded
            or kind in self._files()
            or kind in self._entry_points()
        )

    def items(self) -> Any:
        """Return all plug-ins that can be loaded; one from outside that cannot is a warning
        instead.
        """
        found = {}
        for kind in self:
            try:
                found[kind] = self[kind]
            except PluginFault as fault:
                warnings.warn(str(fault), stacklevel=2)
        return found.items()

    def kind(self, name: str) -> str:
        """Return the kind by which a plan calls the plug-in of a name: the name itself, with the
        digest of its file if the file is one from `visible`.
        """
        return self._files().get(name, name)

    @property
    def base(self) -> Any:
        """The base class of the plug-ins."""
        return getattr(importlib.import_module(f"{self.package}.base"), self._base)

    def own(self, name: str) -> bool:
        """Return whether a name is taken by the package or an entry point."""
        return name in self._kinds or name in self._entry_points()

    def _files(self) -> dict[str, str]:
        return {file.name: file.kind for file in visible_files.get() if file.folder == self.folder}

    def _entry_points(self) -> Mapping[str, EntryPoint]:
        found = _entry_points(self.folder) if self.folder else {}
        return {name: entry for name, entry in found.items() if name not in self._kinds}


@cache
def _load(package: str, kind: str) -> Any:
    """Return the one public class of a file. A file with none or several is an error."""
    module = importlib.import_module(f"{package}.{kind}")
    found = plugins_of(module)
    if len(found) != 1:
        raise TypeError(
            f"{module.__file__}: a plug-in file has one public class with a VERSION, this one has"
            f" {len(found)}"
        )
    return found[0]


def plugins_of(module: ModuleType) -> list[Any]:
    """Return the public classes with a `VERSION` that a module itself defines."""
    # type(c), not isinstance: asking a lazily loaded module for its class would load it
    classes = [(name, c) for name, c in vars(module).items() if issubclass(type(c), type)]
    return [
        c
        for name, c in classes
        if c.__module__ == module.__name__ and not name.startswith("_") and hasattr(c, "VERSION")
    ]


@cache
def _entry_points(folder: str) -> Mapping[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=f"raxalign.{folder}")}


@cache
def _load_entry_point(entry: EntryPoint, base: Any) -> Any:
    """The class of an entry point. Raises `PluginFault` that names the entry point, and where there
    is one the file and line of the fault.
    """
    package = entry.dist.name if entry.dist else "an unknown package"
    shown = f"entry point {entry.name} = {entry.value} of {package}"
    try:
        found = entry.load()
    except Exception as error:
        file, line = _place(error)
        message = f"{in_words(error)} ({shown})" if file else in_words(error)
        raise PluginFault(file or shown, message, line=line) from error
    if not (
        isinstance(found, type) and issubclass(found, base) and hasattr(found, "VERSION")
    ) or inspect.isabstract(found):
        raise PluginFault(shown, f"is not a complete {base.__name__} with a VERSION")
    if problem := undeclared_main(found):
        raise PluginFault(shown, problem, remedy=DECLARE)
    _of_entry_points[entry.group.removeprefix("raxalign."), entry.name] = found
    return found


DECLARE = "Add a Measured of that name: it says which values are better, and in which unit"


def undeclared_main(plugin: Any) -> str:
    """Return that a task does not declare its main metric; nothing where it does, and for other
    plug-ins.
    """
    main = getattr(plugin, "main_metric", None)
    if main is None or plugin.measured(main) is not None:
        return ""
    return f"{plugin.__name__}.metrics does not declare the main metric {main!r}"


def _place(error: Exception) -> tuple[str | None, int | None]:
    """The file and line of the code whose import failed; None twice where no file was read."""
    if isinstance(error, SyntaxError):
        return error.filename, error.lineno
    frames = [
        (frame.filename, frame.lineno)
        for frame in traceback.extract_tb(error.__traceback__)
        if "importlib" not in frame.filename
    ]
    return frames[-1] if frames[1:] else (None, None)


def in_words(error: Exception) -> str:
    """Return an exception as a fault's message quotes it: its class and what it says."""
    return f"{type(error).__name__}: {error.msg if isinstance(error, SyntaxError) else error}"


def name_of(kind: str) -> str:
    """Return the name in YAML of a kind in plans and keys.

    >>> name_of("my_method@0123456789abcdef"), name_of("rotation")
    ('my_method', 'rotation')
    """
    return kind.partition("@")[0]


def loaded(folder: str, kind: str) -> Any | None:
    """Return the class of a plug-in file that this process has loaded, or None."""
    return _loaded.get((folder, kind))


def outside() -> Mapping[str, str]:
    """Return the code files of all plug-ins from outside that this process has loaded, each with
    the plug-in's noun and name (``method my_method``).
    """
    found = {**_loaded, **_of_entry_points}
    return {
        str(getattr(sys.modules.get(plugin.__module__), "__file__", "")): (
            f"{FOLDERS[folder].noun} {name_of(kind)}"
        )
        for (folder, kind), plugin in found.items()
    }


def keep(file: PluginFile, plugin: Any) -> None:
    """Remember the class of a loaded file for this process; the first class of a kind stays."""
    _loaded.setdefault((file.folder, file.kind), plugin)


@cache
def catalog(folder: str) -> Catalog:
    """Return the catalogue of a folder in `FOLDERS`."""
    found = FOLDERS[folder]
    return Catalog(found.package, found.noun, folder, found.base)
