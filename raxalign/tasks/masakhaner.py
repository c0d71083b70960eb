"""Named entities of news in twenty African languages."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, final

from pydantic import Field

from raxalign.corpora.readers.codes import names_in, own_code
from raxalign.languages import spelled
from raxalign.tasks.taggers.params import TaggingParams
from raxalign.tasks.taggers.task import TaggingTask
from raxalign.tasks.transfer.params import DATASET, REVISION, HubSet

MASAKHANER = "masakhane/masakhaner2"
CONLL = "eriktks/conll2003"


@final
class Masakhaner(TaggingTask):
    """MasakhaNER 2.0: zero-shot transfer of a tagger of persons, organisations and places, trained
    on the pivot, scored on dev and test of every language, the pivot too. Where the pivot is
    English, which MasakhaNER does not have, its rows are CoNLL 2003's.

    Formula: entity F1 = 2PR / (P + R) over all sentences, an entity being right with its type and
    both ends. Taggers, metrics and options are those of `ner`. What only one of the two sets marks
    is not an entity here: MasakhaNER's DATE and CoNLL's MISC become O.

    Reference: Adelani et al. (2022) for the data; Tjong Kim Sang and De Meulder (2003) for English.
    """

    VERSION = 1
    papers = ("adelani2022masakhaner", "tjong2003")
    licence: ClassVar[str] = "CC BY-NC 4.0; CoNLL 2003 is of Reuters, for research"
    labels = ("PER", "ORG", "LOC")
    others_outside = True
    language_names = names_in(MASAKHANER)
    covers = frozenset({*language_names, "en"})

    class Params(TaggingParams):
        """`data` is `hub`, or files with a word per line and its tag, whose paths may hold {lang}
        and {pivot}: languages have MasakhaNER's codes there (``hau``). Options left at `none` take
        the value of the profile, or else of the tagger; see also `ner`.
        """

        dataset: Annotated[str, DATASET] = MASAKHANER
        revision: Annotated[str, REVISION] = "refs/convert/parquet"
        english_dataset: str = Field(
            CONLL, description="Data set of the hub with the rows of English, and its columns."
        )
        english_config: str = Field("conll2003", description="Configuration of `english_dataset`.")

    params: Params

    def canonical(self) -> dict[str, Any]:
        """Return the options without those that name the data of English too."""
        named = ("english_dataset", "english_config")
        return {name: value for name, value in super().canonical().items() if name not in named}

    def hub_sets(self, lang: str, pivot: str) -> dict[str, HubSet]:  # noqa: ARG002
        """Return the data set of the language."""
        name, config = self.params.dataset, own_code(lang, self.names)
        if spelled(lang, ["en"]):
            name, config = self.params.english_dataset, self.params.english_config
        return {"hub": HubSet(name, config, self.params.revision)}
