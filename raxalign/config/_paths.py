"""Relative paths of a grid file to absolute ones, wherever a plug-in's options hold paths."""

from __future__ import annotations

import os
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from raxalign.config._faults import Faults
from raxalign.config._fields import alternatives, key_names
from raxalign.config.sources import EncoderMarker, PathMarker
from raxalign.config.yaml_file import Node

_PLACEHOLDERS = ("{lang}", "{pivot}", "{LANG}", "{PIVOT}")
_SIDE = "{side}"  # of a path that stands for the files of both sides
_PATH_STARTS = ("/", "./", "../", "~")


@dataclass(frozen=True)
class Paths:
    """Paths are relative to `folder`, the grid file's; unknown placeholders are faults."""

    folder: Path
    faults: Faults

    def entries(self, model: type[BaseModel], values: Mapping[str, Node]) -> dict[str, Node]:
        """Return the entries of a model's mapping with the paths among them made absolute."""
        names = key_names(model)
        resolved = {}
        for name, node in values.items():
            field = model.model_fields.get(names.get(name, ""))
            resolved[name] = (
                self._resolve(node, field.annotation, field.metadata) if field is not None else node
            )
        return resolved

    def absolute(self, node: Node, *, prefix: bool = False) -> Node:
        """Return a path made absolute; templates and URLs are kept. A `prefix` may hold the code of
        a side.
        """
        left = node.value.strip()
        if not left:
            self.faults.add(node, "an empty path", "name a file, or leave it out")
        for placeholder in (*_PLACEHOLDERS, *((_SIDE,) if prefix else ())):
            left = left.replace(placeholder, "")
        if "{" in left or "}" in left:
            self.faults.add(
                node,
                f"unknown placeholder in {node.value!r}",
                "paths may hold {lang} and {pivot}; {LANG} and {PIVOT} are in capitals",
            )
        return replace(node, value=absolute(node.value.strip(), self.folder))

    def encoder(self, node: Node) -> Node:
        """Return an encoder's name, made an absolute path where it is a folder: it looks like a
        path, or it exists in the grid file's folder.
        """
        if isinstance(node.value, str) and (
            node.value.startswith(_PATH_STARTS)
            or (node.value.strip() and (self.folder / node.value).is_dir())
        ):
            return replace(node, value=absolute(node.value, self.folder))
        return node

    def _resolve(self, node: Node, annotation: Any, metadata: Iterable[Any] = ()) -> Node:
        if isinstance(node.value, str):
            marks = [*metadata, *_marks(annotation)]
            if any(isinstance(entry, EncoderMarker) for entry in marks):
                return self.encoder(node)
            paths = [entry for entry in marks if isinstance(entry, PathMarker)]
            if not paths or _is_literal(node.value, annotation):
                return node
            return self.absolute(node, prefix=any(entry.is_prefix for entry in paths))
        if isinstance(node.value, list):
            return replace(
                node, value=[self._resolve(item, annotation, metadata) for item in node.value]
            )
        if isinstance(node.value, dict):
            return replace(node, value=self._mapping(node.value, annotation))
        return node

    def _mapping(self, values: Mapping[str, Node], annotation: Any) -> dict[str, Node]:
        for part in alternatives(annotation):
            if isinstance(part, type) and issubclass(part, BaseModel):
                resolved = self.entries(part, values)
                if set(values) & set(key_names(part)):
                    return resolved
            elif get_origin(part) in {dict, Mapping}:
                return {
                    name: self._resolve(node, get_args(part)[1]) for name, node in values.items()
                }
        return dict(values)


def absolute(path: str, folder: Path) -> str:
    """Return a path made absolute against a folder; ``~`` is the home folder, URLs are kept."""
    if "://" in path:
        return path
    return os.path.normpath(folder / Path(path).expanduser())


def _is_literal(text: str, annotation: Any) -> bool:
    return any(
        get_origin(part) is Literal and text in get_args(part) for part in alternatives(annotation)
    )


def _marks(annotation: Any) -> Iterator[Any]:
    """The marks of an annotation and of the parts of its union, list or tuple."""
    if get_origin(annotation) is Annotated:
        inner, *marks = get_args(annotation)
        yield from marks
        yield from _marks(inner)
    elif get_origin(annotation) in {Union, types.UnionType, tuple, list, frozenset}:
        for part in get_args(annotation):
            yield from _marks(part)
