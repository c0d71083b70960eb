"""The commands: parse, dispatch, exit code; no logic. Heavy imports stand inside commands, so that
each starts no more than it needs.
"""

from __future__ import annotations

import gc
import inspect
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from difflib import get_close_matches
from typing import Annotated

import typer
from typer.models import CommandInfo

from raxalign.cli import _care, _grids, _results, _single
from raxalign.cli import _options as opt
from raxalign.cli._terminal import alone_on_stdout, print_out, settle_streams
from raxalign.errors import RaxalignError
from raxalign.printing import printable, why_lost
from raxalign.printing import to_stderr as tell

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,  # its tables cut names where a terminal is narrow
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from raxalign.version import VERSION

        print_out(f"raxalign {VERSION}")
        raise typer.Exit


@app.callback()
def _everywhere(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error; allowed anywhere.")
    ] = False,
    trust: Annotated[
        bool,
        typer.Option(
            "--trust", help="Use plug-ins and addresses of a grid file unasked; allowed anywhere."
        ),
    ] = False,
) -> None:
    """Grids of cross-lingual alignment experiments on multilingual encoders."""


_COMMANDS: tuple[Callable[..., None], ...] = (
    *(_grids.grid, _grids.plan, _grids.fetch, _grids.status, _results.results, _grids.report),
    *(_grids.search, _results.show, _results.diff, _grids.bundle, _results.verify),
    *(_single.pairs, _single.aer, _single.align, _single.evaluate, _single.export, _single.power),
    *(_care.init, _care.list_, _care.ui, _care.sync, _care.doctor, _care.gc),
)
for _command in _COMMANDS:
    _text = " ".join((opt.described(_command).__doc__ or "").split())
    _first = f"{_text.partition('. ')[0].removesuffix('.')}."
    _named = app.command(_command.__name__.rstrip("_"), cls=opt.OneGrid, short_help=_first)
    _named(alone_on_stdout()(_command))


_READING = frozenset({"plan", "status", "results", "show", "diff", "list"})
_RARELY = 300_000  # new objects between two searches for garbage; Python's own number is 700


def _filled(arguments: list[str]) -> list[str]:
    """Return the arguments with an empty value for a bare `--compare`, which typer cannot read."""
    following = [*arguments[1:], "-"]
    return [
        "--compare=" if argument == "--compare" and value.startswith("-") else argument
        for argument, value in zip(arguments, following, strict=False)  # no argument, none follows
    ]


def _of(arguments: list[str]) -> typer.Typer:
    """Return the program with the one command that is asked for, where it is named first: the
    options of all others take a while to prepare. Raises `RaxalignError` for a name of none.
    """
    program, every = copy(app), app.registered_commands
    asked = [name for name in arguments[:1] if not name.startswith("-")]
    program.registered_commands = [c for c in every if c.name in asked] or every
    if asked and program.registered_commands is every:
        known = {str(command.name): command for command in every}
        near = get_close_matches(asked[0], known) or [*_about(asked[0].lower(), known)]
        told = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(known)}"
        raise RaxalignError(f"unknown command {printable(asked[0])!r}; {told}")
    return program


def _about(word: str, known: Mapping[str, CommandInfo]) -> Iterator[str]:
    """Yield the commands that have an option of this name, or the word in their first sentence."""
    for name, command in known.items():
        if word in inspect.signature(command.callback or _everywhere).parameters:
            yield f"{name} --{word}"
        elif word in re.findall(r"\w+", (command.short_help or "").lower()):
            yield name


def main() -> None:
    """Run a command: errors become one message and an exit code (0 done, 1 some trials failed, 2
    wrong usage or input, 130 interrupted).
    """
    settle_streams()
    debug = "--debug" in sys.argv
    if "--trust" in sys.argv:
        from raxalign.trust import trusting

        trusting.set(True)
    warnings.showwarning = lambda message, *_, **__: tell(f"warning: {message}")
    usual = gc.get_threshold()
    try:
        everywhere = {"--debug", "--trust"}
        arguments = _filled([argument for argument in sys.argv[1:] if argument not in everywhere])
        if _READING.intersection(arguments[:1]):  # it makes many objects that stay until its end
            gc.set_threshold(_RARELY)
            # pydantic looks through every installed package for plug-ins of its own: a tenth of all
            os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
        _of(arguments)(arguments, prog_name="raxalign")
    except KeyboardInterrupt:
        tell("interrupted")
        sys.exit(130)
    except Exception as error:
        if debug:
            raise
        tell(f"error: {_reason(error)}")
        sys.exit(error.exit_code if isinstance(error, RaxalignError) else 2)
    finally:
        gc.freeze()  # what is left is not looked through once more
        gc.set_threshold(*usual)
        sys.stdout.flush()
        lost = why_lost(sys.stdout)
        if lost and not isinstance(lost, BrokenPipeError):  # a reader may go: `| head`
            tell(f"error: the output cannot be written: {lost.strerror}")
            sys.exit(2)


def _reason(error: Exception) -> str:
    """Return what is wrong in one message. What the machine refuses (a full disk, a folder that
    cannot be written) is not a bug.
    """
    from raxalign.catalog import PluginFault

    if isinstance(error, RaxalignError):
        return str(error)
    if told := PluginFault.blamed(error):
        return f"{told}; --debug shows the traceback"
    if isinstance(error, OSError) and error.strerror:
        place = f"{error.filename}: " if error.filename is not None else ""
        return f"{place}{error.strerror}; --debug shows the traceback"
    bug = f"{type(error).__name__}: {error} (a bug in raxalign)"
    return f"{bug}; --debug shows the traceback"
