"""The one discovery mechanism: a plug-in is one public class in one file, and the file's stem is
its kind in YAML.

Plug-ins come from three places. Public files (no leading underscore, not ``base.py``) of a plural
folder of the package are listed without being imported. Entry points of the groups
``raxalign.methods``, ``.tasks``, ``.corpora``, ``.encoders``, ``.aligners`` and ``.sections`` are
listed by their names. Files that a grid names (`plugins`) are known inside `visible` alone; there
`Catalog.kind` says what a name stands for: ``my_method`` for ``my_method@`` and the beginning of
the file's SHA-256. That whole kind is what a plan holds and what enters keys, so it means one
content of one file in every process that has loaded it, and nothing that is loaded changes what
another grid means.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import inspect
import pkgutil
import sys
import traceback
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from raxalign.errors import DataError, RaxalignError

# folder -> (package, noun, the base class of its plug-ins)
_FOLDERS = {
    "corpora": ("raxalign.corpora", "corpus", "Corpus"),
    "aligners": ("raxalign.pairing.aligners", "word aligner", "WordAligner"),
    "encoders": ("raxalign.encoders", "encoder", "EncoderKind"),
    "methods": ("raxalign.methods", "method", "Method"),
    "tasks": ("raxalign.tasks", "task", "Task"),
    "sections": ("raxalign.report.sections", "report section", "Section"),
}
_ONE_CLASS = "A plug-in file has one public class with a VERSION"


class UnknownKind(RaxalignError):
    """A name that no file of the catalogue has; `nearest` is the closest that one has, or None."""

    def __init__(self, noun: str, name: str, known: list[str]) -> None:
        matches = get_close_matches(name, known, n=1, cutoff=0.5)
        self.nearest = matches[0] if matches else None
        hint = f"did you mean {self.nearest}?" if self.nearest else f"known: {', '.join(known)}"
        super().__init__(f"unknown {noun} {name!r}; {hint}")


class PluginFault(DataError):
    """A plug-in from outside the package that cannot be used; the message begins with its file and
    line.
    """


@dataclass(frozen=True)
class PluginFile:
    """A file outside the package with one plug-in: where it lies, its SHA-256, and in which
    catalogue its class belongs.
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
        """Its kind in plans and keys, the same for the same content alone."""
        return f"{self.name}@{self.digest[:16]}"


# What was loaded in this process, by what can only mean one content: nothing is ever replaced.
_loaded: dict[tuple[str, str], Any] = {}
_visible: ContextVar[tuple[PluginFile, ...]] = ContextVar("_visible", default=())


