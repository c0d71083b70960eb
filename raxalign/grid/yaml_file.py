"""YAML 1.2 to a tree that remembers the line and the dotted key of every value; and the faults of a
file, each with its line and what would be right.

Nothing is constructed from tags: a value is null, a truth value, a number, a text, a list or a
mapping. Keys are texts as they are written, so that `no` stays the code of Norwegian.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import lru_cache
from io import StringIO
from pathlib import Path, PurePath
from typing import Any, ClassVar

from ruamel.yaml import YAML
from ruamel.yaml.composer import ComposerError
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode

from raxalign.errors import Fault, GridError

_NEAR = 0.62
_MANY = 24
_REMOVED = {
    "run.gpus_per_worker: auto": "leave the key out, which gives each worker a GPU where there are"
    " any, or write a number such as 0.25; `raxalign plan` prints the memory that was measured",
    "run.shard_weights": "leave it out; where a model is too large for a GPU, train adapters"
    " (`lora`), and hold their base in bfloat16: `base_precision: bf16`",
    "run.keep: best": "write `all`, and delete by `raxalign gc` what no grid needs, or `none`",
    "search.sampler: qmc": "write `random`",
    "search.sampler: grid": "leave `search` out, and give each option a list of values",
    "search.sampler: nsga2": "write `tpe`, and name one metric",
    "search.metric: a list": "name one metric; a search by another one is a grid file of its own",
    "search.pruner: a mapping": "name it alone, `median` or `asha`: its options are Optuna's"
    " defaults",
}
"""What older files may have, a key or one value or form of it (`key: value`, `key: a list`), and
what to do instead.
"""


@dataclass(frozen=True, slots=True)
class Node:
    """A value of the file. `value` is None, bool, int, float, str, a list of nodes or a dict of
    nodes; `line` (1-based) is that of its key; `key` is the dotted path to it; `text` is a scalar
    as it was written.
    """

    value: Any
    line: int
    key: str
    text: str = ""

    @property
    def name(self) -> str:
        """The last part of the key."""
        return self.key.rsplit(".", 1)[-1]

    def plain(self) -> Any:
        """Return the value without lines."""
        if isinstance(self.value, dict):
            return {name: node.plain() for name, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value

    def shown(self) -> str:
        """Return the value as messages name it."""
        if isinstance(self.value, dict):
            return "a mapping"
        if isinstance(self.value, list):
            return "a list"
        if self.value is None:
            return "an empty value"
        return repr(shortened(self.value)) if isinstance(self.value, str) else self.text

    def entries(self, faults: Faults, remedy: str = "write {name: value, ...}") -> dict[str, Node]:
        """Return the entries of a mapping; an empty value has none, and anything else is a fault
        with this remedy.
        """
        if isinstance(self.value, dict):
            return self.value
        if self.value is not None:
            faults.add(self, f"{self.shown()} is not a mapping", remedy)
        return {}

    def items(self) -> list[Node]:
        """Return the items of a list; a single value is a list of one."""
        return self.value if isinstance(self.value, list) else [self]

    def lines(self, name: str = "") -> dict[str, int]:
        """Return its line, and that of every entry in it by its dotted name."""
        found = {name: self.line}
        for key, entry in self.value.items() if isinstance(self.value, dict) else ():
            found |= entry.lines(f"{name}.{key}".lstrip("."))
        return found

    def line_of(self, *path: str) -> int | None:
        """Return the line of an entry, given by the keys that lead to it; None without one."""
        if not path:
            return self.line
        inside = self.value.get(path[0]) if isinstance(self.value, dict) else None
        return inside.line_of(*path[1:]) if inside is not None else None


@dataclass
class Faults:
    """The faults found so far. One that is found twice (through two points of an axis, for example)
    is reported once. Paths of the file are relative to `folder`; without one they stay as they are.
    """

    NAME: ClassVar = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
    folder: Path | None = None
    found: dict[Fault, None] = field(default_factory=dict)

    def add(self, place: Node, problem: str, remedy: str = "") -> None:
        """Record a fault of a value. What a key or a value that was removed is, is said instead."""
        if instead := _REMOVED.get(place.key):
            problem, remedy = "was removed", instead
        elif instead := _REMOVED.get(f"{place.key}: {place.text or place.shown()}"):
            problem, remedy = f"{place.shown()} was removed", instead
        self.found[Fault(place.line, place.key or "grid", problem, remedy)] = None

    def __len__(self) -> int:
        return len(self.found)

    def read(self, path: Path) -> tuple[Node, str]:
        """Return (tree, text) of a grid file. Duplicate keys are faults.

        Raises `GridError` for a file that cannot be read, is not YAML or is not a mapping.
        """
        text = _read_text(path)
        return self.parse(path, text), text

    def parse(self, path: Path | str, text: str) -> Node:
        """Return the tree of a grid file's text, as `read` does; errors name `path`."""
        directive = re.match(r"%YAML\s+(?!1\.2\b)(\S+)", text)
        if directive is not None:  # under 1.1 `no` would be false
            remedy = "grid files are YAML 1.2; leave the directive out"
            raise GridError(path, [Fault(1, "YAML", f"the file is YAML {directive[1]}", remedy)])
        root = _composed(path, text, self)
        if not isinstance(root.value, dict):
            remedy = "a grid is a mapping: name: ..., encoder: ..., and so on"
            fault = Fault(root.line, "grid", f"{root.shown()} at the top of the file", remedy)
            raise GridError(path, [*self.found, fault])
        return root

    def check_name(self, place: Node, name: str) -> bool:
        """Return whether a name can stand in metric names and paths; adds a fault where not."""
        if self.NAME.fullmatch(name):
            return True
        remedy = "use letters, digits, `_`, `.` and `-`, a letter or digit first"
        self.add(place, f"{name!r} is not a valid name", remedy)
        return False

    @staticmethod
    def nearest(name: str, known: Iterable[str]) -> str | None:
        """Return the known name that is most like another, or whose words begin with its letters
        (``lr``), or None where none is similar. Case and ``-``/``_`` do not count.
        """

        def plain(text: str) -> str:
            return text.lower().replace("-", "_")

        known, name = list(known), plain(name)
        abbreviated = [e for e in known if name == "".join(w[:1] for w in plain(e).split("_"))]
        if len(abbreviated) == 1 and len(name) > 1:
            return abbreviated[0]
        scores = {entry: SequenceMatcher(None, name, plain(entry)).ratio() for entry in known}
        best = max(scores, key=lambda entry: scores[entry], default=None)
        return best if best is not None and scores[best] >= _NEAR else None

    @staticmethod
    def suggestion(name: str, known: Iterable[str], *, listed: str = "known") -> str:
        """Write what would be right: the nearest of the known names, or all of them."""
        known = list(known)
        near = Faults.nearest(name, known)
        if near is not None:
            return f"did you mean {near}?"
        return f"{listed}: {', '.join(known)}" if 0 < len(known) <= _MANY else ""


def shortened(text: str) -> str:
    """Return a text as a message quotes it: not longer than 80 characters."""
    return text if len(text) <= 80 else f"{text[:77]}..."


_TAG = "tag:yaml.org,2002:"
_DEEPEST = 50
_BASES = {"0x", "0o", "0b"}
_MOST_NODES = 20_000


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
        return "the line has a tab; indent with spaces"
    if "expected ':'" in problem and ":" in written:
        return f"put a space after the colon of {shortened(written.strip())!r}"
    if "expected <block end>" in problem:
        return "indent the keys of one mapping by the same number of spaces"
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
