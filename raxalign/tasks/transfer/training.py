"""The training of a transfer task: its objective, what it leaves in its folder, and the evaluation
of that in every language or pair of languages.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from raxalign.encoders.base import Encoder
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.errors import DataError, RaxalignError
from raxalign.lazy import pa
from raxalign.tasks.base import Outcome, Score, means
from raxalign.tasks.transfer.head import Batches, FineTuned, Head, HeldOut
from raxalign.train.loop import Fitted, KeepBest, fit
from raxalign.train.objective import HostSided, Objective, Step
from raxalign.train.options import TrainSettings

if TYPE_CHECKING:
    from raxalign.train.runtime import Runtime, Watch

_RECORD, _FINGERPRINTS = "training.json", "trained_on.safetensors"
ALL = "*"
"""Stands for every language where one choice is made for all."""


@dataclass(frozen=True)
class TrainedModel:
    """One model of a training: the language that the pivot's transforms lead to (None: they lead
    nowhere), its weights by epoch, counted from 1, or by the number of steps, the one language that
    it was trained on and answers for (None: all), and which weights each language takes, where the
    training chose them.
    """

    toward: str | None
    files: Mapping[int, Path]
    lang: str | None = None
    chosen: Mapping[str, int] | None = None

    @classmethod
    def of(cls, folder: Path, record: Mapping[str, Any]) -> TrainedModel:
        """Return a model by its record."""
        files = {int(point): folder / name for point, name in record["files"].items()}
        return cls(record["toward"], files, record.get("lang"), record.get("chosen"))

    @property
    def name(self) -> str:
        """Its name in notes."""
        return "-".join(part for part in (self.lang, self.toward) if part) or "all"

    def choice(self, lang: str) -> int:
        """Return the weights that a language takes, where the training chose them. Raises
        `DataError` where no choice was made for it.
        """
        known = self.chosen or {}
        if lang not in known and ALL not in known:
            told = f"no weights were chosen for {lang}: the training run did not read its dev set"
            raise DataError("trained model", told)
        return int(known[lang] if lang in known else known[ALL])


@dataclass(frozen=True)
class Trained:
    """What a training left in its folder: its models, the fingerprints of the rows that it has
    seen, and the labels that its heads tell apart, in their order.
    """

    models: Sequence[TrainedModel]
    fingerprints: np.ndarray
    labels: tuple[str, ...] = ()

    @classmethod
    def read(cls, folder: Path) -> Trained:
        """Read the record of a folder. Raises `DataError` where it has none."""
        try:
            record = json.loads((folder / _RECORD).read_text(encoding="utf-8"))
            models = [TrainedModel.of(folder, entry) for entry in record["models"]]
            labels = tuple(str(label) for label in record.get("labels", ()))
            return cls(models, load_file(folder / _FINGERPRINTS)["rows"].numpy(), labels)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            told = f"is not the record of a training run ({error})"
            raise DataError(folder / _RECORD, told) from error

    @staticmethod
    def write(
        folder: Path,
        models: Sequence[Mapping[str, object]],
        fingerprints: np.ndarray,
        labels: Sequence[str],
    ) -> None:
        """Write the records of models, and what else `read` returns."""
        save_file({"rows": torch.from_numpy(np.sort(fingerprints))}, folder / _FINGERPRINTS)
        record = {"models": models, "labels": list(labels)}
        (folder / _RECORD).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")

    def encoder(self, start: Encoder) -> Encoder:
        """Return `start` with the weights of one model and epoch, but its head."""
        (model,) = self.models
        (file,) = model.files.values()
        assert isinstance(start, TransformerEncoder)
        parameters = dict(start.model.named_parameters(prefix="model"))
        with torch.no_grad():
            for name, tensor in load_file(file).items():
                if name.startswith("model."):
                    parameters[name].copy_(tensor)
        return start

    @staticmethod
    def make(
        head: Head,
        aligned: AlignedEncoder,
        languages: Sequence[str],
        runtime: Runtime,
        folder: Path,
        companion: Companion | None = None,
    ) -> Mapping[str, object]:
        """Train on the rows of the pivot, or of all languages, write the weights and the record of
        the training into `folder`, and return notes. `languages` are those that are trained on, or
        whose development sets choose the weights. Every worker calls it, the first one writes.
        `companion` trains something else with it (`Training.alone` says which tasks do not permit
        that). Raises `DataError` where what is evaluated is trained on.
        """
        pivot = head.pivot
        trained = [lang for lang in languages if head.task.trains_on(lang, pivot)]
        given = {lang: head.data.training(lang) for lang in trained}
        fingerprints = np.sort(np.concatenate([rows.fingerprints() for rows in given.values()]))
        sets = {held.place: held for held in head.data.held_out(trained, fingerprints)}
        given = {lang: head.check(rows, trained=True) for lang, rows in given.items()}
        head.labels = head.labels_of(list(given.values()))
        asked = runtime.watch.languages if runtime.watch else ()
        watched = {lang: sets.get(f"{lang}/dev") or head.data.dev_set(lang) for lang in asked}
        sets |= {held.place: held for held in watched.values()}
        records, counts = list[dict[str, object]](), list[Mapping[str, int]]()
        groups = [(lang, {lang: rows}) for lang, rows in given.items()]
        for own, read in groups if head.task.each else [(None, given)]:
            lang, name = own or pivot, "-".join(part for part in (head.task.name, own) if part)
            scored = head.data.choosing(languages) if head.point == "step" else (lang,)
            dev = _dev_sets(head, sets, scored)
            group = _Group(head, lang, read, dev, watched, companion)
            made = list(group.train(aligned, runtime, folder, name))
            records += [record if own is None else {**record, "lang": own} for record, _ in made]
            counts.append(made[-1][1])
        if runtime.rank == 0:
            Trained.write(folder, records, fingerprints, head.labels)
        notes = {**head.notes_of_training(given, counts), "models": records}
        return notes | {f"{lang}/train": rows.note for lang, rows in given.items() if rows.note}

    def evaluate(self, head: Head, aligned: AlignedEncoder, languages: Sequence[str]) -> Outcome:
        """Score all languages, the pivot first, on all splits that are given, by the weights that
        the training left; return the scores, their means over languages, and one prediction per
        row. Languages that no method has aligned choose no weights but their own. Raises
        `DataError` where a file cannot be read, or was trained on.
        """
        head.labels = self.labels
        held_out = head.evaluated(languages, self.fingerprints)
        found = _Found()
        for model, spoken in _languages_of(self.models, languages, head.pivot, head.inputs.unseen):
            scorer = _Scorer(head, aligned, model)
            found.add(scorer, [held for held in held_out if held.owner(head.pivot) in spoken])
        labels = list(dict.fromkeys(held.label for held in held_out))
        notes = head.notes(held_out, found.chosen)
        notes |= HeldOut.noted(held_out, lambda held: held.note)
        if head.options.selection == "target-dev":
            which = "epoch was" if head.point == "epoch" else "weights were"
            what = f"the {which} chosen on each language's own development set"
            notes["warning"] = f"{what}: this is not a zero-shot result"
        places = [f"{label}/{split}" for label in labels for split in head.data.names()]
        missing = [place for place in places if place not in {held.place for held in held_out}]
        notes |= {"missing_splits": missing} if missing else {}
        # a pivot that moves for each language has a value per model
        scores = [Score(*name, float(np.mean(values))) for name, values in found.values.items()]
        return Outcome(
            scores + _means(scores, held_out, head), pa.concat_tables(found.tables), notes
        )


def _dev_sets(head: Head, sets: dict[str, HeldOut], languages: Sequence[str]) -> dict[str, HeldOut]:
    """The development sets of languages, read where they choose and are not in `sets` yet."""
    for lang in languages if head.options.selection != "last" else ():
        if f"{lang}/dev" not in sets:
            sets[f"{lang}/dev"] = head.data.dev_set(lang)
    return {lang: sets[f"{lang}/dev"] for lang in languages if f"{lang}/dev" in sets}


@dataclass
class _Group:
    """What is trained together: the rows of some languages. `lang` is the one that transforms of
    the pivot are for, `dev` are the sets that choose, `watched` those that `Runtime.watch` asks
    for, by language, and `companion` trains something else with it.
    """

    head: Head
    lang: str
    rows: Mapping[str, Any]
    dev: Mapping[str, HeldOut]
    watched: Mapping[str, HeldOut]
    companion: Companion | None = None

    def train(
        self, aligned: AlignedEncoder, runtime: Runtime, folder: Path, name: str
    ) -> Iterator[tuple[dict[str, object], Mapping[str, int]]]:
        """Train one model, or one per direction where the pivot's transforms differ by language.
        Yield the record of each (its direction, its files in `folder`, its development scores), and
        what its batches count.
        """
        head, towards = self.head, {t.toward for t in aligned.transforms if t.lang == self.lang}
        directions: list[str | None] = [*sorted(lang for lang in towards if lang is not None)]
        if len(directions) > 1:  # a score is the mean over the models, which no training knows
            runtime = replace(runtime, watch=None)
        for toward in directions or [None]:
            view, label, dev = aligned, name, self.dev
            if toward is not None:
                view, label = aligned.toward(toward), f"{name}-{toward}"
                dev = {lang: held for lang, held in dev.items() if lang in (toward, head.pivot)}
            with _lasting_folder(runtime, label) as keep:
                model = head.new_model(view, runtime.seed)
                batches = head.batches(model, self.rows)
                tuning = Tuning(
                    model, batches, DevSets(head, model, dev, self.watched), self.companion
                )
                fit_task = fit_steps if head.point == "step" else fit_epochs
                run = TrainingRun(runtime, label, keep)
                files, more = fit_task(tuning, head.options.settings(), run)
                names = {point: f"{label}.{point}.safetensors" for point in files}
                for point, file in files.items():
                    shutil.copyfile(file, folder / names[point])
            yield {"toward": toward, "files": names, **more}, batches.counted


@dataclass(frozen=True)
class TrainingRun:
    """One training at work: its runtime, its name, and a folder that outlives the process."""

    runtime: Runtime
    name: str
    keep: Path

    def file(self, number: int, point: str = "epoch") -> Path:
        """Return the file for the weights after an epoch, or after a number of steps."""
        return self.keep / f"{point}-{number}.safetensors"


Weights = tuple[Mapping[int, Path], Mapping[str, object]]
"""The kept weights by epoch or step, and what the record of the model says of the choice."""


@contextmanager
def _lasting_folder(runtime: Runtime, name: str) -> Iterator[Path]:
    """Yield a folder next to the checkpoints, which is removed when the training is over; a
    temporary folder where there are no checkpoints.
    """
    if runtime.checkpoints is None:
        with tempfile.TemporaryDirectory(prefix="raxalign-") as temporary:
            yield Path(temporary)
        return
    folder = runtime.checkpoints / f"{name}-epochs"
    folder.mkdir(parents=True, exist_ok=True)
    yield folder
    if runtime.rank == 0:
        runtime.owned()  # else it is another process's
        shutil.rmtree(folder)


class DevSets:
    """The development sets that a training scores: those that choose its weights, and those that
    are watched, by language. They are divided into pieces once.
    """

    def __init__(
        self,
        head: Head,
        model: Any,
        choosing: Mapping[str, HeldOut],
        watched: Mapping[str, HeldOut],
    ) -> None:
        self.head, self.model, self.choosing, self.watched = head, model, choosing, watched
        sets = {held.place: held for held in [*choosing.values(), *watched.values()]}
        self.inputs = {place: head.inputs_of(model, held) for place, held in sets.items()}

    def scores(self) -> dict[str, float]:
        """Return the score by which the weights are chosen, by language."""
        return {
            lang: self.head.choosing_score(held, self._predicted(held))
            for lang, held in self.choosing.items()
        }

    def values(self, metric: str) -> dict[str, float]:
        """Return a metric of the sets that are watched."""
        return {
            lang: self.head.measure(held, self._predicted(held))[metric]
            for lang, held in self.watched.items()
        }

    def _predicted(self, held: HeldOut) -> Any:
        return self.head.predict(self.model, self.inputs[held.place])


class Tuning(HostSided[int, tuple[Any, Any, int]]):
    """The model's summed loss over the units (examples, words, sentences or windows) of the global
    batch, divided by their number.
    """

    def __init__(
        self,
        model: Any,
        batches: Batches,
        dev: DevSets | None = None,
        companion: Companion | None = None,
    ) -> None:
        self.model, self.batches, self.dev, self.companion = model, batches, dev, companion
        self.module: nn.Module = model
        self.steps, self.replays = 0, model.replays

    def blocks(self) -> Sequence[nn.Module]:
        """Return the encoder's blocks, where they are trained."""
        return self.model.encoder.blocks() if isinstance(self.model, FineTuned) else ()

    def encoders(self) -> Sequence[Any]:
        """Return the encoder, where it is trained."""
        return (self.model.encoder,) if isinstance(self.model, FineTuned) else ()

    def host_batch(self, step: Step) -> int:
        """Return how many units the global batch has."""
        return self.batches.units(step.rows)

    def host_part(self, step: Step, batch: int, positions: np.ndarray) -> tuple[Any, Any, int]:
        """Return what the model reads of some rows, what is right, and the units of the batch."""
        return *self.batches.lay_out(step.rows[positions]), batch

    def device_loss(self, step: Step, part: tuple[Any, Any, int]) -> torch.Tensor:  # noqa: ARG002
        """Return the share of these rows in the mean over the units of the global batch."""
        rows, gold, total = part
        loss: torch.Tensor = self.model.loss(rows, gold)
        return loss / total

    def end(self, step: Step) -> None:
        """Remember how far the training is."""
        self.steps = step.number + 1

    def save_last(self, file: Path) -> None:
        """Write the last weights. What a companion has trained of the encoder is not among them,
        since it is the companion's too.
        """
        self.model.save(file, with_encoder=self.companion is None)

    def watched(self, watch: Watch) -> Mapping[str, float]:
        """Score the development sets that a watch asks for."""
        assert self.dev is not None
        return self.dev.values(watch.metric)

    def fit(
        self,
        settings: TrainSettings,
        run: TrainingRun,
        score: Callable[[int], float] | None,
        every: int | None = None,
    ) -> Fitted:
        """Train the model; `score` is called after each epoch, or `every` so many steps (None:
        nothing chooses). Raises `RaxalignError` where that changed what is frozen.
        """
        keep = None if score is None else KeepBest(score, every, watched=self.watched)
        if self.companion is not None:
            with self.companion(self, settings, run) as both:
                n_rows = self.batches.count
                return fit(both, n_rows, settings, run.runtime, name=run.name, keep=keep)
        frozen = self.model.frozen()
        fitted = fit(self, self.batches.count, settings, run.runtime, name=run.name, keep=keep)
        after = self.model.frozen()
        if not all(torch.equal(tensor, after[key]) for key, tensor in frozen.items()):
            raise RaxalignError(f"{run.name}: training changed what is frozen")
        return fitted


