"""Extractive question answering across languages: MLQA, XQuAD and all in SQuAD's format."""

from __future__ import annotations

from typing import Annotated, final

from raxalign.options.params import LATER, BaseParams
from raxalign.tasks.answers.task import SpanTask
from raxalign.tasks.transfer import params as shared
from raxalign.train.options import Clip, WeightDecay


class QuestionCounts(BaseParams):
    """Questions per language of the phrasebook."""

    train: shared.TrainingRows = 2000
    dev: shared.DevelopmentRows = 300
    test: shared.TestRows = 300


@final
class Mlqa(SpanTask):
    """Answers as spans of the context, by two logits per subword token of the last layer, trained
    on SQuAD's questions in the pivot.

    `setting` is `zero-shot` (XLT: question and context in one language), `g-xlt` (the same training
    run, and each language's questions on each language's contexts, by the questions' ids; labels
    are ``de-es`` for German questions on Spanish contexts; a question that one of the two lacks is
    left out and counted) or `translate-train` (trained on all languages together; Pan et al. 2021),
    there also with `code_switching: sentence`: each (q_xx, c_xx) of another language is used as
    (q_xx, c_pivot) and (q_pivot, c_xx), both in one batch. The answer is the span of at most 30
    subword tokens with the largest sum of start and end logit over all windows, returned as the
    context's characters; results count the questions whose answers are longer, and those that are
    cut at 64 subword tokens. Metrics are `f1` and `exact_match` as shares, the larger value of
    several gold answers; `avg` and `avg_zero_shot` (all but the pivot's own) are means. Answers are
    compared by MLQA's rules for the context's language (other languages: no articles; Thai,
    Japanese, Lao, Burmese and Khmer by character); `spans` has those of SQuAD v1.1, which XQuAD and
    TyDiQA are scored by: in all languages at white space, without English articles and ASCII's
    punctuation. The two are not comparable; Chinese differs most. Transforms apply to each subword
    token by its language, post-hoc maps as fitted again on the encoder that the training run left
    (`readout: refit`), on words as the method's `pooling` has it, or as fitted before it (`keep`).
    Training follows XTREME (Hu et al. 2020) except for the warm-up, which is a share here, since
    500 steps are longer than a small training run.

    Data: SQuAD in the pivot for training, dev and test questions with their contexts in every
    language.

    Reference: Lewis et al. (2020) for the data; Hu et al. (2020); Pan et al. (2021).

    Relations: `spans` reads other data in SQuAD's format, as XQuAD; in `tydiqa` questions are not
    translations.

    Example:
        tasks:
          mlqa: {data: hub, setting: zero-shot, learning_rate: 3.0e-5, epochs: 3}
          mlqa_crossed: {kind: mlqa, data: hub, setting: g-xlt}
    """

    VERSION = 4
    papers = ("lewis2020", "rajpurkar2016", "data=xquad artetxe2020")

    class Params(SpanTask.Params):
        """`data` is `hub`, `phrasebook`, or files, whose paths may hold {lang} and {pivot}.
        Questions have at most 64 subword tokens, and windows of a context begin 128 apart; these
        and `max_length` shrink to fit the encoder's positions. `selection` chooses the epoch by F1.
        Files in SQuAD's format may be MLQA's or XQuAD's: the latter are for `spans`, which has
        SQuAD's rules. Questions that are evaluated have ids of their own and answers that are not
        empty; training needs ids only for `code_switching: sentence`.
        """

        phrasebook: Annotated[QuestionCounts, shared.PHRASEBOOK] = QuestionCounts()
        code_switching: shared.CodeSwitching = "none"
        weight_decay: WeightDecay = 1e-4
        clip: Annotated[Clip, LATER] = 1.0
