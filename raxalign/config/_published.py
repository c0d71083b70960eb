"""The section `published`: papers whose tables are shown next to the results."""

from __future__ import annotations

from pathlib import Path

from raxalign.config._faults import Faults, suggestion
from raxalign.config._paths import Paths, absolute
from raxalign.config._yaml import Node
from raxalign.config.published import FOLDER, SUFFIXES, file_of, names, read, short_name
from raxalign.errors import DataError, GridError


def read_published(node: Node, paths: Paths) -> tuple[str, ...]:
    """Read the names of publications, and absolute paths of the user's own. Each is read once."""
    found: dict[str, str] = {}
    for item in node.items():
        name, remedy = item.value, f"known: {', '.join(names())}; or a path to a file"
        if not isinstance(name, str) or not name.strip():
            paths.faults.add(item, f"{item.shown()} is not the name of a table", remedy)
            continue
        if Path(name).suffix in SUFFIXES:
            name = absolute(name.strip(), paths.folder)
        elif name not in names():
            remedy = suggestion(name, names())
            paths.faults.add(item, f"unknown publication {name!r}", remedy)
            continue
        short = short_name(name)
        own = name != short and short in names()
        if own or found.get(short, name) != name:
            other = "a publication of raxalign" if own else found[short]
            paths.faults.add(item, f"the name {short!r} is taken by {other}", "rename the file")
            continue
        _check_publication(item, name, paths.faults)
        found[short] = name
    return tuple(found.values())


def _check_publication(item: Node, name: str, faults: Faults) -> None:
    """Read a publication from outside the package; its faults are named by its file and line."""
    try:
        if file_of(name).parent != FOLDER:
            read(name)
    except DataError as error:
        faults.add(item, str(error))
    except GridError as error:
        for fault in error.faults:
            line = f":{fault.line}" if fault.line is not None else ""
            whole = fault.key == "grid"  # what would be right is then that of a grid file
            problem = fault.problem if whole else f"{fault.key}: {fault.problem}"
            remedy = "docs/how-to/report.md describes the form" if whole else fault.remedy
            faults.add(item, f"{error.path}{line}: {problem}", remedy)