Companion = Callable[[Tuning, TrainSettings, TrainingRun], AbstractContextManager[Objective]]
"""What trains something else with a task: a context with the objective of both. At its end the
model is as its task alone would have left it: what it trains, by the names that it has.
"""


def fit_epochs(tuning: Tuning, settings: TrainSettings, run: TrainingRun) -> Weights:
    """Train, and keep the weights of the epoch that the pivot's development set chooses, of the
    last one, or of all of them, which a choice by other development sets needs.

    Where all epochs are kept, they are in the folder of the run, which outlives the process as
    checkpoints do: a resumed training has its earlier epochs, since each is written before the next
    checkpoint. Only the first worker keeps anything.
    """
    assert tuning.dev is not None
    dev, model = tuning.dev, tuning.model
    rule = dev.head.task.kept()

    def end_of_epoch(epoch: int) -> float:
        if rule == "every" and run.runtime.rank == 0:
            model.save(run.file(epoch))
        (score,) = dev.scores().values()
        return score

    fitted = tuning.fit(settings, run, None if rule == "last" else end_of_epoch)
    if run.runtime.rank != 0:
        return {}, {"pivot_dev": []}
    scores = [value for _, value in fitted.scores]
    epochs = range(1, settings.epochs + 1)
    if rule != "every":
        epoch = settings.epochs if rule == "last" else int(np.argmax(scores)) + 1
        tuning.save_last(run.file(epoch))
        epochs = range(epoch, epoch + 1)
    return {epoch: run.file(epoch) for epoch in epochs}, {"pivot_dev": scores}


