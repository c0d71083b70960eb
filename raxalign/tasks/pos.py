"""Universal parts of speech across languages: a tagger that is trained on the pivot."""

from __future__ import annotations

from typing import ClassVar, final

from raxalign.tasks.taggers.scheme import UPOS, TagColumns
from raxalign.tasks.taggers.task import TaggingTask
from raxalign.tasks.transfer.params import LanguageNames

_TREEBANKS = """ar_padt bg_btb cs_pdt de_gsd el_gdt en_ewt es_gsd fr_gsd hi_hdtb hy_armtdp it_isdt
nl_alpino pl_pdb pt_gsd ru_syntagrus th_pud tr_imst ur_udtb vi_vtb zh_gsd"""


@final
class Pos(TaggingTask):
    """Zero-shot transfer of a tagger of universal parts of speech: trained on the pivot, scored on
    dev and test of every language, the pivot too.

    Taggers are those of `ner`; `linear` takes 5 epochs here. Its training run makes post-hoc maps
    that were fitted before it stale: in a small encoder (German, one seed) the accuracy was 47.2
    without a rotation, 39.6 with one that was kept, and 62.2 with one that was fitted again.

    Formula: accuracy = right words / all words. Words without a prediction (beyond `max_length`)
    and tags that training lacks are wrong.

    Data: CoNLL-U, whose column UPOS is read, empty nodes skipped (the encoder reads the words in
    their running text, as `SpaceAfter=No` and ranges of words give it); or the hub's Universal
    Dependencies, where `codes` may name another treebank of a language; or the phrasebook's. A
    split that a treebank of the hub lacks (Thai has a test set alone) is named with the results,
    and has no mean over the languages.

    Reference: Hu et al. (2020) for the settings; Nivre et al. (2020) for the tags.

    Relations: `ner` finds spans of words; choose this one for syntax, and to divide `retrieval` by
    part of speech.

    Example:
        tasks:
          pos: {data: hub, tagger: linear, codes: {de: de_gsd, en: en_ewt}}
    """

    VERSION = 4
    called = "POS tagging"
    papers = ("nivre2020", "hu2020")
    entities = False
    labels = UPOS
    columns = TagColumns(tags=("upos", "upos_tags", "pos_tags"), layout="conllu", tag=3)
    linear_epochs = 5
    configurations: ClassVar[LanguageNames] = {name[:2]: name for name in _TREEBANKS.split()}

    class Params(TaggingTask.BookParams):
        """`data` is `hub`, `phrasebook` or CoNLL-U files, whose paths may hold {lang} and {pivot};
        see also `ner`.
        """

        dataset: str = "universal-dependencies/universal_dependencies"
        revision: str = "refs/convert/parquet"
