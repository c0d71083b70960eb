"""Natural language inference across languages (Conneau et al. 2018)."""

from __future__ import annotations

from typing import Annotated, Literal, final

from pydantic import Field, field_validator

from raxalign.options.params import LATER, BaseParams
from raxalign.tasks.classifiers.scheme import XNLI
from raxalign.tasks.classifiers.task import ClassificationTask
from raxalign.tasks.transfer import params as shared
from raxalign.train.options import Clip, WeightDecay, pair_of


class ExampleCounts(BaseParams):
    """Examples per language of the phrasebook."""

    train: shared.TrainingRows = 3000
    dev: shared.DevelopmentRows = 600
    test: shared.TestRows = 600


@final
class Xnli(ClassificationTask):
    """Transfer of a premise-hypothesis classifier, scored on dev and test of every language, the
    pivot too: trained on the pivot (`zero-shot`), or on the translations of its training data into
    all languages (`translate-train`): one model for all of them together (Pan et al. 2021), or with
    `models: each` one model per language, trained and scored on that language (Cao et al. 2020).

    The classifier is one linear layer on the last layer's [CLS], after dropout, without a pooler.
    Unless options say otherwise, training follows Cao et al. (2020, A.1): 3 epochs, batches of 32,
    Adam(.9, .98, 1e-9), warm-up over the first tenth of the steps, then a constant rate. A method's
    transforms apply to what the classifier reads. Its post-hoc maps are fitted again on the encoder
    that this training run left (`readout: refit`), since those fitted before it are stale. They are
    kept as they were (`keep`) where `selection` is `mean-dev` or `target-dev`, and where the method
    moves the pivot; results then have a remark. [CLS] is not a word: maps are fitted again on
    words, by the method's own `pooling`. Translations are trained on through the maps, which stay.
    Metrics are `accuracy` per language, and its means `avg` (over all languages) and
    `avg_zero_shot` (over all but the pivot). With `code_switching: sentence` (`translate-train`
    only; Pan et al., 3.3) each training pair (p_xx, h_xx) of another language is used as (p_xx,
    h_pivot) and (p_pivot, h_xx), both in one batch; each sentence has the transforms of its own
    language ([CLS] those of the premise).

    On a static encoder the word vectors stay as they are. A text's vector is the mean of its words'
    vectors, with the transforms of its language, scaled to the length sqrt(H); a classifier with
    one hidden layer of 300 (ReLU, dropout) reads [p; h; |p - h|; p * h] of premise and hypothesis.
    Its learning rate is 1e-3; the rest is as above. Liu et al. (2020, §3) do not name theirs.

    Data: labelled sentence pairs: training data in the pivot, dev and test data in every language.

    Reference: Conneau et al. (2018) for the data; Cao et al. (2020, A.1); Pan et al. (2021).

    Relations: `pawsx` asks for paraphrases, `classification` takes any labels; `retrieval` and
    `sentence_retrieval` need neither labels nor a training run.

    Example:
        tasks:
          xnli: {data: hub, setting: zero-shot, selection: pivot-dev}
          xnli_translated: {kind: xnli, data: hub, setting: translate-train}
    """

    VERSION = 3
    called = "XNLI"
    papers = ("conneau2018xnli", "hu2020")
    labels, aliases, columns = XNLI.labels, XNLI.aliases, XNLI.columns
    unit = "premise"

    class Params(ClassificationTask.Params):
        """`data` is `hub`, `phrasebook` or files, whose paths may hold {lang} and {pivot}.

        Files are XNLI's and MultiNLI's .tsv and .jsonl as they are published, or any with a header
        that names premise, hypothesis and label (sentence1, sentence2, gold_label) in any order, or
        three columns without a header. A `language` column picks the rows of a language, columns
        like ``sentence1_my`` its texts. Rows without a label (``-``) are left out and counted. Rows
        of one promptID, or else of one premise, are resampled together.
        """

        dataset: str = XNLI.dataset
        phrasebook: Annotated[ExampleCounts, shared.PHRASEBOOK] = ExampleCounts()
        models: Annotated[Literal["together", "each"], LATER] = "together"
        """Whether `translate-train` trains one model on all languages (`together`), or one model
        per language on its own translations, whose dev set chooses the epoch (`each`).
        """
        code_switching: shared.CodeSwitching = "none"
        weight_decay: Annotated[WeightDecay, LATER] = 0.0
        betas: Annotated[str, LATER] = "0.9 0.98"
        """Adam's β1 and β2 with a blank between them: the share of the running means of the
        gradient and of its square that each step keeps.
        """
        eps: Annotated[float, LATER] = Field(1e-9, gt=0)
        """ε of Adam, the constant in the denominator of its update."""
        clip: Annotated[Clip, LATER] = 0.0

        @field_validator("betas")
        @classmethod
        def _are_two_shares(cls, betas: str) -> str:
            try:
                first, second = pair_of(betas)
            except ValueError:
                first = second = -1.0
            if not (0 <= first < 1 and 0 <= second < 1):
                raise ValueError(
                    f"{betas!r}: write two numbers from 0 to below 1, such as 0.9 0.999"
                )
            return f"{first!r} {second!r}"
