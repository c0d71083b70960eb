"""One method on one encoder: an encoder folder out, by the stages that a grid would make."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from raxalign.catalog import catalog
from raxalign.caveats import said
from raxalign.config.options import read_options
from raxalign.config.specs import CorpusSettings, EncoderSpec, Grid, PairsSpec, Split
from raxalign.corpora.text.dataset import check_whole, read_metadata
from raxalign.encoders.models.sentence_module import SentenceUse
from raxalign.errors import DataError, RaxalignError
from raxalign.languages import language
from raxalign.options.params import BaseParams
from raxalign.options.run import Precision, RunConfig
from raxalign.options.sources import LocalFile
from raxalign.pairing.build import left_out
from raxalign.pairing.schema import check, read_pairs
from raxalign.plan.expansion.data import SharedStages
from raxalign.plan.expansion.encoders import plugin_of
from raxalign.plan.expansion.identity import Identity
from raxalign.plan.expansion.tasks import TrialInputs
from raxalign.plan.plan import Plan
from raxalign.plan.stage import Stage
from raxalign.single.model_card import Card, Origin, hub_name
from raxalign.single.place import (
    appearing,
    encoder_of,
    refuse_existing,
    runtime,
    transforms_of,
)
from raxalign.stages import Workshop
from raxalign.store.key import digest
from raxalign.store.storage import Storage


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


@dataclass
class _GivenPairs(SharedStages):
    """The stages of an alignment whose word pairs are there: its text is theirs too."""

    folders: Mapping[str, Path] = field(default_factory=dict)

    def draw(self, seed: int | None) -> int | None:
        """Return None: there is no run of a word aligner."""

    def training_pairs(self, lang: str, sentences: int, draw: int | None) -> Stage:  # noqa: ARG002
        """Add the word pairs of a language."""
        files = {file.name: LocalFile(file) for file in self.folders[lang].glob("*.arrow")}
        params = {"lang": lang, "pivot": self.grid.pivot}
        return self.add(Stage("pairs", "given", 1, params, {}, *self.identity.of(files)))

    def training_bitext(self, lang: str, sentences: int) -> Stage:
        """Add the sentences of the word pairs, which have the columns of a bitext too."""
        return self.training_pairs(lang, sentences, None)


def make_aligned(request: AlignRequest, out: Path, *, storage: Storage) -> dict[str, Any]:
    """Align and export to `out`; returns the method's notes. Checkpoints lie in the storage, so a
    killed training goes on from there, and the alignment, so that it is not made twice.
    """
    refuse_existing(out)
    method, spec = _method_and_encoder(request)
    start, folders = plugin_of(spec), request.pairs
    _check_pairs(request, method)
    where = runtime(request.device, request.threads, request.precision)
    identity = Identity(storage.digests.of, start.fetch().get)
    shared = _GivenPairs(_grid(request, spec), identity, folders=folders)
    pairs = {lang: shared.training_pairs(lang, 0, None) for lang in folders}
    begins, kind = shared.encoder(spec), catalog("methods").kind(request.method)
    params, languages = method.canonical(), tuple(folders)
    given = TrialInputs(kind, method, params, begins, start.family, languages, 0, request.seed)
    stage = given.stage(shared)
    identity.refuse_missing()
    workshop = Workshop(Plan("align", request.pivot, 1, (), shared.stages, {}), storage, where)
    for lang, made in pairs.items():
        with workshop.reading(made):
            workshop.store.make("pairs", made.key, _copied(folders[lang]))
    aligned = workshop.aligned(stage.key)
    notes: dict[str, Any] = dict(workshop.store.manifest("aligned", stage.key).notes)
    if partial := {**left_out(*folders.values()), **notes.get("partial", {})}:
        notes["partial"] = partial
    origin, told = hub_name(request.encoder) if start.by_name else None, said(request.method, notes)
    card = Card(
        *(request.method, params, start.label(), languages, request.pivot, request.seed),
        data={lang: digest(made.digests) for lang, made in pairs.items()},
        caveats=tuple(told),
        origin=Origin(origin),
        precision=request.precision,
    )
    with appearing(out) as folder:
        card.written(aligned, SentenceUse((*languages, request.pivot)), folder)
    return notes


def _copied(folder: Path) -> Any:
    """Return what puts a dataset into an artifact."""

    def build(into: Path) -> Mapping[str, Any]:
        shutil.copytree(folder, into / "data")
        return {"from": str(folder)}

    return build


def _method_and_encoder(request: AlignRequest) -> tuple[Any, EncoderSpec]:
    """Return the method and the kind of encoder, not loaded. Raises `RaxalignError` if unfit."""
    language(request.pivot)
    params = read_options("methods", request.method, request.options, Path.cwd())
    method = catalog("methods")[request.method](params)
    spec = encoder_of(request.encoder)
    start = plugin_of(spec)
    if transforms_of(folder := Path(request.encoder).expanduser()):
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
        check(read_pairs(folder))
        told, asked = read_metadata(folder).get("lang_pair"), f"{lang}-{request.pivot}"
        if told not in (None, asked):
            remedy = "Name its languages with --pairs and --pivot"
            raise DataError(folder, f"holds {told}, not {asked}", remedy=remedy)
        for source in method.sources(lang, request.pivot).values():
            if not isinstance(source, LocalFile):
                raise RaxalignError(f"{request.method}: {source.name} is remote; name a local file")


def _grid(request: AlignRequest, spec: EncoderSpec) -> Grid:
    """A grid of one method on one encoder, whose word pairs are there."""
    languages, nothing = tuple(request.pairs), Split.model_construct(test=0, dev=0)
    return Grid(
        path=Path.cwd() / "align",
        text_of_file="",
        name="align",
        pivot=request.pivot,
        encoders=(spec,),
        together=True,
        languages=languages,
        corpora={},
        corpus=CorpusSettings(split=nothing),
        text=None,
        pairs=PairsSpec(kind="given", params=BaseParams()),
        sentences=(0,),
        seeds=(request.seed,),
        methods=(),
        tasks=(),
        run=RunConfig(precision=request.precision),
    )
