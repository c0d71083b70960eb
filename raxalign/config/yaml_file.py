"""YAML 1.2 to a tree that remembers the line and the dotted key of every value.

Nothing is constructed from tags: a value is null, a truth value, a number, a text, a list or a
mapping. Keys are texts as they are written, so that `no` stays the code of Norwegian.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from io import StringIO
from pathlib import Path, PurePath
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.composer import ComposerError
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode

from raxalign.config._faults import Faults, Node, shortened
from raxalign.errors import Fault, GridError

_TAG = "tag:yaml.org,2002:"
_DEEPEST = 50
_BASES = {"0x", "0o", "0b"}
_MOST_NODES = 20_000


def read(path: Path, faults: Faults) -> tuple[Node, str]:
    """Return (tree, text) of a grid file. Duplicate keys are faults.

    Raises `GridError` for a file that cannot be read, is not YAML or is not a mapping.
    """
    text = _read_text(path)
    return parse(path, text, faults), text


def parse(path: Path | str, text: str, faults: Faults) -> Node:
    """Return the tree of a grid file's text, as `read` does; errors name `path`."""
    directive = re.match(r"%YAML\s+(?!1\.2\b)(\S+)", text)
    if directive is not None:  # under 1.1 `no` would be false
        remedy = "grid files are YAML 1.2; leave the directive out"
        raise GridError(path, [Fault(1, "YAML", f"the file is YAML {directive[1]}", remedy)])
    root = _composed(path, text, faults)
    if not isinstance(root.value, dict):
        remedy = "a grid is a mapping: name: ..., encoder: ..., and so on"
        fault = Fault(root.line, "grid", f"{root.shown()} at the top of the file", remedy)
        raise GridError(path, [*faults.found, fault])
    return root


def written(grid: Mapping[str, Any]) -> str:
    """Return the text of a grid file with this content. Raises `GridError` for what is not YAML."""
    stream, yaml = StringIO(), YAML(pure=True)
    yaml.default_flow_style = False
    try:
        yaml.dump(_plain(grid), stream)
    except YAMLError as error:
        problem = str(error).strip().split("\n", 1)[0]
        remedy = "write numbers, texts, lists and mappings"
        raise GridError("grid", [Fault(None, "grid", problem, remedy)]) from error
    return stream.getvalue()


def _plain(value: Any) -> Any:
    """A value with lists, mappings and texts of Python's own alone."""
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return str(value) if isinstance(value, PurePath | str) else value


@lru_cache(maxsize=8)
def _nodes(text: str) -> Any:
    """The nodes of a text, which nobody changes; None of one that is empty."""
    return YAML(typ="safe", pure=True, plug_ins=[]).compose(text)


def _composed(path: Path | str, text: str, faults: Faults) -> Node:
    """Return the tree of a text. Raises `GridError` for a text that is empty or not YAML."""
    try:
        composed = _nodes(text)
        if composed is None:
            remedy = "it needs at least name, encoder, languages, corpus, methods, tasks"
            raise GridError(path, [Fault(None, "grid", "the file is empty", remedy)])
        return Builder(faults).build(composed, 1, "")
    except MarkedYAMLError as error:
        raise GridError(path, [_syntax_fault(error, text)]) from error
    except RecursionError as error:
        raise GridError(path, [Fault(None, "YAML", "nested too deeply")]) from error
    except (YAMLError, ValueError) as error:
        problem = str(error).strip().split("\n", 1)[0]
        raise GridError(path, [Fault(_line_of(error, text), "YAML", problem)]) from error


def _read_text(path: Path) -> str:
    try:
        data = path.read_bytes()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        reason = "there is no such file" if isinstance(error, FileNotFoundError) else reason
        raise GridError(path, [Fault(None, "grid", reason, "name a YAML file")]) from error
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        problem = f"invalid UTF-8 (byte 0x{data[error.start]:02x})"
        raise GridError(path, [Fault(line, "YAML", problem, "save the file as UTF-8")]) from error


def _syntax_fault(error: MarkedYAMLError, text: str) -> Fault:
    mark = error.problem_mark or error.context_mark
    context, problem = error.context or "", (error.problem or error.context or "not YAML").strip()
    if "expected ':'" in problem and error.context_mark is not None:
        mark = error.context_mark  # where the key is; the problem is seen after it
    if isinstance(error, ComposerError) and "single document" in context:
        problem = "a second document begins; a grid file holds one"
    elif context and error.context_mark and not isinstance(error, ComposerError):
        problem = f"{context.strip()}: {problem}"
    lines = text.splitlines()
    line = min(mark.line + 1, text.count("\n") + 1) if mark is not None else None
    written = lines[line - 1] if line is not None and line <= len(lines) else ""
    return Fault(line, "YAML", problem, _syntax_remedy(problem, written))


