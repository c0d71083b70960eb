"""The sections `pivot` and `languages`: codes, and which languages one model is for."""

from __future__ import annotations

from raxalign.config._faults import Faults, nearest, suggestion
from raxalign.config._yaml import Node
from raxalign.languages import LANGUAGES


def check_language(node: Node, faults: Faults) -> str | None:
    """Return the code of a known language, or None after a fault."""
    code = node.value if isinstance(node.value, str) else node.text
    if code in LANGUAGES:
        return code
    by_name = {known.name.lower(): known.code for known in LANGUAGES.values()}
    near = by_name.get(code.lower()) or nearest(code, LANGUAGES)
    hint = f"did you mean {near}? " if near else ""
    files = (
        f"; files named {code} are read with `codes: {{{near}: {code}}}` under `corpus`"
        if near and len(code) == 3
        else ""
    )
    faults.add(
        node,
        f"unknown language {node.shown()}",
        f"{hint}codes are ISO 639-1, for example de, tr, zh{files}",
    )
    return None


def read_languages(node: Node, pivot: str, faults: Faults) -> tuple[bool, tuple[str, ...]]:
    """Read (together, languages) from ``{together: [...]}`` or ``{each: [...]}``."""
    remedy = (
        "write {together: [...]} for one model of all, or {each: [...]} for one trial per language"
    )
    if not isinstance(node.value, dict):
        faults.add(node, f"{node.shown()} does not say how the languages are grouped", remedy)
        return False, ()
    for name, entry in node.value.items():
        if name not in {"together", "each"}:
            faults.add(entry, "unknown key", suggestion(name, ["together", "each"]))
    groups = [name for name in ("together", "each") if name in node.value]
    if len(groups) != 1:
        faults.add(
            node,
            "both `together` and `each`" if groups else "neither `together` nor `each`",
            remedy,
        )
        return False, ()
    group = node.value[groups[0]]
    if group.value is None or (isinstance(group.value, list) and not group.value):
        faults.add(group, "no language is named", "for example [de, fr]")
        return False, ()
    codes: list[str] = []
    for item in group.items():
        code = check_language(item, faults)
        if code is not None and code == pivot:
            faults.add(item, f"{code!r} is the pivot", "name the other languages only")
        elif code is not None and code in codes:
            faults.add(item, f"{code!r} is given twice", "keep one")
        elif code is not None:
            codes.append(code)
    return groups[0] == "together", tuple(codes)
