"""The sections `pivot` and `languages`: codes, and which languages one model is for."""

from __future__ import annotations

from raxalign.config._faults import Faults, suggestion
from raxalign.config._yaml import Node
from raxalign.languages import FORM, is_code, nearest_code, spelled


def check_language(node: Node, faults: Faults) -> str | None:
    """Return the code of a language as it was written, or None after a fault."""
    code = node.value if isinstance(node.value, str) else node.text
    if is_code(code):
        return code
    near = nearest_code(code)
    hint = f"did you mean {near}? " if near else ""
    faults.add(node, f"unknown language {node.shown()}", f"{hint}{FORM}")
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
        if code is None:
            continue
        other = spelled(code, [pivot, *codes])
        if other is None:
            codes.append(code)
        elif other == pivot:
            same = "" if code == pivot else f" {pivot!r}"
            faults.add(item, f"{code!r} is the pivot{same}", "name the other languages only")
        elif code == other:
            faults.add(item, f"{code!r} is given twice", "keep one")
        else:
            faults.add(item, f"{code!r} and {other!r} are the same language", "keep one")
    return groups[0] == "together", tuple(codes)
