"""What is installed, which devices there are, and whether storage and data can be reached."""

from __future__ import annotations

import os
import sys
from ctypes import CDLL
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from raxalign.caveats import Caveats
from raxalign.errors import RaxalignError
from raxalign.extras import EXTRAS
from raxalign.lazy import torch
from raxalign.printing import are, counted
from raxalign.provenance import machine
from raxalign.store.storage import Storage
from raxalign.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from raxalign.grid.load import Opened
    from raxalign.grid.plan import Plan

NEEDED = ("torch", "transformers", "datasets", "pyarrow", "ray", "mlflow", "sil-thot", "sacremoses")
_LARGE = 1_000_000_000  # parameters of an encoder for which a machine may have no room
_FAULTS = ("missing", "broken", "damaged")
"""What a line begins with where something that is needed is not there or not whole."""


def examine(
    file: Path | None, storage: str | None, *, online: bool = False
) -> tuple[list[str], bool]:
    """Return lines to print, and whether everything that is needed is there."""
    cores = counted(os.cpu_count() or 1, "core")
    lines = [f"raxalign {VERSION}, Python {sys.version.split()[0]}, {cores}"]
    for name in NEEDED:
        try:
            lines.append(f"ok       {name} {version(name)}")
        except PackageNotFoundError:
            lines.append(f"missing  {name}: pip install {name}")
    healthy = not any(line.startswith("missing") for line in lines)
    lines += [
        f"absent   {name}: pip install 'raxalign[{extra}]' if you need it"
        for name, extra in EXTRAS.items()
        if find_spec(name) is None
    ]
    lines.append(_devices())
    root = storage or os.environ.get("RAXALIGN_STORAGE") or ".raxalign"
    found = list(_storage(Storage(root)) if file is None else _grid(file, storage, online=online))
    fine = not any(line.startswith(_FAULTS) for line in found)
    return [*lines, *found], healthy and fine


def _devices() -> str:
    if find_spec("torch") is None:
        return "absent   torch, so no device"
    if not _has_driver() or not torch.cuda.is_available():
        return f"device   cpu ({machine('cpu')}); no CUDA device"
    from raxalign.train.devices import computes

    # the GPUs that compute in TF32 are those that compute in bfloat16
    names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    faster = "; `run: {precision: bf16}` is faster there" if computes("tf32", "cuda") else ""
    return f"device   {', '.join(names)}{faster}"


def _has_driver() -> bool:
    """Return whether there is a GPU's driver. Without one torch, which takes a second to load,
    finds no device.
    """
    try:
        CDLL("libcuda.so.1")
    except OSError:
        return Path("/dev/kfd").exists()  # AMD's
    return True


def _storage(storage: Storage) -> Iterator[str]:
    try:
        storage.check_writable()
        yield f"ok       storage {storage} can be written"
    except RaxalignError as error:
        yield f"broken   storage: {error}"


def _grid(file: Path, storage: str | None, *, online: bool) -> Iterator[str]:
    """Yield lines on whether a grid's files are all there, and its stored artifacts whole."""
    from raxalign.grid.load import open_grid

    try:
        opened = open_grid(file, storage=storage, allow_missing=True)
    except RaxalignError as error:
        yield f"broken   {error}"
        return
    yield from _storage(opened.storage)
    plan = opened.plan
    places = {place for stage in plan.stages.values() for place in stage.locations.values()}
    local = sum(Path(place).is_absolute() for place in places) - len(plan.missing)
    files = f"{counted(local, 'data file')} {are(local)} there"
    yield f"ok       {file}: {counted(len(plan.trials), 'trial')}, {files}"
    yield from _files(plan, opened.storage)
    yield from _bitexts(plan, opened.storage)
    yield from _encoders(opened)
    # what this machine lacks to run the encoders
    lacking = (line for spec in opened.grid.encoders for line in spec.plugin().check_machine())
    yield from (f"note     {remark}" for remark in dict.fromkeys(lacking))
    if online:
        yield from opened.answers(opened.storage.local / "downloads")
    else:
        yield from (f"remote   {name}: fetched when the grid runs" for name in plan.unresolved)
    yield from _artifacts(plan, opened.storage)


