"""Named entities across languages: a tagger that is trained on the pivot."""

from __future__ import annotations

from typing import final

from raxalign.tasks.taggers.task import TaggingTask


@final
class Ner(TaggingTask):
    """Zero-shot transfer of a named-entity tagger: trained on the pivot, scored on dev and test of
    every language, the pivot too.

    Formula: entity F1 = 2PR / (P + R) over all sentences, an entity being right with its type and
    both ends (counted as conlleval does: an I- after another type, or after O, begins an entity).
    `linear` fine-tunes the encoder with a linear layer on each word's first subword token (lr 2e-5
    falling to 0, 10 epochs, batches of 32, 128 subword tokens: the settings of XTREME).
    `bilstm_crf` trains a BiLSTM and a CRF on features of the frozen encoder: the sum of `layers`,
    each after its own post-hoc map; the LSTM runs over all subword tokens, [CLS] and [SEP] too, and
    the CRF over the first subword tokens of the words (2 layers of 384 per direction, dropout .5,
    Adam 1e-4, batches of 10, 40 epochs); the transitions of the CRF depend on the word. Metrics are
    `f1`, `precision`, `recall` and `accuracy` (of tags), and their means `avg` (all languages) and
    `avg_zero_shot` (all but the pivot).

    Data: columns separated by tabs or spaces, word first, tag last, IOB1, IOB2, IO, IOBES, BMES or
    BILOU (where the first column numbers the words, as in GermEval 2014 and Universal NER, the word
    is second and the tag third, GermEval's outer one, and lines that begin with ``#`` are skipped);
    or the hub's (WikiANN); or the phrasebook's. Tags that training lacks cannot be predicted and
    count as errors. Words beyond `max_length` are left out of training, and count as O in
    evaluation. Sentences that were trained on too are counted, and marked in the predictions; more
    than half is an error.

    `profile` fills in what is not given: `paper` is bilstm_crf, chosen every 150 steps by each
    language's own development set.

    Reference: Kulshreshtha et al. (2020, §4); Hu et al. (2020) for `linear`; Ma & Hovy (2016) for
    the conditioned CRF.

    Relations: `tagging` takes entities of other data; `pos` tags every word, `slots` reads
    requests.

    Example:
        tasks:
          ner: {data: hub, tagger: linear}
          conll:
            kind: ner
            data:
              train: "conll/train.{pivot}.conll"
              dev: "conll/dev.{lang}.conll"
              test: "conll/test.{lang}.conll"
    """

    VERSION = 4
    called = "NER"
    papers = ("hu2020", "data=hub pan2017")

    class Params(TaggingTask.PaperParams):
        """`data` is `hub`, `phrasebook` or files, whose paths may hold {lang} and {pivot}. Options
        left at `none` take the value of the profile, or else of the tagger.

        `selection` chooses the weights after an epoch, with `profile: paper` every 150 steps.
        `readout` is for `linear` alone, whose training run changes the encoder. With `refit` maps
        are fitted again on the first subword tokens of words, which the tagger reads, whatever the
        method's `pooling`.
        """

        dataset: str = "unimelb-nlp/wikiann"
