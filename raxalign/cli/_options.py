"""The options that commands share, and their sentences."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from copy import copy
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_type_hints

import typer
from typer import Argument, Option
from typer.core import TyperCommand

from raxalign.printing import printable

GridFile = Annotated[Path, Argument(metavar="FILE", help="The grid file (YAML).")]
_STORAGE = (
    "Storage root: a folder or an object store URL (default: RAXALIGN_STORAGE, then .raxalign)."
)
Storage = Annotated[str | None, Option(help=_STORAGE)]
Format = Literal["table", "json", "csv"]
ResultsFormat = Literal["table", "json", "csv", "latex", "markdown"]
PlanFormat = Literal["table", "json"]
# the modules of `config` that have these three are slow to import; tests compare them
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
    "Once the grid is finished: the point of each method that dev chose, and the baseline, with N"
    " fresh seeds."
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
Equivalence = Annotated[float | None, Option(min=0.0, metavar="D", help=_EQUIVALENCE)]


class OneGrid(TyperCommand):
    """A command that says what to do instead where it is given a second grid file."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Parse the arguments; those that are left over are refused."""
        ctx.allow_extra_args = True
        left = super().parse_args(ctx, args)
        if left and not ctx.resilient_parsing:  # a shell that completes has not named an option yet
            told = f"Got unexpected extra argument(s) ({' '.join(map(printable, left))})"
            grids = any(Path(name).suffix in (".yaml", ".yml") for name in left)
            ctx.fail(f"{told}. {_ONE}" if grids else told)
        return left


def described(command: Callable[..., None]) -> Callable[..., None]:
    """Give the options of a command their sentences, which are the section `Options` of its
    docstring. A yes-or-no option that is off by default has no second name to put it off.
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
        hints[name] = Annotated[kind, info]
    command.__doc__, command.__annotations__ = text, hints
    return command
