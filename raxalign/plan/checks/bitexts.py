"""Reading the sentence pairs of a grid's local files, so that `raxalign doctor` finds a bad line
before the grid does, and `raxalign plan` sides that seem to be swapped.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raxalign.corpora.base import CorpusInputs, SentencePair
from raxalign.corpora.readers.inspection import FileRead, Report, read_through
from raxalign.corpora.readers.lines import count_lines
from raxalign.errors import DataError

if TYPE_CHECKING:
    from raxalign.plan.plan import Plan
    from raxalign.plan.stage import Stage

_ALL = 1 << 62  # lines: more than any file has


def read_bitexts(plan: Plan) -> Iterator[FileRead]:
    """Read each corpus of a plan whose files are all on this machine, once per language; yield its
    number of sentence pairs and its first fault. Remote corpora are passed over.
    """
    for stage in _local(plan):
        yield read_through(_place(stage), partial(_pairs, stage))


def swapped_sides(plan: Plan) -> Iterator[str]:
    """Look at the beginning of each corpus of text files on this machine, and yield one remark for
    each whose sides seem to be swapped. A corpus that cannot be read is passed over, and so is one
    that is not read line by line.
    """
    from raxalign.corpora.readers.files import FileCorpus
    from raxalign.corpora.text.sides import GLANCE, swapped

    for stage in _local(plan):
        if not isinstance(stage.plugin(), FileCorpus):
            continue
        lang, pivot = str(stage.params["lang"]), str(stage.params["pivot"])
        with suppress(DataError, OSError), _reading(stage) as pairs:  # `doctor` reports these
            if why := swapped(islice(pairs, GLANCE), lang, pivot):
                yield (
                    f"{_place(stage)}: the sides of {lang}-{pivot} seem to be swapped: {why}. If"
                    " so, exchange the names of the two files, or their columns"
                )


def other_lengths(plan: Plan, sizes: Mapping[Path, int]) -> Iterator[tuple[bool, str]]:
    """Compare files of given word links with the corpora that they belong to; yield, for each that
    has another number of lines, whether lines are missing that are read, and a message.

    Args:
        plan: The plan.
        sizes: The number of sentence pairs of a corpus, by its first file (see `read_bitexts`).
    """
    found: dict[tuple[str, Path], Stage] = {}
    for stage in plan.stages.values():
        for key in stage.inputs.values() if stage.kind == "pairs" else ():
            if plan.stages[key].kind == "bitext" and "links" in stage.locations:
                corpus = plan.stages[key]
                found.setdefault((stage.locations["links"], _place(corpus)), corpus)
    for (links, place), corpus in found.items():
        lines, pairs = count_lines(Path(links), _ALL), sizes.get(place)
        if lines is not None and pairs is not None and lines != pairs:
            fatal = lines < pairs and corpus.params.get("training_from", "end") == "end"
            remedy = "Line k has the links of sentence pair k, so both need equally many"
            yield fatal, f"{links}: has {lines:,} lines, and {place} {pairs:,}. {remedy}"


def _local(plan: Plan) -> list[Stage]:
    """Return a stage for each corpus and language whose files are all on this machine."""
    found: dict[Any, Stage] = {}
    for stage in plan.stages.values():
        places = tuple(stage.locations.values())
        if stage.kind == "bitext" and places and all(Path(place).is_file() for place in places):
            found.setdefault((stage.maker, stage.options, stage.params["lang"], places), stage)
    return list(found.values())


def _place(stage: Stage) -> Path:
    """Return the first file of a corpus."""
    return Path(next(iter(stage.locations.values()), ""))


@contextmanager
def _reading(stage: Stage) -> Iterator[Iterator[SentencePair]]:
    """Provide the sentence pairs of a corpus."""
    with tempfile.TemporaryDirectory(prefix="raxalign-") as downloads:
        inputs = CorpusInputs(stage.locations, Path(downloads), stage.digests)
        yield stage.plugin().read(str(stage.params["lang"]), str(stage.params["pivot"]), inputs)


def _pairs(stage: Stage, _: Report) -> int:
    """Return the number of sentence pairs of a corpus. Raises `DataError` for its first fault."""
    with _reading(stage) as pairs:
        return sum(1 for _pair in pairs)
