"""Labelled examples from data sets of the Hugging Face Hub."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from raxalign.corpora.readers.hub import check_columns, load_rows
from raxalign.errors import DataError
from raxalign.tasks.classification.examples import Example, Examples
from raxalign.tasks.classification.scheme import LabelScheme, Role, Split
from raxalign.tasks.transfer.task import HubSet

if TYPE_CHECKING:
    from datasets import Dataset

_MAY_LACK: tuple[Role, ...] = ("second", "id", "group")


def read_hub(found: HubSet, split: Split, scheme: LabelScheme, cache: Path | None) -> Examples:
    """Reads the examples of a data set of the hub, or of a local copy of its repository.

    Labels are text, or numbers; a number means the name that the data set has for it, or else the
    label at that place.

    Args:
        found: the data set and its configuration.
        split: `dev` is the split `validation`, or `dev`.
        scheme: the columns and the labels.
        cache: a folder for what is downloaded (None: the hub's own).

    Returns:
        the examples that have a label.

    Raises:
        DataError: a column is missing, or a label is unknown.
        TransientError: the hub cannot be reached.
    """
    hub_split = "validation" if split == "dev" else split
    where = f"{found.dataset}/{found.config}:{hub_split}"
    table = load_rows(found.dataset, found.config, hub_split, found.revision, cache)
    columns = _columns(where, table, scheme)
    names = getattr(table.features[columns["label"]], "names", None)
    values = {role: table[column] for role, column in columns.items()}
    rows = []
    for i, cell in enumerate(values["label"]):
        label = _label(where, i + 1, cell, scheme, names)
        if label is not None:
            second, id_, group = (
                None if role not in values else str(values[role][i]) for role in _MAY_LACK
            )
            rows.append(Example(str(values["first"][i]), second, label, i + 1, id_, group))
    if not rows:
        raise DataError(where, "has no labelled rows")
    return Examples(where, rows, len(table) - len(rows))


def _columns(where: str, table: Dataset, scheme: LabelScheme) -> dict[Role, str]:
    """Role -> column of the table; raises `DataError` where a text or the label is missing."""
    lowered = {name.lower(): name for name in table.column_names}
    found = {
        role: lowered[name]
        for role in (*scheme.columns.needed, "id", "group")
        for name in reversed(scheme.columns.names(role))
        if name in lowered
    }
    missing = [scheme.columns.shown(role) for role in scheme.columns.needed if role not in found]
    check_columns(where, table, missing)
    return found


def _label(
    where: str, row: int, cell: object, scheme: LabelScheme, names: Sequence[str] | None
) -> str | None:
    """The label of a row, None where it has none."""
    if cell is None or scheme.is_unlabelled(str(cell)):
        return None
    label = None
    if names is not None and isinstance(cell, int):
        if cell == -1:
            return None
        label = scheme.label(names[cell]) if 0 <= cell < len(names) else None
    label = label or scheme.label(str(cell))
    if label is None:
        raise DataError(
            where, f"unknown label {cell!r}", line=row, remedy=f"Labels are {scheme.known()}"
        )
    return label
