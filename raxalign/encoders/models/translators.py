"""The encoder halves of translation models: of M2M-100 and NLLB, of mBART, and SONAR's text encoder
(Duquenne et al. 2023), which is such a half that was published alone.

Their tokenizers put a piece that names the language before or after each text. Of a tokenizer it is
always that of its `src_lang`; what an encoder reads has that of the text's own language in its
place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

_CLASSES = {"m2m_100": "M2M100Encoder", "mbart": "MBartEncoder"}
MODULES = {made: f"transformers.models.{kind}.modeling_{kind}" for kind, made in _CLASSES.items()}
"""The class of each encoder half -> its module in transformers, which names it nowhere else."""
ALONE = "M2M100Encoder"
"""The architecture of SONAR's text encoder, whose sentences are the means over all pieces."""
KEYS = {r"^(model\.)?encoder\.": "", r"^(model\.)?shared\.": "embed_tokens."}
"""The names of weights in a whole model -> those in its encoder half."""
_LANGUAGE = re.compile(r"__([a-z]{2,3})__|([a-z]{2,3}_[A-Z][A-Za-z]{1,3})")


def half_class(config: Any) -> Any:
    """Return the class of transformers for the encoder half of a translation model; None for other
    architectures.
    """
    name = _CLASSES.get(config.model_type)
    return None if name is None else getattr(import_module(MODULES[name]), name)


def is_half(model: Any) -> bool:
    """Return whether a model is the encoder half of a translation model."""
    return type(model).__name__ in MODULES


class LanguagePieces(NamedTuple):
    """The piece for a language that a tokenizer puts around every text, and all such pieces by the
    names of their languages (``deu_Latn``, ``de_DE``, ``de``).
    """

    placed: int
    named: Mapping[str, int]


def language_pieces(tokenizer: Any, specials: tuple[int, ...]) -> LanguagePieces | None:
    """Return what a tokenizer has; None where none of the special pieces that it puts around texts
    names a language.
    """
    placed = [i for i in specials if _LANGUAGE.fullmatch(tokenizer.convert_ids_to_tokens(i))]
    if not placed:
        return None
    added = ((_LANGUAGE.fullmatch(name), i) for name, i in tokenizer.get_added_vocab().items())
    named = {found.group(1) or found.group(2): number for found, number in added if found}
    return LanguagePieces(placed[0], named)
