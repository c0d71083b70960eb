"""The commands: parse, dispatch, exit code; no logic. Heavy imports stand inside commands, so that
each starts no more than it needs.
"""

from __future__ import annotations

import gc
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from raxalign.cli import _care, _grids, _look, _results, _search, _single
from raxalign.cli._terminal import print_out
from raxalign.errors import RaxalignError
from raxalign.printing import to_stderr as tell

app = typer.Typer(
    no_args_is_help=True,
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
) -> None:
    """Grids of cross-lingual alignment experiments on multilingual encoders."""


_COMMANDS: tuple[Callable[..., None], ...] = (
    *(_grids.grid, _grids.plan, _grids.status, _results.results, _grids.report),
    *(_search.search, _look.show, _look.diff),
    *(_single.pairs, _single.aer, _single.align, _single.evaluate, _single.export),
    *(_care.init, _care.list_, _care.ui, _care.sync, _care.doctor, _care.gc),
)
for _command in _COMMANDS:
    app.command(name=_command.__name__.rstrip("_"))(_command)


_READING = frozenset({"plan", "status", "results", "show", "diff", "list"})
_RARELY = 300_000  # new objects between two searches for garbage; Python's own number is 700


@contextmanager
def _collecting(arguments: list[str]) -> Iterator[None]:
    """Search for garbage rarely while a command runs that only reads, and not in what it leaves:
    it makes many objects that stay until its end, which is soon.
    """
    if not _READING.intersection(arguments[:1]):
        yield
        return
    usual = gc.get_threshold()
    gc.set_threshold(_RARELY, *usual[1:])
    try:
        yield
    finally:
        gc.freeze()
        gc.set_threshold(*usual)


def _filled(arguments: list[str]) -> list[str]:
    """The arguments with an empty value for a `--compare` that has none, which typer cannot
    read.
    """
    following = [*arguments[1:], "-"]
    bare = [
        argument == "--compare" and value.startswith("-")
        for argument, value in zip(arguments, following, strict=True)
    ]
    return [
        "--compare=" if alone else argument for argument, alone in zip(arguments, bare, strict=True)
    ]


def main() -> None:
    """Run a command: errors become one message and an exit code (0 done, 1 some trials failed, 2
    wrong usage or input, 130 interrupted).
    """
    arguments, debug = (
        _filled([argument for argument in sys.argv[1:] if argument != "--debug"]),
        "--debug" in sys.argv,
    )
    warnings.showwarning = lambda message, *_, **__: tell(f"warning: {message}")
    try:
        with _collecting(arguments):
            app(arguments, prog_name="raxalign")
    except KeyboardInterrupt:
        tell("interrupted")
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(0)
    except Exception as error:
        if debug:
            raise
        if isinstance(error, RaxalignError):
            tell(f"error: {error}")
            sys.exit(error.exit_code)
        from raxalign.plugin_files import blamed

        told = blamed(error) or f"{type(error).__name__}: {error} (a bug in raxalign)"
        tell(f"error: {told}; --debug shows the traceback")
        sys.exit(2)
