"""A bucket: a local folder behind fsspec that can do no more than an object store can. Importing
this registers ``bucket://``.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem


class Bucket(LocalFileSystem):
    """Objects, kept as files so that tests and other processes can get at them: no rename, creation
    that fails where there is something.
    """

    protocol = "bucket"

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, str):
            path = path.removeprefix("bucket://")
        return LocalFileSystem._strip_protocol(path)

    def mv(self, *args: object, **options: object) -> None:
        raise NotImplementedError("object stores cannot rename")

    mv_file = rename = move = mv

    def pipe_file(
        self, path: str, value: bytes, mode: str = "overwrite", **options: object
    ) -> None:
        """Whole or not at all, as object stores write."""
        target = Path(self._strip_protocol(path))
        with tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as file:
            file.write(value)
        if mode == "create":
            try:
                os.link(file.name, target)
            finally:
                Path(file.name).unlink()
        else:
            Path(file.name).replace(target)

    def put_file(
        self,
        lpath: str,
        rpath: str,
        callback: object = None,
        mode: str = "overwrite",
        **options: object,
    ) -> None:
        self.pipe_file(rpath, Path(lpath).read_bytes(), mode)


fsspec.register_implementation("bucket", Bucket, clobber=True)
