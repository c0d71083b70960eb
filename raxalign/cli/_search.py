"""The command that searches the params of one method, with or without a grid file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from raxalign.cli import _complete
from raxalign.cli._grids import grid
from raxalign.cli._results import results
from raxalign.cli._terminal import Options, Pivot, Storage, print_out
from raxalign.printing import to_stderr as tell


def search(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="The grid file: written from the options where it is not there, then run.",
        ),
    ] = Path("search.yaml"),
    method: Annotated[
        str,
        typer.Option(
            help="The method whose params are searched.", autocompletion=_complete.kinds("methods")
        ),
    ] = "finetune",
    space: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=KIND:VALUES",
            help=(
                "A param to search: lambda=log_uniform:0.01:10, dropout=uniform:0:0.5,"
                " epochs=int:1:4 or layers=choice:last:9."
            ),
        ),
    ] = None,
    option: Options = None,
    lang: Annotated[
        list[str] | None, typer.Option(help="A language; each has a study of its own.")
    ] = None,
    pivot: Pivot = "en",
    corpus: Annotated[
        str,
        typer.Option(help="The prefix of two parallel files, a corpus (phrasebook) or a mapping."),
    ] = "phrasebook",
    encoder: Annotated[
        str, typer.Option(help="A hub name, a folder, or a mapping as in a grid file.")
    ] = "bert-base-multilingual-cased",
    sentences: Annotated[int, typer.Option(min=1, help="Training sentence pairs.")] = 10_000,
    task: Annotated[
        str,
        typer.Option(
            help="What is measured: a task, or `task: {options}`.",
            autocompletion=_complete.kinds("tasks"),
        ),
    ] = "retrieval",
    metric: Annotated[
        str | None, typer.Option(help="task/lang/metric (default: the task's main metric).")
    ] = None,
    trials: Annotated[int, typer.Option(min=1, help="Trials of each study.")] = 20,
    sampler: Annotated[str, typer.Option(help="tpe, random, qmc, grid or nsga2.")] = "tpe",
    confirm: Annotated[
        int, typer.Option(min=0, help="Fresh seeds that the best point is run again with.")
    ] = 5,
    pruner: Annotated[
        str, typer.Option(help="Which trials end early: none, asha or median.")
    ] = "none",
    aligner: Annotated[
        str, typer.Option(help="The word aligner.", autocompletion=_complete.kinds("aligners"))
    ] = "eflomal",
    storage: Storage = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Write the file, show the plan and stop.")
    ] = False,
) -> None:
    """Search the best params of a method on development sets, without writing a grid file first."""
    from raxalign.single.start import write_search

    if file.exists():
        if space or lang:
            tell(f"note: {file} is there already: it is run as it is, without these options")
    else:
        write_search(
            file,
            method=method,
            spaces=space or (),
            options=option or (),
            languages=lang or (),
            pivot=pivot,
            corpus=corpus,
            encoder=encoder,
            sentences=sentences,
            task=task,
            metric=metric,
            budget=f"{trials} trials",
            sampler=sampler,
            confirm=confirm,
            aligner=aligner,
            pruner=pruner,
        )
        print_out(str(file))
    grid(file, storage=storage, dry_run=dry_run)
    if not dry_run:
        results([file], storage=storage, best=True)
