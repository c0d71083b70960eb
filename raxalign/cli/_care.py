"""The commands about raxalign itself: what there is, whether it works, what can go, and the MLflow
side.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from raxalign.cli import _complete
from raxalign.cli._terminal import GridFile, ListFormat, Plugins, Storage, print_out, width
from raxalign.printing import are, counted
from raxalign.printing import to_stderr as tell

if TYPE_CHECKING:
    from raxalign.catalog import PluginFile


def init(
    name: Annotated[
        str,
        typer.Argument(
            autocompletion=_complete.starts,
            help=(
                "A grid: quickstart (no download), paper (the large one) or mine (your own text"
                " files). Or method, task or corpus: a plug-in."
            ),
        ),
    ] = "quickstart",
    plugin: Annotated[
        str | None, typer.Argument(help="The name of the plug-in, for example my_method.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help=(
                "The file to write (default: NAME.yaml here), for a plug-in the folder; nothing"
                " is overwritten."
            )
        ),
    ] = None,
) -> None:
    """Write a commented grid file to start from, or a plug-in of your own with its test."""
    from raxalign.single.start import FOLDERS, write_grid

    if name in FOLDERS:
        _init_plugin(name, plugin, out)
        return
    if plugin is not None:
        raise typer.BadParameter(f"{name} takes no second name; {', '.join(FOLDERS)} do")
    written = write_grid(name, out)
    print_out(str(written))
    tell(f"next: raxalign plan {written}, then raxalign grid {written}")


def _init_plugin(what: str, name: str | None, out: Path | None) -> None:
    from raxalign.single.start import write_plugin

    if name is None:
        raise typer.BadParameter(f"give it a name: raxalign init {what} my_{what}")
    file, test = write_plugin(what, name, out)
    print_out(f"{file}\n{test}")
    tell(
        f"next: python -m pytest {test} (pip install pytest); a grid names the file with"
        f" `plugins: [{file}]` and the {what} as `{name}`"
    )


def list_(
    what: Annotated[
        str,
        typer.Argument(
            help="methods, tasks, corpora, encoders, aligners, metrics or sections; or training:"
            " the options that trainings share",
            autocompletion=_complete.folders,
        ),
    ],
    kind: Annotated[
        str | None,
        typer.Argument(
            help="One of them: print its description and its options.",
            autocompletion=_complete.kinds_listed,
        ),
    ] = None,
    format: Annotated[  # noqa: A002
        ListFormat, typer.Option(help="text, or markdown as in docs/.")
    ] = "text",
    plugins: Plugins = None,
) -> None:
    """List the plug-ins of a kind: a table of what each is, then all with their options; or print
    one with a sentence on each option.

    A plug-in from outside that cannot be loaded is reported as a warning.
    """
    from raxalign.plugin_files import visible
    from raxalign.report import catalogue

    with visible(_loaded(plugins or ())):
        print_out(
            catalogue.as_markdown(what, kind)
            if format == "markdown"
            else catalogue.describe(what, kind, width())
        )


def _loaded(plugins: Iterable[Path]) -> list[PluginFile]:
    """Return the plug-in files that can be loaded, with a warning for each of the others."""
    from raxalign.catalog import PluginFault
    from raxalign.plugin_files import open_file, visible

    found: list[PluginFile] = []
    for path in plugins:
        try:
            file = open_file(path)
            with visible([*found, file]):
                found.append(file)
        except PluginFault as fault:
            tell(f"warning: {fault}")
    return found


def doctor(
    file: Annotated[Path | None, typer.Argument(metavar="[FILE]")] = None,
    encoder: Annotated[
        str | None, typer.Option(help="A folder or a hub name: report on this encoder alone.")
    ] = None,
    storage: Storage = None,
) -> None:
    """Report what is installed, which devices there are and whether the storage can be written;
    with a grid, whether its data exists and can be read.

    With --encoder, report what the encoder is, how many pieces its tokenizer makes per word of each
    language, whether they are those of running text, and which methods and tasks take it, in the
    grid or in the catalogue. Exit code 1: the pieces differ, or the grid has what does not take it.
    """
    if encoder is not None:
        _doctor_encoder(encoder, file, storage)
        return
    from raxalign.report.doctor import examine

    lines, healthy = examine(file, storage)
    print_out("\n".join(lines))
    if not healthy:
        raise typer.Exit(2)


def _doctor_encoder(name: str, file: Path | None, storage: str | None) -> None:
    """Print the report on an encoder."""
    from raxalign.plan.load import open_grid
    from raxalign.report.encoder import examine_encoder

    opened = open_grid(file, storage=storage) if file is not None else None
    lines, code = examine_encoder(name, opened)
    print_out("\n".join(lines))
    if code:
        raise typer.Exit(code)


def gc(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="The grids whose needs are kept.")
    ],
    storage: Storage = None,
    delete: Annotated[
        bool, typer.Option("--delete", help="Delete; without it, only list what would be deleted.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only list (the default), with number, bytes and why.")
    ] = False,
) -> None:
    """Remove what no given grid and no living driver needs: artifacts, checkpoints, plans, caches,
    and what dead processes left. Results in the ledger are never removed.
    """
    from raxalign.errors import RaxalignError
    from raxalign.report.garbage import collect

    if delete and dry_run:
        raise RaxalignError("gc: --delete and --dry-run exclude each other")
    print_out(collect(files, storage, delete=delete))


def sync(file: GridFile, storage: Storage = None) -> None:
    """Copy to MLflow the results that could not be copied while a grid ran."""
    from raxalign.plan.load import open_grid
    from raxalign.report.answer import stored_answer
    from raxalign.sweep.tracked import copy_all, describe, target_of

    opened = open_grid(file, storage=storage)
    target = target_of(opened)
    count = copy_all(opened, target)
    if answer := stored_answer(opened.plan, opened.storage.ledger):
        describe(opened, answer)
    tell(f"{counted(count, 'trial')} of {opened.plan.name} {are(count)} in {target.uri}")


def ui(
    storage: Storage = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.")] = 5000,
) -> None:
    """Open the MLflow UI on the storage's runs."""
    from raxalign.single.place import storage_of
    from raxalign.tracking.ui import serve

    raise typer.Exit(serve(storage_of(storage), host, port, os.environ.get("MLFLOW_TRACKING_URI")))
