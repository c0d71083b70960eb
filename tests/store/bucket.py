"""A bucket: a local folder behind fsspec that can do no more than an object store can. Importing this registers ``bucket://``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem


class Bucket(LocalFileSystem):
    """Objects, kept as files so that tests and other processes can get at them: no rename, creation that fails where there is something."""

    protocol = "bucket"

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, str):
            path = path.removeprefix("bucket://")
        return LocalFileSystem._strip_protocol(path)

    def mv(self, *args: object, **options: object) -> None:
        raise NotImplementedError("object stores cannot rename")

    mv_file = rename = move = mv

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **options: object) -> None:
        with Path(self._strip_protocol(path)).open("xb" if mode == "create" else "wb") as file:
            file.write(value)


fsspec.register_implementation("bucket", Bucket, clobber=True)
