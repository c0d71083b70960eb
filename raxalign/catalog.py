"""The one discovery mechanism: a plug-in is one public class in one file, and the file's stem is
its kind in YAML.

Plug-ins come from three places. Public files (no leading underscore, not ``base.py``) of the
package's folders in `FOLDERS` are listed without being imported. Entry points of the groups
``raxalign.methods`` and so on, one group per folder, are listed by their names. Files that a grid
names (`plugins`) are executed once per content, as modules whose names hold their digests, and
known inside `visible` alone. There `Catalog.kind` gives the kind of a name: ``my_method@`` and the
beginning of the file's SHA-256 for ``my_method``. This kind is what a plan holds and what enters
keys. It means one content of one file in every process that has loaded it, so that loading a file
never changes another grid.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
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
from types import MappingProxyType, ModuleType
from typing import Any

from raxalign.errors import DataError, RaxalignError
from raxalign.promises import broken_promise


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
    """A name that no plug-in of a catalogue has; `nearest` is the most similar one, or None."""

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
    """A plug-in from outside that cannot be used; the message begins with its file and line."""

    @staticmethod
    def in_words(error: BaseException) -> str:
        """Return an exception as a fault's message quotes it: its class and what it says."""
        return f"{type(error).__name__}: {error.msg if isinstance(error, SyntaxError) else error}"

    @classmethod
    def blamed(cls, error: Exception) -> PluginFault | None:
        """Return the user's error for an exception that passed through a plug-in from outside, with
        the last line of its file on the way; None for any other.
        """
        known = Catalog.outside()
        for frame in reversed(traceback.extract_tb(error.__traceback__)):
            if frame.filename in known:
                return cls(
                    frame.filename,
                    f"{cls.in_words(error)}, in {frame.name} of the {known[frame.filename]}",
                    line=frame.lineno,
                )
        return None

    @classmethod
    def message_of(cls, error: Exception) -> str:
        """Return what to report of any exception: the message of one that is meant for users, with
        the plug-in for one that passed through a plug-in from outside, else its class and message.
        """
        if isinstance(error, RaxalignError):
            return str(error)
        return str(cls.blamed(error) or cls.in_words(error))


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

    @classmethod
    def open(cls, path: Path) -> PluginFile:
        """Load a plug-in file, once per content, and return what it is. Raises `PluginFault` with
        the file, the line and what is wrong.
        """
        path = path.expanduser().absolute()
        content, stem = _read(path), path.stem
        digest = hashlib.sha256(content).hexdigest()
        private = stem.startswith("_") or stem == "base"
        if path.suffix != ".py" or not (stem.isascii() and stem.isidentifier()) or private:
            remedy = "Name the file as YAML is to name its kind: a to z, digits and _, then .py"
            raise PluginFault(path, "cannot be a plug-in's name", remedy=remedy)
        for folder in FOLDERS:
            file = cls(str(path), digest, folder)
            if (folder, file.kind) in _loaded:
                return file
        module = cls.executed(path, content, f"raxalign_outside.{digest[:16]}.{stem}")
        plugin, line = _only_plugin(path, content, module)
        file = cls(str(path), digest, _folder_of(path, plugin, line))
        _refuse_incomplete(path, plugin, line, catalog(file.folder).base)
        _loaded.setdefault((file.folder, file.kind), plugin)
        return file

    @staticmethod
    def executed(path: Path, content: bytes, name: str) -> ModuleType:
        """Return the module of a file's content, which stays in `sys.modules` for annotations."""
        module = ModuleType(name)
        module.__file__ = str(path)
        sys.modules[name] = module
        try:
            # - a plug-in is code that the user wants to run
            exec(compile(content, str(path), "exec"), vars(module))  # noqa: S102
        except BaseException as error:  # SystemExit too: no file that is loaded ends a command
            sys.modules.pop(name, None)  # another thread may have had the same fault
            if isinstance(error, KeyboardInterrupt):
                raise
            said, line = PluginFault.in_words(error), _place(error, path)[1]
            raise PluginFault(path, said, line=line) from error
        return module

    def load(self) -> None:
        """Load the file of a plan into this process. Raises `PluginFault` where it has changed
        since it was planned, or is not here.
        """
        if (self.folder, self.kind) not in _loaded:
            self.refuse_changed()
            self.open(Path(self.path))

    def refuse_changed(self) -> None:
        """Raise `PluginFault` where the content is not the one that was planned."""
        if hashlib.sha256(_read(Path(self.path))).hexdigest() != self.digest:
            remedy = "Plan it again: its results will have other keys"
            raise PluginFault(self.path, "has changed since the grid was planned", remedy=remedy)

    @staticmethod
    def require_named(files: Iterable[PluginFile]) -> None:
        """Raise `PluginFault` where this process has not loaded all plug-in files of a stored plan:
        a grid file or a command of the user names what runs, and never the storage, which others
        may write to.
        """
        lacking = [file for file in files if (file.folder, file.kind) not in _loaded]
        if lacking:
            raise PluginFault(
                ", ".join(f"{file.name}.py (SHA-256 {file.digest[:16]}...)" for file in lacking),
                "a stored plan names plug-ins, and you do not: a storage alone makes no file run",
                remedy="Name yours with --plugins FILE, once per file",
            )

    @staticmethod
    @contextmanager
    def visible(files: Iterable[PluginFile]) -> Iterator[None]:
        """Make plug-in files known by their names within the block. Raises `PluginFault` for a name
        that is taken.
        """
        files = tuple(files)
        for place, file in enumerate(files):
            _refuse_taken(file, files[:place])
        token = _visible.set(files)
        try:
            yield
        finally:
            _visible.reset(token)


