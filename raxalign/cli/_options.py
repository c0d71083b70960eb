"""The options that commands share, their sentences, and what a shell completes besides them: kinds
of plug-ins, names of a grid file.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_type_hints

import typer
from typer import Argument, Option
from typer.core import TyperArgument, TyperCommand
from typer.models import OptionInfo

from raxalign.printing import printable

GridFile = Annotated[Path, Argument(metavar="FILE", help="The grid file (YAML).")]
_STORAGE = (
    "Storage root: a folder or an object store URL (default: RAXALIGN_STORAGE, then .raxalign)."
)
Storage = Annotated[str | None, Option(help=_STORAGE)]
Format = Literal["table", "json", "csv"]
ResultsFormat = Literal["table", "json", "csv", "latex", "markdown"]
PlanFormat = Literal["table", "json"]
# the modules that have these three are slow to import; tests compare them
Keep = Literal["all", "none"]
Precision = Literal["fp32", "tf32", "bf16"]
Symmetrization = Literal[
    "intersection",
    "union",
    "grow-diag",
    "grow-diag-final-and",
    "forward",
    "reverse",
    "atools-grow-diag",
    "atools-grow-diag-final",
    "atools-grow-diag-final-and",
]
Out = Annotated[Path, Option("--out", help="The folder to write; nothing is overwritten.")]
_OPTION = "An option, as in a grid file (`raxalign list`)."
Options = Annotated[list[str] | None, Option("--option", "-o", metavar="NAME=VALUE", help=_OPTION)]
Pivot = Annotated[str, Option(help="The language that all others share.")]
Device = Annotated[str | None, Option(help="A torch device (default: the GPU where there is one).")]
Threads = Annotated[int | None, Option(min=1, help="CPU threads.")]
_PLUGINS = "A plug-in of your own, one class in one file."
Plugins = Annotated[list[Path] | None, Option("--plugins", metavar="FILE", help=_PLUGINS)]
_CONFIRM = (
    "Once the grid is finished: the configuration of each method that dev chose, and the baseline,"
    " with N fresh seeds."
)
Confirm = Annotated[int | None, Option(min=2, metavar="N", help=_CONFIRM)]
_EVERY = "In tables, also counts, standard errors and the two directions."
Every = Annotated[bool, Option("--all", help=_EVERY)]
Several = list[str] | None
Number = Annotated[int | None, Option(min=1)]
Percentage = Annotated[float, Option(min=0.0, max=100.0)]
_EQUIVALENCE = (
    "The smallest difference that matters, in points of metrics in percent, else in their own unit:"
    " a difference whose interval lies within ± D is `no difference above D`."
)
_ONE = (
    "A command takes one grid file: to see methods, tasks or encoders in one table, write them into"
    " one file on the same storage; what has run is not run again"
)
_NONE = (
    "This command takes no grid file: `raxalign plan FILE --detect POINTS` says what comparisons of"
    " a grid can detect, and `raxalign results FILE` what it has measured"
)
Equivalence = Annotated[float | None, Option(min=0.0, metavar="D", help=_EQUIVALENCE)]


class _Named(TyperArgument):
    """An argument that help shows by its name, without braces and without its Python type."""

    def display_type_rich(self, ctx: typer.Context) -> None:  # type: ignore[override]
        """Return no type."""

    def get_usage_pieces(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        """Return the name as the line of usage has it."""
        return [re.sub("[{}]", "", piece) for piece in super().get_usage_pieces(ctx)]


class OneGrid(TyperCommand):
    """A command that says what to do instead where it is given a grid file too many."""

    def get_params(self, ctx: typer.Context) -> list[Any]:  # type: ignore[override]
        """Return its parameters."""
        for argument in (own for own in self.params if isinstance(own, TyperArgument)):
            argument.__class__ = _Named  # typer makes arguments of one class alone
        return super().get_params(ctx)

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Parse the arguments; those that are left over are refused."""
        ctx.allow_extra_args = True
        left = super().parse_args(ctx, args)
        if left and not ctx.resilient_parsing:  # a shell that completes has not named an option yet
            told = f"Got unexpected extra argument(s) ({' '.join(map(printable, left))})"
            grids = any(Path(name).suffix in (".yaml", ".yml") for name in left)
            named = [own.name for own in self.params if isinstance(own, TyperArgument)]
            told += f". {_ONE}" if grids and "file" in named else ""
            ctx.fail(told if named or not grids else f"{told}. {_NONE}")
        return left


_VALUES = {str: "TEXT", Path: "PATH", int: "N", float: "NUMBER"}
_ROOM = 50  # columns for the values of an option next to its name


def described(command: Callable[..., None]) -> Callable[..., None]:
    """Give the options of a command their sentences, which are the section `Options` of its
    docstring, and words for their values. A yes-or-no option that is off by default has no second
    name to put it off.
    """
    text, _, section = (inspect.getdoc(command) or "").partition("\n\nOptions:\n")
    told = dict(re.findall(r"^    (\w+): (.+(?:\n {5,}.+)*)", section, re.MULTILINE))
    hints: dict[str, Any] = get_type_hints(command, include_extras=True)
    for name, parameter in inspect.signature(command).parameters.items():
        kind, *known = (
            get_args(hints[name]) if hasattr(hints[name], "__metadata__") else [hints[name]]
        )
        needed, off = parameter.default is parameter.empty, parameter.default is False
        flags = [f"--{name.replace('_', '-')}"] if off else []
        info = copy(known[0]) if known else (Argument() if needed else Option(*flags))
        if name in told:
            info.help = " ".join(told[name].split())
        *_, value = leaves = _leaves(kind)
        if not needed and isinstance(value, str) and len("|".join(leaves)) > _ROOM:
            info.help = f"{(info.help or '').removesuffix('.')}: {', '.join(leaves)}."
            info.metavar = "NAME"
        if info.metavar is None:
            info.metavar = _VALUES.get(value) if isinstance(info, OptionInfo) else name.upper()
        hints[name] = Annotated[kind, info]
    command.__doc__, command.__annotations__ = text, hints
    return command


