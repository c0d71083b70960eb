"""The module of sentence-transformers in exports with transforms: its code and settings."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from raxalign.encoders.models.blocks import find_blocks
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.encoders.models.transforms import Transform
from raxalign.encoders.models.vectors import SentencePooling, parse_layers
from raxalign.errors import RaxalignError
from raxalign.languages import spellings

CODE = Path(__file__).with_name("aligned_sentences.py")
"""The code of the module, which reads nothing of raxalign and is copied into the folder."""
KIND = f"{CODE.stem}.AlignedTransformer"
SETTINGS = "sentences.json"


@dataclass(frozen=True)
class SentenceUse:
    """How sentence-transformers reads an export: the `languages` whose texts it takes, the pivot
    included (empty: those of the transforms); the `language` of texts for which none is given,
    ``en>de`` for a pivot with transforms by language; the `layers` that are added up (None: the
    last, or the highest one of the transforms); and the `pooling` (None: the encoder's own).
    """

    languages: tuple[str, ...] = ()
    language: str | None = None
    layers: str | None = None
    pooling: SentencePooling | None = None


def layers_read(use: SentenceUse, transforms: Sequence[Transform], depth: int) -> tuple[int, ...]:
    """Return the layers that are added up: those of `use` where the transforms meet them."""
    if use.layers is not None and meets(transforms, wanted := parse_layers(use.layers, depth)):
        return wanted
    readouts = [transform.layer for transform in transforms if transform.sort == "readout"]
    return (max(readouts, default=depth),)


def needs_module(encoder: TransformerEncoder, transforms: Sequence[Transform]) -> bool:
    """Return whether sentence-transformers alone would read an encoder in another way."""
    other_form = encoder.inputs.is_bidirectional or bool(encoder.inputs.text_steps)
    return bool(transforms) or encoder.inputs.has_languages or other_form


def write_module(
    folder: Path, encoder: TransformerEncoder, transforms: Sequence[Transform], use: SentenceUse
) -> tuple[str, ...]:
    """Write the module next to an encoder; return the names by which it is given a language. Raises
    `RaxalignError` where `use.language` is not one of them.
    """
    layers = layers_read(use, transforms, encoder.n_layers)
    languages = use.languages or tuple(dict.fromkeys(transform.lang for transform in transforms))
    matters = bool(transforms) or encoder.inputs.has_languages
    choices = _choices(transforms, languages) if matters else []
    if matters and use.language is not None and use.language not in choices:
        fault = f"--language {use.language}: this encoder is not aligned for it"
        raise RaxalignError(f"{fault}; choose one of {', '.join(choices)}")
    inputs = {"lang_ids": encoder.inputs.adapters, "langs": encoder.inputs.embedded}
    inside = any(transform.sort == "inside" for transform in transforms)
    settings = {
        "layers": list(layers),
        "depth": encoder.n_layers,
        **_blocks(encoder, watched=inside or layers != (encoder.n_layers,)),
        "language": use.language,
        "choices": choices,
        "names": {
            name.lower().replace("_", "-"): code
            for code in languages
            for name in (*spellings(code), code)
        },
        "inputs": {
            name: {lang: numbers.number(lang) for lang in languages}
            for name, numbers in inputs.items()
            if numbers.named
        },
        "bidirectional": encoder.inputs.is_bidirectional,
        "text_form": encoder.inputs.text_steps,
    }
    text = json.dumps(settings, indent=1, ensure_ascii=False, sort_keys=True)
    (folder / SETTINGS).write_text(text + "\n", encoding="utf-8")
    shutil.copyfile(CODE, folder / CODE.name)
    return tuple(choices)


def meets(transforms: Sequence[Transform], layers: Sequence[int]) -> bool:
    """Return whether something of the transforms is in what is read of the layers."""
    top = max(layers)
    return any(t.layer in layers if t.sort == "readout" else t.layer <= top for t in transforms)


def _choices(transforms: Sequence[Transform], languages: Sequence[str]) -> list[str]:
    """The names of languages; ``en>de`` for those whose transforms hold for one other language."""
    choices: list[str] = []
    for lang in languages:
        toward = [t.toward for t in transforms if t.lang == lang and t.toward is not None]
        choices += [f"{lang}>{other}" for other in dict.fromkeys(toward)] or [lang]
    return choices


def _blocks(encoder: TransformerEncoder, *, watched: bool) -> dict[str, object]:
    """The names of the modules whose outputs are the stream, where it is `watched`."""
    base: Any = encoder.model.base_model
    names = {id(module): name for name, module in base.named_modules()}
    blocks = find_blocks(base) if watched else None
    parts = [] if blocks is None else [p for p in (blocks.embeds, *blocks.leaves) if p is not None]
    return {
        "blocks": [names[id(part)] for part in parts],
        "embeds": blocks is not None and blocks.embeds is not None,
    }
