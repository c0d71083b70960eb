"""The commands that look into storages: one key, or two storages or grids next to each other."""

from __future__ import annotations

from typing import Annotated

import typer

from raxalign.cli._terminal import PlanFormat, Plugins, Storage, print_out, width


def show(
    key: Annotated[
        str,
        typer.Argument(help="Key of a trial, a stage or an evaluation, or a unique beginning."),
    ],
    storage: Storage = None,
    format: Annotated[  # noqa: A002
        PlanFormat, typer.Option(help="table, or json with curves point by point.")
    ] = "table",
    examples: Annotated[
        int, typer.Option(min=0, help="Predictions shown per task, language and split.")
    ] = 3,
    plugins: Plugins = None,
) -> None:
    """Show everything of one trial, stage or evaluation: params, what it was made from, where it is
    on disk, scores with intervals, some predictions, training curves, and its MLflow run.
    """
    import json

    from raxalign.plugin_files import open_file
    from raxalign.report.terminal.details import as_text, details
    from raxalign.report.terminal.lookup import look_up
    from raxalign.single.place import storage_of
    from raxalign.tracking.registry import run_of

    for path in plugins or ():
        open_file(path)
    place = storage_of(storage)
    match = look_up(key, place)
    facts = details(match, place, examples)
    if match.sort == "trial" and match.plan is not None:
        facts["mlflow"] = run_of(place, match.plan.name, f"trial:{match.key}")
    if format == "json":
        print_out(json.dumps(facts, ensure_ascii=False, indent=1, default=str))
    else:
        print_out(as_text(facts, width()))


def diff(
    first: Annotated[
        str, typer.Argument(metavar="A", help="A grid file, or a storage (folder or URL).")
    ],
    second: Annotated[str, typer.Argument(metavar="B", help="Another one.")],
    storage: Storage = None,
    format: Annotated[PlanFormat, typer.Option(help="table or json.")] = "table",  # noqa: A002
    plugins: Plugins = None,
) -> None:
    """Compare two storages, two grid files, or one of each: which trials and values only one has,
    which params, versions and data make keys differ, and by how much values differ.

    Values of grid files are those of their storages. Exit code: 0 where nothing differs (values
    within 1e-6 count as equal), 1 where something does, 2 where it cannot be compared.
    """
    from raxalign.plugin_files import open_file
    from raxalign.report.terminal.differences import as_json, as_text, differences, read_side

    for path in plugins or ():
        open_file(path)
    sides = read_side(first, storage), read_side(second, storage)
    found = differences(*sides)
    if format == "json":
        print_out(as_json(found))
    else:
        print_out(as_text(found, *sides, width=width()))
    if found.any:
        raise typer.Exit(1)
