"""The model card of an exported encoder: how it is opened, where it comes from, and its main
results next to those of the encoder that it was made from. Its text is `templates/card.md.j2`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, get_args

from raxalign.analysis.cells import MEANS, Cell, Name
from raxalign.catalog import catalog
from raxalign.encoders.models.aligned import SentenceUse
from raxalign.encoders.models.loading import MODULES
from raxalign.languages import language, spellings
from raxalign.measured import spoken
from raxalign.options.run import BasePrecision, Precision
from raxalign.printing import masked
from raxalign.provenance import versions
from raxalign.values.comparisons import ONE_BY_ONE, Compared, comparisons
from raxalign.values.predictions import Predictions
from raxalign.values.results import rows
from raxalign.values.scoreboard import Scoreboard

if TYPE_CHECKING:
    from huggingface_hub import EvalResult

    from raxalign.encoders.models.aligned import AlignedEncoder
    from raxalign.grid.plan import Plan
    from raxalign.grid.trial import Trial
    from raxalign.store.ledger import Ledger


RAXALIGN, SENTENCES, WEIGHTS = "raxalign", "sentence-transformers", "AutoModel"
"""The ways of loading an export, as its card names them."""
_TEMPLATE = Path(__file__).with_name("templates") / "card.md.j2"
_HUB = re.compile(r"[\w.-]+(?:/[\w.-]+)?")


@dataclass(frozen=True)
class Text:
    """One corpus: its kind, its name where it has one, its licence, and whether the name is that
    of a dataset of the Hugging Face Hub.
    """

    kind: str
    name: str
    licence: str
    hub: bool = False


@dataclass(frozen=True)
class Origin:
    """What an encoder was made from: the name on the Hugging Face Hub of the base encoder (None
    where it is a folder, or was trained by raxalign), the corpora of the training text, and the
    word aligners of the word pairs, each with how its directions are joined.
    """

    base_model: str | None = None
    texts: tuple[Text, ...] = ()
    aligners: tuple[str, ...] = ()

    @classmethod
    def named(cls, encoder: str) -> Origin:
        """Return that of an encoder alone, by its hub name or folder."""
        return cls(hub_name(encoder))

    @classmethod
    def of(cls, plan: Plan, trial: Trial) -> Origin:
        """Return what the plan says of a trial's aligned encoder."""
        start = plan.stages[plan.stages[trial.aligned].inputs["encoder"]]
        named = json.loads(start.options).get("name") if start.maker == "transformer" else None
        corpora, texts, aligners = catalog("corpora"), dict[Text, None](), dict[str, None]()
        for stage in (plan.stages[key] for key in plan.closure([trial.aligned])):
            options = stage.params.get("corpus") if stage.kind == "bitext" else None
            if isinstance(options, Mapping) and stage.params.get("part") == "training":
                licence = corpora[stage.maker].licence if stage.maker in corpora else "unknown"
                texts[Text(stage.maker, _name(options), licence, stage.maker == "hub")] = None
            if stage.kind == "pairs":
                how = stage.params.get("symmetrization")
                one = ", one to one" if stage.params.get("one_to_one") else ""
                aligners[f"{stage.maker} ({how}{one})" if how else stage.maker] = None
        base = hub_name(named) if named is not None else None
        return cls(base, tuple(texts), tuple(aligners))


def hub_name(name: object) -> str | None:
    """Return the name of an encoder on the Hugging Face Hub; None for a folder.

    >>> hub_name("bert-base-multilingual-cased"), hub_name("./models/mini")
    ('bert-base-multilingual-cased', None)
    """
    text = str(name)
    return text if _HUB.fullmatch(text) and not text.startswith(".") else None


def _name(options: Mapping[str, Any]) -> str:
    """Return the name of a corpus, which may be several; empty where it has none."""
    found = next((options[key] for key in ("dataset", "corpus") if options.get(key)), "")
    return ", ".join(map(str, found)) if isinstance(found, list | tuple) else str(found)


