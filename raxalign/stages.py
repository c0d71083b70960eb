"""Stage kind -> the function that makes its artifact, and the running of a trial: the only place
where plan, store and plug-ins meet.

No plug-in is named here: a stage says which one makes it, and the catalogue gives it.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raxalign.catalog import catalog
from raxalign.caveats import collecting, thin_support
from raxalign.corpora.base import CorpusInputs
from raxalign.encoders.base import EncoderInputs
from raxalign.encoders.models.vectors import parse_layers
from raxalign.methods.base import MethodInputs
from raxalign.plan.plan import Plan
from raxalign.plan.stage import Stage
from raxalign.provenance import versions
from raxalign.store.artifacts import ArtifactStore
from raxalign.store.ledger import Ledger
from raxalign.store.lock import turn
from raxalign.tasks.base import Outcome, TaskInputs
from raxalign.train.runtime import Runtime

if TYPE_CHECKING:
    from raxalign.encoders.base import Encoder
    from raxalign.encoders.models.aligned import AlignedEncoder

TRAINED = frozenset(
    {"aligned", "tuned"}
)  # trained for a trial; what several trials need is made before them
FITTED = TRAINED | {
    "encoder"
}  # stages with checkpoints, which every worker of a trial takes part in


@dataclass
class Workshop:
    """What is needed to make a plan's stages: the plan, the storage, and where this process runs.

    `local` is a folder of this machine that survives the process: checkpoints and downloads lie
    there (inside the storage where that is a file system). `announce(stage, seconds)` is called
    when a stage was made, not when it was there.
    """

    plan: Plan
    store: ArtifactStore
    ledger: Ledger
    runtime: Runtime
    local: Path
    announce: Callable[[Stage, float], None] = lambda stage, seconds: None  # noqa: ARG005
    _aligned: dict[str, AlignedEncoder] = field(default_factory=dict)

    def ensure(self, key: str) -> Path:
        """The folder of a stage's artifact, made first if it is not there or damaged (and so are
        its inputs).
        """
        stage = self.plan.stages[key]
        start, made = time.monotonic(), []

        def build(folder: Path) -> Mapping[str, Any]:
            made.append(stage)
            with collecting() as found:
                notes = _MAKERS[stage.kind](self, stage, folder)
            return {**notes, **found.notes()}

        alone = self.runtime.world_size == 1
        with self._turn(stage):
            folder: Path = (
                self.store.make(stage.kind, key, build)
                if alone
                else self._ensure_together(stage, build)
            )
            if made and self.runtime.rank == 0:
                shutil.rmtree(self.checkpoints(key), ignore_errors=True)
        if made and self.runtime.rank == 0:
            self.announce(stage, time.monotonic() - start)
        return folder

    def _turn(self, stage: Stage) -> AbstractContextManager[None]:
        """Two grids on one storage may want the same training: the second one waits, and finds it
        made. Its checkpoints are one process's.
        """
        if (
            stage.kind not in FITTED
            or self.runtime.rank != 0
            or self.store.has(stage.kind, stage.key)
        ):
            return nullcontext()
        return turn(self.local / "checkpoints" / f".{stage.key}.lock")

    def _ensure_together(self, stage: Stage, build: Callable[[Path], Mapping[str, Any]]) -> Path:
        """`ensure` in a group of workers: all take part in training, the first one makes everything
        else and stores the results.
        """
        from raxalign.train.group import agree, barrier

        present = agree(
            self.runtime.rank == 0
            and self.store.has(stage.kind, stage.key)
            and self.store.verify(stage.kind, stage.key)
        )
        if not present:
            if self.runtime.rank == 0:
                self.store.make(stage.kind, stage.key, build)
            elif stage.kind in FITTED:
                with tempfile.TemporaryDirectory(prefix="raxalign-") as discarded:
                    build(Path(discarded))
            barrier()
        return self.store.open(stage.kind, stage.key)

    def inputs(self, stage: Stage, name: str) -> dict[str, Path]:
        """The artifacts of the inputs called ``name/lang``, by language."""
        prefix = f"{name}/"
        return {
            entry.removeprefix(prefix): self.ensure(key)
            for entry, key in stage.inputs.items()
            if entry.startswith(prefix)
        }

    def checkpoints(self, key: str) -> Path:
        """Where the training of a stage keeps its checkpoints."""
        return self.local / "checkpoints" / key

    def runtime_for(self, stage: Stage) -> Runtime:
        """The runtime with the stage's seed and its checkpoints."""
        seed = stage.params.get("seed", 0)
        return replace(self.runtime, seed=int(str(seed)), checkpoints=self.checkpoints(stage.key))

    def encoder(self, key: str) -> Encoder:
        """The encoder of a stage, fresh and on the device of this process; of a task's training, as
        that left it.
        """
        stage = self.plan.stages[key]
        folder = None if stage.inline else self.ensure(key)
        if stage.kind == "tuned":
            trained: Encoder = _plugin("tasks", stage).trained_encoder(
                self.encoder(stage.inputs["encoder"]), folder
            )
            return trained
        inputs = EncoderInputs(
            locations=_without_params(stage.locations), folder=folder, revisions=stage.digests
        )
        encoder: Encoder = _plugin("encoders", stage).load(inputs, self.runtime.device)
        return encoder

    def aligned(self, key: str) -> AlignedEncoder:
        """The aligned encoder of a stage; the last one is kept in memory for the trial's next
        task.
        """
        from raxalign.encoders.models.aligned import AlignedEncoder

        if key not in self._aligned:
            folder = self.ensure(key)
            start = self.plan.stages[key].inputs["encoder"]
            self._aligned.clear()
            self._aligned[key] = AlignedEncoder.load(
                folder, lambda: self.encoder(start), self.runtime.device
            )
        return self._aligned[key]


