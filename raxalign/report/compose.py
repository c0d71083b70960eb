"""From results to the report as a value: every section's share, joined into one document.

The report of a grid: one HTML page, Markdown, LaTeX, CSV, JSON, and the figures as files.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

from raxalign.catalog import PluginFile, catalog
from raxalign.errors import RaxalignError, StorageError
from raxalign.grid.plan import Plan
from raxalign.printing import counted, masked
from raxalign.report.compared import ComparisonTables
from raxalign.report.document import (
    Document,
    Figure,
    Headline,
    Part,
    Share,
    Table,
    caption,
    identifier,
)
from raxalign.report.sections.base import Material, Measure, Section
from raxalign.report.tables import row_parts, short_tables
from raxalign.store.ledger import Ledger
from raxalign.values.claims import JudgedClaim
from raxalign.values.comparisons import Compared, comparisons
from raxalign.values.scoreboard import Scoreboard
from raxalign.version import VERSION


@dataclass(frozen=True)
class Composed:
    """The report as a value, the files of its sections (name -> text), the comparisons that its
    marks come from, and the short table of each task.
    """

    document: Document
    files: Mapping[str, str]
    compared: Sequence[Compared]
    short: Mapping[str, Table]


@dataclass(frozen=True)
class ReportOptions:
    """What a report shows besides results.

    Attributes:
        published: the papers whose tables are shown (`grid.published`).
        sources: the texts that the grid is made of, by their file names.
        equivalence: the smallest difference that matters, as `comparisons` reads it.
        claims: those of the grid as its results judge them.
    """

    published: Sequence[str] = ()
    sources: Mapping[str, str] = field(default_factory=dict)
    equivalence: float | None = None
    claims: Sequence[JudgedClaim] = ()


def compose(
    rows: Sequence[Mapping[str, Any]],
    plan: Plan,
    figures: Path,
    *,
    ledger: Ledger | None = None,
    asked: ReportOptions = ReportOptions(),
) -> Composed:
    """Make the report of result rows of a plan as a value, with its plug-in files' sections.

    Figures are drawn into a folder. Without a `ledger` nothing is tested, and there are no
    analyses.
    """
    results = Scoreboard.of(rows, plan, ledger)
    results = results.tested(
        comparisons(results.cells, plan, ledger, equivalence=asked.equivalence)
    )
    made: list[Section] = []

    def measure(name: str) -> Measure | None:  # with what the first section that can measures it
        found = (section.measures().get(name) for section in made)
        return next((known for known in found if known is not None), None)

    material = Material(results, figures, ledger, asked.published, measure, asked.sources)
    made += [section(material) for section in section_kinds(plan)]
    shares = [share for section in made if (share := section.share()) is not None]
    document = Document(
        plan.name,
        "Cross-lingual alignment, measured",
        tuple(fact for share in shares for fact in share.facts),
        tuple(_joined((p for share in shares for p in share.parts), results.lacking.short)),
        tuple(caption(f"legend_of_{name}") for name in ("cells", "marks", "states")),
        _headline(shares, asked.claims),
        tuple(listing for share in shares for listing in share.listings),
        results.lacking.told(),
    )
    files = {name: text for share in shares for name, text in share.files.items()}
    short = {key[0]: table for key, table in short_tables(results)}
    return Composed(document, files, results.compared, short)


def _headline(shares: Sequence[Share], claims: Sequence[JudgedClaim]) -> Headline | None:
    """Return the first headline of some, with the grid's claims."""
    found = next((share.headline for share in shares if share.headline is not None), None)
    counts = Counter(claim.verdict for claim in claims)
    told = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    told += " so far" if any(claim.done < claim.planned for claim in claims) else ""
    verdicts = f"{counted(len(claims), 'claim')}: {told}"
    lines = tuple(claim.line for claim in claims)
    return found and replace(found, claims=lines, verdicts=verdicts)


def section_kinds(plan: Plan) -> list[type[Section]]:
    """Return the package's sections by their places, then those from outside by theirs."""
    for file in plan.plugins:
        file.load()
    sections = catalog("sections")
    with PluginFile.visible(plan.plugins):
        found: list[type[Section]] = [kind for _, kind in sections.items()]
    own = f"{sections.package}."
    return sorted(found, key=lambda kind: (not kind.__module__.startswith(own), kind.place))


_Shown = TypeVar("_Shown", Table, Figure)


def _captioned(shown: Iterable[_Shown], told: str) -> tuple[_Shown, ...]:
    """Return tables or figures whose captions begin with a sentence."""
    return tuple(replace(one, caption=f"{told} {one.caption}".strip()) for one in shown)


def _joined(shared: Iterable[Part], told: str) -> Iterator[Part]:
    """The parts in the order of their first shares, those of one anchor joined; all captions begin
    with what is `told`.
    """
    parts: dict[str, Part] = {}
    number = 0
    for part in shared:
        tables: list[Table] = []
        for table in part.tables:
            number += not table.anchor
            tables.append(replace(table, anchor=table.anchor or f"analysis-{number}"))
        before = parts.get(part.anchor, replace(part, tables=(), figures=(), remarks=()))
        parts[part.anchor] = replace(
            before,
            tables=(*before.tables, *_captioned(tables, told)),
            figures=(*before.figures, *_captioned(part.figures, told)),
            remarks=(*before.remarks, *part.remarks),
        )
    yield from parts.values()