@dataclass(frozen=True)
class CardScore:
    """One main score of an exported encoder: the grid's name of the `task` and its `kind`; the
    language, the pair of languages or the mean; the metric and its `value`.

    `low` and `high` are the 95 % interval over examples (None: it cannot be computed), `examples`
    the independent clusters behind it. `base` is the score of the encoder that it was made from, a
    mean over runs; `difference` is that of the two over all seeds of the grid, with its 95 %
    interval over seeds and examples (`bounds`) and what the test says about it (`verdict`, empty
    without one); None where it is over other languages than the value, or over several encoders,
    as in an ``each`` grid. `ways` are the ways of loading the export that give the score.
    """

    task: str
    kind: str
    lang: str
    metric: str
    value: float
    low: float | None = None
    high: float | None = None
    examples: int | None = None
    base: float | None = None
    difference: float | None = None
    bounds: tuple[float, float] | None = None
    verdict: str = ""
    split: str = "test"
    lower: bool = False
    ways: tuple[str, ...] = (RAXALIGN, WEIGHTS)

    WAYS: ClassVar = (RAXALIGN, SENTENCES, WEIGHTS)
    """The ways of loading an encoder, in order."""

    @classmethod
    def of_trial(
        cls,
        plan: Plan,
        ledger: Ledger,
        trial: Trial,
        ways: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
    ) -> list[CardScore]:
        """Return the main scores of a trial on test sets (dev where a task has no test), task by
        task, the means over languages last; `ways` are those of each task.
        """
        found = rows(plan, ledger)
        rows_ = [row for row in found if row["trial"] == trial.key]
        this = Cell.of_trial(rows_, plan.pivot, plan.measured)
        if this is None:
            return []
        board = Scoreboard.of(found, plan)
        whole = next((cell for cell in board.cells if trial.key in cell.trials), this)
        # a search suggested it: dev values alone, which are in no table of the grid
        if whole is this:
            board = replace(board, cells=[this])
        kinds = {task: plan.stages[key].maker for task, key in trial.evaluations.items()}
        tables = [table for task in kinds if (table := board.leading(task)) is not None]
        own = [this.names_of(table) for table in tables]
        names = [n for several in own for n in sorted(several, key=lambda name: name[1] in MEANS)]
        compared = {
            entry.name: entry
            for entry in comparisons(board.cells, plan, ledger, tables=tables)
            if entry.cell is whole and entry.baseline is not None
        }
        around = Predictions(plan, ledger).alone(this, names)
        parts = ("low", "high", "examples")
        return [
            replace(
                _score(name, kinds[name[0]], this, compared.get(name), plan.pivot),
                **dict[str, Any]((part, getattr(around.get(name), part, None)) for part in parts),
                lower=plan.measured(name[0], name[2]).better == "lower",
                ways=ways.get(name[0], cls.ways),
            )
            for name in names
        ]


def _score(name: Name, kind: str, this: Cell, against: Compared | None, pivot: str) -> CardScore:
    """Return a score of the cell of one trial, next to what the grid says of its whole cell."""
    task, lang, metric, split = name
    score = CardScore(task, kind, lang, metric, this.values[name].mean, split=split)
    if against is None or against.baseline is None or against.baseline_value is None:
        return score
    whole, base, found = against.cell, against.baseline, against.comparison
    own, of_whole, of_base = (_parts(cell, name, pivot) for cell in (this, whole, base))
    runs = [keys for part in of_whole for keys in whole.evaluations.get(part, {}).values()]
    # the cell of an `each` grid has the languages, and under one seed the encoders, of all trials
    if not own == of_whole == of_base or any(len(keys) > 1 for keys in runs):
        bases = [base.values[part].mean for part in sorted(own & base.values.keys())]
        return replace(score, base=fmean(bases)) if len(bases) == len(own) else score
    score = replace(score, base=against.baseline_value.mean, difference=against.difference)
    if found is None or found.low is None or found.high is None:
        return score
    return replace(score, bounds=(found.low, found.high), verdict=against.verdict or "")


def _parts(cell: Cell, name: Name, pivot: str) -> set[Name]:
    """Return the names of the values that one of a cell is the mean of, or is itself."""
    task, _, metric, split = name
    return {(task, one, metric, split) for one in cell.languages_of(name, pivot)}