def run_trial(workshop: Workshop, key: str) -> list[dict[str, Any]]:
    """Run the evaluations of a trial that the ledger does not have; returns the records of all of
    them, in the order of the tasks.
    """
    trial, ledger, rank = workshop.plan.by_key[key], workshop.ledger, workshop.runtime.rank
    for task, evaluation in trial.evaluations.items():
        done = ledger.has(evaluation)
        if workshop.runtime.world_size > 1:
            from raxalign.train.group import agree

            done = agree(rank == 0 and done)
        if not done:
            evaluate(workshop, evaluation, task, trial.encoder)
    return (
        [ledger.read(evaluation) for evaluation in trial.evaluations.values()] if rank == 0 else []
    )


def evaluate(workshop: Workshop, key: str, task: str, encoder: str) -> None:
    """Make one entry of the ledger, and before it what it is made of. In a group of workers only
    the first one evaluates.
    """
    stage = workshop.plan.stages[key]
    trained = workshop.ensure(stage.inputs["trained"]) if "trained" in stage.inputs else None
    workshop.ensure(stage.inputs["aligned"])
    if workshop.runtime.rank != 0:
        return
    if (
        workshop.runtime.world_size > 1
    ):  # from here on nobody else takes part, so nothing may wait for others
        workshop = replace(workshop, runtime=replace(workshop.runtime, world_size=1), _aligned={})
    start = time.monotonic()
    plugin = _plugin("tasks", stage)
    aligned, inputs = workshop.aligned(stage.inputs["aligned"]), _task_inputs(workshop, stage)
    with collecting() as found:
        outcome: Outcome = plugin.evaluate(
            aligned, _languages(stage), inputs, workshop.runtime_for(stage), trained
        )
    record = {
        "key": key,
        "task": task,
        "kind": stage.maker,
        "params": stage.params["task"],
        "aligned": stage.inputs["aligned"],
        "encoder": encoder,
        "languages": stage.params["languages"],
        "seed": stage.params.get("seed"),
        "scores": [vars(score) for score in outcome.scores],
        "notes": {
            **outcome.notes,
            **_training_caveats(workshop, stage),
            **found.notes(),
            "links": _links_digests(workshop, stage),
        },
        "seconds": time.monotonic() - start,
        "device": workshop.runtime.device,
        "threads": workshop.runtime.threads,
        "versions": versions(),
        "created": time.time(),
    }
    workshop.ledger.write(key, record, outcome.predictions)


def _links_digests(workshop: Workshop, stage: Stage) -> dict[str, Any]:
    """The digests of all links that went into a result: a word aligner without a seed makes other
    links another time.
    """
    digests = {}
    for key in workshop.plan.closure(list(stage.inputs.values())):
        entry = workshop.plan.stages[key]
        if entry.kind == "pairs" and workshop.store.has("pairs", key):
            digests[f"{entry.params['lang']}/{entry.params['part']}/{key[:12]}"] = (
                workshop.store.manifest("pairs", key).notes.get("links_digest")
            )
    return digests


