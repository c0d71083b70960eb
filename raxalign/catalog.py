"""The one discovery mechanism: a file in a plural folder is a plug-in, and its stem is its kind in YAML.

Public files (no leading underscore, not ``base.py``) are listed without being imported. Loading one imports it by name and takes the one
public class that it defines below the folder's base class. Nothing is registered, and nothing can be added at run time.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from importlib.util import find_spec
from typing import Any

from raxalign.errors import RaxalignError


class UnknownKind(RaxalignError):
    """A name that no file of the catalogue has; `nearest` is the closest that one has, or None."""

    def __init__(self, noun: str, name: str, known: list[str]) -> None:
        matches = get_close_matches(name, known, n=1, cutoff=0.5)
        self.nearest = matches[0] if matches else None
        hint = f"did you mean {self.nearest}?" if self.nearest else f"known: {', '.join(known)}"
        super().__init__(f"unknown {noun} {name!r}; {hint}")


class Catalog(Mapping[str, Any]):
    """The plug-ins of one folder, kind -> class, read-only; `noun` names them in messages.

    >>> "none" in Catalog("raxalign.methods", "method")
    True
    """

    def __init__(self, package: str, noun: str) -> None:
        self.package, self.noun = package, noun
        spec = find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            raise ImportError(f"{package} is not a package")
        modules = pkgutil.iter_modules(spec.submodule_search_locations)
        self._kinds = sorted(m.name for m in modules if not m.ispkg and not m.name.startswith("_") and m.name != "base")

    def __iter__(self) -> Iterator[str]:
        return iter(self._kinds)

    def __len__(self) -> int:
        return len(self._kinds)

    def __getitem__(self, kind: str) -> Any:
        if kind not in self._kinds:
            raise UnknownKind(self.noun, kind, self._kinds)
        return _load(self.package, kind)

    def __contains__(self, kind: object) -> bool:
        return kind in self._kinds


@cache
def _load(package: str, kind: str) -> Any:
    """The one public class that the file defines; an error names a file with none or several."""
    module = importlib.import_module(f"{package}.{kind}")
    # type(c), not isinstance: asking a lazily loaded module for its class would load it
    classes = [(name, c) for name, c in vars(module).items() if issubclass(type(c), type)]
    found = [c for name, c in classes if c.__module__ == module.__name__ and not name.startswith("_") and hasattr(c, "VERSION")]
    if len(found) != 1:
        raise TypeError(f"{module.__file__}: a plug-in file has one public class with a VERSION, this one has {len(found)}")
    return found[0]


@cache
def catalog(folder: str) -> Catalog:
    """The catalogue of `corpora`, `aligners`, `encoders`, `methods` or `tasks`."""
    nouns = {"corpora": "corpus", "aligners": "word aligner", "encoders": "encoder", "methods": "method", "tasks": "task"}
    package = "raxalign.pairing.aligners" if folder == "aligners" else f"raxalign.{folder}"
    return Catalog(package, nouns[folder])
