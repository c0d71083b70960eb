"""The report of a grid: one HTML page, Markdown, LaTeX, CSV, JSON, and the figures as files."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raxalign.plan.comparisons import Compared, comparisons
from raxalign.report._analyses import retrieval_analyses
from raxalign.report._figures import figures_section
from raxalign.report._marks import Judge
from raxalign.report._own import chosen_section, own_section
from raxalign.report._plots import draw
from raxalign.report._published import RECORD, published_sections
from raxalign.report._remarks import remark_facts
from raxalign.report._results import Results
from raxalign.report._spaces import space_analyses
from raxalign.report.compared import comparison_rows, comparisons_csv
from raxalign.report.document import Analysis, Document, Figure, Section, Table
from raxalign.report.render import as_html, as_latex, as_markdown
from raxalign.report.tables import as_csv, as_json
from raxalign.version import VERSION

if TYPE_CHECKING:
    from raxalign.plan.plan import Plan
    from raxalign.store.ledger import Ledger

LEGEND = (
    (
        "Each cell is the mean over runs (seeds); in brackets its 95 % interval, in which both the"
        " runs and the examples (sentences, premises, contexts) are chance. Under it in the grid's"
        " own tables: the difference to the baseline, with its 95 % interval. In the papers'"
        " tables: the published figure and the difference, measured minus published."
    ),
    (
        "▲ (and bold) significantly better, ▼ significantly worse than the baseline, that is, the"
        " encoder as it was on the same task, language and encoder: at 0.05, after Holm's"
        " correction over all comparisons of one of the grid's own tables. No mark: that cannot be"
        " told. One run of something that depends on its seed has no interval. All numbers are in"
        " comparisons.csv."
    ),
    (
        "Retrieval and token translation are measured on held-out sentences of the grid's own"
        " corpus, named above. “not run”: no trial of the grid measures the cell. “untouched”: the"
        " method changes nothing of what the task reads, so that the cell would be that of the"
        " encoder itself. Grey figures alone are published ones that the grid's methods do not"
        " measure. Superscript letters say in what a measured cell is not as published."
    ),
)


def write_report(
    rows: Sequence[Mapping[str, Any]],
    plan: Plan,
    folder: Path,
    *,
    ledger: Ledger | None = None,
    published: Sequence[str] = (),
    analyses: Sequence[Analysis] = (),
) -> list[Path]:
    """Write the report of result rows into a folder; returns the paths, the page first.

    `published` names the papers whose tables stand beside the results (`config.published.names`);
    `ledger` holds the predictions that differences are tested on and the grid's analyses are made
    of (None: neither is done); further `analyses` are added as they are.
    """
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    document, records, compared = compose(
        rows, plan, folder / "figures", ledger=ledger, published=published, analyses=analyses
    )
    texts = {
        "report.html": as_html(document),
        "report.md": as_markdown(document),
        "report.tex": as_latex(document),
        "results.csv": as_csv(rows),
        "results.json": as_json(rows),
    }
    found = comparison_rows(compared, plan)
    texts |= {"comparisons.csv": comparisons_csv(found), "comparisons.json": as_json(found)}
    if published:
        texts["published.csv"] = _csv(RECORD, records)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    drawn = [figure.name for section in document.sections for figure in section.figures]
    return [
        *(folder / name for name in texts),
        *(folder / "figures" / f"{name}.{kind}" for name in drawn for kind in ("svg", "png")),
    ]


def compose(
    rows: Sequence[Mapping[str, Any]],
    plan: Plan,
    figures: Path,
    *,
    ledger: Ledger | None = None,
    published: Sequence[str] = (),
    analyses: Sequence[Analysis] = (),
) -> tuple[Document, list[tuple[object, ...]], list[Compared]]:
    """The report as a value, a record (`RECORD`) per published figure, and the comparisons; figures
    are drawn into a folder.
    """
    results = Results.of(rows, plan)
    compared = comparisons(results.cells, plan, ledger)
    judge = Judge(compared)
    if ledger is not None:
        analyses = [
            *analyses,
            *retrieval_analyses(results, ledger),
            *space_analyses(results, ledger),
        ]
    own = own_section(results, judge) if results.cells else None
    beside, records = published_sections(results, judge, published, analyses)
    extra = _analyses(analyses, figures)
    found = [*beside, own, chosen_section(results, judge), figures_section(results, figures), extra]
    sections = tuple(section for section in found if section is not None)
    facts = [*_facts(results), *remark_facts(plan, ledger)]
    document = Document(
        plan.name, "Cross-lingual alignment, measured", tuple(facts), sections, LEGEND
    )
    return document, records, compared


def _facts(results: Results) -> list[tuple[str, str]]:
    plan = results.plan
    trials = plan.trials
    methods = dict.fromkeys(trial.method for trial in trials)
    languages = dict.fromkeys(lang for trial in trials for lang in trial.languages)
    sizes = sorted({trial.sentences for trial in trials if trial.sentences is not None})
    facts = [
        ("encoder", ", ".join(dict.fromkeys(trial.encoder for trial in trials))),
        ("methods", ", ".join(methods)),
        ("tasks", ", ".join(results.tasks)),
        ("corpus", ", ".join(_corpora(plan))),
        (
            "word pairs",
            ", ".join(
                dict.fromkeys(
                    stage.maker for stage in plan.stages.values() if stage.kind == "pairs"
                )
            ),
        ),
        ("languages", ", ".join(languages) + f" (pivot {plan.pivot})"),
        ("sentence pairs a language", ", ".join(f"{size:,}" for size in sizes)),
        ("seeds", f"{len(results.seeds)}" if results.seeds else ""),
        ("trials", f"{len(trials):,}"),
        ("evaluations", f"{results.done:,} of {results.planned:,} done"),
        ("made by", f"raxalign {VERSION}"),
    ]
    return [(name, value) for name, value in facts if value]


def _corpora(plan: Plan) -> list[str]:
    """The corpora of the grid, by their kinds and names; files have none."""
    found: dict[str, None] = {}
    for stage in plan.stages.values():
        options = stage.params.get("corpus") if stage.kind == "bitext" else None
        if isinstance(options, Mapping):
            names = next((options[key] for key in ("corpus", "dataset") if options.get(key)), ())
            named = (
                [str(name) for name in names] if isinstance(names, list | tuple) else [str(names)]
            )
            found[" ".join([stage.maker, *named])] = None
    return list(found)


def _analyses(analyses: Sequence[Analysis], folder: Path) -> Section | None:
    """The analyses beside the tasks, in a section of their own, drawn into a folder."""
    tables: list[Table] = []
    figures: list[Figure] = []
    for number, analysis in enumerate(analyses, 1):
        if analysis.table is not None:
            tables.append(replace(analysis.table, anchor=f"analysis-{number}"))
        if analysis.panels:
            stem = analysis.stem
            figures.append(
                Figure(
                    f"figure-{stem}",
                    analysis.title,
                    stem,
                    draw(analysis.panels, folder, stem),
                    analysis.caption,
                )
            )
    return (
        Section("analyses", "Analyses", tables=tuple(tables), figures=tuple(figures))
        if tables or figures
        else None
    )


def _csv(header: Sequence[str], records: Sequence[Sequence[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(header)
    writer.writerows(records)
    return text.getvalue()