def fit_steps(tuning: Tuning, settings: TrainSettings, run: TrainingRun) -> Weights:
    """Train, and keep the weights that development sets choose among those after every so many
    steps as the task says, or after each epoch.

    Weights that are better than all before, for any language that chooses, are written into the
    run's folder, which outlives the process as checkpoints do; so are the scores, and a resumed
    training goes on from those before its checkpoint. Only the first worker keeps anything.
    """
    assert tuning.dev is not None
    dev, options, pivot = tuning.dev, tuning.dev.head.options, tuning.dev.head.pivot
    kept_scores, last = run.keep / "scores.json", options.selection == "last"

    def score(_: int) -> float:
        scores = dev.scores()
        if run.runtime.rank == 0:
            known = json.loads(kept_scores.read_text()) if kept_scores.exists() else {}
            curves = {point: old for point, old in known.items() if int(point) < tuning.steps}
            curves[str(tuning.steps)] = scores
            best = tuning.steps in choose(options.selection, curves).values()
            if best and tuning.companion is None:  # which has other weights in the model's place
                tuning.model.save(run.file(tuning.steps, "step"))
            new = kept_scores.with_suffix(".new")  # a death in the middle must leave the old ones
            new.write_text(json.dumps(curves), encoding="utf-8")
            new.replace(kept_scores)
        return float(np.mean(list(scores.values())))

    fitted = tuning.fit(settings, run, None if last else score, dev.head.task.evaluate_every)
    if run.runtime.rank != 0:
        return {}, {}
    if last:
        curves, chosen = {}, {ALL: len(fitted.losses)}
        tuning.save_last(run.file(chosen[ALL], "step"))
    else:
        curves = json.loads(kept_scores.read_text(encoding="utf-8"))
        chosen = choose(options.selection, curves)
    pivot_dev = [scores[pivot] for scores in curves.values() if pivot in scores]
    files = {step: run.file(step, "step") for step in sorted(set(chosen.values()))}
    for file in files.values() if tuning.companion is not None else ():
        tuning.save_last(file)  # those of the one choice that a companion permits
    return files, {"pivot_dev": pivot_dev, "chosen": chosen, "dev": curves}