def _syntax_remedy(problem: str, written: str) -> str:
    """What to do about what YAML does not read, by the problem and the line as it is written."""
    if "{lang}" in written or "{pivot}" in written:
        return "put texts that hold {lang} or {pivot} in quotes"
    if "\\t" in problem:
        return "the line has a tab; indent with blanks"
    if "expected ':'" in problem and ":" in written:
        return f"put a blank after the colon of {shortened(written.strip())!r}"
    if "expected <block end>" in problem:
        return "indent the keys of one mapping by the same number of blanks"
    return "check indentation, brackets and quotes"


def _line_of(error: Exception, text: str) -> int | None:
    """The line of an error that knows only the position of a character (control characters)."""
    position = getattr(error, "position", None)
    return text.count("\n", 0, position) + 1 if isinstance(position, int) else None


@dataclass
class Builder:
    """Composed nodes to ours."""

    faults: Faults
    count: int = 0
    open: list[int] = field(default_factory=list)

    def build(self, node: Any, line: int, key: str, depth: int = 0) -> Node:
        """Return the tree of a composed node; `line` is that of its key."""
        self.count += 1
        here = Node(None, line, key)
        if id(node) in self.open:
            self.faults.add(here, "an alias within its own anchor")
            return here
        if depth > _DEEPEST or self.count > _MOST_NODES:
            self.faults.add(here, "nested too deeply, or aliases upon aliases")
            return here
        self.open.append(id(node))
        try:
            if isinstance(node, MappingNode):
                return Node(self._mapping(node, key, depth), line, key)
            if isinstance(node, SequenceNode):
                items = [
                    self.build(item, item.start_mark.line + 1, f"{key}[{i}]", depth + 1)
                    for i, item in enumerate(node.value)
                ]
                return Node(items, line, key)
            return Node(self._scalar(node, here), line, key, node.value)
        finally:
            self.open.pop()

    def _mapping(self, node: MappingNode, key: str, depth: int) -> dict[str, Node]:
        entries: dict[str, Node] = {}
        merged: dict[str, Node] = {}
        for name, value in node.value:
            line = name.start_mark.line + 1
            if not isinstance(name, ScalarNode):
                remedy = "keys are plain names; quote a text that holds { or ["
                at = Node(None, line, key)
                self.faults.add(at, "a key that is a list or a mapping", remedy)
                continue
            at = Node(None, line, f"{key}.{name.value}" if key else str(name.value))
            if str(name.tag) == f"{_TAG}merge":
                for part in value.value if isinstance(value, SequenceNode) else [value]:
                    built = self.build(part, line, key, depth + 1)
                    merged = {**built.entries(self.faults), **merged}
            elif name.value in entries:
                remedy = f"it is also on line {entries[name.value].line}; keep one"
                self.faults.add(at, "given twice", remedy)
            else:
                entries[name.value] = self.build(value, line, at.key, depth + 1)
        return {**merged, **entries}

    def _scalar(self, node: ScalarNode, here: Node) -> Any:
        tag, text = str(node.tag).removeprefix(_TAG), str(node.value)
        if tag == "null":
            return None
        if tag == "bool":
            return text.lower() == "true"
        if tag in {"int", "float"}:
            return _number(text, tag)
        if str(node.tag).startswith(_TAG) and tag in {"str", "timestamp", "value", "merge"}:
            return text
        self.faults.add(here, f"the tag {node.tag} is not read", "write plain values")
        return None


def _number(text: str, tag: str) -> int | float | str:
    """A number of YAML 1.2 (bases are marked by 0x, 0o or 0b); what only looks like one is text."""
    digits = text.replace("_", "").lower()
    try:
        if tag == "int":
            return int(digits, 0) if digits.lstrip("+-")[:2] in _BASES else int(digits)
        return float(digits.replace(".inf", "inf").replace(".nan", "nan"))
    except ValueError:
        return text


def line_of(text: str, *path: str) -> int | None:
    """Return the line (1-based) of a key of a grid file's text, given by the keys that lead to it;
    None where the text does not have it.
    """
    node = parse("grid", text, Faults())
    for name in path:
        if not isinstance(node.value, dict) or name not in node.value:
            return None
        node = node.value[name]
    return node.line