# Classes of loaded files by folder and kind. A kind means one content, so nothing is ever replaced.
_loaded: dict[tuple[str, str], Any] = {}
_of_entry_points: dict[tuple[str, str], Any] = {}  # likewise, those of entry points
_visible: ContextVar[tuple[PluginFile, ...]] = ContextVar("visible", default=())


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
        """Return all plug-ins that can be loaded; one from outside that cannot is a warning."""
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

    @staticmethod
    def name_of(kind: str) -> str:
        """Return the name in YAML of a kind in plans and keys.

        >>> Catalog.name_of("my_method@0123456789abcdef"), Catalog.name_of("rotation")
        ('my_method', 'rotation')
        """
        return kind.partition("@")[0]

    @staticmethod
    def outside() -> Mapping[str, str]:
        """Return the code files of all plug-ins from outside that this process has loaded, each
        with the plug-in's noun and name (``method my_method``).
        """
        return {
            str(getattr(sys.modules.get(plugin.__module__), "__file__", "")): (
                f"{FOLDERS[folder].noun} {Catalog.name_of(kind)}"
            )
            for (folder, kind), plugin in {**_loaded, **_of_entry_points}.items()
        }

    @property
    def base(self) -> Any:
        """The base class of the plug-ins."""
        return getattr(importlib.import_module(f"{self.package}.base"), self._base)

    def own(self, name: str) -> bool:
        """Return whether a name is taken by the package or an entry point."""
        return name in self._kinds or name in self._entry_points()

    def _files(self) -> dict[str, str]:
        return {file.name: file.kind for file in _visible.get() if file.folder == self.folder}

    def _entry_points(self) -> Mapping[str, EntryPoint]:
        found = _entry_points(self.folder) if self.folder else {}
        return {name: entry for name, entry in found.items() if name not in self._kinds}


@cache
def _load(package: str, kind: str) -> Any:
    """Return the one public class of a file. A file with none or several is an error."""
    module = importlib.import_module(f"{package}.{kind}")
    found = _plugins_of(module)
    if len(found) != 1:
        raise TypeError(
            f"{module.__file__}: a plug-in file has one public class with a VERSION, this one has"
            f" {len(found)}"
        )
    return found[0]


def _plugins_of(module: ModuleType) -> list[Any]:
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
        message = (
            f"{PluginFault.in_words(error)} ({shown})" if file else PluginFault.in_words(error)
        )
        raise PluginFault(file or shown, message, line=line) from error
    if not (isinstance(found, type) and issubclass(found, base)):
        raise PluginFault(shown, f"is not a subclass of {base.__name__}")
    _refuse_incomplete(shown, found, None, base)
    _of_entry_points[entry.group.removeprefix("raxalign."), entry.name] = found
    return found


