"""What is installed, which devices there are, and whether storage and data can be reached."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from raxalign.errors import RaxalignError
from raxalign.extras import EXTRAS
from raxalign.printing import are, counted
from raxalign.store.storage import Storage
from raxalign.version import VERSION

if TYPE_CHECKING:
    from raxalign.config.grid import Grid
    from raxalign.plan.plan import Plan

NEEDED = ("torch", "transformers", "datasets", "pyarrow", "ray", "mlflow", "eflomal", "sacremoses")


def examine(file: Path | None, storage: str | None) -> tuple[list[str], bool]:
    """Lines to print, and whether everything that is needed is there."""
    cores = counted(os.cpu_count() or 1, "core")
    lines = [f"raxalign {VERSION}, Python {sys.version.split()[0]}, {cores}"]
    healthy = True
    for name in NEEDED:
        try:
            lines.append(f"ok       {name} {version(name)}")
        except PackageNotFoundError:
            healthy = False
            lines.append(f"missing  {name}: pip install {name}")
    program = shutil.which("eflomal-align") or shutil.which(
        "eflomal-align", path=str(Path(sys.executable).parent)
    )
    lines.append(
        f"ok       eflomal-align at {program}"
        if program
        else "missing  the program eflomal-align (word aligner `fast_align` needs none)"
    )
    lines += [
        f"absent   {name}: pip install 'raxalign[{extra}]' if you need it"
        for name, extra in EXTRAS.items()
        if find_spec(name) is None
    ]
    lines.append(_devices())
    if file is None:
        found, fine = _storage(
            Storage(storage or os.environ.get("RAXALIGN_STORAGE") or ".raxalign")
        )
    else:
        found, fine = _grid(file, storage)
    return [*lines, *found], healthy and fine


def _devices() -> str:
    if find_spec("torch") is None:
        return "absent   torch, so no device"
    import torch

    if not torch.cuda.is_available():
        return f"device   cpu ({torch.get_num_threads()} threads); no CUDA device"
    from raxalign.train.precision import has_fast_products

    names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    faster = "; `run: {precision: bf16}` is faster there" if has_fast_products() else ""
    return f"device   {', '.join(names)}{faster}"


def _storage(storage: Storage) -> tuple[list[str], bool]:
    try:
        storage.artifacts.check_writable()
    except RaxalignError as error:
        return [f"broken   storage: {error}"], False
    return [f"ok       storage {storage} can be written"], True


def _grid(file: Path, storage: str | None) -> tuple[list[str], bool]:
    """Whether a grid's files are all there, and its stored artifacts whole."""
    from raxalign.plan.estimates.cost import stored_keys
    from raxalign.plan.load import open_grid

    try:
        opened = open_grid(file, storage=storage)
    except RaxalignError as error:
        return [f"broken   {error}"], False
    lines, fine = _storage(opened.storage)
    plan, store = opened.plan, opened.storage.artifacts
    places = {place for stage in plan.stages.values() for place in stage.locations.values()}
    local = [place for place in places if Path(place).is_absolute()]
    files = f"{counted(len(local), 'data file')} {are(len(local))} there"
    lines.append(f"ok       {file}: {counted(len(plan.trials), 'trial')}, {files}")
    read, told = _files(plan)
    whole, sizes = _bitexts(plan)
    lines += [*told, *sizes]
    lines += [f"note     {remark}" for remark in _lacking(opened.grid)]
    lines += [f"remote   {name}: fetched when the grid runs" for name in plan.unresolved]
    stored = damaged = 0
    there = stored_keys(plan, opened.storage)
    for key, stage in plan.stages.items():
        if not stage.inline and stage.kind != "evaluation" and key in there:
            stored += 1
            if not store.verify(stage.kind, key):
                damaged += 1
                lines.append(
                    f"damaged  {stage.kind} {key[:12]}: set aside; the next run makes it again"
                )
    lines.append(f"ok       {stored - damaged} stored artifacts are whole")
    return lines, fine and read and whole and not damaged


def _lacking(grid: Grid) -> Iterator[str]:
    """Yields what this machine lacks to run the encoders of a grid, each once."""
    from raxalign.plan.expansion.encoders import plugin_of

    found = {line: None for spec in grid.encoders for line in plugin_of(spec).check_machine()}
    yield from found


def _files(plan: Plan) -> tuple[bool, list[str]]:
    """Whether all files of tasks, methods and word aligners are good, read as a grid reads them,
    and lines that say so.
    """
    from raxalign.plan.checks.preflight import read_files

    found = read_files(plan)
    notes = [f"note     {remark}" for remark in found.remarks]
    if found.faults:
        return False, [*(f"broken   {fault.strip()}" for fault in found.indented()), *notes]
    return True, [f"ok       {found}", *notes] if found.files else []


def _bitexts(plan: Plan) -> tuple[bool, list[str]]:
    """Whether all sentence pairs of local files can be read and are enough, and lines that say
    so.
    """
    from raxalign.plan.checks.bitexts import other_lengths, read_bitexts
    from raxalign.plan.checks.shortage import shortages

    found = list(read_bitexts(plan))
    faults = [str(fault) for entry in found for fault in entry.faults]
    notes = [f"note     {remark}" for entry in found for remark in entry.remarks]
    for fatal, message in other_lengths(plan, {entry.path: entry.rows for entry in found}):
        if fatal:
            faults.append(message)
        else:
            notes.append(f"note     {message}")
    if faults := [*faults, *(shortages(plan) if not faults else ())]:
        return False, [*(f"broken   {fault}" for fault in faults), *notes]
    sizes = [f"ok       {entry.path}: {entry.rows:,} sentence pairs" for entry in found]
    return True, [*sizes, *notes]
