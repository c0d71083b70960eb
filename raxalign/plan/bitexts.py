"""Reading the sentence pairs of a grid's local files to their end, so that `raxalign doctor` finds
a bad line before the grid does.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raxalign.corpora.base import CorpusInputs
from raxalign.corpora.readers.inspection import FileRead, Report, read_through

if TYPE_CHECKING:
    from raxalign.plan.plan import Plan
    from raxalign.plan.stage import Stage


def read_bitexts(plan: Plan) -> Iterator[FileRead]:
    """Read each corpus of a plan whose files are all on this machine, once per language; yield its
    number of sentence pairs and its first fault. Remote corpora are passed over.
    """
    found: dict[Any, Stage] = {}
    for stage in plan.stages.values():
        places = tuple(stage.locations.values())
        if stage.kind == "bitext" and places and all(Path(place).is_file() for place in places):
            found.setdefault((stage.maker, stage.options, stage.params["lang"], places), stage)
    for stage in found.values():
        yield read_through(Path(next(iter(stage.locations.values()))), partial(_pairs, stage))


def _pairs(stage: Stage, _: Report) -> int:
    """Return the number of sentence pairs of a corpus. Raises `DataError` for its first fault."""
    with tempfile.TemporaryDirectory(prefix="raxalign-") as downloads:
        inputs = CorpusInputs(stage.locations, Path(downloads), stage.digests)
        read = stage.plugin().read(str(stage.params["lang"]), str(stage.params["pivot"]), inputs)
        return sum(1 for _pair in read)
