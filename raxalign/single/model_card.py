"""The model card of an exported encoder: how it is opened, where it comes from, and its main
results next to those of the encoder that it was made from. Its text is `templates/card.md.j2`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, get_args

from raxalign.analysis.cells import MEANS, Cell, Name, cells, tables_of
from raxalign.analysis.metrics import spoken
from raxalign.catalog import catalog
from raxalign.config.run import Precision
from raxalign.languages import language, spellings
from raxalign.plan.values.comparisons import ONE_BY_ONE, Compared, comparisons
from raxalign.plan.values.predictions import Predictions
from raxalign.plan.values.results import rows
from raxalign.provenance import versions

if TYPE_CHECKING:
    from huggingface_hub import EvalResult

    from raxalign.analysis.significance import Interval
    from raxalign.encoders.models.aligned import AlignedEncoder
    from raxalign.encoders.models.sentence_module import SentenceUse
    from raxalign.plan.plan import Plan
    from raxalign.plan.stage import Stage
    from raxalign.plan.trial import Trial
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
    """What an encoder was made from.

    Attributes:
        base_model: The name on the Hugging Face Hub of the encoder that it was made from; None
            where it is a folder, or was trained by raxalign.
        texts: The corpora of the training text.
        aligners: The word aligners of the word pairs, each with how its directions are joined.
    """

    base_model: str | None = None
    texts: tuple[Text, ...] = ()
    aligners: tuple[str, ...] = ()


def hub_name(name: object) -> str | None:
    """Return the name of an encoder on the Hugging Face Hub; None for a folder.

    >>> hub_name("bert-base-multilingual-cased"), hub_name("./models/mini")
    ('bert-base-multilingual-cased', None)
    """
    text = str(name)
    there = _HUB.fullmatch(text) and not text.startswith(".")
    return text if there and not Path(text).expanduser().exists() else None


def origin_of(plan: Plan, trial: Trial) -> Origin:
    """Return what the plan says of a trial's aligned encoder."""
    stages = [plan.stages[key] for key in plan.closure([trial.aligned])]
    start = plan.stages[plan.stages[trial.aligned].inputs["encoder"]]
    named = start.params.get("name") if start.maker == "transformer" else None
    return Origin(
        hub_name(named) if named is not None else None,
        tuple(dict.fromkeys(_texts(stages))),
        tuple(dict.fromkeys(_aligners(stages))),
    )


def _texts(stages: Iterable[Stage]) -> Iterator[Text]:
    corpora = catalog("corpora")
    for stage in stages:
        options = stage.params.get("corpus") if stage.kind == "bitext" else None
        if isinstance(options, Mapping) and stage.params.get("part") == "training":
            licence = corpora[stage.maker].licence if stage.maker in corpora else "unknown"
            yield Text(stage.maker, _name(options), licence, stage.maker == "hub")


def _name(options: Mapping[str, Any]) -> str:
    found = next((options[key] for key in ("dataset", "corpus") if options.get(key)), "")
    return ", ".join(map(str, found)) if isinstance(found, list | tuple) else str(found)


def _aligners(stages: Iterable[Stage]) -> Iterator[str]:
    for stage in stages:
        if stage.kind == "pairs":
            how = stage.params.get("symmetrization")
            one = ", one to one" if stage.params.get("one_to_one") else ""
            yield f"{stage.maker} ({how}{one})" if how else stage.maker


