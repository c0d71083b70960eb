"""One method on one encoder: an encoder folder out."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from raxalign.catalog import catalog, returned
from raxalign.caveats import collecting, said
from raxalign.config.options import read_options
from raxalign.corpora.text.bitext import write_text
from raxalign.corpora.text.dataset import check_whole, read_metadata
from raxalign.encoders.base import EncoderInputs
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.sentence_module import SentenceUse
from raxalign.encoders.models.soundness import refuse_unsound
from raxalign.errors import DataError, RaxalignError
from raxalign.languages import language
from raxalign.methods.base import MethodInputs
from raxalign.options.run import Precision
from raxalign.options.sources import LocalFile
from raxalign.pairing.build import left_out
from raxalign.pairing.schema import check, read_pairs
from raxalign.plan.expansion.encoders import plugin_of
from raxalign.plan.expansion.identity import Identity
from raxalign.single.model_card import Card, Origin, hub_name
from raxalign.single.place import (
    appearing,
    encoder_of,
    refuse_existing,
    runtime,
    transforms_of,
)
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


def make_aligned(request: AlignRequest, out: Path, *, storage: Storage) -> dict[str, Any]:
    """Align and export to `out`; returns the method's notes. Checkpoints lie in the storage, so a
    killed training goes on from there.
    """
    refuse_existing(out)
    method, start = _method_and_encoder(request)
    inputs, seed = _inputs(method, request), request.seed
    identity = Identity(storage.digests.of, start.fetch().get)
    encoder_digests, locations = identity.of(start.sources())
    pairs = {
        lang: digest(_digests(identity, {file.name: file for file in folder.glob("*.arrow")}))
        for lang, folder in request.pairs.items()
    }
    files = {name: _digests(identity, places) for name, places in inputs.files.items()}
    identity.refuse_missing()
    key = _key(request, method, {"encoder": encoder_digests, "pairs": pairs, "files": files})
    checkpoints = storage.local / "checkpoints" / key
    where = runtime(request.device, request.threads, request.precision, seed=seed)
    where = replace(where, checkpoints=checkpoints)
    found_at = EncoderInputs(locations=locations, revisions=encoder_digests)
    with (
        storage.digests.unchanged(identity.files),
        tempfile.TemporaryDirectory(prefix="raxalign-") as work,
        collecting() as found,
    ):
        encoder = start.load(found_at, where.device)
        encoder.precision = where.precision
        found.partial |= left_out(*request.pairs.values())
        made = method.align(encoder, _with_text(method, inputs, Path(work)), where)
    aligned = returned(method, "align", made, AlignedEncoder)
    refuse_unsound(method, request.method, aligned)
    languages, notes = inputs.languages, {**aligned.notes, **found.notes()}
    card = Card(request.method, method.canonical(), start.label(), languages, request.pivot, seed)
    origin, told = hub_name(request.encoder) if start.by_name else None, said(request.method, notes)
    card = replace(card, data=pairs, origin=Origin(origin), caveats=tuple(told))
    with appearing(out) as partial:
        use = SentenceUse((*languages, request.pivot))
        replace(card, precision=request.precision).written(aligned, use, partial)
    shutil.rmtree(checkpoints, ignore_errors=True)
    return notes


def _digests(identity: Identity, files: Mapping[str, Path]) -> Mapping[str, str]:
    return identity.of({name: LocalFile(path) for name, path in files.items()})[0]


def _key(request: AlignRequest, method: Any, inputs: Mapping[str, Any]) -> str:
    """Return the key of a training's checkpoints, from the digests of all that it reads."""
    return digest(
        {
            "method": catalog("methods").kind(request.method),
            "version": method.VERSION,
            "params": method.canonical(),
            "seed": request.seed,
            "inputs": inputs,
            **({} if request.precision == "fp32" else {"precision": request.precision}),
        }
    )


def _method_and_encoder(request: AlignRequest) -> tuple[Any, Any]:
    """Return the method and the kind of encoder, not loaded. Raises `RaxalignError` if unfit."""
    language(request.pivot)
    params = read_options("methods", request.method, request.options, Path.cwd())
    method = catalog("methods")[request.method](params)
    start = plugin_of(encoder_of(request.encoder))
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
    return method, start


def _inputs(method: Any, request: AlignRequest) -> MethodInputs:
    """The checked word pairs and files of a method."""
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
    files: dict[str, dict[str, Path]] = {}
    for lang in request.pairs:
        for name, source in method.sources(lang, request.pivot).items():
            if not isinstance(source, LocalFile):
                raise RaxalignError(f"{request.method}: {source.name} is remote; name a local file")
            files.setdefault(name, {})[lang] = source.path
    return MethodInputs(
        tuple(request.pairs), request.pivot, request.pairs, request.pairs, files=files
    )


def _with_text(method: Any, inputs: MethodInputs, work: Path) -> MethodInputs:
    """Monolingual text, where the method reads it: the sides of the word pairs."""
    if not method.needs().text:
        return inputs
    for lang, folder in inputs.pairs.items():
        write_text([folder], "src", work / lang)
    write_text(list(inputs.pairs.values()), "tgt", work / inputs.pivot)
    return replace(
        inputs, text={lang: work / lang / "data" for lang in (*inputs.languages, inputs.pivot)}
    )
