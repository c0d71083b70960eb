"""Making the pieces of datasets as files, by several processes.

Part after part of a dataset is tokenised by processes of their own, since most of the work holds
Python's lock; each part is written as files, which are then copied end to end. So no process holds
more than one part, whatever the size of the dataset.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from raxalign.caveats import collecting
from raxalign.corpora.text.dataset import read_table
from raxalign.corpora.text.sentences import sentence_chunks
from raxalign.encoders.models.flat_pieces import ARRAYS, CHUNK, flat_pieces, write_record
from raxalign.errors import RaxalignError

PART = 32_768
"""Sentences of one part."""
_SMALL = 2**15  # what words, places and numbers of pieces have to be below to take two bytes each
_NARROW = ("words", "lasts", "first_W", "count_W")


@dataclass(frozen=True)
class Job:
    """What one process does: the parts ``first``, ``first + step``, ... of every column.

    Attributes:
        tokenizer: The file of the tokenizer.
        unknown: The number of its unknown piece (None: it has none).
        dataset: The folder of the dataset.
        columns: The columns of words, each with its language.
        folder: Receives the parts, as ``<column>-<part>``.
        first: The first part.
        step: The distance between two parts.
        part: The number of sentences of a part.
        arrays: The arrays that are written (`ARRAYS`).
    """

    tokenizer: str
    unknown: int | None
    dataset: str
    columns: Mapping[str, str | None]
    folder: str
    first: int
    step: int
    part: int
    arrays: Sequence[str] = ARRAYS


@dataclass(frozen=True)
class BareTokenizer:
    """What `bulk_pieces` reads of a tokenizer."""

    backend_tokenizer: Any
    unk_token_id: int | None


def write_pieces(
    tokenizer: Any,
    dataset: Path,
    columns: Mapping[str, str | None],
    threads: int,
    folder: Path,
    arrays: Sequence[str] = ARRAYS,
) -> dict[str, Any]:
    """Write the pieces of columns of a dataset, as `map_pieces` reads them from ``folder/column``.

    Args:
        tokenizer: The tokenizer, a fast one.
        dataset: The folder of the dataset.
        columns: The columns of words or of running text, each with its language (None: a spaced
            one).
        threads: The largest number of processes at once.
        folder: Takes a folder for each column.
        arrays: The arrays that are written: ``word_offsets`` and others of `ARRAYS`.

    Returns:
        For each column the number of its sentences, words and pieces, and of unknown ones among
        these.

    Raises:
        RaxalignError: A process failed.
    """
    n_parts = max(1, -(-len(read_table(dataset)) // PART))
    at_once = max(1, min(threads, n_parts))
    with tempfile.TemporaryDirectory(prefix="pieces-", dir=folder) as work:
        saved, unknown = str(Path(work) / "tokenizer.json"), tokenizer.unk_token_id
        whole = Job(saved, unknown, str(dataset), columns, work, 0, at_once, PART, arrays)
        jobs = [replace(whole, first=first) for first in range(at_once)]
        if at_once == 1 or not _saved(tokenizer, Path(saved)):
            with collecting():  # the trials that read the pieces count the unknown ones
                for job in jobs:
                    tokenise_parts(tokenizer, job)
        else:
            _run(jobs)
        made = {c: [Path(work) / f"{c}-{k}" for k in range(n_parts)] for c in columns}
        return {c: _join(made[c], arrays, lang, folder / c) for c, lang in columns.items()}


def tokenise_parts(tokenizer: Any, job: Job, wanted: Callable[[], bool] = lambda: True) -> None:
    """Write the parts of a job. Stops where they are no longer `wanted`."""
    table = read_table(Path(job.dataset))
    n_parts = max(1, -(-len(table) // job.part))
    for number in range(job.first, n_parts, job.step):
        rows = table.slice(number * job.part, job.part)
        for column, lang in job.columns.items():
            if not wanted():
                return
            pieces = flat_pieces(tokenizer, sentence_chunks(rows, column, CHUNK), lang)
            place = Path(job.folder) / f"{column}-{number}"
            place.mkdir()
            for name in job.arrays:
                np.save(place / f"{name}.npy", getattr(pieces, name)[:])
            write_record(place, lang, pieces.unknown)


def _saved(tokenizer: Any, path: Path) -> bool:
    """Write a tokenizer for other processes; return whether it can be. One with steps that are
    written in Python cannot.
    """
    try:
        tokenizer.backend_tokenizer.save(str(path))
    except Exception:  # noqa: BLE001 the library raises nothing more specific
        return False
    return True


def _run(jobs: list[Job]) -> None:
    """Run each job in a process of its own, and wait for all."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "TOKENIZERS_PARALLELISM": "false",
        **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    }
    command = [sys.executable, "-m", __name__]
    with ExitStack() as stack:
        running = []
        for job in jobs:
            process = subprocess.Popen(
                [*command, json.dumps(asdict(job))],
                env=environment,
                stdin=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            running.append(stack.enter_context(process))
            stack.callback(process.kill)  # does nothing where it has ended
        for process in running:
            _, said = process.communicate()
            if process.returncode:
                last = said.strip().rpartition("\n")[2] or f"exit code {process.returncode}"
                raise RaxalignError(
                    f"{jobs[0].dataset}: a process that tokenises it failed ({last})"
                )


def _join(
    parts: list[Path], arrays: Sequence[str], lang: str | None, folder: Path
) -> dict[str, int | None]:
    """Copy the parts of a column end to end into a folder; return what they count."""
    folder.mkdir()
    sizes = {name: sum(len(part) for part in _arrays(parts, name)) for name in arrays}
    for name in arrays:
        if name.endswith("offsets"):
            lengths = np.concatenate([np.diff(part) for part in _arrays(parts, name)])
            np.save(folder / f"{name}.npy", np.concatenate([[0], np.cumsum(lengths, dtype=int)]))
        elif name != "lasts" or not _same(parts):
            _copy(parts, name, sizes[name], folder / f"{name}.npy")
    records = [json.loads((part / "pieces.json").read_text(encoding="utf-8")) for part in parts]
    counts = [record["unknown"] for record in records]
    unknown = None if None in counts else sum(counts)
    write_record(folder, lang, unknown)
    return {
        "sentences": sizes["offsets"] - len(parts),
        "words": sum(int(part[-1]) for part in _arrays(parts, "word_offsets")),
        "pieces": sizes["ids"],
        "unknown": unknown,
    }


def _arrays(parts: list[Path], name: str) -> Iterator[np.ndarray]:
    for part in parts:
        yield np.load(part / f"{name}.npy")


def _same(parts: list[Path]) -> bool:
    """Whether no two words share a piece, so that `lasts` are the words."""
    both = zip(_arrays(parts, "words"), _arrays(parts, "lasts"), strict=True)
    return all(np.array_equal(words, lasts) for words, lasts in both)


def _copy(parts: list[Path], name: str, size: int, path: Path) -> None:
    """Copy an array of all parts into one file, in two bytes per entry where that is enough."""
    narrow = name in _NARROW and all(
        int(part.max(initial=0)) < _SMALL for part in _arrays(parts, name)
    )
    dtype = np.dtype(np.int16 if narrow else np.int32)
    with path.open("wb") as file:
        header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False}
        np.lib.format.write_array_header_1_0(file, {**header, "shape": (size,)})
        for part in _arrays(parts, name):
            file.write(part.astype(dtype).tobytes())


def _main(given: str) -> None:
    """Do a job that another process has given."""
    from tokenizers import Tokenizer

    job, parent = Job(**json.loads(given)), os.getppid()
    backend = Tokenizer.from_file(job.tokenizer)
    tokenise_parts(BareTokenizer(backend, job.unknown), job, wanted=lambda: os.getppid() == parent)


if __name__ == "__main__":
    _main(sys.argv[1])
