"""The pieces of many sentences in flat arrays: made from text, or mapped from files that were made
once for all that read the same text by the same tokenizer.

Files are made part after part by processes of their own, since most of the work holds Python's
lock; the parts are then copied end to end. So no process holds more than one part, whatever the
size of the dataset.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from raxalign.arrays import offsets_of
from raxalign.caveats import collecting
from raxalign.children import child_environment
from raxalign.corpora.text.dataset import read_table
from raxalign.corpora.text.sentences import sentence_chunks
from raxalign.encoders.models.pieces import Pieces, text_to_pieces
from raxalign.errors import DataError, RaxalignError
from raxalign.lazy import np, pc

if TYPE_CHECKING:
    from raxalign.encoders.models.transformer import TransformerEncoder

CHUNK = 8192
"""Sentences that are tokenised at once."""

ARRAYS = ("ids", "offsets", "words", "lasts", "word_offsets", "first_W", "count_W")
"""The fields of `Pieces` that are arrays, and the names of their files."""
OF_ROWS = ARRAYS[:5]
"""Those of them that rows are made of."""
_RECORD = "pieces.json"
PART = 32_768
"""Sentences of one part."""
_SMALL = 2**15  # what words, places and numbers of pieces have to be below to take two bytes each
_NARROW = ("words", "lasts", "first_W", "count_W")


def column_pieces(
    encoder: TransformerEncoder,
    folder: Path,
    column: str,
    lang: str | None,
    counted: str | None = None,
) -> Pieces:
    """Return the pieces of a column of words of a dataset in a language (None: a spaced one):
    mapped where they were made before (`TransformerEncoder.prepared`), else made now. Unknown
    pieces are counted under the name `counted` (None: the language). Raises `DataError` where what
    was made before is of other sentences.
    """
    table, made = read_table(folder), encoder.prepared.get(folder)
    found = None if made is None else map_pieces(made / column, lang)
    if found is None:
        chunks = sentence_chunks(table, column, CHUNK)
        return text_to_pieces(encoder.tokenizer, chunks, lang, counted)
    n_words = pc.sum(pc.list_value_length(table.column(column))).as_py() or 0
    if (len(found), len(found.first_W)) != (len(table), n_words):
        fault = f"has the pieces of other sentences than {folder}"
        remedy = "Remove both folders, and run the grid again to make them"
        raise DataError(f"{made}/{column}", fault, remedy=remedy)
    found.report(counted or lang, found.unknown)
    return found


def map_pieces(folder: Path, lang: str | None) -> Pieces | None:
    """Return the pieces of a language in a folder of `write_pieces`, mapped, if there."""
    record = read_record(folder)
    if record is None or record["lang"] != lang:
        return None
    none = np.zeros(0, np.int32)
    there = {name for name in ARRAYS if (folder / f"{name}.npy").exists()} | {"lasts"}
    arrays = {name: map_array(folder, name) if name in there else none for name in ARRAYS}
    return Pieces(**arrays, unknown=record["unknown"], lang=lang)


def map_array(folder: Path, name: str) -> np.ndarray:
    """Return an array of a file, mapped. `lasts` without a file of its own is `words`."""
    path = folder / f"{name}.npy"
    if name == "lasts" and not path.exists():
        path = folder / "words.npy"
    try:
        return np.asarray(np.load(path, mmap_mode="c" if name == "count_W" else "r"))
    except ValueError:  # a file without an entry cannot be mapped
        return np.asarray(np.load(path))


def read_record(folder: Path) -> dict[str, Any] | None:
    """Return the record (``lang``, ``unknown``) in a folder of `write_pieces`, if any."""
    file = folder / _RECORD
    if not file.is_file():
        return None
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def write_pieces(
    tokenizer: Any,
    dataset: Path,
    columns: Mapping[str, str | None],
    threads: int,
    folder: Path,
    arrays: Sequence[str] = ARRAYS,
) -> dict[str, Any]:
    """Write `arrays` of the pieces of columns of a dataset, each with its language (None: a spaced
    one), as `map_pieces` reads them from ``folder/column``, by at most `threads` processes at once.
    Returns the numbers of sentences, words, pieces and unknown pieces of each column. Raises
    `RaxalignError` where a process failed.
    """
    n_parts = max(1, -(-len(read_table(dataset)) // PART))
    at_once = max(1, min(threads, n_parts))
    with tempfile.TemporaryDirectory(prefix="pieces-", dir=folder) as work:
        shared = {"dataset": str(dataset), "columns": dict(columns), "arrays": list(arrays)}
        parts = [[[k, PART] for k in range(n, n_parts, at_once)] for n in range(at_once)]
        jobs = [{**shared, "folder": work, "parts": some} for some in parts]
        saved = Path(work) / "tokenizer.json"
        if at_once == 1 or not _saved(tokenizer, saved):
            with collecting():  # the trials that read the pieces count the unknown ones
                for job in jobs:
                    write_parts(tokenizer, **job)  # type: ignore[arg-type]
        else:
            _run([{"saved": str(saved), "unknown": tokenizer.unk_token_id, **job} for job in jobs])
        made = {c: [Path(work) / f"{c}-{k}.npz" for k in range(n_parts)] for c in columns}
        return {c: _join(made[c], arrays, lang, folder / c) for c, lang in columns.items()}


def write_parts(
    tokenizer: Any,
    dataset: str,
    columns: Mapping[str, str | None],
    arrays: Sequence[str],
    folder: str,
    parts: Sequence[tuple[int, int]],
) -> None:
    """Write parts of a dataset, (number, size) each, as ``folder/<column>-<number>.npz``."""
    table = read_table(Path(dataset))
    for number, size in parts:
        rows = table.slice(number * size, size)
        for column, lang in columns.items():
            pieces = text_to_pieces(tokenizer, sentence_chunks(rows, column, CHUNK), lang)
            kept = {name: getattr(pieces, name)[:] for name in arrays}
            unknown = -1 if pieces.unknown is None else pieces.unknown
            np.savez(Path(folder) / f"{column}-{number}.npz", unknown=unknown, **kept)


def _saved(tokenizer: Any, path: Path) -> bool:
    """Write a tokenizer to a file; return whether it can be: not with steps written in Python."""
    try:
        tokenizer.backend_tokenizer.save(str(path))
    except Exception:  # noqa: BLE001 the library raises nothing more specific
        return False
    return True


def _run(jobs: Sequence[Mapping[str, Any]]) -> None:
    """Run each job in a process of its own, and wait for all."""
    single = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    environment = child_environment({"TOKENIZERS_PARALLELISM": "false", **single})

    def work(job: Mapping[str, Any]) -> None:
        command, none = [sys.executable, "-m", __name__, json.dumps(job)], subprocess.DEVNULL
        done = subprocess.run(
            command, env=environment, stdin=none, stderr=subprocess.PIPE, text=True, check=False
        )
        if done.returncode:
            last = done.stderr.strip().rpartition("\n")[2] or f"exit code {done.returncode}"
            fault = f"{job['dataset']}: a process that tokenises it failed ({last})"
            raise RaxalignError(fault)

    with ThreadPoolExecutor(len(jobs)) as pool:
        list(pool.map(work, jobs))


def _join(
    parts: list[Path], arrays: Sequence[str], lang: str | None, folder: Path
) -> dict[str, int | None]:
    """Copy the parts of a column end to end into a folder; return what they count."""

    def read(name: str) -> Iterator[np.ndarray]:
        return (np.load(part)[name] for part in parts)

    folder.mkdir()
    sizes = {name: sum(map(len, read(name))) for name in arrays}
    for name in arrays:
        path = folder / f"{name}.npy"
        if name.endswith("offsets"):
            np.save(path, offsets_of(np.concatenate([np.diff(part) for part in read(name)])))
        # where no two words share a piece, `lasts` are the words
        elif name != "lasts" or not all(map(np.array_equal, read("words"), read("lasts"))):
            narrow = name in _NARROW and all(int(p.max(initial=0)) < _SMALL for p in read(name))
            dtype, at = np.dtype(np.int16 if narrow else np.int32), 0
            file = np.lib.format.open_memmap(path, "w+", dtype, (sizes[name],))  # never held whole
            for part in read(name):
                file[at : at + len(part)] = part
                at += len(part)
    counts = [int(count) for count in read("unknown")]
    unknown = None if -1 in counts else sum(counts)
    (folder / _RECORD).write_text(json.dumps({"lang": lang, "unknown": unknown}), "utf-8")
    return {
        "sentences": sizes["offsets"] - len(parts),
        "words": sum(int(part[-1]) for part in read("word_offsets")),
        "pieces": sizes["ids"],
        "unknown": unknown,
    }


def _main(given: str) -> None:
    """Do a job that another process has given."""
    from tokenizers import Tokenizer

    job = json.loads(given)
    backend, unknown = Tokenizer.from_file(job.pop("saved")), job.pop("unknown")
    write_parts(SimpleNamespace(backend_tokenizer=backend, unk_token_id=unknown), **job)


if __name__ == "__main__":
    _main(sys.argv[1])
