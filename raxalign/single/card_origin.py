"""Where an exported encoder comes from: the encoder that it was made from, the text and the word
pairs that it was aligned on, and their licences.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raxalign.catalog import catalog

if TYPE_CHECKING:
    from raxalign.plan.plan import Plan
    from raxalign.plan.stage import Stage
    from raxalign.plan.trial import Trial

_HUB = re.compile(r"[\w.-]+(?:/[\w.-]+)?")


@dataclass(frozen=True)
class Text:
    """One corpus: its kind, its name where it has one, its licence, and whether the name is that
    of a dataset of the Hugging Face Hub.
    """

    kind: str
    name: str
    licence: str
    hub: bool = False


@dataclass(frozen=True)
class Origin:
    """What an encoder was made from.

    Attributes:
        base_model: The name on the Hugging Face Hub of the encoder that it was made from; None
            where it is a folder, or was trained by raxalign.
        texts: The corpora of the training text.
        aligners: The word aligners of the word pairs, each with how its directions are joined.
    """

    base_model: str | None = None
    texts: tuple[Text, ...] = ()
    aligners: tuple[str, ...] = ()


def hub_name(name: object) -> str | None:
    """Return the name of an encoder on the Hugging Face Hub; None for a folder.

    >>> hub_name("bert-base-multilingual-cased"), hub_name("./models/mini")
    ('bert-base-multilingual-cased', None)
    """
    text = str(name)
    there = _HUB.fullmatch(text) and not text.startswith(".")
    return text if there and not Path(text).expanduser().exists() else None


def origin_of(plan: Plan, trial: Trial) -> Origin:
    """Return what the plan says of a trial's aligned encoder."""
    stages = [plan.stages[key] for key in plan.closure([trial.aligned])]
    start = plan.stages[plan.stages[trial.aligned].inputs["encoder"]]
    named = start.params.get("name") if start.maker == "transformer" else None
    return Origin(
        hub_name(named) if named is not None else None,
        tuple(dict.fromkeys(_texts(stages))),
        tuple(dict.fromkeys(_aligners(stages))),
    )


def _texts(stages: Iterable[Stage]) -> Iterator[Text]:
    corpora = catalog("corpora")
    for stage in stages:
        options = stage.params.get("corpus") if stage.kind == "bitext" else None
        if isinstance(options, Mapping) and stage.params.get("part") == "training":
            licence = corpora[stage.maker].licence if stage.maker in corpora else "unknown"
            yield Text(stage.maker, _name(options), licence, stage.maker == "hub")


def _name(options: Mapping[str, Any]) -> str:
    found = next((options[key] for key in ("dataset", "corpus") if options.get(key)), "")
    return ", ".join(map(str, found)) if isinstance(found, list | tuple) else str(found)


def _aligners(stages: Iterable[Stage]) -> Iterator[str]:
    for stage in stages:
        if stage.kind == "pairs":
            how = stage.params.get("symmetrization")
            one = ", one to one" if stage.params.get("one_to_one") else ""
            yield f"{stage.maker} ({how}{one})" if how else stage.maker
