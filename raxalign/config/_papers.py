"""The `published` section: papers of the package, and files of tables from outside."""

from __future__ import annotations

from pathlib import Path

from raxalign.config._faults import suggestion
from raxalign.config._paths import Paths, absolute
from raxalign.config._yaml import Node
from raxalign.config.published import fault_in
from raxalign.config.published import names as publications


def read_published(node: Node, paths: Paths) -> tuple[str, ...]:
    """Names of the package's papers, and absolute paths of files like theirs."""
    names: list[str] = []
    faults = paths.faults
    for item in node.items():
        if not isinstance(item.value, str):
            faults.add(
                item,
                f"{item.shown()} is not the name of a table",
                f"there are {', '.join(publications())}",
            )
        elif item.value.endswith(".yaml"):
            path = absolute(item.value, paths.folder)
            if (wrong := fault_in(path)) is not None:
                faults.add(item, wrong, "the form is that of raxalign/published/*.yaml")
            elif any(Path(path).stem == Path(name).stem for name in names):
                faults.add(item, f"the name {Path(path).stem!r} is given twice", "rename one file")
            else:
                names.append(path)
        elif item.value not in publications():
            faults.add(
                item, f"unknown publication {item.value!r}", suggestion(item.value, publications())
            )
        elif item.value not in names:
            names.append(item.value)
    return tuple(names)
