"""The commands about raxalign itself: what there is, whether it works, what can go, and the MLflow
side.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from typer import Argument

from raxalign.cli import _options as opt
from raxalign.cli._terminal import print_out, width
from raxalign.printing import are, counted
from raxalign.printing import to_stderr as tell

if TYPE_CHECKING:
    from raxalign.catalog import PluginFile


def init(
    name: Annotated[str, Argument(autocompletion=opt.complete_starts)] = "quickstart",
    plugin: Annotated[str | None, Argument()] = None,
    out: Path | None = None,
) -> None:
    """Write a commented grid file to start from, or a plug-in of your own with its test.

    Options:
        name: A grid: quickstart (no download), paper (the large one), mine (your own text files),
            unseen (languages that no method aligns), sets (which languages to align), sources
            (which language to train on), layers (which layer carries it), curve (what a method is
            worth in data), adaptive (seeds only where a claim is open) or that of a paper, such as
            cao2020; `init x` lists all. Or method, task or corpus: a plug-in.
        plugin: The name of the plug-in, for example my_method.
        out: The file to write (default: NAME.yaml here), for a plug-in the folder; nothing is
            overwritten.
    """
    from raxalign.single.start import FOLDERS, write_grid, write_plugin

    if name in FOLDERS:
        if plugin is None:
            raise typer.BadParameter(f"give it a name: raxalign init {name} my_{name}")
        file, test = write_plugin(name, plugin, out)
        print_out(f"{file}\n{test}")
        tell(
            f"next: python -m pytest {test} (pip install pytest); a grid names the file with"
            f" `plugins: [{file}]` and the {name} as `{plugin}`"
        )
        return
    if plugin is not None:
        raise typer.BadParameter(f"{name} takes no second name; {', '.join(FOLDERS)} do")
    written = write_grid(name, out)
    print_out(str(written))
    tell(f"next: raxalign plan {written}, then raxalign grid {written}")


def list_(
    what: Annotated[str, Argument(autocompletion=opt.complete_folders)],
    kind: Annotated[str | None, Argument(autocompletion=opt.complete_kinds())] = None,
    format: Literal["text", "markdown"] = "text",  # noqa: A002
    plugins: opt.Plugins = None,
) -> None:
    """List the plug-ins of a kind with their options, or describe one of them. The list begins with
    a table of what each is; the description has a sentence on each option.

    A plug-in from outside that cannot be loaded is reported as a warning.

    Options:
        what: methods, tasks, corpora, encoders, aligners, metrics or sections; or training: the
            options that all training runs share
        kind: One of them: print its description and its options.
        format: text, or markdown as in docs/.
    """
    from raxalign.catalog import PluginFile
    from raxalign.inspect import catalogue

    with PluginFile.visible(_loaded(plugins or ())):
        print_out(
            catalogue.as_markdown(what, kind)
            if format == "markdown"
            else catalogue.describe(what, kind, width())
        )


def _loaded(plugins: Iterable[Path]) -> list[PluginFile]:
    """Return the plug-in files that can be loaded, with a warning for each of the others."""
    from raxalign.catalog import PluginFault, PluginFile

    found: list[PluginFile] = []
    for path in plugins:
        try:
            file = PluginFile.open(path)
            with PluginFile.visible([*found, file]):
                found.append(file)
        except PluginFault as fault:
            tell(f"warning: {fault}")
    return found


def doctor(
    file: Annotated[Path | None, Argument(metavar="FILE")] = None,
    encoder: str | None = None,
    storage: opt.Storage = None,
    online: bool = False,
) -> None:
    """Report what is installed, which devices there are and whether the storage can be written.
    With a grid, report also whether its data exists and can be read, and whether its local encoders
    can be opened.

    With --encoder, report what the encoder is, how many subword tokens its tokenizer makes per word
    of each language, whether they are those of running text, and which methods and tasks take it,
    in the grid or in the catalogue. Exit code 1: the subword tokens differ, or the grid has what
    does not take it.

    Options:
        file: A grid file, to look at what it needs.
        encoder: A folder or a hub name: report on this encoder alone.
        online: Ask for each encoder, data set and corpus of the grid that lies elsewhere: whether
            it can be had, how large it is, and whether it is gated.
    """
    if encoder is None:
        from raxalign.inspect.doctor import examine

        lines, healthy = examine(file, storage, online=online)
        code = 0 if healthy else 2
    else:
        from raxalign.grid.load import open_grid
        from raxalign.inspect.encoder import examine_encoder

        opened = open_grid(file, storage=storage) if file is not None else None
        lines, code = examine_encoder(encoder, opened)
    print_out("\n".join(lines))
    if code:
        raise typer.Exit(code)


def gc(
    files: Annotated[list[Path], Argument(metavar="FILE")],
    storage: opt.Storage = None,
    delete: bool = False,
    dry_run: bool = False,
) -> None:
    """Remove what no given grid and no living driver needs: artifacts, checkpoints, plans, caches,
    and what dead processes left. Results in the ledger are never removed.

    Options:
        files: The grids whose needs are kept.
        delete: Delete; without it, only list what would be deleted.
        dry_run: Only list (the default), with number, bytes and why.
    """
    from raxalign.errors import RaxalignError
    from raxalign.inspect.garbage import collect

    if delete and dry_run:
        raise RaxalignError("gc: --delete and --dry-run exclude each other")
    print_out(collect(files, storage, delete=delete))


def sync(file: opt.GridFile, storage: opt.Storage = None) -> None:
    """Copy to MLflow the results that could not be copied while a grid ran."""
    from raxalign.grid.load import open_grid
    from raxalign.report.answer import stored_answer
    from raxalign.sweep.tracker import TrackedGrid

    opened = open_grid(file, storage=storage)
    tracked = TrackedGrid(opened)
    count = tracked.copy_all()
    if answer := stored_answer(opened.plan, opened.storage.ledger):
        tracked.describe(answer)
    tell(f"{counted(count, 'trial')} of {opened.plan.name} {are(count)} in {tracked.target.uri}")


def ui(storage: opt.Storage = None, host: str = "127.0.0.1", port: int = 5000) -> None:
    """Open the MLflow UI on the storage's runs.

    Options:
        host: Address to listen on.
        port: Port to listen on.
    """
    from raxalign.single.place import storage_of
    from raxalign.tracking.ui import serve

    raise typer.Exit(serve(storage_of(storage), host, port, os.environ.get("MLFLOW_TRACKING_URI")))
