"""Where a single run works and what it leaves: the storage, the device, and a folder that appears
whole or not at all.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, get_args

from raxalign.catalog import catalog
from raxalign.errors import DataError, RaxalignError, ResourceError, StorageError
from raxalign.grid.options import read_options
from raxalign.grid.specs import Spec
from raxalign.grid.stage import Stage
from raxalign.lazy import torch
from raxalign.options.run import Precision, RunConfig, effective
from raxalign.store.artifacts import as_umask_says
from raxalign.store.storage import Storage
from raxalign.train.devices import computes
from raxalign.train.runtime import Runtime


def announced(tell: Callable[[str], None]) -> Callable[[Stage, float], None]:
    """Return what reports each stage that a workshop has made, with the seconds that it took."""
    return lambda made, seconds: tell(f"made {made.kind} {made.key[:12]} in {seconds:.1f} s")


def silent(text: str) -> None:
    """Report to nobody."""


def storage_of(storage: str | None) -> Storage:
    """Return the storage: the flag, else the environment, else the default, as without a `run`."""
    return Storage(effective(RunConfig(), storage=storage, environ=os.environ).storage)


def encoder_of(name: str) -> Spec:
    """Return the encoder that `--encoder` names, read as under `encoder` in a grid file: a kind
    with its default options, or else a folder or a hub name.

    Raises `RaxalignError` for a kind that requires options, or that is made from a grid's text.
    """
    encoders = catalog("encoders")
    is_kind = name in encoders and not encoders[name].by_name
    kind, options = (name, []) if is_kind else ("transformer", [f"name={name}"])
    params = read_options("encoders", kind, options, Path.cwd())
    found = encoders[kind](params)
    if found.needs_text:
        raise RaxalignError(
            f"--encoder {name}: is trained from the text of a grid; name a folder or a hub name"
        )
    return Spec("encoders", encoders.kind(kind), params, found.label())


def runtime(
    device: str | None = None,
    threads: int | None = None,
    precision: Precision = "fp32",
    *,
    seed: int = 0,
) -> Runtime:
    """Return the runtime of this process.

    Args:
        device: The flag `--device`; without it the GPU where there is one.
        threads: The flag `--threads`; without it torch's own number.
        precision: The flag `--precision`.
        seed: The seed of everything random.

    Raises:
        RaxalignError: There is no such precision or device, or the device cannot compute in the
            precision.
    """
    if precision not in get_args(Precision):
        raise RaxalignError(f"--precision {precision}: write {', '.join(get_args(Precision))}")
    if threads is not None:
        torch.set_num_threads(threads)
    chosen = device or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.empty(0, device=chosen)
    except (RuntimeError, AssertionError) as error:
        raise RaxalignError(
            f"--device {chosen}: cannot be used ({str(error).splitlines()[0]}); `raxalign doctor`"
            " lists the devices"
        ) from error
    if not computes(precision, chosen):
        raise ResourceError(
            f"--precision {precision}: requires an NVIDIA GPU of compute capability 8.0 or higher,"
            f" which the device {chosen} is not: choose fp32 or bf16, or another --device"
        )
    return Runtime(device=chosen, seed=seed, threads=torch.get_num_threads(), precision=precision)


@dataclass(frozen=True)
class OutFolder:
    """A folder that a command writes, or that an earlier one has written: it appears whole or not
    at all, and nothing is overwritten.
    """

    TRANSFORMS: ClassVar = "transforms.json"
    TENSORS: ClassVar = "transforms.safetensors"

    path: Path

    def refuse_existing(self) -> None:
        """Raise where the folder holds something: nothing is overwritten."""
        out = self.path
        if out.exists() and not (out.is_dir() and not any(out.iterdir())):
            raise RaxalignError(f"{out}: is there already; name another folder, or remove it first")

    @contextmanager
    def appearing(self) -> Iterator[Path]:
        """Yield a folder to fill, which is renamed to this one when the block ends well, and else
        removed.
        """
        self.refuse_existing()
        out = self.path.absolute()
        try:
            out.parent.mkdir(parents=True, exist_ok=True)
            partial = out.with_name(f".{out.name}.{uuid.uuid4().hex[:8]}")
            partial.mkdir()
        except OSError as error:
            raise StorageError(f"{out}: cannot be written ({error.strerror or error})") from error
        try:
            yield partial
            as_umask_says(partial)
            if out.is_dir():
                out.rmdir()
            partial.rename(out)
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    def transforms(self) -> list[dict[str, Any]]:
        """Return the records of an exported encoder's transforms; none for another folder or a hub
        name.
        """
        path = self.path / self.TRANSFORMS
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            return list(record["transforms"])
        except (FileNotFoundError, NotADirectoryError):
            return []
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(path, f"is not the record of an aligned encoder ({error})") from error