def _encoders(opened: Opened) -> Iterator[str]:
    """Yield lines on whether the encoders on this machine can be opened, and read a word."""
    from raxalign.encoders.base import EncoderInputs

    for kind in (spec.plugin() for spec in opened.grid.every_encoder()):
        name, size, sources = kind.label(), kind.footprint(lambda _: None), kind.sources()
        places = {label: getattr(source, "path", Path()) for label, source in sources.items()}
        if kind.needs_text or not places or not all(map(Path.is_file, places.values())):
            continue
        if size is not None and size.parameters > _LARGE:
            yield f"note     encoder {name}: not opened, for its {size.parameters:,} parameters"
            continue
        try:
            locations = {label: str(path) for label, path in places.items()}
            found = kind.load(EncoderInputs(locations=locations), "cpu")
            layers, lang = (found.n_layers,), opened.plan.pivot
            with Caveats.collecting() as seen:
                vectors = found.words([["a"]], lang, layers=layers, pooling="mean").vectors_NLH
            sound = bool(torch.isfinite(vectors).all())
            yield f"ok       encoder {name}" if sound else f"broken   encoder {name}: reads NaN"
            yield from (f"note     {file}: {told}" for file, told in seen.partial.items())
        except Exception as error:  # noqa: BLE001  whatever a damaged file lets a library raise
            told = str(error) if isinstance(error, RaxalignError) else f"{name}: {error!r}"
            yield f"broken   {told}"


def _artifacts(plan: Plan, storage: Storage) -> Iterator[str]:
    """Yield lines on whether the stored artifacts are whole; a damaged one is set aside."""
    from raxalign.grid.estimates import Times

    there, whole = Times(plan, storage).stored(), 0
    for key, stage in plan.stages.items():
        if not stage.inline and stage.kind != "evaluation" and key in there:
            if storage.artifacts.verify(stage.kind, key):
                whole += 1
            else:
                name = f"{stage.kind} {key[:12]}"
                yield f"damaged  {name}: set aside; the next run makes it again"
    yield f"ok       {counted(whole, 'stored artifact')} {are(whole)} intact"


def _files(plan: Plan, storage: Storage) -> Iterator[str]:
    """Yield lines on all files of tasks, methods and word aligners, read as a grid reads them."""
    from raxalign.grid.checks import LocalData

    found = LocalData(plan).files(memory=storage.local / "read", again=True)
    if found.faults:
        gone = tuple(f"{path}:" for path in plan.missing)  # which `obstacles` names
        faults = (fault.strip() for fault in found.indented())
        yield from (f"broken   {fault}" for fault in faults if not fault.startswith(gone))
    elif found.files:
        yield f"ok       {found}"
    if found.faults or found.files:
        yield from (f"note     {remark}" for remark in found.remarks)


def _bitexts(plan: Plan, storage: Storage) -> Iterator[str]:
    """Yield lines on whether all sentence pairs of local files can be read and made into text."""
    from raxalign.grid.checks import LocalData

    local = LocalData(plan)
    found = list(local.bitexts(storage))
    faults = [*local.obstacles(storage), *(str(f) for entry in found for f in entry.faults)]
    notes = [str(remark) for entry in found for remark in entry.remarks]
    whole = [entry for entry in found if not entry.faults]
    for fatal, message in local.other_lengths({entry.path: entry.rows for entry in whole}):
        (faults if fatal else notes).append(message)
    yield from (f"broken   {fault}" for fault in dict.fromkeys(faults))
    for entry in whole:
        yield f"ok       {entry.path}: {entry.rows:,} sentence pairs"
    yield from (f"note     {note}" for note in notes)
