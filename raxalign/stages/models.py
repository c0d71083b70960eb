"""Making the stages of models: encoders, aligned encoders, and the trainings of tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raxalign.catalog import returned
from raxalign.encoders.base import EncoderInputs
from raxalign.encoders.models.vectors import parse_layers
from raxalign.methods.base import MethodInputs
from raxalign.plan.stage import Stage
from raxalign.stages.bench import Bench
from raxalign.stages.inputs import files_of, languages_of, task_inputs

if TYPE_CHECKING:
    from raxalign.encoders.models.aligned import AlignedEncoder


def make_encoder(bench: Bench, stage: Stage, folder: Path) -> Mapping[str, Any]:
    """Build an encoder from text; return its notes."""
    inputs = EncoderInputs(
        text=bench.datasets(stage, "text"), locations=stage.locations, revisions=stage.digests
    )
    notes: Mapping[str, Any] = stage.plugin().build(inputs, bench.runtime_for(stage), folder)
    return notes


def make_aligned(bench: Bench, stage: Stage, folder: Path) -> Mapping[str, Any]:
    """Align an encoder by the method of the stage; return the method's notes."""
    from raxalign.encoders.models.aligned import AlignedEncoder
    from raxalign.encoders.models.soundness import refuse_unsound
    from raxalign.encoders.models.transformer import TransformerEncoder

    encoder = bench.encoder(stage.inputs["encoder"], stage.precision, compiled=stage.compiled)
    if isinstance(encoder, TransformerEncoder):
        encoder.prepared = {
            bench.ensure(stage.inputs[name]) / "data": bench.ensure(key)
            for name, key in stage.prepared.items()
        }
    inputs = MethodInputs(
        languages=languages_of(stage),
        pivot=str(stage.params["pivot"]),
        pairs=bench.datasets(stage, "pairs"),
        bitext=bench.datasets(stage, "bitext"),
        text=bench.datasets(stage, "text"),
        files=files_of(stage),
        dev={lang: path / "dev" for lang, path in bench.inputs(stage, "dev").items()},
    )
    method = stage.plugin()
    found = method.align(encoder, inputs, bench.runtime_for(stage))
    aligned = returned(method, "align", found, AlignedEncoder)
    refuse_unsound(method, stage.maker, aligned)
    if bench.runtime.rank == 0:
        aligned.save(folder)
    return dict(aligned.notes)


def make_tuned(bench: Bench, stage: Stage, folder: Path) -> Mapping[str, Any]:
    """Run a task's own training; return its notes. One that is watched reads the development sets
    of its evaluation too.
    """
    watched = bench.watched if bench.watched and bench.watched.training == stage.key else None
    inputs = task_inputs(bench, watched.evaluation if watched else stage)
    rows = {name.removeprefix("rows/"): bench.ensure(key) for name, key in stage.prepared.items()}
    notes: Mapping[str, Any] = stage.plugin().train(
        _untrained(bench, stage),
        languages_of(stage),
        replace(inputs, rows=rows),
        bench.runtime_for(stage),
        folder,
    )
    return notes


def _untrained(bench: Bench, stage: Stage) -> AlignedEncoder:
    """Return what a task's training starts from: an aligned encoder, or the encoder before it,
    frozen up to the method's inside transforms.
    """
    from raxalign.encoders.models.aligned import AlignedEncoder

    if "encoder" not in stage.inputs:
        return bench.aligned(stage.inputs["aligned"])
    encoder = bench.encoder(stage.inputs["encoder"], stage.precision, compiled=stage.compiled)
    frozen = parse_layers(str(stage.params.get("frozen", "0")), encoder.n_layers)
    return AlignedEncoder(encoder, frozen=max(frozen))
