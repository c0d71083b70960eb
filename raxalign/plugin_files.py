"""Plug-ins in files outside the package: loading them, once per content, refusing what cannot be
used, and naming the file and the line of what goes wrong while they work.

A file is executed as a module of its own, whose name holds the file's digest. `raxalign.catalog`
keeps the class, and knows it by the file's name inside `visible`.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import sys
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from raxalign.catalog import (
    DECLARE,
    FOLDERS,
    PluginFault,
    PluginFile,
    catalog,
    in_words,
    keep,
    loaded,
    outside,
    plugins_of,
    undeclared_main,
    visible_files,
)
from raxalign.errors import RaxalignError
from raxalign.printing import with_article

T = TypeVar("T")


def load_files(files: Iterable[PluginFile]) -> None:
    """Load the plug-in files of a plan into this process. Raises `PluginFault` for a file that has
    changed since it was planned, or is not here.
    """
    for file in files:
        if loaded(file.folder, file.kind) is None:
            refuse_changed([file])
            open_file(Path(file.path))


def require_named(files: Iterable[PluginFile]) -> None:
    """Raise `PluginFault` where this process has not loaded all plug-in files of a stored plan: a
    grid file or a command of the user names what runs, and never the storage, which others may
    write to.
    """
    lacking = [file for file in files if loaded(file.folder, file.kind) is None]
    if lacking:
        raise PluginFault(
            ", ".join(f"{file.name}.py (SHA-256 {file.digest[:16]}...)" for file in lacking),
            "a stored plan names plug-ins, and you do not: a storage alone makes no file run",
            remedy="Name yours with --plugins FILE, once per file",
        )


def refuse_changed(files: Iterable[PluginFile]) -> None:
    """Raise `PluginFault` for a file whose content is not the one that was planned."""
    for file in files:
        if hashlib.sha256(_read(Path(file.path))).hexdigest() != file.digest:
            raise PluginFault(
                file.path,
                "has changed since the grid was planned",
                remedy="Plan it again: its results will have other keys",
            )


def open_file(path: Path) -> PluginFile:
    """Load a plug-in file, once per content, and return what it is. Raises `PluginFault` with the
    file, the line and what is wrong.
    """
    path = path.expanduser().absolute()
    content = _read(path)
    digest = hashlib.sha256(content).hexdigest()
    _refuse_name(path)
    for folder in FOLDERS:
        file = PluginFile(str(path), digest, folder)
        if loaded(folder, file.kind) is not None:
            return file
    module = _executed(path, content, f"raxalign_outside.{digest[:16]}.{path.stem}")
    plugin, line = _only_plugin(path, content, module)
    file = PluginFile(str(path), digest, _folder_of(path, plugin, line))
    _refuse_incomplete(path, plugin, line, catalog(file.folder).base)
    keep(file, plugin)
    return file


def blamed(error: Exception) -> PluginFault | None:
    """Return the user's error for an exception that passed through a plug-in from outside, with the
    last line of its file on the way; None for any other.
    """
    frames = traceback.extract_tb(error.__traceback__)
    known = outside()
    for frame in reversed(frames):
        if frame.filename in known:
            return PluginFault(
                frame.filename,
                f"{in_words(error)}, in {frame.name} of the {known[frame.filename]}",
                line=frame.lineno,
            )
    return None


def message_of(error: Exception) -> str:
    """Return what to report of any exception: the message of one that is meant for users, with the
    plug-in for one that passed through a plug-in from outside, else its class and message.
    """
    return str(error) if isinstance(error, RaxalignError) else str(blamed(error) or in_words(error))


def returned(plugin: object, name: str, value: object, expected: type[T]) -> T:
    """Return what a function of a plug-in returned. Raises `PluginFault` with the function's line
    where that is not what the base class promises.
    """
    if isinstance(value, expected):
        return value
    function = getattr(type(plugin), name)
    raise PluginFault(
        inspect.getsourcefile(function) or type(plugin).__module__,
        f"{name} returned {'None' if value is None else with_article(type(value).__name__)}",
        line=inspect.getsourcelines(function)[1],
        remedy=f"It returns {with_article(expected.__name__)}: its base class documents it",
    )


@contextmanager
def visible(files: Iterable[PluginFile]) -> Iterator[None]:
    """Make plug-in files known by their names within the block. Raises `PluginFault` for a name
    that is taken.
    """
    files = tuple(files)
    for place, file in enumerate(files):
        _refuse_taken(file, files[:place])
    token = visible_files.set(files)
    try:
        yield
    finally:
        visible_files.reset(token)


def _refuse_taken(file: PluginFile, others: Iterable[PluginFile]) -> None:
    known = catalog(file.folder)
    if known.own(file.name):
        raise PluginFault(
            file.path,
            f"the name {file.name!r} of this {known.noun} is taken",
            line=1,
            remedy=f"raxalign list {file.folder} has it; rename the file",
        )
    for other in others:
        if (other.folder, other.name) == (file.folder, file.name) and other != file:
            raise PluginFault(
                file.path,
                f"the name {file.name!r} is taken by {other.path}",
                line=1,
                remedy="Rename one of the files",
            )


def _refuse_name(path: Path) -> None:
    stem = path.stem
    if path.suffix != ".py" or not stem.isidentifier() or stem.startswith("_") or stem == "base":
        raise PluginFault(
            path,
            "cannot be a plug-in's name",
            remedy="Name the file as YAML is to name its kind: letters, digits and _, then .py",
        )


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
        raise PluginFault(path, in_words(error), line=_line_in(path, error)) from error
    return module


def _line_in(path: Path, error: Exception) -> int | None:
    """The last line of the file itself that an error passed through, or None."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return error.lineno
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame.lineno for frame in frames if frame.filename == str(path)]
    return own[-1] if own else None


def _only_plugin(path: Path, content: bytes, module: ModuleType) -> tuple[Any, int | None]:
    """The one plug-in that a file defines, and the line of its class."""
    tree = ast.parse(content)
    lines = {node.name: node.lineno for node in tree.body if isinstance(node, ast.ClassDef)}
    found = plugins_of(module)
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


def _refuse_incomplete(path: Path, plugin: Any, line: int | None, base: Any) -> None:
    """Raises `PluginFault` for a class that lacks what its base class only declares, or has it of
    another type.
    """
    missing = {*getattr(plugin, "__abstractmethods__", ())}
    missing |= {
        name
        for name, kind in base.__annotations__.items()
        if str(kind).startswith("ClassVar") and not hasattr(plugin, name)
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
    elif problem := undeclared_main(plugin):
        remedy = DECLARE
    if problem:
        raise PluginFault(path, problem, line=line, remedy=remedy)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise PluginFault(
            path,
            error.strerror or str(error),
            remedy="A plug-in file must have the same path on every machine of a run",
        ) from error
