"""The stages that trials share: bitext, word pairs, seen word types, text and encoders."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from raxalign.catalog import catalog
from raxalign.errors import RaxalignError
from raxalign.plan.expansion.encoders import aligner_encoder, params_in_key, pieces_encoder
from raxalign.plan.expansion.precision import compiles, precision_of
from raxalign.plan.stage import Stage

if TYPE_CHECKING:
    from raxalign.config.grid import CorpusSpec, EncoderSpec, Grid
    from raxalign.plan.expansion.identity import Identity

BITEXT_VERSION = 3
PAIRS_VERSION = 2
TEXT_VERSION = 2
SEEN_VERSION = 1
EVERYTHING = 1_000_000_000  # sentences: more than any corpus has

SEEN_DICTIONARY, SEEN_SWAPPED = "dictionary", "swapped"
"""What the name of a dictionary of a `seen` stage begins with, by the order of its sides."""


@dataclass
class SharedStages:
    """Makes the shared stages of a grid, each once. `stages` holds those made so far, each after
    its inputs.
    """

    grid: Grid
    identity: Identity
    stages: dict[str, Stage] = field(default_factory=dict)
    _memo: dict[tuple[Any, ...], Stage] = field(default_factory=dict)

    def add(self, stage: Stage) -> Stage:
        """Keep a stage, once per key, and return the one that is kept."""
        return self.stages.setdefault(stage.key, stage)

    def heldout_bitext(self, lang: str) -> Stage:
        """Add the dev and test sides of a language."""
        return self._once(
            ("heldout", lang), lambda: self._bitext(lang, {"part": "heldout", **self._split()})
        )

    def training_bitext(self, lang: str, sentences: int) -> Stage:
        """Add the last `sentences` clean pairs before dev, or the first ones of the corpus."""
        cleaning: dict[str, Any] = {
            **self._lengths(),
            "overlap": self.grid.overlap,
            "shortage": self.grid.shortage,
        }
        if self.grid.training_from != "end":  # an option that came later: keys are without it
            cleaning["training_from"] = self.grid.training_from
        if self.grid.pieces is not None:
            cleaning["pieces"] = self.grid.pieces.identity()
        part: dict[str, Any] = {
            "part": "training",
            "sentences": sentences,
            **cleaning,
            **self._split(),
        }
        return self._once(
            ("training", lang, sentences),
            lambda: self._bitext(
                lang,
                part,
                inputs={**self._heldout_elsewhere(lang), **self._reads(pieces_encoder(self.grid))},
            ),
        )

    def _heldout_elsewhere(self, lang: str) -> dict[str, str]:
        """Return the held-out sides of the other languages of one model: it must not train on their
        pivot sides in the text of this language.
        """
        if not self.grid.together or self.grid.overlap == "keep":
            return {}
        return {
            f"heldout/{other}": self.heldout_bitext(other).key
            for other in self.grid.languages
            if other != lang
        }

    def whole_bitext(self, lang: str, spec: CorpusSpec) -> Stage:
        """Add all of another corpus, for the text in it: nothing is held out."""
        cleaning: dict[str, Any] = {
            **self._lengths(),
            "overlap": "keep",
            "shortage": "use-all",
        }
        part: dict[str, Any] = {
            "part": "training",
            "sentences": EVERYTHING,
            "split": {"test": 0, "dev": 0},
            **cleaning,
        }
        return self._once(("whole", lang), lambda: self._bitext(lang, part, spec))

    def _lengths(self) -> dict[str, Any]:
        """Return how long a side of a training pair may be."""
        lengths = {"max_words": self.grid.max_words}
        if self.grid.max_basic_tokens is not None:
            lengths["max_basic_tokens"] = self.grid.max_basic_tokens
        return lengths

    def _split(self) -> dict[str, Any]:
        split = self.grid.split
        return {"split": "files" if split.files else {"test": split.test, "dev": split.dev}}

    def _once(self, name: tuple[Any, ...], make: Callable[[], Stage]) -> Stage:
        if name not in self._memo:
            self._memo[name] = self.add(make())
        return self._memo[name]

    def _bitext(
        self,
        lang: str,
        part: Mapping[str, Any],
        spec: CorpusSpec | None = None,
        inputs: Mapping[str, str] | None = None,
    ) -> Stage:
        grid, spec = self.grid, spec or self.grid.corpus_for(lang)
        corpus = catalog("corpora")[spec.kind](spec.params)
        digests, locations = self.identity.of(corpus.sources(lang, grid.pivot))
        pair: dict[str, Any] = {
            "lang": lang,
            "pivot": grid.pivot,
            "segmentation": grid.segmentation,
        }
        return Stage(
            kind="bitext",
            maker=spec.kind,
            version=BITEXT_VERSION + corpus.VERSION - 1,
            params={"corpus": spec.params.identity(), **pair, **part},
            inputs=inputs or {},
            digests=digests,
            locations=locations,
            options=spec.params.model_dump_json(by_alias=True),
        )

    def heldout_pairs(self, lang: str, sentences: int) -> Stage:
        """Add the word pairs of dev and test: one run of the word aligner over test, dev and
        `sentences` training pairs.
        """
        return self._once(
            ("heldout pairs", lang, sentences),
            lambda: self._pairs(
                lang,
                {"part": "heldout"},
                {
                    "heldout": self.heldout_bitext(lang).key,
                    "training": self.training_bitext(lang, sentences).key,
                },
            ),
        )

    def dev(self, lang: str, sentences: int, *, links: bool) -> Stage:
        """Return what holds the dev part that a method selects by: word pairs, from the word
        aligner's run with the method's own training set (or its one run: ``align_on: largest``), or
        sentences.

        Raises `RaxalignError` where the grid has no dev part.
        """
        if not self.grid.split.files and self.grid.split.dev < 1:
            raise RaxalignError(
                f"{self.grid.path}: `selection: dev` needs a dev part, and `split.dev` is"
                f" {self.grid.split.dev}; raise it, or leave `selection` out"
            )
        if not links:
            return self.heldout_bitext(lang)
        largest = self.grid.pairs.align_on == "largest"
        return self.heldout_pairs(lang, max(self.grid.sentences) if largest else sentences)

    def training_pairs(self, lang: str, sentences: int) -> Stage:
        """Add the word pairs of a training set, from a run over its own sentences. With ``align_on:
        largest`` they are cut out of the run over the largest training set.
        """

        def make() -> Stage:
            bitext = self.training_bitext(lang, sentences)
            if self.grid.pairs.align_on == "largest":
                run = self.heldout_pairs(lang, max(self.grid.sentences))
                return self._pairs(
                    lang, {"part": "slice", "sentences": sentences}, {"run": run.key}
                )
            return self._pairs(lang, {"part": "training"}, {"training": bitext.key})

        return self._once(("training pairs", lang, sentences), make)

    def _pairs(self, lang: str, part: Mapping[str, Any], inputs: Mapping[str, str]) -> Stage:
        spec = self.grid.pairs
        aligner = catalog("aligners")[spec.kind](spec.params)
        digests, locations = self.identity.of(aligner.sources(lang, self.grid.pivot))
        params = {
            "aligner": spec.params.identity(),
            "lang": lang,
            "pivot": self.grid.pivot,
            "symmetrization": spec.symmetrization,
            "one_to_one": spec.one_to_one,
            **(
                {"keep_training": True}
                if spec.align_on == "largest" and part["part"] == "heldout"
                else {}
            ),
            **part,
        }
        return Stage(
            "pairs",
            spec.kind,
            PAIRS_VERSION + aligner.VERSION - 1,
            params,
            inputs if "run" in inputs else {**inputs, **self._reads(aligner_encoder(spec))},
            digests,
            locations,
            options=spec.params.model_dump_json(by_alias=True),
        )

    def _reads(self, spec: EncoderSpec | None) -> dict[str, str]:
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
        grid's training sets, and in its dictionaries.

        Args:
            lang: The language.
            unseen_in: The number of training sentences of the run. Where it is given, the grid's
                training sets do not count (`expand` refuses larger ones).
            dictionaries: The digests of the dictionaries, by names that begin with
                `SEEN_DICTIONARY` or `SEEN_SWAPPED`.
            places: Their paths, by the same names.
        """
        grid = self.grid

        def make() -> Stage:
            run = self.heldout_pairs(lang, unseen_in or max(grid.sentences))
            inputs = {"run": run.key}
            if unseen_in is None:
                inputs |= {
                    f"pairs/{n}": self.training_pairs(lang, n).key for n in sorted(grid.sentences)
                }
            return Stage(
                "seen",
                "types",
                SEEN_VERSION,
                {"lang": lang, "pivot": grid.pivot},
                inputs,
                dictionaries,
                places,
            )

        return self._once(("seen", lang, unseen_in), make)

    def text(self, lang: str, sentences: int) -> Stage:
        """Add the monolingual text of a language: its training side, or its side of another corpus.
        The pivot's is joined over all languages.
        """
        grid, spec = self.grid, self.grid.text.corpus

        def make() -> Stage:
            others = grid.languages if lang == grid.pivot else (lang,)
            stages = {
                other: (
                    self.whole_bitext(other, spec)
                    if spec
                    else self.training_bitext(other, sentences)
                )
                for other in others
            }
            inputs = {f"bitext/{other}": stage.key for other, stage in stages.items()}
            return Stage(
                "text", grid.text.source, TEXT_VERSION, {"lang": lang, "pivot": grid.pivot}, inputs
            )

        return self._once(("text", lang, None if spec else sentences), make)

    def encoder(self, spec: EncoderSpec) -> Stage:
        """Add an encoder: built from text as a stage, or loaded from its own folder."""

        def make() -> Stage:
            kind = catalog("encoders")[spec.kind](spec.params)
            digests, locations = self.identity.of(kind.sources())
            every = (*self.grid.languages, self.grid.pivot) if kind.needs_text else ()
            inputs = {
                f"text/{lang}": self.text(lang, max(self.grid.sentences)).key for lang in every
            }
            return Stage(
                "encoder",
                spec.kind,
                kind.VERSION,
                params_in_key(spec.params, digests),
                inputs,
                digests,
                locations,
                inline=not kind.needs_text,
                options=spec.params.model_dump_json(by_alias=True),
                precision=precision_of(self.grid, kind.family) if kind.needs_text else "fp32",
                compiled=kind.needs_text and compiles(self.grid, kind.family),
                shares=1 if kind.needs_text else 0,
            )

        return self._once(("encoder", spec.label), make)
