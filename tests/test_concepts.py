"""What one person has to learn to hold the package: names that cross a file, methods of contracts,
options. Each limit is what there is now; a change that takes something away lowers it, and only
a number that shows what a new thing is worth raises it (CONTRIBUTING.md).
"""

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel

import raxalign
from raxalign.catalog import catalog

PACKAGE = Path(raxalign.__file__).parent
KINDS = ("methods", "tasks", "corpora", "encoders", "aligners", "metrics")
LIMITS = {  # how much there may be, and how much less is worth lowering the limit for
    "names that cross a file": (798, 5),
    "names that cross a file for one user": (248, 5),
    "public methods of Task": (12, 0),
    "public methods of Method": (10, 0),
    "public methods of Head": (16, 0),
    "public methods of Files": (14, 0),
    "options of all kinds": (202, 2),
    "options of the mean task": (17.0, 0.5),
    "options of the mean method": (14.5, 0.5),
    "files": (310, 3),
}


@cache
def trees():
    """The syntax tree of each file of the package."""
    paths = sorted(PACKAGE.rglob("*.py"))
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in paths}


@cache
def users():
    """Of each name that one file of the package imports from another, the files that do. What a
    package exports in `__init__` does not count.
    """
    found = defaultdict(set)
    for path, tree in trees().items():
        for node in ast.walk(tree) if path.name != "__init__.py" else ():
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("raxalign"):
                for alias in node.names:
                    found[node.module, alias.name].add(path)
    return found


def methods_of(contract):
    """The public methods and properties that a contract itself defines."""
    classes = [
        node
        for tree in trees().values()
        for node in tree.body
        if isinstance(node, ast.ClassDef) and node.name == contract
    ]
    assert len(classes) == 1
    own = [node for node in classes[0].body if isinstance(node, ast.FunctionDef)]
    return sum(not node.name.startswith("_") for node in own)


def options_of(model, before=""):
    """The options of a kind by their names in YAML, those of nested mappings with dots."""
    found = []
    for field, info in model.model_fields.items():
        name = before + (info.alias or field)
        found.append(name)
        for part in get_args(info.annotation) or (info.annotation,):
            for leaf in get_args(part) or (part,):
                if isinstance(leaf, type) and issubclass(leaf, BaseModel):
                    found += options_of(leaf, f"{name}.")
    return found


@cache
def options():
    """The options of each kind, by folder of the catalogue."""
    return {
        folder: [options_of(kind.Params) for kind in dict(catalog(folder)).values()]
        for folder in KINDS
    }


def mean_options(folder):
    counts = [len(names) for names in options()[folder]]
    return sum(counts) / len(counts)


COUNTS = {
    "names that cross a file": lambda: len(users()),
    "names that cross a file for one user": lambda: sum(
        len(files) == 1 for files in users().values()
    ),
    "public methods of Task": lambda: methods_of("Task"),
    "public methods of Method": lambda: methods_of("Method"),
    "public methods of Head": lambda: methods_of("Head"),
    "public methods of Files": lambda: methods_of("Files"),
    "options of all kinds": lambda: len(
        {(folder, name) for folder in KINDS for names in options()[folder] for name in names}
    ),
    "options of the mean task": lambda: mean_options("tasks"),
    "options of the mean method": lambda: mean_options("methods"),
    "files": lambda: len(trees()),
}


@pytest.mark.parametrize("what", LIMITS)
def test_there_is_not_more_to_learn_and_what_was_taken_away_stays_away(what):
    limit, slack = LIMITS[what]
    assert limit - slack <= COUNTS[what]() <= limit
