"""The functions that make stages, by kind: data, encoders, aligned encoders, trainings of tasks."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raxalign.corpora.base import CorpusInputs
from raxalign.corpora.readers.dictionary import DictionaryFile
from raxalign.corpora.text.bitext import (
    BitextOptions,
    PieceFilter,
    SplitCorpus,
    write_text,
)
from raxalign.encoders.base import EncoderInputs
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.pieces import Pieces, write_pieces
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.encoders.models.vectors import parse_layers
from raxalign.grid.expansion.data import SharedStages
from raxalign.grid.stage import Stage
from raxalign.methods.base import MethodInputs
from raxalign.pairing.aligners.base import AlignerInputs
from raxalign.pairing.build import (
    LinkRecipe,
    build_seen,
    slice_training,
)
from raxalign.stages.workshop import Workshop
from raxalign.train.objective import Joint, Objective, RowOrder, Turns
from raxalign.train.options import TrainSettings

if TYPE_CHECKING:
    from raxalign.tasks.transfer.training import TrainingRun, Tuning


def _align_with_task(
    shop: Workshop, stage: Stage, encoder: Any, inputs: MethodInputs, folder: Path
) -> AlignedEncoder:
    """Train a method together with its task, whose model is written; return the aligned encoder."""
    task, companion = stage.task, JointTraining(stage.plugin(), encoder, inputs)
    assert task is not None, "the caller has asked"
    (folder / Stage.TASK).mkdir()
    notes = task.plugin().train(
        AlignedEncoder(encoder),
        task.languages,
        shop.training_inputs(stage, task),
        shop.runtime_for(stage),
        folder / Stage.TASK,
        companion=companion.trained,
    )
    return companion.aligned(notes)


class JointTraining:
    """The part of a method in the training of a task: `trained` is what `Task.train` takes as
    `companion`, and `aligned` gives the encoder afterwards.
    """

    _model: Any
    _steps: tuple[int, int]

    def __init__(self, method: Any, encoder: Any, inputs: MethodInputs) -> None:
        """Read what the method is trained on. Raises `RaxalignError` where it has nothing to
        train.
        """
        method.acts(encoder.n_layers)
        self.method, self.encoder, self.rows = method, encoder, method.rows(encoder, inputs)

    def aligned(self, notes: Mapping[str, object]) -> AlignedEncoder:
        """Return the encoder that was trained, with what both count; `notes` are the task's."""
        self.encoder.model = self._model
        counted: Mapping[str, object] = self.method.counts(self.rows)
        steps = dict(zip(("steps", "steps_of_method"), self._steps, strict=True))
        made: AlignedEncoder = self.method.aligned(
            self.encoder, {**counted, **steps, "with_task": dict(notes)}
        )
        return made

    @contextmanager
    def trained(
        self, tuning: Tuning, settings: TrainSettings, run: TrainingRun
    ) -> Iterator[Objective]:
        """Yield the objective of both, which trains what the method does, and the task's head. At
        the end the task's model has the parameters again that it had.
        """
        joint, seed = self.method.effect().with_task, run.runtime.seed
        self._model = model = tuning.model.encoder.model
        first = RowOrder(tuning.batches.count, settings, seed)
        self._steps = first.total, 0
        turns: Turns | None = None
        if joint.weight:
            own = self.method.settings(shuffle=self.method.shuffles())
            second = RowOrder(self.method.n_rows(self.rows), own, seed)
            turns = Turns(first, second, joint.schedule == "alternate")
            self._steps = turns.total, first.total
        taught = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
        model.requires_grad_(requires_grad=True)
        encoder = tuning.model.encoder.with_model(model)
        try:
            with self.method.changing(encoder, seed):
                if turns is None:
                    yield tuning
                else:
                    yield Joint(tuning, self._objective(encoder, seed), turns, joint.weight)
        finally:
            for parameter, requires_grad in taught:
                parameter.requires_grad_(requires_grad=requires_grad)

    def _objective(self, encoder: Any, seed: int) -> Objective:
        """The method's objective for as many steps as it takes here."""
        params = self.method.params.model_copy(update={"steps": self._steps[1]})
        method = type(self.method)(params)
        made: Objective = method.objective(encoder, self.rows, seed)
        return made


