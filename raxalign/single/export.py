"""The aligned encoder of a trial as a Hugging Face folder with a model card, found by its key in
the plans that the storage keeps; and that folder on the Hugging Face Hub.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from raxalign.catalog import PluginFile, catalog
from raxalign.corpora.readers.repository import first_line
from raxalign.encoders.models.aligned import AlignedEncoder, SentenceUse
from raxalign.encoders.models.sentence_config import SentenceConfig
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.encoders.models.vectors import parse_layers
from raxalign.errors import RaxalignError, TransientError
from raxalign.grid.claims import PlannedLook
from raxalign.grid.plan import Plan
from raxalign.grid.stored import StoredPlans
from raxalign.grid.trial import Trial
from raxalign.single.model_card import Card, CardScore, Origin
from raxalign.single.place import OutFolder, runtime, silent
from raxalign.stages import Workshop
from raxalign.store.storage import Storage
from raxalign.values.results import read_records, remarks
from raxalign.values.retention import again
from raxalign.values.scoreboard import Lacking

_LOG_IN = "Log in with `hf auth login`, or set HF_TOKEN, with a token that may write"
_OF_NOBODY = {".gitattributes"}  # the hub puts it into each repository


def refuse_unready(name: str) -> None:
    """Raise `RaxalignError` for a name that the hub does not have, or without a token: before an
    export that may take hours.
    """
    from huggingface_hub import get_token

    if not re.fullmatch(r"([\w.-]+/)?[\w.-]+", name):
        raise RaxalignError(f"--push {name}: is not a name on the hub; write owner/name")
    if get_token() is None:
        raise RaxalignError(f"--push {name}: you are not logged in to the hub. {_LOG_IN}")


def push(folder: Path, name: str, *, private: bool = False) -> str:
    """Make a repository on the hub the same as an exported folder; return its address.

    Args:
        folder: What `export_trial` wrote.
        name: ``owner/name``, or the name alone of a repository of the user. One that is there has
            to be empty or an earlier export.
        private: Whether a repository that is made now is private.

    Raises:
        TransientError: The hub cannot be reached, or fails.
        RaxalignError: It refuses, or the repository holds something else.
    """
    from huggingface_hub import HfApi

    hub, later = HfApi(), f"the export is in {folder}: `hf upload {name} {folder}` pushes it later"
    try:
        repository = hub.create_repo(name, private=private or None, exist_ok=True)
        there = set(hub.list_repo_files(repository.repo_id)) - _OF_NOBODY
        if there and OutFolder.TRANSFORMS not in there:
            raise RaxalignError(
                f"--push {name}: the repository holds something else than an export"
                f" ({', '.join(sorted(there)[:3])}), which is left as it is. Give another name;"
                f" {later}"
            )
        hub.upload_folder(
            repo_id=repository.repo_id,
            folder_path=folder,
            delete_patterns="*",
            commit_message="Exported by raxalign",
        )
    except RaxalignError:
        raise
    except Exception as error:
        raise _explained(name, error, later) from error
    return str(repository)


def _explained(name: str, error: Exception, later: str) -> RaxalignError:
    """The user's error for one of the hub's client."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    told = f"--push {name}: %s ({first_line(error)}). %s; {later}"
    if status in (401, 403):
        return RaxalignError(told % ("the hub refuses", _LOG_IN))
    refused = status is not None and 400 <= status < 500 and status not in (408, 429)
    if refused or isinstance(error, ValueError):
        return RaxalignError(told % ("the hub does not take it", "Choose another name"))
    return TransientError(told % ("the hub does not answer", "Try again"))


_OWN = "own"
_Reading = tuple[str, str]  # how a task reads sentences: layers, pooling


def use_of(
    plan: Plan, trial: Trial, aligned: AlignedEncoder, language: str | None = None
) -> SentenceUse:
    """Return how sentence-transformers is to read a trial's encoder: as the trial's tasks measured
    sentences, where they all did it in one way, or else as its own configuration says.
    """
    languages = (*trial.languages, plan.pivot)
    readings = [_reading(plan, trial, task) for task in trial.evaluations]
    read = {reading for reading in readings if reading and _possible(reading, aligned)}
    if len(read) != 1:
        return SentenceUse(languages, language)
    ((layers, pooling),) = read
    own = None if pooling == _OWN else pooling
    return SentenceUse(languages, language, layers, own)  # type: ignore[arg-type]