@dataclass(frozen=True)
class Score:
    """One main score of an exported encoder.

    Attributes:
        task: The grid's name of the task.
        kind: The kind of the task.
        lang: The language, the pair of languages, or a mean over languages.
        metric: The metric.
        value: The score of this encoder.
        low: The lower end of its 95 % interval over examples (None: it cannot be computed).
        high: The upper end.
        examples: The independent clusters of examples behind it.
        base: The score of the encoder that it was made from, a mean over runs.
        difference: The difference between the two over all seeds of the grid.
        bounds: The 95 % interval of the difference over seeds and examples.
        verdict: What the test says about the difference, as in the grid's tables; empty without
            one.
        split: The split of the data.
        lower: Whether lower values are better.
        ways: The ways of loading the export that give it.
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


def scores_of(
    plan: Plan,
    ledger: Ledger,
    trial: Trial,
    ways: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
) -> list[Score]:
    """Return the main scores of a trial on test sets (dev where a task has no test), task by task,
    the means over languages last; `ways` are those of each task.
    """
    found = rows(plan, ledger)
    own = [row for row in found if row["trial"] == trial.key]
    if not own:
        return []
    (this,) = cells(own, plan.pivot, plan.measured)
    every = cells(found, plan.pivot, plan.measured)
    whole = next(cell for cell in every if trial.key in cell.trials)
    kinds = {task: plan.stages[key].maker for task, key in trial.evaluations.items()}
    names = list(_main(plan, this, kinds))
    tables = {(name[0], *name[2:]) for name in names}
    compared = {
        entry.name: entry
        for entry in comparisons(every, plan, ledger, tables=tables)
        if entry.cell is whole and entry.baseline is not None
    }
    intervals = _intervals(plan, ledger, this, names)
    return [
        replace(
            _score(this, name, kinds[name[0]], intervals.get(name), compared.get(name)),
            lower=plan.measured(name[0], name[2]).better == "lower",
            ways=ways.get(name[0], Score.ways),
        )
        for name in names
    ]


def _main(plan: Plan, cell: Cell, tasks: Iterable[str]) -> Iterator[Name]:
    """The names of the values of each task's main metric, the means last; of the first metric where
    a task names none.
    """
    tables = tables_of(cell.values, plan.measured)
    for task in tasks:
        there = [(metric, split) for name, metric, split in tables if name == task]
        main = plan.main_metric(task)
        shown = next((table for table in there if table[0] == main), next(iter(there), None))
        names = [name for name in cell.values if (name[0], name[2:]) == (task, shown)]
        yield from sorted(names, key=lambda name: name[1] in MEANS)


def _intervals(plan: Plan, ledger: Ledger, cell: Cell, names: list[Name]) -> dict[Name, Interval]:
    """The intervals over examples of the values of one run."""
    from raxalign.analysis.significance import interval

    runs = Predictions(plan, ledger).runs(cell, names)
    made = {name: interval(found, examples_alone=True) for name, found in runs.items()}
    return {name: found for name, found in made.items() if found is not None}


def _score(
    cell: Cell, name: Name, kind: str, around: Interval | None, against: Compared | None
) -> Score:
    task, lang, metric, split = name
    found = against.comparison if against is not None else None
    bounds = None
    if found is not None and found.low is not None and found.high is not None:
        bounds = (found.low, found.high)
    base = against.baseline_value if against is not None else None
    return Score(
        task,
        kind,
        lang,
        metric,
        cell.values[name].mean,
        around.low if around is not None else None,
        around.high if around is not None else None,
        around.examples if around is not None else None,
        base.mean if base is not None else None,
        against.difference if against is not None else None,
        bounds,
        (against.verdict or "") if against is not None and bounds is not None else "",
        split,
    )


@dataclass(frozen=True)
class Spoken:
    """How sentence-transformers is given the language, where the vectors of an encoder depend on
    it.

    Attributes:
        choices: The languages; ``en>de`` is the pivot on its way to German.
        fixed: The language of texts that come without one (None: they are refused).
        layers: The layers whose pieces make the vector of a sentence.
        depth: The number of blocks of the encoder.
        transforms: Whether transforms are stored next to the weights.
        weights_changed: Whether the weights are others than those of the base encoder.
    """

    choices: tuple[str, ...]
    fixed: str | None
    layers: tuple[int, ...]
    depth: int
    transforms: bool
    weights_changed: bool

    @classmethod
    def of(cls, aligned: AlignedEncoder, use: SentenceUse, choices: Sequence[str]) -> Spoken:
        """Return what an encoder is read by, as it was exported."""
        from raxalign.encoders.models.sentence_module import layers_read

        return cls(
            tuple(choices),
            use.language,
            layers_read(use, aligned.transforms, aligned.n_layers),
            aligned.n_layers,
            bool(aligned.transforms),
            aligned.weights_changed,
        )

    def values(self) -> dict[str, Any]:
        """Return what the template shows of it."""
        first = self.fixed or self.choices[0]
        code, last = first.partition(">")[0], self.layers == (self.depth,)
        layers = f"layer {'+'.join(map(str, self.layers))} of {self.depth}"
        return {
            **vars(self),
            "first": first,
            "read": "the last layer" if last else layers,
            "column": spellings(code)[-1].replace("-", "_"),
            "name": language(code).name,
        }


_LIBRARIES = {"transformers": WEIGHTS, SENTENCES: SENTENCES}
_ROLES = {"avg": "mean", "avg_zero_shot": "mean without the pivot"}


@dataclass(frozen=True)
class Card:
    """What a card shows: how the encoder was made, from what, and its main scores; `family` is the
    encoder's, `opened_by` the class of transformers that opens it. `data` are the digests of the
    word pairs of each language, which are shown where no word aligner is known; `seeds` are those
    of the grid; `precision` is that of the products that the alignment was computed with. `spoken`
    is how a language is given to it (None: its vectors need none), `has_module` says that
    sentence-transformers runs code of the folder, and `of_pieces` that static vectors are those of
    pieces.
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
    scores: Sequence[Score] = ()
    family: str = "transformer"
    opened_by: str = "AutoModelForMaskedLM"
    origin: Origin = field(default_factory=Origin)
    seeds: Sequence[int] = ()
    precision: Precision = "fp32"
    spoken: Spoken | None = None
    has_module: bool = False
    of_pieces: bool = False

    def of(self, aligned: AlignedEncoder, use: SentenceUse, choices: Sequence[str]) -> Card:
        """Return the same card with what its encoder says of itself, and `choices`, the languages
        that sentence-transformers may be given.
        """
        encoder = aligned.encoder
        opened_by = getattr(encoder, "opened_by", self.opened_by)
        spoken = Spoken.of(aligned, use, choices) if choices else None
        return replace(
            self,
            family=encoder.family,
            opened_by=opened_by,
            spoken=spoken,
            has_module=aligned.has_module(),
            of_pieces=bool(getattr(getattr(encoder, "reading", None), "pieces", False)),
        )

    def write(self, folder: Path, *, has_transforms: bool) -> None:
        """Write ``README.md``."""
        (folder / "README.md").write_text(
            self.text(has_transforms=has_transforms), encoding="utf-8"
        )

    def text(self, *, has_transforms: bool) -> str:
        """Return the card as Markdown with the front matter that the Hugging Face Hub reads."""
        from jinja2 import Template

        template = Template(
            _TEMPLATE.read_text(encoding="utf-8"), trim_blocks=True, keep_trailing_newline=True
        )
        text: str = template.render(
            card=self,
            front=self._front(),
            has_transforms=has_transforms,
            spoken=self.spoken.values() if self.spoken is not None else None,
            texts=[f"{text.kind} {text.name}".strip() for text in self.origin.texts],
            lang=(self.languages or [self.pivot])[0],
            layers=str(self.params.get("layers", "last")),
            pooling=self._pooling(),
            rows=[_row(score) for score in self.scores],
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
        from huggingface_hub import ModelCardData

        static = self.family == "static"
        datasets = [text.name for text in self.origin.texts if text.hub and text.name]
        licence = self._licence()
        data = ModelCardData(
            language=list(dict.fromkeys([*self.languages, self.pivot])),
            license=licence,
            license_name="base-model-and-training-data" if licence == "other" else None,
            base_model=self.origin.base_model,
            datasets=datasets or None,
            library_name=None if static else self._library,
            pipeline_tag=None if static else self._pipeline,
            tags=["raxalign", "cross-lingual-alignment", self.method],
            model_name=self.title,
            eval_results=[
                found
                for score in self.scores
                if static or _LIBRARIES[self._library] in score.ways
                for found in _evaluated(score)
            ]
            or None,
        )
        return str(data.to_yaml())

    def _licence(self) -> str:
        """Apache 2.0 where all that went in is raxalign's own, else other."""
        own = {text.licence for text in self.origin.texts}
        made_here = self.origin.base_model is None and self.encoder.startswith("scratch")
        return "apache-2.0" if made_here and own == {"Apache-2.0, part of raxalign"} else "other"

    @property
    def _library(self) -> str:
        """The library that the hub opens the encoder with, whose scores are the card's own."""
        return "transformers" if self.spoken is None else SENTENCES

    @property
    def _pipeline(self) -> str:
        """What the hub offers an encoder for: to fill masks, where it has the head."""
        if self.spoken is not None:
            return "sentence-similarity"
        masked = self.opened_by == "AutoModelForMaskedLM"
        return "fill-mask" if masked else "feature-extraction"

    def _pooling(self) -> str | None:
        """How the method joined the pieces of a word; None for methods that read no words."""
        methods = catalog("methods")
        fields = methods[self.method].Params.model_fields if self.method in methods else {}
        found = fields.get("pooling")
        words = found is not None and "last" in get_args(found.annotation)
        return str(self.params["pooling"]) if words and self.params.get("pooling") else None

    def _facts(self) -> dict[str, object]:
        """How it was made, by name; None is not shown."""
        weight = self.params.get("lambda")
        return {
            "base encoder": self.origin.base_model or self.encoder,
            "word pairs": ", ".join(self.origin.aligners) or None,
            "λ": f"{weight:g}" if isinstance(weight, int | float) else None,
            "sentence pairs per language": (
                f"{self.sentences:,}" if self.sentences is not None else None
            ),
            **(
                {}
                if self.origin.aligners
                else {f"word pairs {lang}-{self.pivot}": d for lang, d in self.data.items()}
            ),
            "seed": self.seed,
            "seeds of the grid": ", ".join(map(str, self.seeds)) or None,
            "params": json.dumps(dict(self.params), ensure_ascii=False, sort_keys=True),
            "precision": None if self.precision == "fp32" else self.precision,
            "key": self.key,
            "made with": ", ".join(f"{name} {version}" for name, version in versions().items()),
        }


def _row(score: Score) -> list[str]:
    """The cells of a score in the table."""
    around = f" [{score.low:.4f}, {score.high:.4f}]" if score.low is not None else ""
    difference = "" if score.difference is None else f"{score.difference:+.4f}"
    if score.bounds is not None:
        low, high = score.bounds
        difference += f" [{low:+.4f}, {high:+.4f}], {score.verdict}"
    return [
        score.task + ("" if score.split == "test" else f" ({score.split})"),
        _ROLES.get(score.lang, score.lang),
        spoken(score.metric) + (", lower is better" if score.lower else ""),
        f"{score.value:.4f}{around}",
        "" if score.examples is None else f"{score.examples:,}",
        "" if score.base is None else f"{score.base:.4f}",
        difference,
        ", ".join(score.ways) or "the grid alone",
    ]


def _evaluated(score: Score) -> list[EvalResult]:
    """The score as the hub reads it, and next to it that of the base encoder."""
    from huggingface_hub import EvalResult

    lang = _ROLES.get(score.lang, score.lang)
    facts = {"n": score.examples, "low": score.low, "high": score.high}
    values = [
        (spoken(score.metric), score.value, {k: v for k, v in facts.items() if v is not None})
    ]
    if score.base is not None:
        values.append((f"{spoken(score.metric)} of the base encoder", score.base, {}))
    return [
        EvalResult(
            task_type=score.kind.replace("_", "-"),
            task_name=score.task,
            dataset_type=score.kind,
            dataset_name=f"{score.task} ({lang})",
            dataset_config=score.lang,
            dataset_split=score.split,
            metric_type=score.metric if not place else f"{score.metric}_base",
            metric_name=name,
            metric_value=round(value, 6),
            metric_args=arguments or None,
        )
        for place, (name, value, arguments) in enumerate(values)
    ]
