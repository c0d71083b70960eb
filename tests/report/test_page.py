"""The page as it is seen: on a wide screen and on a phone, light and dark, and on paper."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from tests.report.material import write

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
CSS = files("raxalign.report").joinpath("templates/report.css").read_text(encoding="utf-8")
ENOUGH = 4.5  # contrast of text to its background, WCAG 2 AA
LOOK = """
<script>
const sheet = (element) => getComputedStyle(element);
const channels = (text) => text.match(/[\\d.]+/g).map((part) =>
  Number(part) * (text.startsWith("color(srgb") ? 255 : 1));
const light = (rgb) => {
  const [r, g, b] = rgb.map((c) => (c <= 10 ? c / 3294.6 : ((c / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const over = (element) => {
  const all = [];
  for (let at = element; at; at = at.parentElement) all.push(channels(sheet(at).backgroundColor));
  return all.reverse().reduce((below, [r, g, b, a = 1]) =>
    [r, g, b].map((c, place) => a * c + (1 - a) * below[place]), [255, 255, 255]);
};
const faint = new Set();
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const parent = walker.currentNode.parentElement;
  if (!walker.currentNode.data.trim() || parent.closest("script, style")) continue;
  const ink = channels(sheet(parent)[parent.closest("svg") ? "fill" : "color"]).slice(0, 3);
  const [a, b] = [light(ink), light(over(parent))].sort((x, y) => y - x);
  if ((a + 0.05) / (b + 0.05) < ENOUGH) faint.add(`${parent.tagName} ${parent.className} ${ink}`);
}
const boxes = [...document.querySelectorAll(".figures > figure")].map((figure) => {
  const { left, right, top } = figure.getBoundingClientRect();
  return { wide: figure.className === "wide", left, right, top: top + scrollY };
});
const folded = document.querySelectorAll("details:not([open])").length;
dispatchEvent(new Event("beforeprint"));
document.documentElement.dataset.seen = JSON.stringify({
  faint: [...faint], boxes, folded, paper: sheet(document.body).backgroundColor,
  still: document.querySelectorAll("details:not([open])").length,
  beyond: document.documentElement.scrollWidth - innerWidth,
});
</script>
""".replace("ENOUGH", str(ENOUGH))


@pytest.fixture(scope="module")
def page(made: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    write(made, folder)
    path = folder / "seen.html"
    path.write_text((folder / "report.html").read_text("utf-8").replace("</body>", LOOK), "utf-8")
    return path


def seen(page: Path, folder: Path, width: int, *more: str) -> dict[str, Any]:
    """What a browser sees of the page in a window so many pixels wide."""
    assert BROWSER is not None
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}"]
    command += [f"--window-size={width},900", *more, "--dump-dom", page.as_uri()]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout
    (found,) = re.findall(r'data-seen="([^"]+)"', shown)
    return dict(json.loads(found.replace("&quot;", '"')))


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="neither chromium nor google-chrome is installed")
def test_a_browser_sees_legible_text_two_figures_abreast_and_on_paper_all_tables(page, tmp_path):
    wide, dark = seen(page, tmp_path, 1366), seen(page, tmp_path, 1366, "--force-dark-mode")
    phone = seen(page, tmp_path, 500)  # the narrowest window of a headless browser
    assert wide["paper"] != dark["paper"]
    for each in (wide, dark, phone):
        assert each["faint"] == []
        assert each["beyond"] <= 0
        assert each["folded"] > 3
        assert each["still"] == 0
    half = [box for box in wide["boxes"] if not box["wide"]]
    assert half[0]["top"] == half[1]["top"]
    assert half[0]["right"] < half[1]["left"]
    assert half[1]["right"] - half[0]["left"] > 900
    assert len({box["top"] for box in phone["boxes"]}) == len(phone["boxes"])


def light(colour: tuple[float, ...]) -> float:
    """The luminance of a colour of three channels from 0 to 255 (WCAG 2)."""
    linear = [c / 3294.6 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    low, high = sorted((light(one), light(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_text_of_every_colour_is_legible_on_every_background(scheme):
    roots = re.findall(r":root \{(.*?)\}", CSS, re.DOTALL)
    root = dict(re.findall(r"--(\w+): ([^;]+);", roots[scheme]))
    known = {
        name: tuple(int(text[place : place + 2], 16) for place in (1, 3, 5))
        for name, text in root.items()
        if text.startswith("#")
    }
    used = set(re.findall(r"(?<![-\w])color: var\(--(\w+)\)", CSS))
    assert used >= {"ink", "soft", "faint", "link", "plus", "minus"}
    for name in used:
        for below in ("paper", "band"):
            assert contrast(known[name], known[below]) >= ENOUGH, (name, below)
    # what a cell of a matrix has is in the colour of the text around it
    assert re.search(r'\.matrix \[class\*="good"\] \*, .*\{ color: inherit; \}', CSS)
    shades = re.findall(r"\.(?:good|bad)\d \{ background: rgb\(var\(--(\w+)\) / (\.\d+)\)", CSS)
    assert len(shades) == 8
    for name, alpha in shades:
        over = zip(map(float, root[name].split()), known["paper"], strict=True)
        shade = tuple(float(alpha) * above + (1 - float(alpha)) * below for above, below in over)
        assert contrast(known["ink"], shade) >= ENOUGH, (name, alpha)


def test_what_is_wider_than_the_page_shows_at_its_edges_that_it_scrolls():
    (scroll,) = re.findall(r"^\.scroll \{(.*?)\}", CSS, re.DOTALL | re.MULTILINE)
    assert "overflow-x: auto" in scroll
    layers = re.findall(r"linear-gradient\(to (\w+), var\(--(\w+)\).*?(local|scroll)[,;]", scroll)
    paper = [("right", "paper", "local"), ("left", "paper", "local")]
    assert layers == [*paper, ("right", "edge", "scroll"), ("left", "edge", "scroll")]
    assert CSS.count("--edge: ") == 2


def test_on_paper_all_is_open_in_black_and_captions_stay_with_their_figures():
    paper = CSS[CSS.index("@media print {") :]
    assert "details::details-content { content-visibility: visible" in paper
    assert "color-scheme: light" in paper
    kept = dict.fromkeys(re.findall(r"([\w., +]+) \{ break-(inside|after): avoid; \}", paper))
    found = {way: selectors.replace(" ", "").split(",") for selectors, way in kept}
    assert {"figure", "tr"} <= {*found["inside"]}
    assert {"h2", ".caption", "figcaption", "summary"} <= {*found["after"]}
    assert re.findall(r"@media ([^{]*)prefers-color-scheme: dark", CSS) == ["screen and ("]