def write_report(
    rows: Sequence[Mapping[str, Any]],
    plan: Plan,
    folder: Path,
    *,
    ledger: Ledger | None = None,
    asked: ReportOptions = ReportOptions(),
    grid: Path | None = None,
) -> list[Path]:
    """Write the report of result rows into a folder, which is made where it is not there; where it
    is that of a `grid` file, what its former report had besides is removed. The other arguments are
    those of `compose`. Returns the paths of all files, the page first.

    Raises `RaxalignError` where the folder has the report of another grid, and `StorageError` with
    the file, or else the folder, that cannot be written.
    """
    place: AbstractContextManager[list[Path]] = nullcontext([])
    if grid is not None:
        place = _kept_for(folder, grid)
    with place as written:
        written += _written(rows, plan, folder, ledger, asked)
    return written


def _written(
    rows: Sequence[Mapping[str, Any]],
    plan: Plan,
    folder: Path,
    ledger: Ledger | None,
    asked: ReportOptions,
) -> list[Path]:
    for place in ("figures", "tables"):
        (folder / place).mkdir(parents=True, exist_ok=True)
    composed = compose(rows, plan, folder / "figures", ledger=ledger, asked=asked)
    document, short = composed.document, composed.short.items()
    compared = ComparisonTables(composed.compared, plan).rows()
    texts: dict[str, Iterable[str]] = {
        "report.html": [document.html()],
        "report.md": [document.markdown()],
        "report.tex": [document.latex()],
        **{name: [text] for name, text in composed.files.items()},
        **{f"tables/{identifier(task)}.tex": [table.latex()] for task, table in short},
        **{f"tables/{identifier(task)}.md": [table.markdown()] for task, table in short},
        "results.csv": row_parts(rows, "csv"),
        "results.json": row_parts(rows, "json"),
        "references.bib": [references(plan, asked.published)],
        "comparisons.csv": row_parts(compared, "csv", ComparisonTables.FIELDS),
        "comparisons.json": row_parts(compared, "json"),
    }
    for name, parts in texts.items():
        with (folder / name).open("w", encoding="utf-8") as file:
            file.writelines(map(masked, parts))
    figures = (figure.name for part in document.parts for figure in part.figures)
    drawn = (f"figures/{name}.{kind}" for name in figures for kind in ("svg", "pdf", "png"))
    return [folder / name for name in (*texts, *drawn)]


@contextmanager
def _kept_for(folder: Path, grid: Path) -> Iterator[list[Path]]:
    """Let the report of a grid file be written into a folder, by who adds the files to the list."""
    folder, record = folder.resolve(), folder / ".report.json"
    written, former = list[Path](), dict[str, Any]()
    try:
        if record.exists():
            with suppress(ValueError):  # it was not written to its end
                former = json.loads(record.read_text(encoding="utf-8"))
            owner = folder / former.get("grid", ".")
            if owner.is_file() and not owner.samefile(grid):
                raise RaxalignError(
                    f"{folder} has the report of {owner.resolve()}: give {grid} another `name:`, or"
                    " choose another folder with --out"
                )
        yield written
        names = [str(path.resolve().relative_to(folder)) for path in written]
        for name in set(former.get("files", ())) - set(names):
            if (path := (folder / name).resolve()).is_relative_to(folder):
                path.unlink(missing_ok=True)
        own = os.path.relpath(grid.resolve(), folder)  # a project may be moved as a whole
        record.write_text(json.dumps({"grid": own, "files": names}), encoding="utf-8")
    except OSError as error:
        place, reason = error.filename or folder, error.strerror or error
        raise StorageError(
            f"{place}: the report cannot be written: {reason}; choose another folder with --out"
        ) from error


_OWN = f"""@misc{{raxalign,
  author = {{{{The raxalign contributors}}}},
  title = {{{{raxalign}}: Grids of Cross-lingual Alignment Experiments on Multilingual Encoders}},
  year = {{2026}},
  note = {{Software, version {VERSION}}},
}}"""
_HOLM = "holm1979"  # its correction is under every mark


def references(plan: Plan, published: Sequence[str] = ()) -> str:
    """Return BibTeX entries of a plan and the papers whose tables are shown, in the order of their
    keys, that of raxalign first.
    """
    known = entries()
    asked = {_HOLM, *(name for name in published if name in known)}
    for stage in plan.stages.values():
        if stage.catalogue is not None:
            options = {**stage.params, **json.loads(stage.options or "{}")}
            asked |= set(cited(catalog(stage.catalogue)[stage.maker].papers, options))
    for added in plan.metrics:
        asked |= set(cited(added.metric.papers, {}))
    found = {known.get(paper, paper) for paper in asked}
    return "\n\n".join([_OWN, *sorted(found, key=_key)]) + "\n"


@cache
def entries() -> Mapping[str, str]:
    """Return the entries of `raxalign/papers.bib` by their keys."""
    text = files("raxalign").joinpath("papers.bib").read_text(encoding="utf-8")
    return {_key(entry): entry.strip() for entry in re.split(r"\n(?=@)", text)}


def _key(entry: str) -> str:
    """The key of a BibTeX entry, by which entries are sorted."""
    return entry.partition("{")[2].partition(",")[0].strip()


def cited(papers: Sequence[str], options: Mapping[str, Any]) -> Iterator[str]:
    """Yield the papers of a plug-in that are cited under its options.

    >>> list(cited(("och2003", "extraction=softmax dou2021"), {"extraction": "softmax"}))
    ['och2003', 'dou2021']
    """
    for paper in papers:
        condition, _, key = paper.rpartition(" ")
        option, _, text = condition.partition("=")
        if paper.startswith("@") or not condition:
            yield paper
        elif re.search(rf"\b{re.escape(text)}", str(options.get(option)), re.IGNORECASE):
            yield key