class Catalog(Mapping[str, Any]):
    """The plug-ins of one folder, kind -> class, read-only; `noun` names them in messages, `group`
    is that of its entry points.

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
        """All plug-ins that can be loaded; one from outside that cannot is warned of, and left
        out.
        """
        found = {}
        for kind in self:
            try:
                found[kind] = self[kind]
            except PluginFault as fault:
                warnings.warn(str(fault), stacklevel=2)
        return found.items()

    def kind(self, name: str) -> str:
        """What a plan calls the plug-in of a name: the name itself, with the digest of its file
        where it is one from `visible`.
        """
        return self._files().get(name, name)

    @property
    def base(self) -> Any:
        """The base class of the plug-ins."""
        return getattr(importlib.import_module(f"{self.package}.base"), self._base)

    def own(self, name: str) -> bool:
        """Whether a name is taken by the package or an entry point."""
        return name in self._kinds or name in self._entry_points()

    def _files(self) -> dict[str, str]:
        return {file.name: file.kind for file in _visible.get() if file.folder == self.folder}

    def _entry_points(self) -> Mapping[str, EntryPoint]:
        found = _entry_points(self.folder) if self.folder else {}
        return {name: entry for name, entry in found.items() if name not in self._kinds}


@cache
def _load(package: str, kind: str) -> Any:
    """The one public class that the file defines; an error names a file with none or several."""
    module = importlib.import_module(f"{package}.{kind}")
    found = _plugins_of(module)
    if len(found) != 1:
        raise TypeError(
            f"{module.__file__}: a plug-in file has one public class with a VERSION, this one has"
            f" {len(found)}"
        )
    return found[0]


def _plugins_of(module: ModuleType) -> list[Any]:
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
    """The class of an entry point. Raises `PluginFault` that names the entry point, and the file
    and line where it lies in one.
    """
    shown = (
        f"entry point {entry.name} = {entry.value} of"
        f" {entry.dist.name if entry.dist else 'an unknown package'}"
    )
    try:
        found = entry.load()
    except Exception as error:
        frames = [
            (frame.filename, frame.lineno)
            for frame in traceback.extract_tb(error.__traceback__)
            if "importlib" not in frame.filename
        ]
        place = (
            (error.filename, error.lineno)
            if isinstance(error, SyntaxError)
            else frames[-1]
            if frames[1:]
            else (None, None)
        )
        raise PluginFault(
            place[0] or shown,
            f"{_told(error)} ({shown})" if place[0] else _told(error),
            line=place[1],
        ) from error
    if not (
        isinstance(found, type) and issubclass(found, base) and hasattr(found, "VERSION")
    ) or inspect.isabstract(found):
        raise PluginFault(shown, f"is not a complete {base.__name__} with a VERSION")
    return found


def load_files(files: Iterable[PluginFile]) -> None:
    """Load the plug-in files of a plan into this process. Raises `PluginFault` for one that changed
    since it was planned, or is not here.
    """
    for file in files:
        if (file.folder, file.kind) not in _loaded:
            refuse_changed([file])
            open_file(Path(file.path))


def refuse_changed(files: Iterable[PluginFile]) -> None:
    """Raise `PluginFault` for a file that is not what a plan was made of."""
    for file in files:
        if hashlib.sha256(_read(Path(file.path))).hexdigest() != file.digest:
            raise PluginFault(
                file.path,
                "has changed since the grid was planned",
                remedy="Plan it again: its results will have other keys",
            )


def open_file(path: Path) -> PluginFile:
    """Load a plug-in file, once per content, and say what it is. Raises `PluginFault` with the
    file, the line and what is wrong.
    """
    path = path.expanduser().absolute()
    content = _read(path)
    sha = hashlib.sha256(content).hexdigest()
    if (
        path.suffix != ".py"
        or not path.stem.isidentifier()
        or path.stem.startswith("_")
        or path.stem == "base"
    ):
        raise PluginFault(
            path,
            "cannot be a plug-in's name",
            remedy="Name the file as YAML is to name its kind: letters, digits and _, then .py",
        )
    for folder in _FOLDERS:
        if (folder, f"{path.stem}@{sha[:16]}") in _loaded:
            return PluginFile(str(path), sha, folder)
    module = _executed(path, content, f"raxalign_outside.{sha[:16]}.{path.stem}")
    lines = {
        node.name: node.lineno for node in ast.parse(content).body if isinstance(node, ast.ClassDef)
    }
    found = _plugins_of(module)
    if len(found) != 1:
        names = " and ".join(entry.__name__ for entry in found)
        raise PluginFault(
            path,
            f"has {names or 'no such class'}",
            line=lines[found[1].__name__] if found else 1,
            remedy=_ONE_CLASS,
        )
    (plugin,) = found
    line = lines.get(plugin.__name__)
    folders = [folder for folder in _FOLDERS if issubclass(plugin, catalog(folder).base)]
    if not folders:
        raise PluginFault(
            path,
            f"{plugin.__name__} is not a subclass of Method, Task, Corpus, EncoderKind,"
            " WordAligner or Section",
            line=line,
        )
    if missing := sorted(getattr(plugin, "__abstractmethods__", ())):
        raise PluginFault(
            path,
            f"{plugin.__name__} does not define {', '.join(missing)}",
            line=line,
            remedy="Its base class says what they are",
        )
    file = PluginFile(str(path), sha, folders[0])
    _loaded[file.folder, file.kind] = plugin
    return file


def _executed(path: Path, content: bytes, name: str) -> ModuleType:
    """The module of a file's content; it stays in `sys.modules`, where annotations are looked
    up.
    """
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    try:
        # - a plug-in is code that the user wants to run
        exec(compile(content, str(path), "exec"), vars(module))  # noqa: S102
    except Exception as error:
        del sys.modules[name]
        own = [
            frame.lineno
            for frame in traceback.extract_tb(error.__traceback__)
            if frame.filename == str(path)
        ]
        line = (
            error.lineno
            if isinstance(error, SyntaxError) and error.filename == str(path)
            else own[-1]
            if own
            else None
        )
        raise PluginFault(path, _told(error), line=line) from error
    return module


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error.msg if isinstance(error, SyntaxError) else error}"


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise PluginFault(
            path,
            error.strerror or str(error),
            remedy="A plug-in file lies at the same path on every machine of a run",
        ) from error


@contextmanager
def visible(files: Iterable[PluginFile]) -> Iterator[None]:
    """Let the names of plug-in files stand for them within the block. Raises `PluginFault` for a
    name that is taken.
    """
    files = tuple(files)
    for place, file in enumerate(files):
        if catalog(file.folder).own(file.name):
            remedy = f"raxalign list {file.folder} has it; rename the file"
            raise PluginFault(
                file.path,
                f"the name {file.name!r} of this {catalog(file.folder).noun} is taken",
                line=1,
                remedy=remedy,
            )
        for other in files[:place]:
            if (other.folder, other.name) == (file.folder, file.name) and other != file:
                raise PluginFault(
                    file.path,
                    f"the name {file.name!r} is taken by {other.path}",
                    line=1,
                    remedy="Rename one of the files",
                )
    token = _visible.set(files)
    try:
        yield
    finally:
        _visible.reset(token)


@cache
def catalog(folder: str) -> Catalog:
    """The catalogue of `corpora`, `aligners`, `encoders`, `methods`, `tasks` or `sections`."""
    package, noun, base = _FOLDERS[folder]
    return Catalog(package, noun, folder, base)