def choose(selection: str, curves: Mapping[Any, Mapping[str, float]]) -> dict[str, int]:
    """Choose the step whose weights each language takes (`ALL`: every one), by scores (step ->
    language -> score); the earlier of equals.

    >>> curves = {"10": {"en": 0.6, "de": 0.5}, "20": {"en": 0.7, "de": 0.3}}
    >>> choose("mean-dev", curves), choose("target-dev", curves)
    ({'*': 10}, {'en': 20, 'de': 10})
    """
    steps = sorted(curves, key=int)
    if selection == "target-dev":
        return {
            lang: int(max(steps, key=lambda step: curves[step][lang])) for lang in curves[steps[0]]
        }
    return {ALL: int(max(steps, key=lambda step: float(np.mean(list(curves[step].values())))))}


@dataclass
class _Found:
    """What all models of an evaluation found: values by label, metric and split, predictions, and
    the weights that were chosen.
    """

    values: dict[tuple[str, str, str], list[float]] = field(default_factory=dict)
    tables: list[pa.Table] = field(default_factory=list)
    chosen: dict[str, object] = field(default_factory=dict)

    def add(self, scorer: _Scorer, held_out: Sequence[HeldOut]) -> None:
        """Add what one model finds in its held-out rows."""
        unseen = scorer.head.inputs.unseen
        points, self.chosen[scorer.trained.name] = scorer.choose(held_out, unseen)
        for held in held_out:
            values = scorer.score(held, points[held.label], self.tables)
            for metric, value in values.items():
                self.values.setdefault((held.label, metric, held.split), []).append(value)


