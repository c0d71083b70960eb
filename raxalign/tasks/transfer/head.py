"""What the kinds of transfer tasks (labels, tags, answers) add to the common frame, and what their
models are made of: an encoder's copy, and a head on its last layer.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

from torch import nn

from raxalign.arrays import Bools, Ints, ranges
from raxalign.corpora.readers.hub import MissingSplit
from raxalign.corpora.readers.inspection import FileRead, Remark, Report, read_through, refuse
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.rows import Packed, Rows
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.errors import RaxalignError
from raxalign.languages import spelled
from raxalign.lazy import np, torch
from raxalign.tasks.base import TaskInputs
from raxalign.tasks.transfer.params import HubSet, Split
from raxalign.tasks.transfer.rows import TaskRows
from raxalign.train.devices import on_device

_OF_ENCODER = "model."
"""How the names of an encoder's weights begin in a model of a task."""


class TaskModel(nn.Module):
    """A module of which training changes the parameters that require a gradient. `lay_out` returns
    some of the rows (None: all) as `logits` reads them, without the device.
    """

    lay_out: Any
    logits: Any
    replays: ClassVar[bool] = False
    """Whether `loss` does what `HostSided.device_loss` does that can be recorded."""

    def forward(self, rows: Any, chosen: np.ndarray | None = None) -> torch.Tensor:
        """Return the logits of some rows (None: of all)."""
        logits: torch.Tensor = self.logits(self.lay_out(rows, chosen))
        return logits

    @staticmethod
    def summed_loss(logits: torch.Tensor, labels: np.ndarray) -> torch.Tensor:
        """Return the summed cross-entropy of the labels of some rows or words."""
        gold = on_device(labels, logits.device)
        return nn.functional.cross_entropy(logits, gold, reduction="sum")

    def trained(self) -> dict[str, torch.Tensor]:
        """Copies of the trained tensors, on the CPU: what training may change."""
        own = {name: p for name, p in self.named_parameters() if p.requires_grad}
        return {name: p.detach().cpu().clone().contiguous() for name, p in own.items()}

    def frozen(self) -> dict[str, torch.Tensor]:
        """Copies of the tensors that training must leave alone."""
        others = {name: p for name, p in self.named_parameters() if not p.requires_grad}
        return {name: p.detach().cpu().clone() for name, p in others.items()}

    def save(self, file: Path, *, with_encoder: bool = True) -> None:
        """Write the trained tensors (safetensors), or only those that are not the encoder's."""
        from safetensors.torch import save_file

        tensors = self.trained()
        if not with_encoder:
            tensors = {n: tensor for n, tensor in tensors.items() if not n.startswith(_OF_ENCODER)}
        save_file(tensors, file)

    def load(self, file: Path) -> None:
        """Take the tensors that `save` wrote; the rest is that of the encoder at hand, which a file
        without an encoder was trained with.
        """
        from safetensors.torch import load_file

        tensors = load_file(file)
        parameters = {name: p for name, p in self.named_parameters() if p.requires_grad}
        if not any(name.startswith(_OF_ENCODER) for name in tensors):
            parameters = {n: p for n, p in parameters.items() if not n.startswith(_OF_ENCODER)}
        wrong = [
            name
            for name in sorted(tensors.keys() | parameters.keys())
            if getattr(tensors.get(name), "shape", 0) != getattr(parameters.get(name), "shape", 1)
        ]
        if wrong:
            told = "was trained on another encoder, or with other options"
            raise RaxalignError(f"{file}: {told}: {wrong[:3]} differ")
        with torch.no_grad():
            for name, parameter in parameters.items():
                parameter.copy_(tensors[name])