def _training_caveats(workshop: Workshop, stage: Stage) -> dict[str, Any]:
    """What the trainings behind a result found out: `unknown_in_training` (maker -> language ->
    share), `loss_not_lowered`, `thin_support`.
    """
    thin: dict[str, str] = {}
    unknown: dict[str, Any] = {}
    flat: dict[str, Any] = {}
    for key in workshop.plan.closure(list(stage.inputs.values())):
        entry = workshop.plan.stages[key]
        if entry.kind in FITTED and not entry.inline and workshop.store.has(entry.kind, key):
            notes: Mapping[str, Any] = workshop.store.manifest(entry.kind, key).notes
            unknown |= {entry.maker: notes["unknown"]} if "unknown" in notes else {}
            flat |= notes.get("loss_not_lowered", {})
            thin |= thin_support(entry.maker, notes) if entry.kind == "aligned" else {}
    found = {"unknown_in_training": unknown, "loss_not_lowered": flat, "thin_support": thin}
    return {name: value for name, value in found.items() if value}


def _plugin(folder: str, stage: Stage) -> Any:
    """The plug-in of a stage, with its params."""
    kind = catalog(folder)[stage.maker]
    return kind(kind.Params.model_validate_json(stage.locations["params"]))


def _without_params(locations: Mapping[str, str]) -> dict[str, str]:
    return {name: place for name, place in locations.items() if name != "params"}


def _files(stage: Stage) -> dict[str, dict[str, Path]]:
    """Local files of a stage: name -> language -> path."""
    files: dict[str, dict[str, Path]] = {}
    for entry, place in _without_params(stage.locations).items():
        name, _, lang = entry.rpartition("/")
        if Path(place).is_absolute():
            files.setdefault(name, {})[lang] = Path(place)
    return files


def _languages(stage: Stage) -> tuple[str, ...]:
    return tuple(str(lang) for lang in stage.params["languages"])  # type: ignore[union-attr]


def _task_inputs(workshop: Workshop, stage: Stage) -> TaskInputs:
    return TaskInputs(
        pivot=str(stage.params["pivot"]),
        heldout=workshop.inputs(stage, "heldout"),
        seen=workshop.inputs(stage, "seen"),
        text={lang: path / "data" for lang, path in workshop.inputs(stage, "text").items()},
        bitext=workshop.inputs(stage, "bitext"),
        files=_files(stage),
        digests=stage.digests,
        downloads=workshop.local / "downloads",
    )


def _make_bitext(workshop: Workshop, stage: Stage, folder: Path) -> Mapping[str, Any]:
    from raxalign.corpora.text.bitext import BitextOptions, write_heldout, write_training

    corpus, params = _plugin("corpora", stage), stage.params
    inputs = CorpusInputs(
        _without_params(stage.locations), workshop.local / "downloads", stage.digests
    )
    split: Any = params["split"]
    names = ("overlap", "shortage", "max_words", "segmentation")
    options = BitextOptions(**{name: params[name] for name in names if name in params})  # type: ignore[arg-type]
    lang, pivot = str(params["lang"]), str(params["pivot"])
    sizes = (
        corpus.part_sizes(lang, pivot, inputs)
        if split == "files"
        else (split["test"], split["dev"])
    )
    if params["part"] == "heldout":
        return write_heldout(corpus, lang, pivot, inputs, sizes, options, folder)
    elsewhere = list(workshop.inputs(stage, "heldout").values())
    return write_training(
        corpus,
        lang,
        pivot,
        inputs,
        sizes,
        int(str(params["sentences"])),
        options,
        folder,
        elsewhere,
    )


def _make_text(workshop: Workshop, stage: Stage, folder: Path) -> Mapping[str, Any]:
    from raxalign.corpora.text.bitext import write_text

    bitexts = workshop.inputs(stage, "bitext")
    is_pivot = stage.params["lang"] == stage.params["pivot"]
    return write_text(
        [path / "data" for path in bitexts.values()], "tgt" if is_pivot else "src", folder
    )