def ways(
    plan: Plan, trial: Trial, aligned: AlignedEncoder, use: SentenceUse
) -> dict[str, tuple[str, ...]]:
    """Return the ways of loading an export that give the scores of each task; none where a task's
    own training came before readouts that were fitted again.
    """
    found: dict[str, tuple[str, ...]] = {}
    plain = not aligned.transforms and aligned.encoder.family == "transformer"
    for task, key in trial.evaluations.items():
        reading = _reading(plan, trial, task)
        same = reading is not None and _same(reading, aligned, use)
        every = dict(zip(CardScore.WAYS, (True, same, plain), strict=True))
        own = plan.stages[key].inputs["aligned"] == trial.aligned
        found[task] = tuple(way for way, gives in every.items() if own and gives)
    return found


def _reading(plan: Plan, trial: Trial, task: str) -> _Reading | None:
    """Return how a task of a trial reads sentences; None where it does not."""
    stage = plan.stages[trial.evaluations[task]]
    option, _, pooling = stage.plugin().needs().pooling.partition(": ")
    params = stage.params["task"]
    assert isinstance(params, dict)
    one = option == "pooling" and isinstance(params["layers"], str)
    return (str(params["layers"]), pooling) if one else None


def _possible(reading: _Reading, aligned: AlignedEncoder) -> bool:
    """Return whether sentence-transformers can read like that."""
    encoder, (layers, pooling) = aligned.encoder, reading
    read = parse_layers(layers, aligned.n_layers)
    return (
        isinstance(encoder, TransformerEncoder)
        and not (pooling == "last" and encoder.trailing)
        and (read == (aligned.n_layers,) or SentenceUse.meets(aligned.transforms, read))
    )


def _same(reading: _Reading, aligned: AlignedEncoder, use: SentenceUse) -> bool:
    """Return whether sentence-transformers reads like that."""
    own = getattr(aligned.encoder, "sentences", None) or SentenceConfig()
    poolings = {use.pooling} if use.pooling is not None else {_OWN, own.prompt or own.pooling}
    return (
        _possible(reading, aligned)
        and parse_layers(reading[0], aligned.n_layers)
        == use.layers_read(aligned.transforms, aligned.n_layers)
        and reading[1] in poolings
    )


_SHORTEST = 4  # characters of a key that are looked for


@dataclass(frozen=True)
class Found:
    """A trial, and a plan that has it."""

    trial: Trial
    plan: Plan


def export_trial(
    key: str,
    out: Path,
    *,
    storage: Storage,
    language: str | None = None,
    tell: Callable[[str], None] = silent,
) -> Found:
    """Write the aligned encoder of a trial. One whose weights were not kept is made again first,
    and is then kept.

    Args:
        key: Its key, that of its aligned encoder, or a unique beginning of either.
        out: The folder to write; nothing is overwritten.
        storage: The storage.
        language: The language of texts for which sentence-transformers is given none.
        tell: Receives a sentence where weights are made again.

    Raises:
        RaxalignError: No trial has the key, its encoder cannot be had, or it is not aligned for the
            language.
    """
    OutFolder(out).refuse_existing()
    found = _whole(find(key, storage), key)
    trial, plan = found.trial, found.plan
    remade = _remade(found, key, storage)
    used = ("encoders", "tasks", "metrics")  # by the export itself, and by the scores of its card
    PluginFile.require_named(f for f in plan.plugins if remade is not None or f.folder in used)
    if remade is not None:
        tell(remade)
    workshop = Workshop(plan, storage, runtime(None if remade else "cpu"))
    with OutFolder(out).appearing() as partial:
        aligned = workshop.aligned(trial.aligned)
        use = use_of(plan, trial, aligned, language)
        choices = _card(workshop, found, aligned, use).written(aligned, use, partial)
    if language is not None and not choices:
        tell(f"note: --language {language} changes nothing: its vectors need no language")
    return found


def _whole(found: Found, key: str) -> Found:
    """The same trial with a plan that has its aligned encoder. Where all its tasks read readouts
    that were fitted again after their own training (`readout: refit`), these are fitted on the
    encoder as it was before. Raises `RaxalignError` where none of its tasks reads any.
    """
    plan, trial = found.plan, found.trial
    if trial.aligned in plan.stages:
        return found
    for evaluation in trial.evaluations.values():
        fitted = plan.stages[plan.stages[evaluation].inputs["aligned"]]
        start = plan.stages[fitted.inputs["encoder"]].inputs.get("encoder")
        if start is None or fitted.catalogue is None:
            continue
        options = json.loads(fitted.options)
        options |= {name: trial.params[name] for name in options.keys() & {"pooling"}}
        kind = catalog(fitted.catalogue)[fitted.maker]
        method = kind(kind.Params.stored(json.dumps(options)))
        made = replace(
            fitted,
            params={**fitted.params, "method": method.canonical()},
            inputs={**fitted.inputs, "encoder": start},
            options=json.dumps(options),
        )
        if made.key == trial.aligned:
            return Found(trial, replace(plan, stages={**plan.stages, made.key: made}))
    raise RaxalignError(
        f"{key}: the grid {plan.name} does not make the aligned encoder of this trial: none of its"
        " tasks reads it. Add a task that reads it, such as retrieval, and run the grid again"
    )


