"""The encoders that a grid names: those of its axis, and the one that its word aligner reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from raxalign.catalog import catalog
from raxalign.config.specs import EncoderSpec, Grid, PairsSpec
from raxalign.config.yaml_file import line_of
from raxalign.encoders.base import EncoderKind
from raxalign.errors import DataError, Fault, RaxalignError
from raxalign.options.params import BaseParams
from raxalign.plan.expansion.identity import Identity


def plugin_of(spec: EncoderSpec) -> EncoderKind:
    """Return the plug-in of an encoder, with its options."""
    kind: EncoderKind = catalog("encoders")[spec.kind](spec.params)
    return kind


def all_encoders(grid: Grid) -> tuple[EncoderSpec, ...]:
    """Return every encoder of a grid, also those of its word aligner and of `corpus.pieces`."""
    own = (aligner_encoder(grid.pairs), pieces_encoder(grid))
    return (*grid.encoders, *(spec for spec in own if spec is not None))


def pieces_encoder(grid: Grid) -> EncoderSpec | None:
    """Return the encoder whose tokenizer counts the pieces of training pairs; None where none does.

    Raises `RaxalignError` for a kind of encoder that is made from the grid's text: that text would
    be chosen by its own tokenizer.
    """
    if grid.corpus.pieces is None:
        return None
    name = grid.corpus.pieces.encoder
    if name in catalog("encoders"):
        raise RaxalignError(
            f"{grid.path}: corpus: pieces: encoder: {name!r} is a kind of encoder; name a folder or"
            " a hub name"
        )
    return _spec("transformer", {"name": name})


def _spec(kind: str, options: Mapping[str, Any]) -> EncoderSpec:
    encoders = catalog("encoders")
    params = encoders[kind].Params(**options)
    return EncoderSpec(encoders.kind(kind), params, encoders[kind](params).label())


def aligner_encoder(pairs: PairsSpec) -> EncoderSpec | None:
    """Return the encoder that a word aligner reads; None where it reads words alone.

    A name is read as under `encoder` in a grid file: a kind of encoder with its default options, or
    else a folder or a hub name. Raises `RaxalignError` for a kind that cannot do without options.
    """
    name = catalog("aligners")[pairs.kind](pairs.params).encoder()
    if name is None:
        return None
    encoders = catalog("encoders")
    is_kind = name in encoders and name != "transformer"
    try:
        return _spec(name, {}) if is_kind else _spec("transformer", {"name": name})
    except ValidationError as error:
        raise RaxalignError(
            f"pairs: encoder: {name!r} is a kind of encoder that requires options, which a word"
            " aligner cannot give; name a folder or a hub name"
        ) from error


def encoder_faults(grid: Grid, known: Callable[[str], str | None]) -> Iterator[Fault]:
    """Yield what is wrong with the encoders of a grid, each with its line and key.

    `known` gives what was looked up before, by name (as of `EncoderKind.depth`). Raises `DataError`
    where the folder of the word aligner's encoder is missing.
    """
    for spec in grid.encoders:
        yield from _faults(grid, "encoder", plugin_of(spec).check())
    counting = pieces_encoder(grid)
    if counting is not None:
        yield from _faults(grid, "corpus.pieces", plugin_of(counting).check())
    own = aligner_encoder(grid.pairs)
    if own is not None:
        kind = plugin_of(own)
        aligner = catalog("aligners")[grid.pairs.kind](grid.pairs.params)
        faults = kind.check()
        if not faults:
            kind.sources()  # names a folder that is not there before its config is asked for
            faults = aligner.check_encoder(kind.depth(known))
        yield from _faults(grid, "pairs", faults)


DEEP = 10_000
"""A number of blocks with which any task can be asked whether it trains the encoder."""


def held_faults(grid: Grid) -> Iterator[Fault]:
    """Yield the methods and tasks of a grid that train all weights of an encoder, where
    `run.base_precision` holds these in bfloat16.
    """
    families = {catalog("encoders")[spec.kind].family for spec in grid.encoders}
    if grid.run.base_precision == "fp32" or "transformer" not in families:
        return
    why = "holds weights that are frozen in bfloat16, and {} trains all weights of the encoder"
    told = f"run.base_precision: {grid.run.base_precision} {why}"
    for spec in grid.methods:
        kind = catalog("methods")[spec.kind]
        effects = [kind(params).effect() for params in spec.points]
        if "transformer" in kind.accepts and any(e.weights and not e.adapters for e in effects):
            line, key = line_of(grid.text_of_file, "methods", spec.name), f"methods.{spec.name}"
            remedy = "set `lora` there, or leave run.base_precision at fp32"
            yield Fault(line, key, told.format(spec.name), remedy)
    for asked in grid.tasks:
        task = catalog("tasks")[asked.kind](asked.params)
        if "transformer" in task.accepts and task.training() and task.reads(DEEP).tunes:
            line, key = asked.line_of(""), f"tasks.{asked.name}"
            remedy = "take it out, or leave run.base_precision at fp32"
            yield Fault(line, key, told.format(asked.name), remedy)


def _faults(grid: Grid, key: str, problems: Iterable[str]) -> Iterator[Fault]:
    """Yield problems as faults of one key."""
    line = grid.lines.get(key.partition(".")[0])
    yield from (Fault(line, key, problem) for problem in problems)


def head_of(spec: EncoderSpec, identity: Identity) -> bool:
    """Check whether an encoder has a masked-LM head; one that has to be looked up first counts as
    having it. An encoder whose folder is missing is reported elsewhere.
    """
    try:
        return plugin_of(spec).has_head(identity.locked) is not False
    except DataError:
        return True


def params_in_key(params: BaseParams, digests: Mapping[str, str]) -> dict[str, Any]:
    """Return the params without the name of what is loaded: where digests stand for the data, the
    name is only a place.
    """
    return {
        name: value
        for name, value in params.identity().items()
        if not (digests and name in {"name", "revision"})
    }