class FineTuned(TaskModel):
    """An aligned encoder's copy with a linear head on its last layer; its transforms apply to what
    the head reads.

    With an inside transform at layer l (`AlignedEncoder.inside_depth`), the embeddings and the
    blocks up to l stay as they are: what was measured on them stays true. So do the masked-LM head
    and the pooler, which nothing reads. Rows are cut to `max_length` pieces, or to the encoder's
    positions.
    """

    def __init__(
        self, aligned: AlignedEncoder, n_outputs: int, *, dropout: float, max_length: int, seed: int
    ) -> None:
        super().__init__()
        if not isinstance(aligned.encoder, TransformerEncoder):
            raise RaxalignError("only a transformer can be fine-tuned on a task")
        if aligned.encoder.base_precision != "fp32":
            raise RaxalignError(
                "run.base_precision: bf16 holds weights that are frozen in bfloat16, and this task"
                " trains them: leave it at fp32"
            )
        aligned.encoder.can_pack()  # found out before training changes the weights
        encoder = copy.copy(aligned.encoder)
        encoder.model = copy.deepcopy(aligned.encoder.model)
        encoder.max_positions = min(encoder.max_positions, max_length)
        self.encoder, self.aligned = encoder, replace(aligned, encoder=encoder)
        self.model: nn.Module = encoder.model
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(encoder.hidden_size, n_outputs)
        generator = torch.Generator().manual_seed(seed)
        nn.init.normal_(self.head.weight, std=0.02, generator=generator)
        nn.init.zeros_(self.head.bias)
        self.to(encoder.device)
        self.model.requires_grad_(False)
        base, depth = cast("nn.Module", encoder.model.base_model), aligned.inside_depth()
        for name, parameter in base.named_parameters():
            place = name.split(".")
            block = next((int(part) for part in place if part.isdigit()), depth)
            below = depth > 0 and (place[0] == "embeddings" or block < depth)
            parameter.requires_grad_(place[0] != "pooler" and not below)

    def packed(self, rows: Rows) -> Packed:
        """Return rows as the encoder reads them."""
        return lay_out(self.aligned, rows)


def shares_rows(aligned: AlignedEncoder, languages: Collection[str]) -> bool:
    """Whether several rows of these languages can go through the encoder as one: it keeps them
    apart, and no inside transform applies to them.
    """
    encoder = aligned.encoder
    return (
        isinstance(encoder, TransformerEncoder)
        and not any(transform.lang in languages for transform in aligned.active("inside"))
        and encoder.can_pack()
    )


def lay_out(aligned: AlignedEncoder, rows: Rows) -> Packed:
    """Return rows of about equal width where `shares_rows` holds, else padded ones. The device has
    no part in it.
    """
    encoder = aligned.encoder
    assert isinstance(encoder, TransformerEncoder)
    shared = shares_rows(aligned, rows.languages)
    return encoder.lay_out([rows], rows.fitting_width() if shared else 0)


@dataclass(frozen=True)
class HeldOut:
    """Rows that are evaluated, whether each was trained on (`seen`), and the languages of their
    first and second texts. `label` is what their scores have for a language: ``de``, or ``de-es``
    for German questions on Spanish contexts.
    """

    label: str
    split: Split
    rows: Any
    seen: Bools
    langs: tuple[str, str]

    @property
    def place(self) -> str:
        """Their name in notes."""
        return f"{self.label}/{self.split}"

    @property
    def note(self) -> Mapping[str, str]:
        """The note on what was left out of them; that on a pair is with each of its languages."""
        note: Mapping[str, str] = self.rows.note if self.langs[0] == self.langs[1] else {}
        return note

    @staticmethod
    def noted(held_out: Sequence[HeldOut], value_of: Callable[[HeldOut], Any]) -> dict[str, Any]:
        """Return a value of each held-out set by its name in notes, where there is one."""
        return {held.place: value for held in held_out if (value := value_of(held))}

    def owner(self, pivot: str) -> str:
        """Return the language whose model answers, where each has one: the second text's, or the
        first text's where the second one is in the pivot.
        """
        return self.langs[0] if self.langs[1] == pivot else self.langs[1]


@dataclass
class Batches:
    """Training rows as a model reads them, by units: what must be in one batch. `entries` are what
    it lays out, and `gold` what is right for each; `members` are the entries of all
    units, those of each from `offsets` on; `counted` is what the record of the training counts.
    """

    model: Any
    entries: Any
    gold: Any
    members: np.ndarray
    offsets: np.ndarray
    counted: Mapping[str, int]

    @property
    def count(self) -> int:
        """Return how many units there are."""
        return len(self.offsets) - 1

    def units(self, rows: np.ndarray) -> int:
        """Return how many summands the loss of some units has."""
        return int((self.offsets[rows + 1] - self.offsets[rows]).sum())

    def lay_out(self, rows: np.ndarray) -> tuple[Any, Any]:
        """Return some units as the model's loss reads them, and what is right, on the host."""
        chosen = self.members[ranges(self.offsets, rows)[0]]
        return self.model.lay_out(self.entries, chosen), self.gold[chosen]


