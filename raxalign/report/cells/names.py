"""How cells and the params that vary are named in tables and figures."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import replace

from raxalign.analysis.cells import MEANS, Cell
from raxalign.plan.names import marks_of, plain
from raxalign.plan.plan import Plan
from raxalign.plan.values.scoreboard import Scoreboard, TableKey, table_of
from raxalign.report.render import caption


def symbol(axis: str) -> str:
    """Return a param's Greek letter, or its name where it has none.

    >>> symbol("lambda"), symbol("strength")
    ('λ', 'strength')
    """
    return {"lambda": "λ", "alpha": "α"}.get(axis, axis)


def in_columns(lang: str, unseen: Container[str] = ()) -> str:
    """Return the heading of a language's column; `unseen` are those that no method has aligned.

    >>> in_columns("avg_zero_shot"), in_columns("de"), in_columns("sw", {"sw"})
    ('mean, zero-shot', 'de', 'sw, unseen')
    """
    return f"{lang}, unseen" if lang in unseen else MEANS.get(lang, lang)


UNALIGNED = "°"


def marked(text: str, cell: Cell, lang: str) -> str:
    """Return a number with a mark where the set that was aligned leaves out its language."""
    return text + UNALIGNED if cell.set and lang in cell.unseen else text


def unaligned(cells: Iterable[Cell]) -> str:
    """Return what a caption says of the mark; nothing without sets."""
    found = any(cell.set and cell.unseen for cell in cells)
    return f" {UNALIGNED}: the language is not in the set that was aligned." if found else ""


def capitalized(text: str) -> str:
    """Return a text with its first letter in upper case and the others as they are.

    >>> capitalized("mean BLEU")
    'Mean BLEU'
    """
    return text[:1].upper() + text[1:]


def named(cell: Cell, plan: Plan) -> str:
    """Return the method of a cell with the params that vary: ``finetune λ=0.1``."""
    axes = [axis for axis in plan.axes.get(cell.method, ()) if axis in cell.params]
    values = (f"{symbol(axis)}={plain(cell.params[axis])}" for axis in axes)
    return " ".join([cell.method, *values, *marks_of(cell, plan)])


def measured(cell: Cell, plan: Plan, per_language: str | None = None) -> str:
    """Return the text under the name of a published row: the method, its params that vary, without
    the one that has a value per language, and the size of its training set.
    """
    size = f", {cell.sentences:,} pairs" if cell.sentences is not None else ""
    if per_language is None:
        return f"{named(cell, plan)}{size}"
    rest = {name: value for name, value in cell.params.items() if name != per_language}
    return f"{named(replace(cell, params=rest), plan)}, {symbol(per_language)} per language{size}"


def under(results: Scoreboard, cell: Cell, table: TableKey) -> str:
    """Return the small print under a line: encoder, size of the training set, number of seeds."""
    facts = [cell.encoder] if results.several_encoders else []
    facts += [f"{cell.sentences:,} pairs"] if cell.sentences is not None else []
    counts = (value.n for name, value in cell.values.items() if table_of(name) == table)
    if seeds := max(counts, default=0):
        facts.append(f"{seeds} seeds" if seeds > 1 else "1 seed")
    return ", ".join(facts)


def of_methods(results: Scoreboard, most: int) -> str:
    """Return what a caption says where a figure or table has no room for all methods."""
    count = len(results.kinds)
    return f" {caption('some_methods', most=most, count=count)}" if count > most else ""


def of_encoder(results: Scoreboard) -> str:
    """Return what a caption says of the encoder of `representatives`, where there are several."""
    if not results.several_encoders:
        return ""
    shown = {
        cell.encoder
        for task, metric in results.transfer_tasks()
        for cell in results.representatives(task, metric)
    }
    return f" Of the grid's encoders only {', '.join(sorted(shown))} is shown." if shown else ""
