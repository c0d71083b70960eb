"""Whether what a plug-in made can be used: finite numbers, in the shapes of the encoder."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from typing import Any

from raxalign.catalog import Catalog, PluginFault
from raxalign.encoders.base import Encoder
from raxalign.encoders.models.transforms import Affine
from raxalign.encoders.models.vectors import WordVectors
from raxalign.errors import RaxalignError
from raxalign.lazy import torch

_NUMBERS = "Look for a division by zero, an empty mean or a training that diverged"
_SHAPES = "Its vectors and maps have the width of the encoder (`encoder.hidden_size`)"


def refuse_unsound(method: Any, kind: str, aligned: Any) -> None:
    """Raise where a method of some kind returned an `AlignedEncoder` with numbers or shapes that
    cannot be used: `PluginFault` with file and line for one from outside, else `RaxalignError`.
    """
    found = next(_faults(aligned), None)
    if found is None:
        return
    text, remedy = f"method {Catalog.name_of(kind)}: align returned {found[0]}", found[1]
    file = _file_of(method)
    if file is None:
        raise RaxalignError(f"{text}. {remedy}")
    _, line = inspect.getsourcelines(type(method).align)
    raise PluginFault(file, text, line=line, remedy=remedy)


def _faults(aligned: Any) -> Iterator[tuple[str, str]]:
    """What is wrong, each with a remedy."""
    hidden = aligned.encoder.hidden_size
    for transform in aligned.transforms:
        of = f"the transform of {transform.lang} at layer {transform.layer}"
        for step in transform.steps:
            for part in ("center", "weight", "shift") if isinstance(step, Affine) else ():
                value = getattr(step, part)
                if value is None:
                    continue
                wanted = (hidden, hidden) if part == "weight" else (hidden,)
                if not _fits(tuple(value.shape), wanted):
                    yield f"{of} with a {part} of shape {tuple(value.shape)}, not {wanted}", _SHAPES
                elif not torch.isfinite(value).all():
                    yield f"{of} with a {part} that has NaN or infinite values", _NUMBERS
    model = getattr(aligned.encoder, "model", None)
    if aligned.weights_changed and isinstance(model, torch.nn.Module):
        for name, weight in model.named_parameters():
            if not torch.isfinite(weight).all():
                yield f"an encoder whose weights {name} have NaN or infinite values", _NUMBERS


def _fits(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Whether a shape is the wanted one. A vector may be one number, or a row."""
    if len(wanted) == 2:
        return shape == wanted
    *before, last = shape or (1,)
    return set(before) <= {1} and last in (1, *wanted)


def refuse_unsound_words(encoder: Encoder, part: WordVectors, words: int, n_layers: int) -> None:
    """Raise `PluginFault` where an encoder from outside gave word vectors in another shape than
    (words, layers, hidden size), or with numbers that are not finite.
    """
    file = _file_of(encoder)
    if file is None:
        return
    shape, wanted = tuple(part.vectors_NLH.shape), (words, n_layers, encoder.hidden_size)
    if shape != wanted:
        fault = f"vectors of shape {shape}, not {wanted} (words, layers, hidden size)"
    elif torch.isfinite(part.vectors_NLH).all():
        return
    else:
        fault = "vectors with NaN or infinite values"
    kind = type(encoder)
    _, line = inspect.getsourcelines(kind.iter_words)
    said = f"{Catalog.outside()[file]}: {kind.__name__}.iter_words gave {fault}"
    raise PluginFault(file, said, line=line)


def _file_of(plugin: object) -> str | None:
    """The file of something that a plug-in from outside defines; None for the package's own."""
    file = str(getattr(sys.modules.get(type(plugin).__module__), "__file__", ""))
    return file if file in Catalog.outside() else None