class Head(ABC):
    """One task at work: its readers, its models and its scores. What all kinds share of reading is
    `Splits`.
    """

    point: ClassVar[Literal["epoch", "step"]] = "epoch"
    """What weights are numbered by; by steps where the training chooses those of each language."""
    distinct: ClassVar[bool] = True
    """Whether training rows of the phrasebook that look like rows of other splits are left out."""
    allowed: float = 0.0
    """The share of rows that may be training rows too."""
    crosses: bool = False
    """Whether rows of several languages are evaluated together."""
    model: ClassVar[Any]
    """The class of models that are fine-tuned."""
    n_outputs: ClassVar[int] = 0
    """Logits of such a model per piece that its head reads (0: one per label)."""
    rows: ClassVar[type[TaskRows[Any]]]
    """What reads and keeps the rows."""
    labels: tuple[str, ...] = ()
    """What a model tells apart, in its order, once a training knows it."""

    def __init__(self, task: Any, inputs: TaskInputs) -> None:
        self.task, self.inputs, self.pivot = task, inputs, inputs.pivot
        self.params: Any = task.params
        self.options: Any = task.params
        """The options of the training, with every default filled in."""
        self.data = Splits(self)

    # How rows are read

    @abstractmethod
    def read_local(self, split: Split, lang: str, report: Report = refuse) -> Any:
        """Read a local file, with its faults going to `report`."""

    @abstractmethod
    def read_hub(self, found: HubSet, split: Split) -> Any:
        """Read a split of a data set of the hub."""

    @abstractmethod
    def read_phrasebook(self, split: Split, lang: str, source: str) -> Any:
        """Read rows of the phrasebook, in one of its languages."""

    def check(self, rows: Any, *, trained: bool) -> Any:  # noqa: ARG002
        """Return the rows that are trained on, or that are evaluated. Raises `DataError` where
        there are none, or they cannot be scored.
        """
        return rows

    def evaluated(self, languages: Sequence[str], trained: Ints) -> list[HeldOut]:
        """Read what is evaluated, in a setting across languages every pair of languages; `trained`
        are the fingerprints of training rows.
        """
        return self.data.held_out(languages, trained)

    def compare(
        self,
        trained: Sequence[str],  # noqa: ARG002
        read: Mapping[tuple[Split, str], Any],  # noqa: ARG002
    ) -> Iterator[FileRead]:
        """Compare the files of several languages: those that are trained on, or the rows of those
        evaluated that were read.
        """
        return iter(())

    # How a model is trained

    def new_model(self, aligned: AlignedEncoder, seed: int, *, training: bool = True) -> Any:
        """Make an untrained model of `labels`; dropout is for training alone."""
        dropout, length = self.params.dropout if training else 0.0, self.params.max_length
        size = self.n_outputs or len(self.labels)
        return self.model(aligned, size, dropout=dropout, max_length=length, seed=seed)

    @abstractmethod
    def batches(self, model: Any, given: Mapping[str, Any]) -> Batches:
        """Return the training rows of some languages as the model reads them."""

    def labels_of(self, rows: Sequence[Any]) -> tuple[str, ...]:  # noqa: ARG002
        """Return the labels that a model tells apart, by the training rows of all languages."""
        return ()

    @abstractmethod
    def notes_of_training(
        self, given: Mapping[str, Any], counts: Sequence[Mapping[str, int]]
    ) -> dict[str, object]:
        """Return the notes of a training; `counts` are those of each group of languages."""

    # How predictions are scored

    @abstractmethod
    def inputs_of(self, model: Any, held: HeldOut) -> Any:
        """Return held-out rows as the model reads them."""

    @abstractmethod
    def predict(self, model: Any, inputs: Any) -> Any:
        """Return the predictions of a model for the rows of `inputs_of`."""

    @abstractmethod
    def measure(self, held: HeldOut, predicted: Any) -> dict[str, float]:
        """Return the metrics of predictions by their names."""

    def choosing_score(self, held: HeldOut, predicted: Any) -> float:
        """Return the score by which a training chooses its weights."""
        return self.measure(held, predicted)[self.task.main_metric]

    @abstractmethod
    def columns(self, held: HeldOut, predicted: Any) -> dict[str, Any]:
        """Return the columns of the table of predictions that follow those of all tasks."""

    def notes(self, held_out: Sequence[HeldOut], chosen: Mapping[str, object]) -> dict[str, object]:
        """Return the notes of an evaluation; `chosen` are the weights of each model."""
        return {
            "setting": self.params.setting,
            "selection": self.params.selection,
            "readout": self.params.readout,
            "models": chosen,
            "rows": {held.place: len(held.rows) for held in held_out},
        }


