"""The report of a grid: one HTML page, Markdown, LaTeX, CSV, JSON, and the figures as files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raxalign.errors import StorageError
from raxalign.report.compared import comparison_rows, comparisons_csv
from raxalign.report.compose import Composed, compose
from raxalign.report.document import identifier
from raxalign.report.paper.references import references
from raxalign.report.render import as_html, as_latex, as_markdown, short_latex, short_markdown
from raxalign.report.tables import as_json, csv_parts, json_parts

if TYPE_CHECKING:
    from raxalign.plan.plan import Plan
    from raxalign.store.ledger import Ledger

_NOTHING: Mapping[str, str] = {}


def write_report(
    rows: Sequence[Mapping[str, Any]],
    plan: Plan,
    folder: Path,
    *,
    ledger: Ledger | None = None,
    published: Sequence[str] = (),
    sources: Mapping[str, str] = _NOTHING,
) -> list[Path]:
    """Write the report of result rows into a folder.

    Args:
        rows: result rows of the plan (`plan.results.rows`).
        plan: the plan of the grid; the sections among its plug-in files are shown too.
        folder: where the report is written; it is made where it is not there.
        ledger: the predictions that differences are tested on and analyses are made of (None:
            neither is done).
        published: the papers whose tables are shown (`config.published`).
        sources: the texts that the grid is made of, by their file names.

    Returns:
        The paths of all files, the page first.
    """
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    (folder / "tables").mkdir(exist_ok=True)
    composed = compose(
        rows, plan, folder / "figures", ledger=ledger, published=published, sources=sources
    )
    texts = {
        **_texts(composed),
        "results.csv": csv_parts(rows),
        "results.json": json_parts(rows),
        "references.bib": [references(plan, published)],
        **_comparisons(composed, plan),
    }
    _write(texts, folder)
    drawn = (figure.name for part in composed.document.parts for figure in part.figures)
    figures = [f"figures/{name}.{kind}" for name in drawn for kind in ("svg", "pdf", "png")]
    return [folder / name for name in (*texts, *figures)]


def _write(texts: Mapping[str, Iterable[str]], folder: Path) -> None:
    """Write texts, each in parts, under their names."""
    for name, parts in texts.items():
        with (folder / name).open("w", encoding="utf-8") as file:
            file.writelines(parts)


def _texts(composed: Composed) -> dict[str, Iterable[str]]:
    """The page in three languages, the files of its sections, and the short tables."""
    document, short = composed.document, composed.short.items()
    return {
        "report.html": [as_html(document)],
        "report.md": [as_markdown(document)],
        "report.tex": [as_latex(document)],
        **{name: [text] for name, text in composed.files.items()},
        **{f"tables/{identifier(task)}.tex": [short_latex(table)] for task, table in short},
        **{f"tables/{identifier(task)}.md": [short_markdown(table)] for task, table in short},
    }


def _comparisons(composed: Composed, plan: Plan) -> dict[str, Iterable[str]]:
    """The comparisons for programs."""
    found = comparison_rows(composed.compared, plan)
    return {"comparisons.csv": [comparisons_csv(found)], "comparisons.json": [as_json(found)]}


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Raise `StorageError` with the file, or else the folder, that cannot be written."""
    try:
        yield
    except OSError as error:
        place, reason = error.filename or folder, error.strerror or error
        raise StorageError(
            f"{place}: the report cannot be written: {reason}; choose another folder with --out"
        ) from error
