"""Word pairs of any corpus as a dataset folder: the same stages that a grid would make, so that
neither makes them again.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from raxalign.catalog import catalog
from raxalign.config.options import read_options
from raxalign.config.specs import CorpusSettings, CorpusSpec, Grid, PairsSpec, Split
from raxalign.corpora.text.bitext import TooShort
from raxalign.errors import DataError, DependencyError, RaxalignError
from raxalign.languages import language, same_language, spelled
from raxalign.options.sources import looked_up
from raxalign.pairing.build import OneToOne, export_pharaoh, left_out
from raxalign.plan.expansion.data import SharedStages
from raxalign.plan.expansion.encoders import aligner_encoder, encoder_faults, plugin_of
from raxalign.plan.expansion.identity import Identity
from raxalign.plan.plan import Plan
from raxalign.plan.stage import Stage
from raxalign.single.place import announced, appearing, refuse_existing, runtime, silent
from raxalign.stages import Workshop
from raxalign.store.storage import Storage
from raxalign.train.runtime import Runtime

_ALL = 1_000_000_000  # sentence pairs: more than any corpus has


@dataclass(frozen=True)
class PairsRequest:
    """Which word pairs: `sentences` None takes all that there are; the last `heldout` lines of the
    corpus are left out.

    `encoder` is that of a word aligner that reads one (in place of its option `encoder`), and
    `device` where it runs (None: on the GPU where there is one). `overlap` is what is done with
    repeated pairs and those that share a side with a held-out line.
    """

    source: str
    options: tuple[str, ...]
    lang: str
    pivot: str
    sentences: int | None
    heldout: int
    aligner: str
    aligner_options: tuple[str, ...]
    symmetrization: str
    one_to_one: OneToOne
    encoder: str | None = None
    device: str | None = None
    overlap: Literal["drop", "keep"] = "drop"


def make_pairs(
    request: PairsRequest,
    out: Path,
    *,
    storage: Storage,
    export_links: Path | None = None,
    threads: int | None = None,
    tell: Callable[[str], None] = silent,
) -> dict[str, Any]:
    """Write the dataset, and return the notes of its manifest.

    Args:
        request: What to make.
        out: The folder to write. Where it is taken, this is an error before any work.
        storage: The storage.
        export_links: A Pharaoh file for the links.
        threads: CPU threads (None: all cores; one for a word aligner that reads an encoder).
        tell: Receives one line per stage that was made.
    """
    refuse_existing(out)
    if export_links is not None and not export_links.absolute().parent.is_dir():
        raise RaxalignError(f"{export_links}: there is no folder {export_links.parent}")
    stages, stage = _plan(request, storage)
    plan = Plan("pairs", request.pivot, 0, (), stages.stages, {})
    workshop = Workshop(plan, storage, _runtime(request, stage, threads))
    workshop.announce = announced(tell)
    try:
        folder = workshop.ensure(stage.key)
    except TooShort as error:  # what to do about it, by the names of the command's options
        lower, text = f"lower --heldout (now {request.heldout})", "name a corpus with more text"
        fewer = f"lower --sentences (now {request.sentences}), or leave it out to take all"
        remedies = [lower] * bool(request.heldout) + [fewer] * bool(request.sentences)
        remedy = ("; ".join(remedies) or text).capitalize()
        raise DataError(error.file, error.problem, remedy=remedy) from error
    with appearing(out) as partial:
        shutil.copytree(folder / "data", partial, dirs_exist_ok=True)
    if export_links is not None:
        export_pharaoh(out, export_links)
    notes: dict[str, Any] = dict(workshop.store.manifest("pairs", stage.key).notes)
    return {**notes, "partial": {**left_out(out), **notes.get("partial", {})}}


def _runtime(request: PairsRequest, stage: Stage, threads: int | None) -> Runtime:
    """Where the stages are made: on a device where the word aligner reads an encoder, else without
    torch. Raises `RaxalignError` for a device that would not be used.
    """
    if "encoder" in stage.inputs:
        return runtime(request.device, threads=threads or 1)
    if request.device is not None:
        raise RaxalignError(
            f"--device {request.device}: {request.aligner} reads no encoder and uses no device;"
            " leave it out"
        )
    return Runtime(threads=threads or os.cpu_count() or 1)


def _plan(request: PairsRequest, storage: Storage) -> tuple[SharedStages, Stage]:
    """The stages, with remote data looked up."""
    grid = _grid(request)
    corpus = catalog("corpora")[request.source](grid.corpora[request.lang].params)
    aligner = catalog("aligners")[request.aligner](grid.pairs.params)
    digests, sides = storage.digests, (request.lang, request.pivot)
    identity = Identity(digests.of)
    for fault in aligner.missing():
        raise DependencyError(fault)
    start = aligner_encoder(grid.pairs)
    revisions = plugin_of(start).fetch() if start is not None else {}
    for fault in encoder_faults(grid, revisions.get):
        raise RaxalignError(f"--aligner {request.aligner}: {fault.problem}")
    identity.of({**corpus.sources(*sides), **aligner.sources(*sides)})
    if identity.missing:
        places = "\n".join(f"{path}: {problem}" for path, problem in identity.missing.items())
        raise RaxalignError(
            f"{places}\nRelative paths of options are relative to the working directory, here"
            f" {Path.cwd()}"
        )
    downloads = storage.local / "downloads"
    found = looked_up(corpus.sources(*sides), downloads) if identity.unresolved else {}
    shared = SharedStages(grid, Identity(digests.of, {**revisions, **found}.get))
    draw = shared.draw(grid.seeds[0])
    return shared, shared.training_pairs(request.lang, grid.sentences[0], draw)


def _grid(request: PairsRequest) -> Grid:
    """A grid of data alone."""
    here = Path.cwd()
    for code in (request.lang, request.pivot):
        language(code)
    if same_language(request.lang, request.pivot):
        same = "" if request.lang == request.pivot else f" {request.pivot}"
        raise RaxalignError(f"--lang {request.lang}: is the pivot{same}; name the other language")
    source = read_options("corpora", request.source, request.options, here)
    aligner = read_options("aligners", request.aligner, _aligner_options(request), here)
    return Grid(
        path=here / "pairs",
        text_of_file="",
        name="pairs",
        pivot=request.pivot,
        encoders=(),
        together=False,
        languages=(request.lang,),
        corpora={request.lang: CorpusSpec(catalog("corpora").kind(request.source), source)},
        corpus=CorpusSettings(
            split=Split.model_construct(test=request.heldout, dev=0),
            overlap=request.overlap,
            shortage="refuse" if request.sentences is not None else "use-all",
        ),
        text=None,
        pairs=PairsSpec(
            kind=catalog("aligners").kind(request.aligner),
            params=aligner,
            symmetrization=request.symmetrization,
            one_to_one=request.one_to_one,
        ),
        sentences=(request.sentences or _ALL,),
        seeds=(0,),
        methods=(),
        tasks=(),
    )


def _aligner_options(request: PairsRequest) -> tuple[str, ...]:
    """The options of the word aligner, with its encoder. Raises `RaxalignError` for another."""
    if request.encoder is None:
        return request.aligner_options
    if "encoder" not in catalog("aligners")[request.aligner].Params.model_fields:
        every = catalog("aligners").items()
        able = [name for name, kind in every if "encoder" in kind.Params.model_fields]
        raise RaxalignError(
            f"--encoder {request.encoder}: {request.aligner} reads no encoder; those that do:"
            f" {', '.join(able)}"
        )
    return (*request.aligner_options, f"encoder={request.encoder}")


def parse_named(options: Sequence[str], flag: str) -> dict[str, Path]:
    """``de=FOLDER`` texts -> language -> absolute path. Raises `RaxalignError` for what is none, or
    a language given twice.
    """
    found: dict[str, Path] = {}
    for option in options:
        lang, equals, place = option.partition("=")
        if not equals or not lang or not place:
            raise RaxalignError(
                f"{flag} {option}: write LANGUAGE=FOLDER, for example {flag} de=pairs/de-en"
            )
        if (other := spelled(language(lang).code, found)) is not None:
            same = "" if other == lang else f", as {other}"
            raise RaxalignError(f"{flag} {option}: {lang} is given twice{same}")
        found[lang] = Path(place).expanduser().absolute()
    return found
