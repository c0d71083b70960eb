"""The examples in docstrings print what they say."""

import doctest
from importlib import import_module
from pathlib import Path

import pytest

import raxalign

ROOT = Path(raxalign.__file__).parent
MODULES = [
    ".".join(file.relative_to(ROOT.parent).with_suffix("").parts)
    for file in sorted(ROOT.rglob("*.py"))
    if ">>> " in file.read_text(encoding="utf-8")
]


def test_there_are_examples():
    assert len(MODULES) > 60


@pytest.mark.parametrize("name", MODULES)
def test_examples_print_what_they_say(name):
    found = doctest.testmod(import_module(name.removesuffix(".__init__")))
    assert found.attempted
    assert not found.failed