def _make_bitext(shop: Workshop, stage: Stage, folder: Path) -> Mapping[str, Any]:
    """Write a training set, or the dev and test sides; return its notes."""
    corpus, params = stage.plugin(), stage.params
    inputs = CorpusInputs(stage.locations, shop.downloads, stage.digests)
    split: Any = params["split"]
    names = {field.name for field in fields(BitextOptions)} - {"pieces"}
    given: Any = {name: value for name, value in params.items() if name in names}
    options = BitextOptions(**given, pieces=_piece_filter(shop, stage))
    lang, pivot = str(params["lang"]), str(params["pivot"])
    sizes = (
        corpus.part_sizes(lang, pivot, inputs)
        if split == "files"
        else (split["test"], split["dev"])
    )
    source = SplitCorpus(corpus, inputs, lang, pivot, sizes)
    if params["part"] == "heldout":
        return source.write_heldout(options, folder)
    elsewhere = list(shop.inputs(stage, "heldout").values())
    return source.write_training(int(str(params["sentences"])), options, folder, elsewhere)


def _piece_filter(shop: Workshop, stage: Stage) -> PieceFilter | None:
    """Return the limits on pieces of a training set, with the tokenizer that counts them."""
    limits: Any = stage.params.get("pieces")
    if limits is None:
        return None
    encoder = shop.encoder(stage.inputs["encoder"])
    assert isinstance(encoder, TransformerEncoder), "the plan names no other"
    tokenizer = encoder.tokenizer

    def count(words: Sequence[str], lang: str) -> int:
        ids = Pieces.read(tokenizer, [[words]], lang).ids
        return len(ids)

    return PieceFilter(count, **limits)


def _make_text(shop: Workshop, stage: Stage, folder: Path) -> Mapping[str, Any]:
    """Write the sentences of one language, each once; return the notes."""
    bitexts = shop.datasets(stage, "bitext")
    is_pivot = stage.params["lang"] == stage.params["pivot"]
    return write_text(list(bitexts.values()), "tgt" if is_pivot else "src", folder)


def _make_pairs(shop: Workshop, stage: Stage, folder: Path) -> Mapping[str, Any]:
    """Run the word aligner, or cut a training set out of its run; return the notes."""
    params = stage.params
    sources = {name: shop.ensure(key) for name, key in stage.inputs.items() if name != "encoder"}
    if params["part"] == "slice":
        return slice_training(sources["run"], folder, int(str(params["sentences"])))
    recipe, training = _recipe(shop, stage), sources["training"] / "data"
    with tempfile.TemporaryDirectory(prefix="raxalign-") as work:
        inputs = _aligner_inputs(shop, stage, Path(work))
        if params["part"] == "training":
            return recipe.build_training(training, inputs, folder)
        return recipe.build_heldout(
            sources["heldout"],
            training,
            inputs,
            folder,
            keep_training=bool(params.get("keep_training")),
        )


def _recipe(shop: Workshop, stage: Stage) -> LinkRecipe:
    """Return how the word pairs of a stage are made; the metadata names the aligner's encoder."""
    metadata: dict[str, Any] = {"key": stage.key}
    if "encoder" in stage.inputs:
        start = shop.plan.stages[stage.inputs["encoder"]]
        metadata["aligner_encoder"] = {"name": start.plugin().label(), "key": start.key}
    names = ("lang", "pivot", "symmetrization", "one_to_one")
    options: dict[str, Any] = {name: stage.params[name] for name in names}
    return LinkRecipe(stage.plugin(), metadata=metadata, **options)


def _aligner_inputs(shop: Workshop, stage: Stage, work: Path) -> AlignerInputs:
    """Return what the word aligner of a stage works with, its encoder loaded."""
    reads = stage.inputs.get("encoder")
    return AlignerInputs(
        ids=(),
        gold=None,
        locations=stage.locations,
        work=work,
        threads=shop.runtime.threads,
        encoder=shop.encoder(reads) if reads is not None else None,
        device=shop.runtime.device,
    )


def _make_pieces(shop: Workshop, stage: Stage, folder: Path) -> Mapping[str, Any]:
    """Divide a data set's sentences, or a task's rows, into an encoder's pieces; return counts."""
    encoder, threads = shop.encoder(stage.inputs["encoder"]), shop.runtime.threads
    assert isinstance(encoder, TransformerEncoder), "the plan names no other"
    if "data" not in stage.inputs:
        lang, inputs = str(stage.params["lang"]), shop.task_inputs(stage)
        counts: Mapping[str, Any] = stage.plugin().write_rows(
            lang, inputs, encoder.tokenizer, threads, folder
        )
        return counts
    data = shop.ensure(stage.inputs["data"]) / "data"
    columns: Any = stage.params["columns"]
    return write_pieces(encoder.tokenizer, data, columns, threads, folder)