def _remade(found: Found, key: str, storage: Storage) -> str | None:
    """Return a sentence where the encoder has to be made again. Raises `RaxalignError` where it was
    never made, or where the encoder that it started from is gone.
    """
    # an export trains no encoder from scratch: the one that the alignment started from is needed
    start = found.plan.stages[found.plan.stages[found.trial.aligned].inputs["encoder"]]
    if not start.inline and not storage.artifacts.has("encoder", start.key):
        raise RaxalignError(
            f"the encoder that this trial started from is no longer in {storage}; run the grid"
            f" ({found.plan.name}) again"
        )
    if storage.artifacts.has("aligned", found.trial.aligned):
        return None
    if all(
        found.plan.stages[key].inputs["aligned"] != found.trial.aligned
        for key in found.trial.evaluations.values()
    ):
        return (
            "note: the tasks of this trial read post-hoc maps that were fitted again after their"
            " own training run; those of the encoder before it are fitted now, and no task"
            " measured them"
        )
    entry = storage.tombstones.of("aligned", found.trial.aligned)
    sentence = again([entry] if entry else [])
    if sentence is None:
        raise RaxalignError(
            f"{key}: the aligned encoder of this trial is not in {storage}; run its grid"
            f" ({found.plan.name}) again to make it"
        )
    return sentence


def find(key: str, storage: Storage) -> Found:
    """Return the trial that a key is of. Raises `RaxalignError` for none, or several encoders."""
    if len(key) < _SHORTEST:
        raise RaxalignError(f"export {key}: give at least {_SHORTEST} characters of the key")
    matches: dict[str, Found] = {}
    plans = 0

    # a grid may have been run again, with more tasks or with looks at its claims
    def fullness(of: Found) -> tuple[bool, int, bool]:
        trial, plan = of.trial, of.plan
        return trial.aligned in plan.stages, len(trial.evaluations), bool(plan.looks)

    for plan in StoredPlans(storage):
        plans += 1
        for trial in plan.trials:
            if trial.key.startswith(key) or trial.aligned.startswith(key):
                made = Found(trial, plan)
                matches[trial.aligned] = max(matches.get(trial.aligned, made), made, key=fullness)
    if len(matches) == 1:
        return next(iter(matches.values()))
    if not matches:
        raise RaxalignError(
            f"export {key}: none of the {plans} plans in {storage} has a trial with that key"
            " (`raxalign results FILE --keys` lists keys)"
        )
    told = "\n  ".join(
        f"{found.trial.key} ({found.trial.method}, {'+'.join(found.trial.languages)})"
        for found in matches.values()
    )
    raise RaxalignError(
        f"export {key}: the keys of several trials begin like this; give more of the key:\n  {told}"
    )


def _card(workshop: Workshop, found: Found, aligned: AlignedEncoder, use: SentenceUse) -> Card:
    trial, plan = found.trial, found.plan
    alone = plan.only(iter([trial]))
    links = {
        name.removeprefix("pairs/"): str(
            workshop.store.manifest("pairs", key).notes.get("links_digest")
        )
        for name, key in plan.stages[trial.aligned].inputs.items()
        if name.startswith("pairs/") and workshop.store.has("pairs", key)
    }
    return Card(
        trial.kind,
        trial.params,
        trial.encoder,
        trial.languages,
        plan.pivot,
        trial.seed,
        trial.sentences,
        trial.key,
        data=links,
        scores=CardScore.of_trial(plan, workshop.ledger, trial, ways(plan, trial, aligned, use)),
        caveats=remarks(alone, read_records(alone, workshop.ledger)),
        origin=Origin.of(plan, trial),
        seeds=tuple(sorted({t.seed for t in plan.trials if t.seed is not None})),
        precision=plan.stages[trial.aligned].precision,
        base_precision=plan.stages[trial.aligned].base_precision,
        claims=[
            told
            for told, cells in PlannedLook.last_verdicts(workshop.storage, plan.looks)
            if trial.cell in cells
        ],
        unfinished=Lacking.of(plan, workshop.ledger.keys(), workshop.ledger).short,
    )
