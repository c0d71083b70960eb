"""What a grid used, as BibTeX."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from raxalign.catalog import catalog
from raxalign.plan.plan import Plan
from raxalign.version import VERSION

_OWN = f"""@misc{{raxalign,
  author = {{{{The raxalign contributors}}}},
  title = {{{{raxalign}}: Grids of Cross-lingual Alignment Experiments on Multilingual Encoders}},
  year = {{2026}},
  note = {{Software, version {VERSION}}},
}}"""
_HOLM = "holm1979"  # its correction is under every mark


def references(plan: Plan, published: Sequence[str] = ()) -> str:
    """Return BibTeX entries of a plan and the papers whose tables are shown, in the order of their
    keys, that of raxalign first.
    """
    known = entries()
    asked = {_HOLM, *(name for name in published if name in known)}
    for stage in plan.stages.values():
        if stage.catalogue is not None:
            options = {**stage.params, **json.loads(stage.options or "{}")}
            asked |= set(cited(catalog(stage.catalogue)[stage.maker].papers, options))
    for added in plan.metrics:
        asked |= set(cited(added.metric.papers, {}))
    found = {known.get(paper, paper) for paper in asked}
    return "\n\n".join([_OWN, *sorted(found, key=_key)]) + "\n"


@cache
def entries() -> Mapping[str, str]:
    """Return the entries of `raxalign/papers.bib` by their keys."""
    text = files("raxalign").joinpath("papers.bib").read_text(encoding="utf-8")
    return {_key(entry): entry.strip() for entry in re.split(r"\n(?=@)", text)}


def _key(entry: str) -> str:
    """The key of a BibTeX entry, by which entries are sorted."""
    return entry.partition("{")[2].partition(",")[0].strip()


def cited(papers: Sequence[str], options: Mapping[str, Any]) -> Iterator[str]:
    """Yield the papers of a plug-in that are cited under its options.

    >>> list(cited(("och2003", "extraction=softmax dou2021"), {"extraction": "softmax"}))
    ['och2003', 'dou2021']
    """
    for paper in papers:
        condition, _, key = paper.rpartition(" ")
        option, _, text = condition.partition("=")
        if paper.startswith("@") or not condition:
            yield paper
        elif re.search(rf"\b{re.escape(text)}", str(options.get(option)), re.IGNORECASE):
            yield key