def _means(scores: Sequence[Score], held_out: Sequence[HeldOut], head: Head) -> list[Score]:
    """Form the means over languages."""
    pivot, unseen = head.pivot, {*head.inputs.unseen}
    labels = list(dict.fromkeys(held.label for held in held_out))
    trained_on = next((held.label for held in held_out if held.langs == (pivot, pivot)), pivot)
    others = {held.label for held in held_out if {*held.langs} & unseen}
    return means(scores, labels, trained_on, unseen=others)


def _languages_of(
    models: Sequence[TrainedModel], languages: Sequence[str], pivot: str, unseen: Sequence[str]
) -> list[tuple[TrainedModel, list[str]]]:
    """The languages that each model is for: all, the one that it was trained on, or that of its
    transforms and the pivot. Raises `DataError` where a language has no model, unless it is unseen
    and each model is of transforms toward another one.
    """
    pairs = []
    if all(model.toward is not None for model in models):
        languages = [lang for lang in languages if lang not in unseen]
    for model in models:
        if model.toward is None or model.toward in languages:
            own = [lang for lang in languages if model.lang in (None, lang)]
            pairs.append((model, [o for o in own if model.toward in (None, o) or o == pivot]))
    missing = set(languages) - {lang for _, spoken in pairs for lang in spoken}
    if missing:
        told = f"there is no model for {', '.join(sorted(missing))}"
        raise DataError("trained model", f"{told}: the training run was for other languages")
    return [(model, spoken) for model, spoken in pairs if spoken]


