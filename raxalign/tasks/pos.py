"""Universal parts of speech across languages: a tagger that is trained on the pivot."""

from __future__ import annotations

from typing import Annotated, final

from pydantic import Field

from raxalign.tasks.taggers.params import TaggingParams
from raxalign.tasks.taggers.scheme import UPOS, TagColumns
from raxalign.tasks.taggers.task import TaggingTask
from raxalign.tasks.transfer.params import DATASET, REVISION

_TREEBANKS = {
    "ar": "ar_padt",
    "bg": "bg_btb",
    "cs": "cs_pdt",
    "de": "de_gsd",
    "el": "el_gdt",
    "en": "en_ewt",
    "es": "es_gsd",
    "fr": "fr_gsd",
    "hi": "hi_hdtb",
    "hy": "hy_armtdp",
    "it": "it_isdt",
    "nl": "nl_alpino",
    "pl": "pl_pdb",
    "pt": "pt_gsd",
    "ru": "ru_syntagrus",
    "th": "th_pud",
    "tr": "tr_imst",
    "ur": "ur_udtb",
    "vi": "vi_vtb",
    "zh": "zh_gsd",
}


@final
class Pos(TaggingTask):
    """Zero-shot transfer of a tagger of universal parts of speech: trained on the pivot, scored on
    dev and test of every language, the pivot too.

    Taggers and options are those of `ner`; `linear` takes 5 epochs here. Its training outdates
    readouts that were fitted before: in a small encoder (German, one seed) the accuracy was 47.2
    without a rotation, 39.6 with one that was kept, and 62.2 with one that was fitted again.

    Formula: accuracy = right words / all words. Words without a prediction (beyond `max_length`)
    and tags that training lacks are wrong.

    Data: CoNLL-U, whose column UPOS is read, empty nodes skipped (the encoder reads the words in
    their running text, as `SpaceAfter=No` and ranges of words give it); or the hub's Universal
    Dependencies, `configs` naming a language's treebank; or the phrasebook's. A split that a
    treebank of the hub lacks (Thai has a test set alone) is recorded in the notes, and has no mean
    over the languages. Sentences that were trained on too are recorded in the notes, and
    marked in the predictions; more than half is an error.

    Reference: Hu et al. (2020) for the settings; Nivre et al. (2020) for the tags.
    """

    VERSION = 3
    papers = ("nivre2020", "hu2020")
    entities = False
    labels = UPOS
    columns = TagColumns(tags=("upos", "upos_tags", "pos_tags"), layout="conllu", tag=3)
    linear_epochs = 5

    class Params(TaggingParams):
        """`data` is `hub`, `phrasebook` or CoNLL-U files, whose paths may hold {lang} and {pivot}.
        Options left at `none` take the value of the profile, or else of the tagger; see also
        `ner`.
        """

        dataset: Annotated[str, DATASET] = "universal-dependencies/universal_dependencies"
        revision: Annotated[str, REVISION] = "refs/convert/parquet"
        configs: dict[str, str] = Field(default_factory=_TREEBANKS.copy)
        """Configuration of the hub's data set by language: its treebank."""

    params: Params
