"""The values of a file with their lines, and their faults, with the nearest right name if any."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from raxalign.errors import Fault

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


@dataclass
class Faults:
    """The faults found so far. One that is found twice (through two points of an axis, for example)
    is reported once. Paths of the file are relative to `folder`; without one they stay as they are.
    """

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


def shortened(text: str) -> str:
    """Return a text as a message quotes it: not longer than 80 characters."""
    return text if len(text) <= 80 else f"{text[:77]}..."


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


def suggestion(name: str, known: Iterable[str], *, listed: str = "known") -> str:
    """Write what would be right: the nearest of the known names, or all of them."""
    known = list(known)
    near = nearest(name, known)
    if near is not None:
        return f"did you mean {near}?"
    return f"{listed}: {', '.join(known)}" if 0 < len(known) <= _MANY else ""
