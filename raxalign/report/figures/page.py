"""Drawings as a page embeds them: names of their own, the page's ink, and its width."""

from __future__ import annotations

import re
from collections import Counter
from hashlib import sha256

INK, RULE = "#1a1b1c", "#d8d9da"
"""Colours that nothing else in a drawing has, so that a page can put its own in their place."""

_LONG = re.compile(r"(\d\.\d\d)\d+")
"""A coordinate, of which hundredths of a point can be seen."""
_PATH = re.compile(r'(?<=\sd=")[^"]+')
_NO_TURN = re.compile(r'\stransform="rotate\(-?0(?:\.0*)? [^"]*\)"')


def unique(svg: str, name: str) -> str:
    """Names within a drawing made its own, since a page holds several; they are short, since there
    are thousands of references to them.
    """
    known = dict.fromkeys(re.findall(r'\bid="([^"]+)"', svg))
    drawing = f"f{sha256(name.encode()).hexdigest()[:6]}"
    names = {before: f"{drawing}-{number}" for number, before in enumerate(known)}

    def own(found: re.Match[str]) -> str:
        return f"{found[1]}{names[found[2]]}{found[3]}" if found[2] in names else found[0]

    svg = re.sub(r'(\bid=")([^"]+)(")', own, svg)
    svg = re.sub(r"(url\(#)([^)]+)(\))", own, svg)
    return re.sub(r'((?:xlink:)?href="#)([^"]+)(")', own, svg)


def for_page(svg: str, name: str) -> str:
    """Without prolog and metadata; its width follows the page's, up to its own."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = _LONG.sub(r"\1", re.sub(r"\n\s*", "\n", svg))
    svg = _PATH.sub(lambda found: re.sub(r"\s*([A-Za-z])\s*", r"\1", found[0].strip()), svg)
    svg = _NO_TURN.sub("", svg).replace("xlink:href=", "href=")
    head, rest = _without_spare_names(_with_classes(svg)).split(">", 1)
    width = re.search(r'width="([0-9.]+)pt"', head)
    head = re.sub(r'\s(?:width|height)="[^"]*"', "", head)
    wide = (
        float(width[1]) * 4 / 3 if width else 640.0
    )  # points are 4/3 pixels; below four fifths its text would be too small to read
    head += (
        f' role="img" aria-labelledby="caption-{name}"'
        f' style="max-width:{wide:.0f}px;min-width:{0.8 * wide:.0f}px"'
    )
    return f"{head}>{rest}".replace(INK, "currentColor").replace(RULE, "var(--rule)")


def _with_classes(svg: str) -> str:
    """The styles that are used several times as classes, named by their content, so that drawings
    on one page may share them.
    """
    counts = Counter(re.findall(r'style="([^"]+)"', svg))
    names = {
        style: f"g{sha256(style.encode()).hexdigest()[:8]}"
        for style, count in counts.items()
        if count > 2
    }
    for style, name in names.items():
        svg = svg.replace(f'style="{style}"', f'class="{name}"')
    rules = "".join(f".{name}{{{style}}}" for style, name in names.items())
    head, rest = svg.split(">", 1)
    return f"{head}><style>{rules}</style>{rest}" if rules else svg


def _without_spare_names(svg: str) -> str:
    """Without the names that nothing in the drawing refers to."""
    used = set(re.findall(r'(?:url\(#|href="#)([^)"]+)', svg))
    return re.sub(r' id="([^"]+)"', lambda found: found[0] if found[1] in used else "", svg)
