"""What tagging tasks have in common: tags, columns and options."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from raxalign.corpora.phrases.rows import tagged
from raxalign.tasks.base import Reads, TaskInputs
from raxalign.tasks.taggers.scheme import (
    ENTITIES_MEASURED,
    EVALUATE_EVERY,
    OF_BILSTM,
    PROFILES,
    TAGGERS,
    WORDS_MEASURED,
    Made,
    TagColumns,
    TaggingParams,
    TagScheme,
    feature_layers,
)
from raxalign.tasks.transfer.params import Selection, Split
from raxalign.tasks.transfer.task import TransferTask

if TYPE_CHECKING:
    from raxalign.tasks.taggers.head import TagHead


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

    class Params(TaggingParams):
        """`data` is `hub`, `phrasebook` or files, whose paths may hold {lang} and {pivot}."""

    params: TaggingParams

    def __init__(self, params: TaggingParams) -> None:
        super().__init__(params)
        self.evaluate_every = EVALUATE_EVERY[params.profile]

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
        profile = PROFILES[self.params.profile]
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
        return (self.params.tagger or PROFILES[self.params.profile]["tagger"]) == "linear"

    def selection(self) -> Selection:
        """Return what chooses the weights."""
        chosen: Selection = self.params.selection or PROFILES[self.params.profile]["selection"]
        return chosen

    def reads(self, n_layers: int) -> Reads:
        """Return the last layer, which `linear` trains, or the `layers` of a frozen encoder."""
        if self.outdates():
            return super().reads(n_layers)
        return Reads(frozenset(feature_layers(self.params.layers, n_layers)))
