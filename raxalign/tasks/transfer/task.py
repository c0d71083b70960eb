"""What the tasks have in common that are trained in one language, or on translations too."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from raxalign.corpora.readers.codes import hub_code, lacking, own_code
from raxalign.languages import spelled
from raxalign.options.sources import LocalFile, Source, differs_by_language, expand_path
from raxalign.tasks.base import Outcome, Reads, Refit, Task, TaskInputs, Training, Unseen
from raxalign.tasks.transfer.params import (
    DataFiles,
    HubSet,
    LanguageNames,
    Selection,
    TransferParams,
)

if TYPE_CHECKING:
    from raxalign.corpora.readers.inspection import FileRead
    from raxalign.encoders.base import Encoder
    from raxalign.encoders.models.aligned import AlignedEncoder
    from raxalign.encoders.models.vectors import Pooling
    from raxalign.tasks.transfer.head import Head
    from raxalign.tasks.transfer.rows import TaskRows
    from raxalign.train.runtime import Runtime


class TransferTask(Task):
    """Task that is trained on the pivot, or on translations too, and evaluated everywhere."""

    language_names: ClassVar[LanguageNames] = {}
    """The data set's own names of languages, by code (``{"sw": "swa"}``), in paths, configurations
    and columns; others go by their codes.
    """
    configurations: ClassVar[LanguageNames] = {}
    """The configurations of the data set on the hub by language, where they are not its names of
    languages.
    """
    listed: str = ""
    """The data set of the hub that the task reads, where its languages are known."""
    row_options: ClassVar[tuple[str, ...]] = ("data", "codes", "phrasebook", "max_train")
    """The options that decide which training rows there are; none where the rows are not divided
    into pieces ahead.
    """
    one_language_files: ClassVar[bool] = True
    """Whether the format of files does not say which language a row is in."""
    not_of_training: ClassVar[frozenset[str]] = frozenset({"selection", "readout"})
    """The options that only evaluation reads; with `selection` among them the weights of every
    epoch are kept that it chooses from.
    """
    also_watched: ClassVar[tuple[str, ...]] = ()
    """The metrics besides the main one that dev selections of the training measure."""
    word_pooling: ClassVar[Pooling | None] = None
    """How the pieces of a word are joined, where words are read."""
    refit_needs: ClassVar[str] = ""
    """What `readout: refit` needs besides a selection, as messages name it."""
    params: TransferParams

    def __init__(self, params: TransferParams) -> None:
        super().__init__(params)
        self._asked = params.readout
        if params.readout is None:  # keys and records say what was done
            readout = "refit" if self.leaves_one_encoder() else "keep"
            self.params = params.model_copy(update={"readout": readout})

    @property
    def names(self) -> LanguageNames:
        """The data's own names of languages: the data set's, and those of `codes`."""
        return {**self.language_names, **self.params.codes}

    @property
    def name(self) -> str:
        """The name of the training, in curves and in the files that it leaves."""
        return type(self).__name__.lower()

    @abstractmethod
    def head(self, inputs: TaskInputs) -> Head:
        """Return what reads the task's rows, and makes and scores its models."""

    def hub_sets(self, lang: str, pivot: str) -> Mapping[str, HubSet]:  # noqa: ARG002
        """Return what is read of the hub for one language, source name -> data set: by default the
        option `dataset`, or `listed`, with the configuration of the language.
        """
        params: Any = self.params
        known = self.listed or params.dataset
        config = hub_code(known, lang, {**self.configurations, **self.names})
        return {"hub": HubSet(params.dataset or known, config, params.revision)}

    def idle(self) -> set[str]:
        """Return the options on which nothing depends as the others are."""
        return set() if self.params.data == "phrasebook" else {"phrasebook"}

    def settings(self) -> Any:
        """Return the params with every default filled in."""
        return self.params

    def canonical(self) -> dict[str, Any]:
        """Return the options without idle ones."""
        idle = self.idle()
        return {name: value for name, value in self.params.identity().items() if name not in idle}

    def training(self) -> Training:
        """Return the training on the pivot's rows, or on translations too."""
        options, gone = self.canonical(), self.not_of_training
        rows = {name: options[name] for name in self.row_options if name in options}
        own: dict[str, object] = {n: v for n, v in options.items() if n not in gone}
        if "selection" in gone:
            own["kept"] = self.kept()
        crosses = getattr(self.params, "setting", "") == "g-xlt"
        if crosses:  # it reads what `zero-shot` reads
            own["setting"] = "zero-shot"
        unwatched = self.selection() == "last" or self.each or crosses
        return Training(
            own,
            translations=self.translates(),
            dev_sets="selection" not in gone and self.kept() == "every",
            rows=rows or None,
            alone=self._alone(),
            watched=frozenset(() if unwatched else (self.main_metric, *self.also_watched)),
            refit=self._refit(),
            outdated=self._outdated(),
        )

    def evaluated_sets(self) -> Any:
        """Return what names the data of each split: files, or the hub's options."""
        return self.params.data

    def translates(self) -> bool:
        """Return whether translations are trained on."""
        return getattr(self.params, "setting", "") == "translate-train"

    def trains_on(self, lang: str, pivot: str) -> bool:
        """Return whether the training set of a language is read."""
        return lang == pivot or self.translates()

    def reads(self, n_layers: int) -> Reads:
        """Return the last layer, which the training changes with all below."""
        return Reads(frozenset({n_layers}), tunes=True)

    def unseen(self) -> Unseen:
        """Return what is done with languages that no method aligns: they are refused where each
        language has a model, or its development set chooses its weights.
        """
        if self.each:
            why = "`models: each` trains none for them"
            return Unseen("refused", why, "write `models: together`")
        if self.selection() == "target-dev":
            why = "`selection: target-dev` chooses weights for aligned languages alone"
            return Unseen("refused", why, "write `selection: pivot-dev`, `mean-dev` or `last`")
        return Unseen("ignored" if self.kept() != "every" else "used")

    @property
    def each(self) -> bool:
        """Whether each language has a model of its own."""
        return getattr(self.params, "models", "together") == "each"

    @property
    def mixing(self) -> str:
        """How training examples mix languages, for tasks that have an option for it."""
        return getattr(self.params, "code_switching", "none")

    def outdates(self) -> bool:
        """Return whether the training changes the encoder and reads rows of the pivot alone, so
        that readouts of other languages that were fitted before no longer fit. Translations are
        trained on through the readouts.
        """
        return not self.translates()

    def selection(self) -> Selection:
        """Return what chooses the weights that are evaluated."""
        assert self.params.selection is not None, "a task whose profile chooses says it itself"
        return self.params.selection

    def kept(self) -> str:
        """Return what the training leaves behind: `pivot-dev` and `last` know their weights when it
        ends, the other rules need those of every epoch.
        """
        rule = self.selection()
        return rule if rule in ("pivot-dev", "last") else "every"

    def leaves_one_encoder(self) -> bool:
        """Return whether readouts can be fitted again on the encoder that the training leaves."""
        return self.outdates() and self.kept() != "every"

    def _outdated(self) -> str:
        """Why readouts are kept that the training outdates."""
        if self.params.readout == "refit" or not self.outdates():
            return ""
        if self._asked == "keep":
            return "`readout: keep`"
        return f"`selection: {self.selection()}` leaves the weights of several epochs"

    def _refit(self) -> Refit | None:
        """How readouts are fitted again; None where they are kept."""
        if self.params.readout != "refit":
            return None
        keeping = type(self)(self.params.model_copy(update={"readout": "keep"}))
        return Refit(self.word_pooling, keeping, insists=self._asked == "refit")

    def trained_encoder(self, start: Encoder, folder: Path) -> Encoder:
        """Return `start` with the weights of a training that kept one model of one epoch."""
        from raxalign.tasks.transfer.training import Trained

        return Trained.read(folder).encoder(start)

    def languages(self, languages: tuple[str, ...], pivot: str) -> tuple[str, ...]:
        """Return the pivot first, then all."""
        return (pivot, *(lang for lang in languages if lang != pivot))

    def sources(self, lang: str, pivot: str) -> Mapping[str, Source]:
        """Return files of a language (training data where it is read), or the hub's sets."""
        data = self.params.data
        if data == "phrasebook":
            return {}
        if data == "hub":
            sets = self.hub_sets(lang, pivot).items()
            return {n: s for name, found in sets for n, s in found.sources(name).items()}
        paths = {
            "train": data.train if self.trains_on(lang, pivot) else None,
            "dev": data.dev,
            "test": data.test,
        }
        return {
            split: LocalFile(self.file(path, lang, pivot)) for split, path in paths.items() if path
        }

    def file(self, template: str, lang: str, pivot: str) -> Path:
        """Return the file of one language: {lang} and {pivot} become the data set's names."""
        lang, pivot = (own_code(code, self.names) for code in (lang, pivot))
        return expand_path(template, lang=lang, pivot=pivot)

    def write_rows(
        self, lang: str, inputs: TaskInputs, tokenizer: Any, threads: int, folder: Path
    ) -> Mapping[str, object]:
        """Write the training rows of a language for `TaskInputs.rows`; return what they count."""
        rows: TaskRows[Any] = self.head(inputs).data.rows("train", lang)
        return rows.write(lang, tokenizer, threads, folder)

    def read_files(self, languages: tuple[str, ...], pivot: str) -> Iterator[FileRead]:
        """Read all splits; evaluated rows that are trained on are a fault."""
        if isinstance(self.params.data, DataFiles):
            spoken = self.languages(languages, pivot)
            trained = [lang for lang in spoken if self.trains_on(lang, pivot)]
            yield from self.head(TaskInputs(pivot)).data.inspected(spoken, trained)

    def train(
        self,
        aligned: AlignedEncoder,
        languages: tuple[str, ...],
        inputs: TaskInputs,
        runtime: Runtime,
        folder: Path,
        companion: Any = None,
    ) -> Mapping[str, object]:
        """Train one model, or one per direction where the pivot's transforms differ by language;
        `companion` trains something else in the same training (`transfer.training.Companion`).
        """
        from raxalign.tasks.transfer.training import Trained

        return Trained.make(self.head(inputs), aligned, languages, runtime, folder, companion)

    def _alone(self) -> tuple[str, ...]:
        """Why the training cannot be part of a method's, and what to do: it must leave one
        encoder.
        """
        if self.each:
            return "`models: each` trains one encoder per language", "write `models: together`"
        if not self.reads(self.DEEP).tunes:
            return (
                "its training run leaves the encoder as it is",
                "choose a task that fine-tunes it",
            )
        if self.kept() == "every":
            told = f"`selection: {self.selection()}` chooses among the weights of several epochs"
            return told, "write `selection: pivot-dev` or `last`"
        return ()

    def evaluate(
        self,
        aligned: AlignedEncoder,
        languages: tuple[str, ...],
        inputs: TaskInputs,
        runtime: Runtime,  # noqa: ARG002
        trained: Path | None,
    ) -> Outcome:
        """Score every language on the splits that are given, by the weights that were chosen."""
        from raxalign.tasks.transfer.training import Trained

        assert trained is not None, "the plan makes the training first"
        return Trained.read(trained).evaluate(self.head(inputs), aligned, languages)

    def check(self, languages: tuple[str, ...], pivot: str) -> list[str]:
        """Report data that the hub or the phrasebook does not have, paths without or with {lang},
        and options that need others.
        """
        faults = self._data_faults(languages, pivot)
        if self.mixing != "none" and not self.translates():
            faults.append(
                "code_switching mixes languages that are trained on: it needs `setting:"
                " translate-train`"
            )
        if self.params.readout == "refit" and not self.leaves_one_encoder():
            faults.append(
                "readout: refit fits on the one encoder that a zero-shot training run keeps: it"
                f" needs {self.refit_needs}`selection: pivot-dev` or `last`"
            )
        sets, selection = self.evaluated_sets(), self.selection()
        if not isinstance(sets, str):
            if sets.dev is None and selection != "last":
                needed = "data.dev" if isinstance(sets, DataFiles) else "a dev set"
                faults.append(
                    f"selection: {selection} needs {needed}; without one write `selection: last`"
                )
            if sets.dev is None and sets.test is None:
                faults.append("data has neither dev nor test: there is nothing to evaluate")
        if isinstance(self.params.data, DataFiles):
            faults += self._path_faults(self.params.data)
        return faults

    def _path_faults(self, data: DataFiles) -> list[str]:
        """Files of one language where several are read, and the reverse."""
        by_language, faults = differs_by_language(data.train), list[str]()
        if by_language and not self.translates():
            setting = getattr(self.params, "setting", "zero-shot")
            faults.append(
                f"data.train holds {{lang}}: {setting} training reads the pivot alone; write"
                " {pivot}"
            )
        if not by_language and self.translates():
            faults.append(
                "data.train: translate-train reads one file per language; put {lang} in the path"
            )
        if self.one_language_files and any(
            path is not None and not differs_by_language(path) for path in (data.dev, data.test)
        ):
            faults.append(
                "data.dev and data.test: need one file per language: put {lang} in the path"
            )
        return faults

    def _data_faults(self, languages: tuple[str, ...], pivot: str) -> list[str]:
        """A data set of the hub without a name, and rows that the phrasebook does not have."""
        if self.params.data == "hub":
            if not all(found.dataset for found in self.hub_sets(pivot, pivot).values()):
                return ["data: hub needs the name of a data set (dataset)"]
            codes = {**self.configurations, **self.names}
            lacks = ", ".join(lacking(self.listed, self.languages(languages, pivot), codes))
            remedy = "name others in `languages`, or its own code in `codes`"
            return [f"data: {self.listed} has no {lacks}; {remedy}"] if lacks else []
        if self.params.data != "phrasebook":
            return []
        from raxalign.corpora.phrasebook import LANGS, held

        if not held(self.name) and "phrasebook" not in vars(type(self)):  # the class makes none
            return ["data: phrasebook has no rows for this task; name files, or a set of the hub"]
        asked = self.params.identity().get("phrasebook", {})
        missing = [
            lang for lang in self.languages(languages, pivot) if spelled(lang, LANGS) is None
        ]
        faults = [
            f"phrasebook.{part}: there are {most:,} rows for this task, not {asked[part]:,}; ask"
            " for fewer, or name files in `data`"
            for part, most in held(self.name).items()
            if asked[part] > most
        ]
        if missing:
            faults.append(
                f"data: phrasebook has no {', '.join(missing)}; it has {', '.join(LANGS)}"
            )
        return faults
