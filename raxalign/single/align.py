"""Word pairs of any corpus as a dataset folder, and one method on one encoder as an encoder folder:
by the stages that a grid would make, so that neither makes them again.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from raxalign.catalog import catalog
from raxalign.caveats import Caveats
from raxalign.corpora.text.bitext import TooShort
from raxalign.corpora.text.dataset import check_whole, read_metadata
from raxalign.encoders.models.aligned import SentenceUse
from raxalign.errors import DataError, DependencyError, RaxalignError
from raxalign.grid.expansion.data import SharedStages
from raxalign.grid.expansion.identity import Identity
from raxalign.grid.expansion.tasks import TrialInputs
from raxalign.grid.file import Grid
from raxalign.grid.options import read_options
from raxalign.grid.plan import Plan
from raxalign.grid.specs import CorpusSettings, PairsSpec, Spec, Split
from raxalign.grid.stage import Stage
from raxalign.languages import language, same_language
from raxalign.options.params import BaseParams
from raxalign.options.run import Precision, RunConfig
from raxalign.options.sources import LocalFile, looked_up
from raxalign.pairing.build import WordPairs
from raxalign.single.model_card import Card, Origin
from raxalign.single.place import OutFolder, announced, encoder_of, runtime, silent
from raxalign.stages import Workshop
from raxalign.store.key import digest
from raxalign.store.storage import Storage
from raxalign.train.runtime import Runtime


@dataclass(frozen=True)
class AlignRequest:
    """Which alignment: `pairs` maps a language to a word-pair dataset, `encoder` is a folder or a
    hub name, `precision` is that of its products while the method reads or trains it.
    """

    method: str
    options: tuple[str, ...]
    encoder: str
    pairs: Mapping[str, Path]
    pivot: str
    seed: int
    device: str | None = None
    threads: int | None = None
    precision: Precision = "fp32"

    def make(self, out: Path, *, storage: Storage) -> dict[str, Any]:
        """Align and export to `out`; returns the method's notes. Checkpoints lie in the storage, so
        a killed training goes on from there, and the alignment, so that it is not made twice.
        """
        OutFolder(out).refuse_existing()
        method, spec = _method_and_encoder(self)
        start, folders = spec.plugin(), self.pairs
        _check_pairs(self, method)
        where = runtime(self.device, self.threads, self.precision)
        identity = Identity(storage.digests.of, start.fetch().get)
        shared = _given(self, identity)
        pairs = {lang: shared.training_pairs(lang, 0, None) for lang in folders}
        begins, kind = shared.encoder(spec), catalog("methods").kind(self.method)
        params, languages = method.canonical(), tuple(folders)
        given = TrialInputs(kind, method, params, begins, start.family, languages, 0, self.seed)
        stage = given.stage(shared)
        identity.refuse_missing()
        workshop = Workshop(Plan("align", self.pivot, 1, (), shared.stages, {}), storage, where)
        for lang, made in pairs.items():
            with workshop.reading(made):
                workshop.store.make("pairs", made.key, _copied(folders[lang]))
        aligned = workshop.aligned(stage.key)
        notes: dict[str, Any] = dict(workshop.store.manifest("aligned", stage.key).notes)
        if partial := {**WordPairs.left_out(*folders.values()), **notes.get("partial", {})}:
            notes["partial"] = partial
        origin = Origin.named(str(start.params.name)) if start.by_name else Origin()
        told = Caveats.said(self.method, notes)
        card = Card(
            *(self.method, params, start.label(), languages, self.pivot, self.seed),
            data={lang: digest(made.digests) for lang, made in pairs.items()},
            caveats=tuple(told),
            origin=origin,
            precision=self.precision,
        )
        with OutFolder(out).appearing() as folder:
            card.written(aligned, SentenceUse((*languages, self.pivot)), folder)
        return notes


@dataclass
class _GivenPairs(SharedStages):
    """The stages of an alignment whose word pairs are there: its text is theirs too."""

    folders: Mapping[str, Path] = field(default_factory=dict)

    def draw(self, seed: int | None) -> int | None:
        """Return None: there is no run of a word aligner."""

    def training_pairs(self, lang: str, sentences: int, draw: int | None) -> Stage:  # noqa: ARG002
        """Add the word pairs of a language."""
        folder = self.folders[lang].absolute()
        files = {file.name: LocalFile(file) for file in folder.glob("*.arrow")}
        params = {"lang": lang, "pivot": self.grid.pivot}
        return self.add(Stage("pairs", "given", 1, params, {}, *self.identity.of(files)))

    def training_bitext(self, lang: str, sentences: int) -> Stage:
        """Add the sentences of the word pairs, which have the columns of a bitext too."""
        return self.training_pairs(lang, sentences, None)


def _given(request: AlignRequest, identity: Identity) -> _GivenPairs:
    """The stages of a grid whose word pairs are those of the request."""
    given = PairsSpec(aligner=Spec("aligners", "given", BaseParams()))
    grid = _grid("align", request.pivot, tuple(request.pairs), given)
    grid = replace(grid, run=RunConfig(precision=request.precision))
    return _GivenPairs(grid, identity, folders=request.pairs)


def _copied(folder: Path) -> Any:
    """Return what puts a dataset into an artifact."""

    def build(into: Path) -> Mapping[str, Any]:
        shutil.copytree(folder, into / "data")
        return {"from": str(folder)}

    return build


def _method_and_encoder(request: AlignRequest) -> tuple[Any, Spec]:
    """Return the method and the kind of encoder, not loaded. Raises `RaxalignError` if unfit."""
    language(request.pivot)
    params = read_options("methods", request.method, request.options, Path.cwd())
    method = catalog("methods")[request.method](params)
    spec = encoder_of(request.encoder)
    start = spec.plugin()
    if OutFolder(folder := Path(request.encoder).expanduser()).transforms():
        # one more alignment would leave them behind without a word
        remedy = "Align the encoder that it was made from"
        raise DataError(folder, "is aligned by transforms already", remedy=remedy)
    if start.family not in method.accepts:
        raise RaxalignError(f"{request.method} does not take {start.family} encoders")
    if method.needs().head and start.has_head(lambda _: None) is False:
        raise RaxalignError(
            f"{request.method} requires a masked-LM head, which {request.encoder} does not have;"
            " choose a method that predicts no words, or an encoder that was saved with its head"
        )
    if method.needs().dev:
        raise RaxalignError(
            f"{request.method}: `selection: dev` needs the dev part of a corpus, which only a grid"
            " has; leave `selection` out"
        )
    return method, spec


def _check_pairs(request: AlignRequest, method: Any) -> None:
    """Raise `RaxalignError` for word pairs that are none, and for files that are remote."""
    if not request.pairs:
        raise RaxalignError(
            "no word pairs: give --pairs LANGUAGE=FOLDER for each language (`raxalign pairs` makes"
            " them)"
        )
    for lang, folder in request.pairs.items():
        if not folder.is_dir():
            remedy = "Name one that `raxalign pairs` wrote"
            raise DataError(folder, "there is no such folder of word pairs", remedy=remedy)
        check_whole(folder)
        WordPairs.read(folder).check()
        told, asked = read_metadata(folder).get("lang_pair"), f"{lang}-{request.pivot}"
        if told not in (None, asked):
            remedy = "Name its languages with --pairs and --pivot"
            raise DataError(folder, f"holds {told}, not {asked}", remedy=remedy)
        for source in method.sources(lang, request.pivot).values():
            if not isinstance(source, LocalFile):
                raise RaxalignError(f"{request.method}: {source.name} is remote; name a local file")


def _grid(name: str, pivot: str, languages: Sequence[str], pairs: PairsSpec) -> Grid:
    """Return a grid of some languages without anything else."""
    return Grid(
        path=Path.cwd() / name,
        text_of_file="",
        name=name,
        pivot=pivot,
        encoders=(),
        together=True,
        languages=tuple(languages),
        corpora={},
        corpus=CorpusSettings(),
        text=None,
        pairs=pairs,
        sentences=(0,),
        seeds=(0,),
        methods=(),
        tasks=(),
    )


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
    one_to_one: bool | Literal["first"]
    encoder: str | None = None
    device: str | None = None
    overlap: Literal["drop", "keep"] = "drop"

    def make(
        self,
        out: Path,
        *,
        storage: Storage,
        export_links: Path | None = None,
        threads: int | None = None,
        tell: Callable[[str], None] = silent,
    ) -> dict[str, Any]:
        """Write the dataset, and return the notes of its manifest.

        Args:
            out: The folder to write. Where it is taken, this is an error before any work.
            storage: The storage.
            export_links: A Pharaoh file for the links.
            threads: CPU threads (None: all cores; one for a word aligner that reads an encoder).
            tell: Receives one line per stage that was made.
        """
        OutFolder(out).refuse_existing()
        if export_links is not None and not export_links.absolute().parent.is_dir():
            raise RaxalignError(f"{export_links}: there is no folder {export_links.parent}")
        stages, stage = _plan(self, storage)
        plan = Plan("pairs", self.pivot, 0, (), stages.stages, {})
        workshop = Workshop(plan, storage, _runtime(self, stage, threads))
        workshop.announce = announced(tell)
        try:
            folder = workshop.ensure(stage.key)
        except TooShort as error:  # what to do about it, by the names of the command's options
            lower, text = f"lower --heldout (now {self.heldout})", "name a corpus with more text"
            fewer = f"lower --sentences (now {self.sentences}), or leave it out to take all"
            remedies = [lower] * bool(self.heldout) + [fewer] * bool(self.sentences)
            remedy = ("; ".join(remedies) or text).capitalize()
            raise DataError(error.file, error.problem, remedy=remedy) from error
        with OutFolder(out).appearing() as partial:
            shutil.copytree(folder / "data", partial, dirs_exist_ok=True)
        if export_links is not None:
            WordPairs.read(out).export_pharaoh(export_links)
        notes: dict[str, Any] = dict(workshop.store.manifest("pairs", stage.key).notes)
        return {**notes, "partial": {**WordPairs.left_out(out), **notes.get("partial", {})}}


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
    grid = _pairs_grid(request)
    corpus, aligner = grid.corpora[request.lang].plugin(), grid.pairs.aligner.plugin()
    digests, sides = storage.digests, (request.lang, request.pivot)
    identity = Identity(digests.of)
    for fault in aligner.missing():
        raise DependencyError(fault)
    start = grid.pairs.encoder()
    revisions = start.plugin().fetch() if start is not None else {}
    for fault in SharedStages(grid, Identity(digests.of, revisions.get)).encoder_faults():
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


def _pairs_grid(request: PairsRequest) -> Grid:
    """A grid of data alone."""
    here = Path.cwd()
    for code in (request.lang, request.pivot):
        language(code)
    if same_language(request.lang, request.pivot):
        same = "" if request.lang == request.pivot else f" {request.pivot}"
        raise RaxalignError(f"--lang {request.lang}: is the pivot{same}; name the other language")
    source = read_options("corpora", request.source, request.options, here)
    aligner = read_options("aligners", request.aligner, _aligner_options(request), here)
    spec = PairsSpec(
        aligner=Spec("aligners", catalog("aligners").kind(request.aligner), aligner),
        symmetrization=request.symmetrization,
        one_to_one=request.one_to_one,
    )
    return replace(
        _grid("pairs", request.pivot, (request.lang,), spec),
        together=False,
        corpora={request.lang: Spec("corpora", catalog("corpora").kind(request.source), source)},
        corpus=CorpusSettings(
            split=Split.model_construct(test=request.heldout, dev=0),
            overlap=request.overlap,
            shortage="refuse" if request.sentences is not None else "use-all",
        ),
        sentences=(request.sentences or _ALL,),
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
