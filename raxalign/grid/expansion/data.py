"""The stages that trials share: bitext, word pairs, seen word types, text and encoders."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

from raxalign.catalog import catalog
from raxalign.encoders.models.folder import read_config
from raxalign.errors import DataError, Fault, RaxalignError
from raxalign.grid.expansion.identity import Identity
from raxalign.grid.file import Grid
from raxalign.grid.specs import Spec
from raxalign.grid.stage import Stage
from raxalign.options.params import Parts
from raxalign.options.run import RunConfig
from raxalign.tasks.base import Task

BITEXT_VERSION = 3
PAIRS_VERSION = 2
TEXT_VERSION = 2
SEEN_VERSION = 2
PIECES_VERSION = 1

LEAST_SENTENCES = 10_000
"""Sentences per language, or rows of a task, from which pieces have a stage. Fewer are divided by
each trial, in the time that a stage takes to start.
"""
_ROW_BYTES = 150
"""Bytes of a row in the file of a task: those of XNLI and PAWS-X have some more."""

_COLUMNS = {"pairs": ("src", "tgt"), "bitext": ("src", "tgt"), "text": ("words",)}


def _once(make: Callable[..., Stage]) -> Callable[..., Stage]:
    """Make a stage once for the same arguments."""

    @wraps(make)
    def kept(self: SharedStages, *args: Any) -> Stage:
        name = (make.__name__, *args)
        if name not in self.memo:
            self.memo[name] = self.add(make(self, *args))
        return self.memo[name]

    return kept


@dataclass
class SharedStages:
    """Makes the shared stages of a grid, each once, and says what is wrong with what they read."""

    SEEN_DICTIONARY: ClassVar = "dictionary"
    SEEN_SWAPPED: ClassVar = "swapped"
    """What the name of a dictionary of a `seen` stage begins with, by the order of its sides."""

    grid: Grid
    identity: Identity
    stages: dict[str, Stage] = field(default_factory=dict)  # those made, inputs first
    memo: dict[tuple[Any, ...], Stage] = field(default_factory=dict)

    def add(self, stage: Stage) -> Stage:
        """Keep a stage, once per key, and return the one that is kept."""
        return self.stages.setdefault(stage.key, stage)

    def encoder_faults(self) -> Iterator[Fault]:
        """Yield what is wrong with the encoders of the grid, each with its line and key.

        Raises `DataError` where the folder of the word aligner's encoder is missing.
        """
        for spec in self.grid.encoders:
            yield from self._as_faults("encoder", spec.plugin().check())
        counting = self.grid.encoder_of_pieces()
        if counting is not None:
            yield from self._as_faults("corpus.pieces", counting.plugin().check())
        own = self.grid.pairs.encoder()
        if own is not None:
            kind = own.plugin()
            faults = kind.check()
            if not faults:
                kind.sources()  # names a folder that is not there before its config is asked for
                faults = self.grid.pairs.aligner.plugin().check_encoder(
                    kind.depth(self.identity.locked)
                )
            yield from self._as_faults("pairs", faults)
        yield from self._held_faults()

    def _held_faults(self) -> Iterator[Fault]:
        """Yield the methods and tasks of the grid that train all weights of an encoder, where
        `run.base_precision` holds these in bfloat16.
        """
        families = {catalog("encoders")[spec.kind].family for spec in self.grid.encoders}
        if self.grid.run.base_precision == "fp32" or "transformer" not in families:
            return
        why = "holds weights that are frozen in bfloat16, and {} trains all weights of the encoder"
        told = f"run.base_precision: {self.grid.run.base_precision} {why}"
        for spec in self.grid.methods:
            kind = catalog("methods")[spec.kind]
            effects = [kind(params).effect() for params in spec.points]
            if "transformer" in kind.accepts and any(e.weights and not e.adapters for e in effects):
                line, key = self.grid.line_of("methods", spec.name), f"methods.{spec.name}"
                remedy = "set `lora` there, or leave run.base_precision at fp32"
                yield Fault(line, key, told.format(spec.name), remedy)
        for asked in self.grid.tasks:
            task = asked.plugin()
            if "transformer" in task.accepts and task.training() and task.reads(task.DEEP).tunes:
                line, key = asked.line_of(""), f"tasks.{asked.name}"
                remedy = "take it out, or leave run.base_precision at fp32"
                yield Fault(line, key, told.format(asked.name), remedy)

    def _as_faults(self, key: str, problems: Iterable[str]) -> Iterator[Fault]:
        """Yield problems as faults of one key."""
        line = self.grid.lines.get(key.partition(".")[0])
        yield from (Fault(line, key, problem) for problem in problems)

    def has_head(self, spec: Spec) -> bool:
        """Check whether an encoder has a masked-LM head; one that has to be looked up first counts
        as having it. An encoder whose folder is missing is reported elsewhere.
        """
        try:
            return spec.plugin().has_head(self.identity.locked) is not False
        except DataError:
            return True

    def corpus_faults(self, stages: Iterable[Stage]) -> Iterator[Fault]:
        """Yield the languages of which some stages read text that their corpus is known not to
        have, each where it is named.
        """
        read = {(str(s.params["lang"]), s.maker): s for s in stages if s.kind == "bitext"}
        for (lang, _), stage in read.items():
            if why := stage.plugin().lacks(lang, self.grid.pivot):
                naming = [task for task in self.grid.tasks if lang in task.unseen]
                line = (
                    naming[0].line_of("languages") if naming else self.grid.lines.get("languages")
                )
                key = f"tasks.{naming[0].name}.languages" if naming else "languages"
                remedy = (
                    "take it out, or give it a corpus of its own in `corpus: {by_language: ...}`"
                )
                yield Fault(line, key, why, remedy)

    def code_not_run(self) -> Iterator[str]:
        """Yield a remark on each encoder whose folder names code of its own."""
        for stage in self.stages.values():
            places = stage.places.values() if stage.kind == "encoder" else ()
            configs = (p for p in places if p.name in {"config.json", "tokenizer_config.json"})
            for path in [path for path in configs if "auto_map" in read_config(path)][:1]:
                told = "names code of the encoder's own, which is never run: transformers' own is"
                yield f"{path}: `auto_map` {told}"

    def folders_not_read(self) -> Iterator[str]:
        """Yield a remark on each encoder of the hub that is a folder of the working directory, too:
        who wrote its name may have meant that.
        """
        for stage in self.stages.values():
            for place in stage.locations.values() if stage.kind == "encoder" else ():
                name = place.removeprefix("hub:").partition("@")[0]
                if place != name and (folder := Path(name).absolute()).is_dir():
                    way = os.path.relpath(folder, self.grid.path.absolute().parent)
                    yield (
                        f"encoder: {name} is read from the hub, and not from the folder {folder}:"
                        f" paths are relative to the grid file, where that is {way}"
                    )

    def computed_by(self, family: str) -> RunConfig:
        """Return how what is made with encoders of a family is computed. Static vectors are read,
        not computed, so that no option changes what is made of them.
        """
        return self.grid.run if family == "transformer" else RunConfig()

    def has_dev(self, lang: str) -> bool:
        """Return whether the corpus of a language has a dev part."""
        if self.grid.corpus.split != "files":
            return self.grid.corpus.split.dev > 0
        path = getattr(self.grid.corpora[lang].params, "path", None)
        return not isinstance(path, Parts) or path.dev is not None

    @_once
    def heldout_bitext(self, lang: str) -> Stage:
        """Add the dev and test sides of a language."""
        return self._bitext(lang, self.grid.corpora[lang], {"part": "heldout", **self._split()})

    @_once
    def training_bitext(self, lang: str, sentences: int) -> Stage:
        """Add the last `sentences` clean pairs before dev, or the first ones of the corpus."""
        grid, corpus = self.grid, self.grid.corpus
        part = {
            "part": "training",
            "sentences": sentences,
            **self._lengths(),
            "overlap": corpus.overlap,
            "shortage": corpus.shortage,
            **self._split(),
        }
        if corpus.training_from != "end":  # an option that came later: keys are without it
            part["training_from"] = corpus.training_from
        if corpus.pieces is not None:
            part["pieces"] = corpus.pieces.identity()
        inputs = {}
        if corpus.overlap != "keep":
            # one model must not train on the pivot sides that are held out of another language
            several = grid.languages if grid.together or grid.sets else ()
            others = [other for other in (*several, *grid.outside) if other != lang]
            inputs = {f"heldout/{other}": self.heldout_bitext(other).key for other in others}
        inputs |= self._reads(grid.encoder_of_pieces())
        return self._bitext(lang, grid.corpora[lang], part, inputs)

    @_once
    def _whole_bitext(self, lang: str) -> Stage:
        """Add all of the corpus of `text`: nothing is held out."""
        part = {
            "part": "training",
            "sentences": Stage.EVERYTHING,
            "split": {"test": 0, "dev": 0},
            **self._lengths(),
            "overlap": "keep",
            "shortage": "use-all",
        }
        assert self.grid.text is not None
        return self._bitext(lang, self.grid.text, part)

    def _lengths(self) -> dict[str, Any]:
        """Return how long a side of a training pair may be."""
        corpus, basic = self.grid.corpus, self.grid.corpus.max_basic_tokens
        more = {} if basic is None else {"max_basic_tokens": basic}
        return {"max_words": corpus.max_words, **more}

    def _split(self) -> dict[str, Any]:
        split = self.grid.corpus.split
        return {"split": "files" if split == "files" else split.identity()}

    def _bitext(
        self,
        lang: str,
        spec: Spec,
        part: Mapping[str, Any],
        inputs: Mapping[str, str] | None = None,
    ) -> Stage:
        pivot, segmentation = self.grid.pivot, self.grid.corpus.segmentation
        corpus = spec.plugin()
        pair = {"lang": lang, "pivot": pivot, "segmentation": segmentation}
        return Stage(
            "bitext",
            spec.kind,
            BITEXT_VERSION + corpus.VERSION - 1,
            {"corpus": spec.params.identity(), **pair, **part},
            inputs or {},
            *self.identity.of(corpus.sources(lang, pivot)),
            options=spec.params.model_dump_json(by_alias=True),
        )

    def draw(self, seed: int | None) -> int | None:
        """Return the seed where each training run has links of its own, since the word aligner is
        chance; None where all runs share their links.
        """
        pairs = self.grid.pairs
        own = pairs.draws == "per-run" and pairs.aligner.plugin().STOCHASTIC
        return seed if own else None

    @_once
    def heldout_pairs(self, lang: str, sentences: int, draw: int | None = None) -> Stage:
        """Add the pairs of dev and test: one aligner run over test, dev and `sentences` more. All
        runs are tested on it; a run with a `draw` gives the training links of one of them.
        """
        inputs = {
            "heldout": self.heldout_bitext(lang).key,
            "training": self.training_bitext(lang, sentences).key,
        }
        whole = self.grid.pairs.align_on == "largest"
        return self._pairs(lang, {"keep_training": True} if whole else {}, "heldout", inputs, draw)

    def dev(self, lang: str, sentences: int, *, links: bool) -> Stage:
        """Return what holds the dev part that a method selects by: word pairs, from the word
        aligner's run with the method's own training set (or its one run: ``align_on: largest``), or
        sentences.

        Raises `RaxalignError` where the grid has no dev part.
        """
        if not self.has_dev(lang):
            raise RaxalignError(
                f"{self.grid.path}: `selection: dev` needs the dev part of the corpus, and"
                f" {lang} has none; raise `split.dev` of the corpus, or name its `dev` file, or"
                " leave `selection` out"
            )
        if not links:
            return self.heldout_bitext(lang)
        largest = self.grid.pairs.align_on == "largest"
        return self.heldout_pairs(lang, max(self.grid.sentences) if largest else sentences)

    @_once
    def training_pairs(self, lang: str, sentences: int, draw: int | None) -> Stage:
        """Add the word pairs of a training set, from a run over its own sentences. With ``align_on:
        largest`` they are cut out of the run over the largest training set. A `draw` (`draw`) is a
        run of its own.
        """
        bitext = self.training_bitext(lang, sentences)
        if self.grid.pairs.align_on != "largest":
            return self._pairs(lang, {}, "training", {"training": bitext.key}, draw)
        run = self.heldout_pairs(lang, max(self.grid.sentences), draw)
        return self._pairs(lang, {"sentences": sentences}, "slice", {"run": run.key}, draw)

    def _pairs(
        self,
        lang: str,
        more: Mapping[str, Any],
        part: str,
        inputs: Mapping[str, str],
        draw: int | None,
    ) -> Stage:
        pairs, pivot = self.grid.pairs, self.grid.pivot
        spec = pairs.aligner
        aligner = spec.plugin()
        params = {
            "aligner": spec.params.identity(),
            "lang": lang,
            "pivot": pivot,
            "symmetrization": pairs.symmetrization,
            "one_to_one": pairs.one_to_one,
            "part": part,
            **more,
            **({} if draw is None else {"seed": draw}),
        }
        return Stage(
            "pairs",
            spec.kind,
            PAIRS_VERSION + aligner.VERSION - 1,
            params,
            inputs if part == "slice" else {**inputs, **self._reads(self.grid.pairs.encoder())},
            *self.identity.of(aligner.sources(lang, pivot)),
            options=spec.params.model_dump_json(by_alias=True),
        )

    def _reads(self, spec: Spec | None) -> dict[str, str]:
        """The stage of an encoder as an input of another stage; nothing for None."""
        return {"encoder": self.encoder(spec).key} if spec is not None else {}

    def seen(
        self,
        lang: str,
        unseen_in: int | None,
        dictionaries: Mapping[str, str],
        places: Mapping[str, str],
    ) -> Stage:
        """Add the word types linked in training: in the run over test, dev and training, in the
        grid's training sets, and in its dictionaries, of which there are digests and paths by names
        that begin with `SEEN_DICTIONARY` or `SEEN_SWAPPED`. Where the number of training sentences
        of the run is given (`unseen_in`), the grid's training sets do not count. Otherwise those of
        all seeds do: all runs are tested on the same pairs.
        """
        name, sizes = ("seen", lang, unseen_in), sorted(self.grid.sentences)
        if name not in self.memo:
            inputs = {"run": self.heldout_pairs(lang, unseen_in or sizes[-1]).key}
            if unseen_in is None:
                grid, search = self.grid, self.grid.search
                fresh = grid.fresh_seeds(search.confirm) if search is not None else ()
                for n, draw in product(sizes, dict.fromkeys(map(self.draw, (*grid.seeds, *fresh)))):
                    own = "" if draw is None else f"/{draw}"
                    inputs[f"pairs/{n}{own}"] = self.training_pairs(lang, n, draw).key
            params: dict[str, Any] = {"lang": lang, "pivot": self.grid.pivot}
            made = Stage("seen", "types", SEEN_VERSION, params, inputs, dictionaries, places)
            self.memo[name] = self.add(made)
        return self.memo[name]

    @_once
    def text(self, lang: str, sentences: int, among: tuple[str, ...] = ()) -> Stage:
        """Add the monolingual text of a language: its training side, or its side of another corpus.
        The pivot's is joined over all languages, or those of a set (`among`).
        """
        grid, inputs = self.grid, {}
        for other in (among or grid.languages) if lang == grid.pivot else (lang,):
            own = self.training_bitext(other, sentences) if grid.text is None else None
            inputs[f"bitext/{other}"] = (own or self._whole_bitext(other)).key
        params: dict[str, Any] = {"lang": lang, "pivot": grid.pivot}
        return Stage(
            "text", grid.text.kind if grid.text else "parallel", TEXT_VERSION, params, inputs
        )

    def encoder(self, spec: Spec) -> Stage:
        """Add an encoder: built from text as a stage, or loaded from its own folder."""
        name = ("encoder", spec.name)
        if name not in self.memo:
            kind = spec.plugin()
            digests, locations = self.identity.of(kind.sources())
            made = kind.needs_text
            run = self.computed_by(kind.family) if made else RunConfig()
            every, largest = (*self.grid.languages, self.grid.pivot), max(self.grid.sentences)
            stage = Stage(
                "encoder",
                spec.kind,
                kind.VERSION,
                spec.params.identity(),
                {f"text/{lang}": self.text(lang, largest).key for lang in every if made},
                digests,
                locations,
                inline=not made,
                options=spec.params.model_dump_json(by_alias=True),
                precision=run.precision,
                compiled=run.compile,
                shares=1 if made else 0,
            )
            self.memo[name] = self.add(stage)
        return self.memo[name]

    def prepared_pieces(
        self, encoder: Stage, inputs: Mapping[str, str], sentences: int
    ) -> dict[str, str]:
        """Add the stages of the pieces of a method's training data, made by the tokenizer of
        `encoder`; return their keys by the names of the inputs: those called ``pairs/``,
        ``bitext/`` and ``text/`` count. None are added where there is little text.
        """
        grid, found = self.grid, {}
        for name, key in inputs.items():
            kind, _, lang = name.partition("/")
            corpus = kind == "text" and grid.text is not None
            if kind in _COLUMNS and (Stage.EVERYTHING if corpus else sentences) >= LEAST_SENTENCES:
                read = self.stages[key]
                if read.kind == "pairs" and read.params["part"] == "training":
                    key = read.inputs[
                        "training"
                    ]  # the same sentences, there before the word aligner
                langs = dict(zip(_COLUMNS[kind], (lang, grid.pivot), strict=False))
                stage = Stage(
                    "pieces",
                    "tokenizer",
                    PIECES_VERSION,
                    {"columns": langs},
                    {"encoder": encoder.key, "data": key},
                )
                found[name] = self.add(stage).key
        return found

    def prepared_rows(
        self, encoder: Stage, kind: str, task: Task, languages: Sequence[str]
    ) -> dict[str, str]:
        """Add the stages of the pieces of a task's training rows in some languages, the one that it
        starts from first, made by the tokenizer of `encoder`; return their keys as ``rows/de``.
        None are added where there are few rows, or the task cannot write them.
        """
        pivot, found, training = languages[0], dict[str, str](), task.training()
        if training is None or training.rows is None:
            return found
        for lang in languages if training.translations else (pivot,):
            sources = task.sources(lang, pivot)
            of = {name: name.partition("/")[0] for name in sources}  # of several files, too
            read = "train" if "train" in of.values() else "hub"
            outside, named = self.identity.of_languages(
                {lang: {name: source for name, source in sources.items() if of[name] == read}}
            )
            stage = Stage(
                "pieces",
                kind,
                PIECES_VERSION + task.VERSION - 1,
                {"task": dict(training.rows), "lang": lang, "pivot": pivot, **named},
                {"encoder": encoder.key},
                *outside,
                options=task.params.model_dump_json(by_alias=True),
            )
            if _row_count(stage) >= LEAST_SENTENCES:
                found[f"rows/{lang}"] = self.add(stage).key
        return found


def _row_count(stage: Stage) -> float:
    """Return about how many training rows of a task the stage of their pieces holds, by the size of
    their file; infinity where that is not known.
    """
    task: Any = stage.params["task"]
    made = task["phrasebook"]["train"] if task.get("data") == "phrasebook" else math.inf
    files = stage.places.values()
    try:
        held = sum(path.stat().st_size for path in files) / _ROW_BYTES if files else math.inf
    except OSError:  # a missing file is reported when its digest is asked for
        held = 0.0
    return float(min(made, held, task.get("max_train") or math.inf))
