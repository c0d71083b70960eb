"""Searches in a storage: one record per study, from which everything but the search itself reads
what was suggested so far.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from raxalign.errors import StorageError
from raxalign.store._filesystem import Files
from raxalign.store.sealed import parse

FOLDER = "studies"
SIGNS = f"{FOLDER}/drivers"
"""Where drivers of searches leave signs of life, one file per driver."""
_NAME = re.compile(r"[^/\s][^/]*")


class Studies:
    """The records of a storage root: ``<root>/studies/<name>.json``. A record is replaced as a
    whole.
    """

    def __init__(self, files: Files) -> None:
        self._files = files

    def read_many(self, names: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Return the records of those studies that have begun, by their names.

        Raises `StorageError` that names a record which cannot be read.
        """
        paths = {_path(name): name for name in names}
        found = {}
        for path, data in self._files.read_many(list(paths)).items():
            try:
                found[paths[path]] = dict(parse(data))
            except ValueError as error:
                raise StorageError(
                    f"{self._files.place(path)}: is not a record of a study ({error}); delete it:"
                    " `raxalign grid` writes it again"
                ) from error
        return found

    def write(self, name: str, record: Mapping[str, Any]) -> None:
        """Put a record in place of the one that may be there."""
        data = json.dumps(record, ensure_ascii=False, indent=1).encode()
        self._files.write(_path(name), data)


def _path(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not the name of a study")
    return f"{FOLDER}/{name}.json"
