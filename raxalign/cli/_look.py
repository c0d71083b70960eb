"""The commands that look into storages: one key, or two storages or grids next to each other."""

from __future__ import annotations

from typing import Annotated

import typer

from raxalign.cli._terminal import PlanFormat, Storage, print_out, width


def show(
    key: Annotated[
        str,
        typer.Argument(help="Key of a trial, a stage or an evaluation, or a unique beginning."),
    ],
    storage: Storage = None,
    format: Annotated[  # noqa: A002
        PlanFormat, typer.Option(help="table, or json with curves point by point.")
    ] = PlanFormat.table,
    examples: Annotated[
        int, typer.Option(min=0, help="Predictions shown per task, language and split.")
    ] = 3,
) -> None:
    """Show everything of one trial, stage or evaluation: params, what it was made from, where it is
    on disk, scores with intervals, some predictions, training curves, and its MLflow run.
    """
    import json

    from raxalign.report.details import details
    from raxalign.report.details_text import as_text
    from raxalign.report.lookup import look_up
    from raxalign.single.place import local_folder, storage_of
    from raxalign.tracking.lookup import run_of

    root = storage_of(storage)
    match = look_up(key, root)
    facts = details(match, root, examples)
    if match.sort == "trial" and match.plan is not None:
        place = local_folder(root)
        facts["mlflow"] = run_of(root, place, match.plan.name, f"trial:{match.key}")
    if format is PlanFormat.json:
        print_out(json.dumps(facts, ensure_ascii=False, indent=1, default=str))
    else:
        print_out(as_text(facts, width()))