def _place(error: BaseException, only: Path | None = None) -> tuple[str | None, int | None]:
    """Return the file and line of the code whose import failed, of one file alone where it is
    given; None twice where no such file was read.
    """
    if isinstance(error, SyntaxError) and (only is None or error.filename == str(only)):
        return error.filename, error.lineno
    frames = [
        (frame.filename, frame.lineno)
        for frame in traceback.extract_tb(error.__traceback__)[1:]
        if (frame.filename == str(only) if only else "importlib" not in frame.filename)
    ]
    return frames[-1] if frames else (None, None)


@cache
def catalog(folder: str) -> Catalog:
    """Return the catalogue of a folder in `FOLDERS`."""
    found = FOLDERS[folder]
    return Catalog(found.package, found.noun, folder, found.base)


def _refuse_taken(file: PluginFile, others: Iterable[PluginFile]) -> None:
    known = catalog(file.folder)
    if known.own(file.name):
        problem = f"the name {file.name!r} of this {known.noun} is taken"
        remedy = f"raxalign list {file.folder} has it; rename the file"
        raise PluginFault(file.path, problem, line=1, remedy=remedy)
    for other in others:
        if (other.folder, other.name) == (file.folder, file.name) and other != file:
            problem = f"the name {file.name!r} is taken by {other.path}"
            raise PluginFault(file.path, problem, line=1, remedy="Rename one of the files")


def _only_plugin(path: Path, content: bytes, module: ModuleType) -> tuple[Any, int | None]:
    """The one plug-in that a file defines, and the line of its class."""
    tree = ast.parse(content)
    lines = {node.name: node.lineno for node in tree.body if isinstance(node, ast.ClassDef)}
    found = _plugins_of(module)
    if len(found) != 1:
        names = " and ".join(entry.__name__ for entry in found)
        raise PluginFault(
            path,
            f"has {names or 'no class that is a plug-in'}",
            line=lines[found[1].__name__] if found else 1,
            remedy="A plug-in file has one public class with a VERSION",
        )
    return found[0], lines.get(found[0].__name__)


def _folder_of(path: Path, plugin: Any, line: int | None) -> str:
    """The folder to whose base class a plug-in belongs."""
    for folder in FOLDERS:
        if issubclass(plugin, catalog(folder).base):
            return folder
    *bases, last = (folder.base for folder in FOLDERS.values())
    raise PluginFault(
        path, f"{plugin.__name__} is not a subclass of {', '.join(bases)} or {last}", line=line
    )


def _refuse_incomplete(place: Path | str, plugin: Any, line: int | None, base: Any) -> None:
    """Raise `PluginFault` for a class from outside that lacks what its base class only declares, or
    breaks what the package's classes above it promise.
    """
    missing = {*getattr(plugin, "__abstractmethods__", ())}
    missing |= {
        name
        for part in base.__mro__
        for name in vars(part).get("__annotations__", {})
        if not hasattr(plugin, name)
    }
    problem, remedy = "", "Its base class documents them"
    options = getattr(plugin, "Params", None)
    if missing:
        problem = f"{plugin.__name__} does not define {', '.join(sorted(missing))}"
    elif type(plugin.VERSION) is not int:
        problem = f"VERSION is {plugin.VERSION!r}"
        remedy = "It is a whole number: raise it when results change"
    elif hasattr(base, "Params") and not (
        isinstance(options, type) and issubclass(options, base.Params.__base__)
    ):
        problem = f"{plugin.__name__}.Params is not a class of options"
        remedy = "Write class Params(rx.Params)"
    elif broken := broken_promise(plugin):
        problem, remedy, line = broken[0], broken[1], broken[2] or line
    elif (main := getattr(plugin, "main_metric", None)) is not None and not any(
        entry.names(main) for entry in plugin.metrics
    ):
        problem = f"{plugin.__name__}.metrics does not declare the main metric {main!r}"
        remedy = "Add a Measured of that name: it says which values are better, and in which unit"
    if problem:
        raise PluginFault(place, problem, line=line, remedy=remedy)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        remedy = "A plug-in file must have the same path on every machine of a run"
        raise PluginFault(path, error.strerror or str(error), remedy=remedy) from error