def _leaves(kind: Any) -> list[Any]:
    """Return the types and values that a type is made of, `None` left out."""
    parts = [leaf for part in get_args(kind) for leaf in _leaves(part)]
    return parts or [kind] * (kind is not NoneType)


Completer = Callable[..., list[str]]


def _among(texts: Callable[[typer.Context], Iterable[str]]) -> Completer:
    """Return what completes one of some texts, which are known when a shell asks."""

    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        return [text for text in texts(ctx) if text.startswith(incomplete)]

    return complete


def complete_kinds(folder: str | None = None) -> Completer:
    """Return what completes the kinds of a folder of plug-ins (None: of the one before them)."""

    def known(ctx: typer.Context) -> Iterable[str]:
        from raxalign.catalog import FOLDERS, catalog

        name = folder or ctx.params.get("what")
        return catalog(name) if name in FOLDERS else ()

    return _among(known)


def complete_folders(incomplete: str) -> list[str]:
    """Complete what `raxalign list` lists."""
    from raxalign.catalog import FOLDERS

    return [name for name in FOLDERS if name.startswith(incomplete)]


def complete_starts(incomplete: str) -> list[str]:
    """Complete the grid files and the kinds of plug-ins that `raxalign init` writes."""
    from raxalign.single.start import FOLDERS, grid_names

    return [name for name in (*grid_names(), *FOLDERS) if name.startswith(incomplete)]


def complete_names(what: str) -> Completer:
    """Return what completes the names that the command's grid file gives to tasks or languages."""
    return _among(lambda ctx: _named(ctx).get(what, ()))


def complete_conditions(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the last condition of ``--only``: its name, then its value."""
    before, comma, last = incomplete.rpartition(",")
    name, equals, _ = last.partition("=")
    found = {known: values for known, values in _named(ctx).items() if known != "task" and values}
    texts = [f"{name}={value}" for value in found.get(name, ())]
    texts = texts if equals else [f"{known}=" for known in found]
    return [
        text for text in (before + comma + text for text in texts) if text.startswith(incomplete)
    ]


def _named(ctx: typer.Context) -> dict[str, tuple[str, ...]]:
    """Return what the grid file of the command names: nothing where it cannot be read."""
    from raxalign.errors import RaxalignError

    # before an option without its value, the parser leaves the file in `args`
    given = ctx.params.get("file") or next(iter(ctx.args), "")
    try:
        return named_in(Path(given))
    except RaxalignError:
        return {}


def named_in(path: Path) -> dict[str, tuple[str, ...]]:
    """Return what a grid file names: its tasks under `task`, and under the names that ``--only``
    takes the values of the axes and of the methods' params that have several.

    Raises `GridError` for a file that is not one.
    """
    from raxalign.grid.yaml_file import Faults
    from raxalign.options.axes import Axis

    grid = Faults().read(path)[0].plain()
    languages, methods = grid.get("languages"), grid.get("methods")
    groups = list(languages.values()) if isinstance(languages, Mapping) else [languages]
    sets = languages.get("sets") if isinstance(languages, Mapping) else None
    groups += sets.values() if isinstance(sets, Mapping) else []
    found = {
        "task": tuple(_task_names(grid.get("tasks"), str(grid.get("pivot", "en")))),
        Axis.METHOD.value: _texts(methods),
        Axis.LANGUAGE: tuple(
            dict.fromkeys(lang for group in groups if group is not sets for lang in _texts(group))
        ),
        **({Axis.LANGUAGES.value: _texts(sets)} if isinstance(sets, Mapping) else {}),
        Axis.SENTENCES.value: _texts(grid.get("sentences")),
        Axis.SEED.value: _texts(grid.get("seeds")),
        Axis.ENCODER.value: _texts(grid.get("encoder")),
    }
    for params in methods.values() if isinstance(methods, Mapping) else ():
        for name, values in params.items() if isinstance(params, Mapping) else ():
            if isinstance(values, list):
                found[name] = tuple(dict.fromkeys([*found.get(name, ()), *_texts(values)]))
    return found


def _task_names(tasks: Any, pivot: str) -> Iterator[str]:
    """Yield the names of tasks as results have them: one per language of `train_on`."""
    for name in _texts(tasks):
        own = tasks[name] if isinstance(tasks, Mapping) else None
        sources = _texts(own["train_on"]) if isinstance(own, Mapping) and "train_on" in own else ()
        yield from (name,) if sources in ((), (pivot,)) else (f"{name}.{lang}" for lang in sources)


def _texts(value: Any) -> tuple[str, ...]:
    """Return values as a command line has them: the keys of a mapping, what a list has, or one."""
    entries = value if isinstance(value, list | Mapping) else [value]
    return tuple(
        str(entry).lower() if isinstance(entry, bool) else str(entry)
        for entry in entries
        if isinstance(entry, bool | int | float | str)
    )