class Splits:
    """The rows of a task by split and language, read by its head."""

    def __init__(self, head: Head) -> None:
        self.head, self.task, self.params = head, head.task, head.params
        self.inputs, self.pivot = head.inputs, head.pivot

    def names(self) -> list[Split]:
        """Return the splits that are evaluated."""
        both: tuple[Split, ...] = ("dev", "test")
        sets = self.task.evaluated_sets()
        return [split for split in both if isinstance(sets, str) or getattr(sets, split)]

    def choosing(self, languages: Sequence[str]) -> Sequence[str]:
        """Return those of the languages whose development sets choose the weights."""
        rule = self.head.options.selection
        if rule == "last":
            return ()
        return (self.pivot,) if rule == "pivot-dev" and not self.task.each else languages

    def rows(self, split: Split, lang: str, report: Report = refuse) -> Any:
        """Read the rows of a split, at most `max_train` to train on. The faults of a local file
        after which it is read on go to `report`. Raises `DataError`.
        """
        found = self._read(split, lang, report)
        if split != "train":
            return self.head.check(found, trained=False)
        if self.params.data == "phrasebook" and self.head.distinct:
            found = found.without([self._read(other, lang) for other in self.names()])
        return found.first(self.params.max_train)

    def training(self, lang: str) -> Any:
        """Return the training rows of a language: the prepared ones, where there are such."""
        if lang not in self.inputs.rows:
            return self.rows("train", lang)
        named = None if isinstance(self.params.data, str) else str(self.path("train", lang))
        return self.head.rows.prepared(self.inputs.rows[lang], lang, named)

    def path(self, split: Split, lang: str) -> Path:
        """Return the local file of a split."""
        given = self.inputs.files.get(split, {}).get(lang)
        found: Path = given or self.task.file(getattr(self.params.data, split), lang, self.pivot)
        return found

    def _read(self, split: Split, lang: str, report: Report = refuse) -> Any:
        if self.params.data == "hub":
            sets = self.task.hub_sets(lang, self.pivot)
            name = split if split in sets else "hub"
            found = sets[name].at(self.inputs.digests, name, lang)
            return self.head.read_hub(found, split)
        if self.params.data == "phrasebook":
            from raxalign.corpora.phrasebook import LANGS

            source = f"phrasebook/{lang}:{split}"
            return self.head.read_phrasebook(split, spelled(lang, LANGS) or lang, source)
        return self.head.read_local(split, lang, report)

    def evaluated(self, languages: Sequence[str]) -> dict[tuple[str, Split], Any]:
        """Read what is evaluated, by language and split; a split that the hub's set lacks for a
        language is left out. Raises `MissingSplit` where a development set that chooses is
        lacking, or a language has no split.
        """
        found: dict[tuple[str, Split], Any] = {}
        splits, choosing = self.names(), self.choosing(languages)
        for lang in languages:
            for split in splits:
                try:
                    found[lang, split] = self.rows(split, lang)
                except MissingSplit:
                    none = split == splits[-1] and not any((lang, s) in found for s in splits)
                    if none or (split == "dev" and lang in choosing):
                        raise
        return found

    def held_out(self, languages: Sequence[str], trained: Ints) -> list[HeldOut]:
        """Read what is evaluated, language by language; `trained` are the fingerprints of training
        rows. Raises `DataError` where rows were trained on.
        """
        return [
            HeldOut(lang, split, rows, rows.seen_in(trained, self.head.allowed), (lang, lang))
            for (lang, split), rows in self.evaluated(languages).items()
        ]

    def dev_set(self, lang: str) -> HeldOut:
        """Read the development set of a language."""
        rows = self.rows("dev", lang)
        return HeldOut(lang, "dev", rows, np.zeros(len(rows), bool), (lang, lang))

    def inspected(self, languages: Sequence[str], trained: Sequence[str]) -> Iterator[FileRead]:
        """Read the local files of all splits before anything is trained: the training files of the
        languages that are `trained` on, then what is evaluated, against their rows.
        """
        head, known, read = self.head, dict[str, Ints](), dict[tuple[Split, str], Any]()

        def training(report: Report, lang: str) -> int:
            found = self._read("train", lang, report)
            used = found.first(self.params.max_train)
            known[lang] = used.fingerprints()
            used = head.check(used, trained=True)
            Remark.all(used.source, used.remarks, report)
            return len(found)

        def evaluated(report: Report, split: Split, lang: str) -> int:
            found = self.rows(split, lang, report)
            trained = np.concatenate([np.zeros(0, np.int64), *known.values()])
            if seen := int(found.seen_in(trained, head.allowed).sum()):
                told = (
                    f"evaluated {found.noun} that were trained on too: {seen:,} of {len(found):,}"
                )
                report(Remark(found.source, told))
            if head.crosses:
                read[split, lang] = found
            Remark.all(found.source, found.remarks, report)
            return len(found)

        found = [
            read_through(self.path("train", lang), partial(training, lang=lang)) for lang in trained
        ]
        yield from found
        if not any(file.faults for file in found):
            yield from head.compare(trained, {})
        places = [(split, lang) for split in self.names() for lang in languages]
        for split, lang in places:
            yield read_through(self.path(split, lang), partial(evaluated, split=split, lang=lang))
        yield from head.compare((), read)
