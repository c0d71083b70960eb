"""The report of a grid: one HTML page, Markdown, LaTeX, CSV, JSON, and the figures as files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raxalign.report.compared import comparison_rows, comparisons_csv
from raxalign.report.compose import compose
from raxalign.report.render import as_html, as_latex, as_markdown
from raxalign.report.tables import as_json, csv_parts, json_parts

if TYPE_CHECKING:
    from raxalign.plan.plan import Plan
    from raxalign.store.ledger import Ledger


def write_report(
    rows: Sequence[Mapping[str, Any]],
    plan: Plan,
    folder: Path,
    *,
    ledger: Ledger | None = None,
    published: Sequence[str] = (),
) -> list[Path]:
    """Write the report of result rows into a folder.

    Args:
        rows: result rows of the plan (`plan.results.rows`).
        plan: the plan of the grid; the sections among its plug-in files are shown too.
        folder: where the report is written; it is made where it is not there.
        ledger: the predictions that differences are tested on and analyses are made of (None:
            neither is done).
        published: the papers whose tables are shown (`config.published`).

    Returns:
        The paths of all files, the page first.
    """
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    composed = compose(rows, plan, folder / "figures", ledger=ledger, published=published)
    document, found = composed.document, comparison_rows(composed.compared, plan)
    texts: dict[str, Iterable[str]] = {
        "report.html": [as_html(document)],
        "report.md": [as_markdown(document)],
        "report.tex": [as_latex(document)],
        "results.csv": csv_parts(rows),
        "results.json": json_parts(rows),
        "comparisons.csv": [comparisons_csv(found)],
        "comparisons.json": [as_json(found)],
        **{name: [text] for name, text in composed.files.items()},
    }
    for name, parts in texts.items():
        with (folder / name).open("w", encoding="utf-8") as file:
            file.writelines(parts)
    drawn = (figure.name for part in document.parts for figure in part.figures)
    figures = [f"figures/{name}.{kind}" for name in drawn for kind in ("svg", "pdf", "png")]
    return [folder / name for name in (*texts, *figures)]