def _make_seen(shop: Workshop, stage: Stage, folder: Path) -> Mapping[str, Any]:
    """Collect the word types that were linked in training; return the notes."""
    run = shop.ensure(stage.inputs["run"]) / "linked_types.arrow"
    pairs = list(shop.datasets(stage, "pairs").values())
    langs = (str(stage.params["lang"]), str(stage.params["pivot"]))
    dictionaries = [
        DictionaryFile.read(
            Path(place), langs, swap=name.startswith(f"{SharedStages.SEEN_SWAPPED}/")
        ).entries
        for name, place in stage.locations.items()
    ]
    return build_seen([run], pairs, dictionaries, folder)


def _make_encoder(shop: Workshop, stage: Stage, folder: Path) -> Mapping[str, Any]:
    """Build an encoder from text; return its notes."""
    inputs = EncoderInputs(
        text=shop.datasets(stage, "text"), locations=stage.locations, revisions=stage.digests
    )
    notes: Mapping[str, Any] = stage.plugin().build(inputs, shop.runtime_for(stage), folder)
    return notes


def _make_aligned(shop: Workshop, stage: Stage, folder: Path) -> Mapping[str, Any]:
    """Align an encoder by the method of the stage; return the method's notes."""
    encoder = shop.encoder(
        stage.inputs["encoder"], stage.precision, stage.base_precision, compiled=stage.compiled
    )
    if isinstance(encoder, TransformerEncoder):
        encoder.prepared = {
            shop.ensure(stage.inputs[name]) / "data": shop.ensure(key)
            for name, key in stage.prepared.items()
            if name in stage.inputs
        }
    fits = {
        name.removeprefix(Stage.FIT): AlignedEncoder.load(shop.ensure(key), lambda: encoder)
        for name, key in stage.prepared.items()
        if name.startswith(Stage.FIT)
    }
    inputs = MethodInputs(
        languages=tuple(lang for lang in stage.languages if lang not in fits),
        pivot=str(stage.params["pivot"]),
        pairs=shop.datasets(stage, "pairs"),
        bitext=shop.datasets(stage, "bitext"),
        text=shop.datasets(stage, "text"),
        files=stage.files,
        dev={lang: path / "dev" for lang, path in shop.inputs(stage, "dev").items()},
    )
    method = stage.plugin()
    if not method.effect().weights:
        shop.keep_states(encoder, stage.inputs["encoder"], method)
    if stage.task is not None:
        aligned = _align_with_task(shop, stage, encoder, inputs, folder)
    else:
        aligned = method.align(encoder, inputs, shop.runtime_for(stage))
    aligned = aligned.joined(fits.values(), stage.languages) if fits else aligned
    aligned.refuse_unsound(method, stage.maker, (*stage.languages, inputs.pivot))
    if shop.runtime.rank == 0:
        aligned.save(folder)
    return dict(aligned.notes)


def _make_tuned(shop: Workshop, stage: Stage, folder: Path) -> Mapping[str, Any]:
    """Run a task's own training; return its notes."""
    notes: Mapping[str, Any] = stage.plugin().train(
        _untrained(shop, stage),
        stage.languages,
        shop.training_inputs(stage, stage),
        shop.runtime_for(stage),
        folder,
    )
    return notes


def _untrained(shop: Workshop, stage: Stage) -> AlignedEncoder:
    """Return what a task's training starts from: an aligned encoder, or one before it, frozen."""
    if "encoder" not in stage.inputs:
        return shop.aligned(stage.inputs["aligned"])
    encoder = shop.encoder(
        stage.inputs["encoder"], stage.precision, stage.base_precision, compiled=stage.compiled
    )
    frozen = parse_layers(str(stage.params.get("frozen", "0")), encoder.n_layers)
    return AlignedEncoder(encoder, frozen=max(frozen))


Workshop.MAKERS.update(
    {
        "bitext": _make_bitext,
        "text": _make_text,
        "pairs": _make_pairs,
        "seen": _make_seen,
        "pieces": _make_pieces,
        "encoder": _make_encoder,
        "aligned": _make_aligned,
        "tuned": _make_tuned,
    }
)