def _spoken(aligned: AlignedEncoder, use: SentenceUse, choices: Sequence[str]) -> dict[str, Any]:
    """Return what the template shows of how sentence-transformers is given the language, where the
    vectors of an encoder depend on it. `choices` are the languages; ``en>de`` is the pivot on its
    way to German.
    """
    layers, depth = use.layers_read(aligned.transforms, aligned.n_layers), aligned.n_layers
    first = use.language or choices[0]
    code = first.partition(">")[0]
    read = f"layer {'+'.join(map(str, layers))} of {depth}"
    return {
        "choices": choices,
        "fixed": use.language,
        "transforms": bool(aligned.transforms),
        "weights_changed": aligned.weights_changed,
        "first": first,
        "read": "the last layer" if layers == (depth,) else read,
        "column": spellings(code)[-1].replace("-", "_"),
        "name": language(code).name,
    }


_ROLES = {**MEANS, "avg_zero_shot": "mean without the language trained on"}


@dataclass(frozen=True)
class Card:
    """What a card shows: how the encoder was made, from what, and its main scores.

    `data` are the digests of the word pairs of each language, which are shown where no word aligner
    is known; `caveats` are those of a result; `seeds` are those of the grid, `unfinished` says what
    it lacks, and `claims` what planned looks say of its claims; `precision` is that of the products
    that the alignment was computed with, and `base_precision` how weights were held that it did not
    train. What follows is known of the encoder alone (`written`): its family, the class of
    transformers that opens it, how a language is given to it (None: its vectors need none), whether
    sentence-transformers runs code of the folder, whether static vectors are those of pieces, and
    whether transforms are stored next to the weights.
    """

    method: str
    params: Mapping[str, Any]
    encoder: str
    languages: Sequence[str]
    pivot: str
    seed: int | None
    sentences: int | None = None
    key: str | None = None
    data: Mapping[str, str] = field(default_factory=dict)
    scores: Sequence[CardScore] = ()
    caveats: Sequence[str] = ()
    origin: Origin = field(default_factory=Origin)
    seeds: Sequence[int] = ()
    precision: Precision = "fp32"
    base_precision: BasePrecision = "fp32"
    family: str = "transformer"
    opened_by: str = "AutoModelForMaskedLM"
    spoken: Mapping[str, Any] | None = None
    has_module: bool = False
    of_pieces: bool = False
    has_transforms: bool = False
    unfinished: str = ""
    claims: Sequence[str] = ()

    def written(self, aligned: AlignedEncoder, use: SentenceUse, folder: Path) -> tuple[str, ...]:
        """Export an encoder to a folder with this card as ``README.md``; return the languages that
        sentence-transformers may be given.
        """
        encoder, choices = aligned.encoder, aligned.export(folder, use)
        card = replace(
            self,
            family=encoder.family,
            opened_by=getattr(encoder, "opened_by", self.opened_by),
            spoken=_spoken(aligned, use, choices) if choices else None,
            has_module=aligned.has_module(),
            of_pieces=bool(getattr(getattr(encoder, "reading", None), "pieces", False)),
            has_transforms=bool(aligned.transforms),
        )
        (folder / "README.md").write_text(masked(card.text()), encoding="utf-8")
        return choices

    def text(self) -> str:
        """Return the card as Markdown with the front matter that the Hugging Face Hub reads."""
        from jinja2 import Template

        template = Template(
            _TEMPLATE.read_text(encoding="utf-8"), trim_blocks=True, keep_trailing_newline=True
        )
        text: str = template.render(
            card=self,
            opened_from=MODULES.get(self.opened_by),
            front=self._front(),
            texts=[f"{text.kind} {text.name}".strip() for text in self.origin.texts],
            lang=(self.languages or [self.pivot])[0],
            layers=str(self.params.get("layers", "last")),
            pooling=self._pooling(),
            roles=_ROLES,
            in_words=spoken,
            one_by_one=ONE_BY_ONE,
            facts=self._facts(),
            licence=self._licence(),
        )
        return text

    @property
    def title(self) -> str:
        """The name of the aligned encoder."""
        return f"{self.encoder} aligned by {self.method}"

    def _front(self) -> str:
        """Return the front matter. The hub opens the encoder with one library, whose scores are the
        card's own; it offers an encoder with the head to fill masks.
        """
        from huggingface_hub import ModelCardData

        static, licence = self.family == "static", self._licence()
        masked = self.opened_by == "AutoModelForMaskedLM"
        library, way, pipeline = (
            ("transformers", WEIGHTS, "fill-mask" if masked else "feature-extraction")
            if self.spoken is None
            else (SENTENCES, SENTENCES, "sentence-similarity")
        )
        datasets = [text.name for text in self.origin.texts if text.hub and text.name]
        scores = [score for score in self.scores if static or way in score.ways]
        data = ModelCardData(
            language=list(dict.fromkeys([*self.languages, self.pivot])),
            license=licence,
            license_name="base-model-and-training-data" if licence == "other" else None,
            base_model=self.origin.base_model,
            datasets=datasets or None,
            library_name=None if static else library,
            pipeline_tag=None if static else pipeline,
            tags=["raxalign", "cross-lingual-alignment", self.method],
            model_name=self.title,
            eval_results=[found for score in scores for found in _evaluated(score)] or None,
        )
        return str(data.to_yaml())

    def _licence(self) -> str:
        """Apache 2.0 where all that went in is raxalign's own, else other."""
        own = {text.licence for text in self.origin.texts}
        made_here = self.origin.base_model is None and self.encoder.startswith("scratch")
        return "apache-2.0" if made_here and own == {"Apache-2.0, part of raxalign"} else "other"

    def _pooling(self) -> str | None:
        """How the method joined the pieces of a word; None for methods that read no words."""
        methods = catalog("methods")
        fields = methods[self.method].Params.model_fields if self.method in methods else {}
        found = fields.get("pooling")
        words = found is not None and "last" in get_args(found.annotation)
        return str(self.params["pooling"]) if words and self.params.get("pooling") else None

    def _facts(self) -> dict[str, object]:
        """How it was made, by name; None is not shown."""
        weight, aligners = self.params.get("lambda"), self.origin.aligners
        digests = {f"word pairs {lang}-{self.pivot}": d for lang, d in self.data.items()}
        return {
            "base encoder": self.origin.base_model or self.encoder,
            "word pairs": ", ".join(aligners) or None,
            "λ": f"{weight:g}" if isinstance(weight, int | float) else None,
            "sentence pairs per language": None
            if self.sentences is None
            else f"{self.sentences:,}",
            **({} if aligners else digests),
            "seed": self.seed,
            "seeds of the grid": ", ".join(map(str, self.seeds)) or None,
            "params": json.dumps(dict(self.params), ensure_ascii=False, sort_keys=True),
            "precision": None if self.precision == "fp32" else self.precision,
            "base_precision": None if self.base_precision == "fp32" else self.base_precision,
            "key": self.key,
            "made with": ", ".join(f"{name} {version}" for name, version in versions().items()),
        }


def _evaluated(score: CardScore) -> list[EvalResult]:
    """The score as the hub reads it, and next to it that of the base encoder."""
    from huggingface_hub import EvalResult

    facts = {"n": score.examples, "low": score.low, "high": score.high}
    name, known = spoken(score.metric), {k: v for k, v in facts.items() if v is not None}
    own = EvalResult(
        task_type=score.kind.replace("_", "-"),
        task_name=score.task,
        dataset_type=score.kind,
        dataset_name=f"{score.task} ({_ROLES.get(score.lang, score.lang)})",
        dataset_config=score.lang,
        dataset_split=score.split,
        metric_type=score.metric,
        metric_name=name,
        metric_value=round(score.value, 6),
        metric_args=known or None,
    )
    if score.base is None:
        return [own]
    return [
        own,
        replace(
            own,
            metric_type=f"{score.metric}_base",
            metric_name=f"{name} of the base encoder",
            metric_value=round(score.base, 6),
            metric_args=None,
        ),
    ]
