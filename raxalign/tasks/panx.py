"""Named entities of Wikipedia in the 40 languages of XTREME."""

from __future__ import annotations

from typing import Annotated, ClassVar, final

from raxalign.corpora.readers.codes import names_in, own_code
from raxalign.tasks.taggers.params import TaggingParams
from raxalign.tasks.taggers.task import TaggingTask
from raxalign.tasks.transfer.params import DATASET, HubSet

XTREME = "google/xtreme"


@final
class Panx(TaggingTask):
    """PAN-X: zero-shot transfer of a tagger of persons, organisations and places, trained on the
    pivot, scored on dev and test of every language, the pivot too. The data are WikiANN's in the
    selection of XTREME.

    Formula: entity F1 = 2PR / (P + R) over all sentences, an entity being right with its type and
    both ends. Taggers, metrics and options are those of `ner`.

    Reference: Pan et al. (2017) for the data; Hu et al. (2020) for its use.
    """

    VERSION = 1
    papers = ("pan2017", "hu2020")
    licence: ClassVar[str] = "not stated; the texts are Wikipedia's (CC BY-SA)"
    labels = ("PER", "ORG", "LOC")
    language_names = names_in(XTREME)
    covers = frozenset(language_names)

    class Params(TaggingParams):
        """`data` is `hub`, or files with a word per line and its tag, whose paths may hold {lang}
        and {pivot}. Options left at `none` take the value of the profile, or else of the tagger;
        see also `ner`.
        """

        dataset: Annotated[str, DATASET] = XTREME

    params: Params

    def hub_sets(self, lang: str, pivot: str) -> dict[str, HubSet]:  # noqa: ARG002
        """Return the data set, with the configuration of the language."""
        config = f"PAN-X.{own_code(lang, self.names)}"
        return {"hub": HubSet(self.params.dataset, config, self.params.revision)}