class _Scorer:
    """Predictions of one model, which is built once. Weights are read when others are asked for."""

    def __init__(self, head: Head, aligned: AlignedEncoder, trained: TrainedModel) -> None:
        self.head, self.trained, self.loaded = head, trained, -1
        self.view = aligned if trained.toward is None else aligned.toward(trained.toward)
        self.model = head.new_model(self.view, 0, training=False)
        self.inputs: dict[str, Any] = {}
        self.found: dict[tuple[str, int], Any] = {}

    def choose(
        self, held_out: Sequence[HeldOut], unseen: Sequence[str]
    ) -> tuple[Mapping[str, int], object]:
        """Choose the weights that each language or pair takes, by the training's own choice or by
        the development sets alone. Return them, and a note on the choice.
        """
        points = sorted(self.trained.files)
        labels = list(dict.fromkeys(held.label for held in held_out))
        if self.trained.chosen is not None:
            own = {label: self.trained.choice(label) for label in labels}
            return own, own
        chosen, curves = dict.fromkeys(labels, points[0]), dict[int, dict[str, float]]()
        dev = [held for held in held_out if held.split == "dev"] if len(points) > 1 else []
        dev = [held for held in dev if not {*held.langs} & {*unseen}]
        for point in points if dev else ():
            found = [self.head.measure(held, self.predictions(held, point)) for held in dev]
            main = [values[self.head.task.main_metric] for values in found]
            curves[point] = dict(zip((held.label for held in dev), main, strict=True))
        if dev:
            by_label = choose(self.head.options.selection, curves)
            chosen = {label: by_label.get(label, next(iter(by_label.values()))) for label in labels}
        by_epoch = {held.label: [curves[point][held.label] for point in points] for held in dev}
        return chosen, {"epochs": chosen, "dev_by_epoch": by_epoch}

    def predictions(self, held: HeldOut, point: int) -> Any:
        """Return the predictions on held-out rows, and remember them."""
        key = (held.place, point)
        if key not in self.found:
            if self.loaded != point:
                self._load(point)
            inputs = self.inputs.get(held.place) or self.head.inputs_of(self.model, held)
            if held.split == "dev" and len(self.trained.files) > 1:  # the others are read once
                self.inputs[held.place] = inputs
            self.found[key] = self.head.predict(self.model, inputs)
        return self.found[key]

    def _load(self, point: int) -> None:
        """Take weights, by which methods that share the training run read the same rows."""
        file, start, self.loaded = self.trained.files[point], self.view.encoder, point
        self.model.load(file)
        if isinstance(self.model, FineTuned) and isinstance(start, TransformerEncoder):
            model = self.model.model
            self.model.encoder.kept = start.kept and start.kept.of_trained(file, model)

    def score(self, held: HeldOut, point: int, tables: list[pa.Table]) -> Mapping[str, float]:
        """Return the values of held-out rows by metric, and add one prediction per row."""
        predicted = self.predictions(held, point)
        tables.append(self._table(held, point, predicted))
        return self.head.measure(held, predicted)

    def _table(self, held: HeldOut, point: int, predicted: Any) -> pa.Table:
        """One prediction per row."""
        n = len(held.rows)
        common = {
            "lang": pa.array([held.label] * n, pa.string()),
            "split": pa.array([held.split] * n, pa.string()),
            "toward": pa.array([self.trained.toward] * n, pa.string()),
            self.head.point: pa.array([point] * n, pa.int64()),
        }
        return pa.table({**common, **self.head.columns(held, predicted)})