def _make_pairs(workshop: Workshop, stage: Stage, folder: Path) -> Mapping[str, Any]:
    from raxalign.pairing.build import build_heldout, build_training, slice_training

    params = stage.params
    sources = {name: workshop.ensure(key) for name, key in stage.inputs.items()}
    if params["part"] == "slice":
        return slice_training(sources["run"], folder, int(str(params["sentences"])))
    aligner, metadata = _plugin("aligners", stage), {"key": stage.key}
    with tempfile.TemporaryDirectory(prefix="raxalign-") as work:
        options: dict[str, Any] = {
            **{name: params[name] for name in ("lang", "pivot", "symmetrization", "one_to_one")},
            "locations": _without_params(stage.locations),
            "threads": workshop.runtime.threads,
            "work": Path(work),
            "metadata": metadata,
        }
        training = sources["training"] / "data"
        if params["part"] == "training":
            return build_training(training, aligner, folder, **options)
        return build_heldout(
            sources["heldout"],
            training,
            aligner,
            folder,
            **options,
            keep_training=bool(params.get("keep_training")),
        )


def _make_seen(workshop: Workshop, stage: Stage, folder: Path) -> Mapping[str, Any]:
    from raxalign.corpora.readers.dictionary import read_dictionary
    from raxalign.pairing.types import build_seen

    run = workshop.ensure(stage.inputs["run"]) / "linked_types.arrow"
    pairs = [path / "data" for path in workshop.inputs(stage, "pairs").values()]
    places = _without_params(stage.locations).items()
    dictionaries = [
        read_dictionary(Path(place), swap=name.startswith("swapped/")) for name, place in places
    ]
    return build_seen([run], pairs, dictionaries, folder)


def _make_encoder(workshop: Workshop, stage: Stage, folder: Path) -> Mapping[str, Any]:
    text = {lang: path / "data" for lang, path in workshop.inputs(stage, "text").items()}
    inputs = EncoderInputs(
        text=text, locations=_without_params(stage.locations), revisions=stage.digests
    )
    notes: Mapping[str, Any] = _plugin("encoders", stage).build(
        inputs, workshop.runtime_for(stage), folder
    )
    return notes


def _make_aligned(workshop: Workshop, stage: Stage, folder: Path) -> Mapping[str, Any]:
    encoder = workshop.encoder(stage.inputs["encoder"])
    inputs = MethodInputs(
        languages=_languages(stage),
        pivot=str(stage.params["pivot"]),
        pairs={lang: path / "data" for lang, path in workshop.inputs(stage, "pairs").items()},
        bitext={lang: path / "data" for lang, path in workshop.inputs(stage, "bitext").items()},
        text={lang: path / "data" for lang, path in workshop.inputs(stage, "text").items()},
        files=_files(stage),
        dev={lang: path / "dev" for lang, path in workshop.inputs(stage, "dev").items()},
    )
    aligned = _plugin("methods", stage).align(encoder, inputs, workshop.runtime_for(stage))
    if workshop.runtime.rank == 0:
        aligned.save(folder)
    return dict(aligned.notes)


def _make_tuned(workshop: Workshop, stage: Stage, folder: Path) -> Mapping[str, Any]:
    notes: Mapping[str, Any] = _plugin("tasks", stage).train(
        _untrained(workshop, stage),
        _languages(stage),
        _task_inputs(workshop, stage),
        workshop.runtime_for(stage),
        folder,
    )
    return notes


def _untrained(workshop: Workshop, stage: Stage) -> AlignedEncoder:
    """What a task's training starts from: an aligned encoder, or the one before it, frozen up to
    its inside transforms.
    """
    from raxalign.encoders.models.aligned import AlignedEncoder

    if "encoder" not in stage.inputs:
        return workshop.aligned(stage.inputs["aligned"])
    encoder = workshop.encoder(stage.inputs["encoder"])
    return AlignedEncoder(
        encoder, frozen=max(parse_layers(str(stage.params.get("frozen", "0")), encoder.n_layers))
    )


_MAKERS: Mapping[str, Callable[[Workshop, Stage, Path], Mapping[str, Any]]] = {
    "bitext": _make_bitext,
    "text": _make_text,
    "pairs": _make_pairs,
    "seen": _make_seen,
    "encoder": _make_encoder,
    "aligned": _make_aligned,
    "tuned": _make_tuned,
}
