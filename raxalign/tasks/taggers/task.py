"""What tagging tasks have in common: what tags are, how data is written, scores and options."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field

from raxalign.corpora.phrasebook import tagged
from raxalign.encoders.models.vectors import layer_ends, parse_layers
from raxalign.measured import share
from raxalign.options.params import LATER, BaseParams, Removed
from raxalign.sample import Ratios, Sample
from raxalign.tasks.base import Reads, TaskInputs
from raxalign.tasks.taggers.scheme import TagColumns, TagScheme
from raxalign.tasks.transfer import params as shared
from raxalign.tasks.transfer.params import Selection, Split
from raxalign.tasks.transfer.task import TransferTask
from raxalign.train.options import SCHEDULE, RateSchedule

if TYPE_CHECKING:
    from raxalign.tasks.taggers.head import TagHead

Tagger = Literal["bilstm_crf", "linear"]
PROFILES: Mapping[str, Mapping[str, Any]] = {
    "paper": {
        "tagger": "bilstm_crf",
        "selection": "target-dev",
    },
    "sane": {"tagger": "linear", "selection": "pivot-dev"},
}
EVALUATE_EVERY: Mapping[str, int | None] = {"paper": 150, "sane": None}
"""Steps between two evaluations of the development sets, by profile (None: one epoch)."""
TAGGERS: Mapping[str, Mapping[str, Any]] = {
    "bilstm_crf": {
        "learning_rate": 1e-4,
        "batch_size": 10,
        "epochs": 40,
        "max_length": 175,
        "dropout": 0.5,
        "schedule": "constant",
    },
    "linear": {
        "learning_rate": 2e-5,
        "batch_size": 32,
        "epochs": 10,
        "max_length": 128,
        "dropout": 0.1,
        "schedule": "linear",
    },
}
OF_BILSTM = ("crf", "layers", "hidden", "lstm_layers", "input_dropout")


LAST_FOUR = "last-four"
_HIDDEN = 384
_PAPER = (
    "leave it out: `ner` and `slots` train as Kulshreshtha et al. (2020) do with `profile: paper`;"
    " here `tagger: bilstm_crf` reads the last four layers and is 384 wide"
)


def feature_layers(layers: str, n_layers: int) -> tuple[int, ...]:
    """The layers that are added up: ``last-four`` (fewer where there are fewer blocks), or as
    `parse_layers` has them.

    >>> feature_layers("last-four", 12), feature_layers("last-four", 2), feature_layers("9-10", 12)
    ((9, 10, 11, 12), (1, 2), (9, 10))
    """
    if layers == LAST_FOUR:
        return tuple(range(max(1, n_layers - 3), n_layers + 1))
    return parse_layers(layers, n_layers)


def _named(layers: str) -> str:
    if layers != LAST_FOUR:
        try:
            layer_ends(layers)
        except ValueError as error:
            raise ValueError(f"{error} (or `{LAST_FOUR}`)") from None
    return layers


FeatureLayers = Annotated[str, AfterValidator(_named)]
"""A param that `feature_layers` reads."""


class SentenceCounts(BaseParams):
    """Sentences per language of the phrasebook."""

    train: shared.TrainingRows = 2000
    dev: shared.DevelopmentRows = 400
    test: shared.TestRows = 400


_RATIOS: Ratios = {
    "f1": (("n_right", "n_right"), ("n_gold", "n_predicted")),
    "precision": (("n_right",), ("n_predicted",)),
    "recall": (("n_right",), ("n_gold",)),
    "accuracy": (("n_tokens_right",), ("n_tokens",)),
}
_counted = partial(share, sample=partial(Sample.of_ratio, ratios=_RATIOS))
WORDS_MEASURED = (_counted("accuracy", "Share of the words whose tag is right."),)
"""What taggers of words report."""
ENTITIES_MEASURED = (
    _counted("f1", "Harmonic mean of precision and recall over entities."),
    _counted("precision", "Share of the entities found that are right in type and both ends."),
    _counted("recall", "Share of the given entities that are found with type and both ends."),
    *WORDS_MEASURED,
)
"""What taggers of entities report."""


Made = tuple[Sequence[str], Sequence[str]]
"""Words and tags of a sentence."""


class TaggingTask(TransferTask):
    """Zero-shot transfer of a tagger. A subclass gives its tags and where its data has them."""

    entities: bool = True
    """Whether tags are O, B-type and I-type, and mark entities."""
    labels: tuple[str, ...] = ()
    """All types of entities, or all tags. Without them they are those of the data."""
    columns: TagColumns = TagColumns()
    """Where files and data sets have words and tags."""
    linear_epochs: ClassVar[int] = 10
    """Epochs of the tagger `linear` where none are given."""
    row_options = (*TransferTask.row_options, "mismatched")
    not_of_training = TransferTask.not_of_training - {"selection"}  # chooses as it goes
    word_pooling = "first"
    refit_needs = "`tagger: linear` and "
    predicts = frozenset({"id", "label", "n_tokens", "n_tokens_right", "predicted", "words"})

    class Params(shared.TransferParams):
        """The options that all taggers have. Options left at `none` take the value of the profile,
        or else of the tagger.
        """

        removed: ClassVar[Mapping[str, Removed]] = {
            "configs": Removed("write them in `codes`", default=Removed.ANY),
            "encoding": Removed(
                "leave it out, and convert files to UTF-8, for example with `iconv -f LATIN1 -t"
                " UTF-8`",
                default="utf-8",
            ),
            "columns": Removed(
                "leave it out: files have the word first and the tag last; `cut -f` picks columns",
                default=None,
            ),
            "crf": Removed(
                "leave it out: the CRF is the conditioned one", keyed="conditioned", default=None
            ),
            "lstm_layers": Removed("leave it out: the BiLSTM has 2 layers", keyed=2),
            "input_dropout": Removed("leave it out: dropout before the BiLSTM is 0.5", keyed=0.5),
            "evaluate_every": Removed(
                "leave it out: weights are chosen after each epoch, or as the profile has it",
                default=None,
            ),
            "profile": Removed(_PAPER, default="sane"),
            "layers": Removed(_PAPER, keyed=LAST_FOUR),
            "hidden": Removed(_PAPER, keyed=_HIDDEN),
            **shared.of_papers({**shared.ADAM, "clip": None}),
            **shared.of_phrasebook(train=2000, dev=400, test=400),
        }
        mismatched: Annotated[Literal["refuse", "drop"], LATER] = "refuse"
        """Whether a row with other numbers of words and of tags, or a tag without a word, is an
        error (`refuse`), or is left out and counted (`drop`).
        """
        dataset: Annotated[str, shared.DATASET] = ""
        revision: Annotated[str, shared.REVISION] = "main"
        tagger: Tagger | None = None
        """A linear layer on the encoder, which is fine-tuned (`linear`), or a BiLSTM and a CRF,
        whose scores of transitions depend on the word, on features of the frozen encoder
        (`bilstm_crf`).
        """
        dropout: float | None = Field(None, ge=0, lt=1)
        selection: Selection | None = None
        learning_rate: float | None = Field(None, gt=0)
        epochs: int | None = Field(None, ge=1)
        batch_size: int | None = Field(None, ge=1)
        max_length: int | None = Field(None, ge=8)
        warmup: float = Field(0.0, ge=0)
        schedule: Annotated[RateSchedule | None, SCHEDULE, LATER] = None

        @property
        def optimizer(self) -> Mapping[str, Any]:
            """AdamW; the gradients of `linear` are clipped, as in XTREME (Hu et al. 2020)."""
            return {**shared.ADAM, "clip": 1.0 if self.tagger == "linear" else 0.0}

        def feature_layers(self, n_layers: int) -> tuple[int, ...]:
            """Return the layers of a frozen encoder that are added up."""
            return feature_layers(getattr(self, "layers", LAST_FOUR), n_layers)

        @property
        def width(self) -> int:
            """The width of the BiLSTM per direction."""
            return getattr(self, "hidden", _HIDDEN)

    class BookParams(Params):
        """The options of taggers whose sentences the phrasebook has."""

        phrasebook: Annotated[SentenceCounts, shared.PHRASEBOOK] = SentenceCounts()

    class PaperParams(BookParams):
        """The options of the tasks of Kulshreshtha et al. (2020)."""

        profile: Literal["paper", "sane"] = "sane"
        """Set of values for the options that are not given: `paper` is that of Kulshreshtha et al.
        (2020), `sane` that of XTREME.
        """
        layers: FeatureLayers = LAST_FOUR
        """Layers of the frozen encoder whose sum is the features of `bilstm_crf`: `last-four`,
        `last`, one number or a range such as `9-12`.
        """
        hidden: int = Field(_HIDDEN, ge=1)
        """Width of the BiLSTM per direction."""

    params: Params

    def __init__(self, params: Params) -> None:
        self.profile: str = getattr(params, "profile", "sane")
        super().__init__(params)
        self.evaluate_every = EVALUATE_EVERY[self.profile]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        known = [e.name for e in (ENTITIES_MEASURED if cls.entities else WORDS_MEASURED)]
        if "main_metric" not in vars(cls):
            cls.main_metric = known[0]
        if cls.main_metric not in known:
            raise TypeError(f"main_metric is {cls.main_metric!r}; write {' or '.join(known)}")
        if "metrics" not in vars(cls):
            cls.metrics = ENTITIES_MEASURED if cls.entities else WORDS_MEASURED

    def phrasebook(self, n: int, lang: str, split: Split, seed: int) -> Iterable[Made]:  # noqa: ARG002
        """Make n sentences of a language and split: by default the phrasebook's of this name."""
        return tagged(self.name, n, lang, split)

    def scheme(self) -> TagScheme:
        """Return what the class says about tags and data, as one value."""
        return TagScheme(
            self.entities, self.labels, self.columns, self.names, self.params.mismatched
        )

    def head(self, inputs: TaskInputs) -> TagHead:
        """Return the reader of the sentences, and the maker and judge of taggers."""
        from raxalign.tasks.taggers.head import TagHead

        return TagHead(self, inputs)

    def resolved(self) -> dict[str, Any]:
        """Return the params by their names, with the values of the profile or the tagger."""
        params = self.settings()
        every = {"evaluate_every": self.evaluate_every}
        return {**params.later(), **params.identity(), **every}

    def _defaults(self) -> dict[str, Any]:
        """The values of the profile, and of the tagger that it or the options name."""
        profile = PROFILES[self.profile]
        tagger = self.params.tagger or profile["tagger"]
        epochs = {"epochs": self.linear_epochs} if tagger == "linear" else {}
        return {**TAGGERS[tagger], **epochs, **profile}

    def settings(self) -> Any:
        """Return the params with every default of the profile or the tagger filled in."""
        given, defaults = self.params, self._defaults()
        missing = {name: value for name, value in defaults.items() if getattr(given, name) is None}
        return given.model_copy(update=missing)

    def canonical(self) -> dict[str, Any]:
        """Return the resolved options without the profile's name, without what names data (its own
        identity enters the key), without idle ones, and without `LATER` ones at their default.
        """
        resolved, usual = self.resolved(), {**self.params.later(), **self._defaults()}
        idle = {
            "phrasebook": self.params.data != "phrasebook",
            "readout": resolved["readout"] == "keep",
            "evaluate_every": resolved["selection"] == "last",
            "mismatched": self.params.data == "phrasebook",
            "codes": self.params.data == "hub",  # the configurations are in what names the data
            **dict.fromkeys(("profile", "dataset", "revision"), True),
            **dict.fromkeys(OF_BILSTM, resolved["tagger"] == "linear"),
        }
        later = {name for name in self.params.later() if resolved[name] == usual[name]}
        return {
            name: value
            for name, value in resolved.items()
            if not idle.get(name) and name not in later
        }

    def outdates(self) -> bool:
        """Return whether the tagger is `linear`; the other one reads a frozen encoder."""
        return (self.params.tagger or PROFILES[self.profile]["tagger"]) == "linear"

    def selection(self) -> Selection:
        """Return what chooses the weights."""
        chosen: Selection = self.params.selection or PROFILES[self.profile]["selection"]
        return chosen

    def reads(self, n_layers: int) -> Reads:
        """Return the last layer, which `linear` trains, or the `layers` of a frozen encoder."""
        if self.outdates():
            return super().reads(n_layers)
        return Reads(frozenset(self.params.feature_layers(n_layers)))
