"""The options of a task that answers questions by spans of a context."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from raxalign.config.params import LATER, BaseParams, Removed
from raxalign.tasks.transfer import params as shared
from raxalign.train.options import Betas, Clip, Epsilon, RateSchedule, WeightDecay


@dataclass(frozen=True)
class WindowSizes:
    """In pieces: what a question may have, how far a window starts after the one before, and what
    an answer may have.
    """

    question: int
    stride: int
    answer: int


class QuestionCounts(BaseParams):
    """Questions per language of the phrasebook."""

    train: shared.TrainingRows = 2000
    dev: shared.DevelopmentRows = 300
    test: shared.TestRows = 300


class SpanParams(shared.SettingParams):
    """Options on what is trained on and how; see `mlqa` for what they mean together."""

    removed: ClassVar[Mapping[str, Removed]] = {
        "hub": Removed("the sets of the hub are those of the task; name files of others in `data`"),
        "rules": Removed("`mlqa` has MLQA's rules, `spans` and `tydiqa` have SQuAD's"),
        "max_question_length": Removed("questions are cut to 64 pieces", keyed=64),
        "doc_stride": Removed("windows of a context begin 128 pieces apart", keyed=128),
        "max_answer_length": Removed("answers have 30 pieces at most", keyed=30),
    }
    setting: Literal["zero-shot", "g-xlt", "translate-train"] = "zero-shot"
    phrasebook: Annotated[QuestionCounts, shared.PHRASEBOOK] = QuestionCounts()
    learning_rate: float = Field(3e-5, gt=0)
    schedule: Annotated[RateSchedule, LATER] = "linear"
    weight_decay: WeightDecay = 1e-4
    betas: Annotated[Betas, LATER] = "0.9 0.999"
    eps: Annotated[Epsilon[float], LATER] = 1e-8
    clip: Annotated[Clip[float], LATER] = 1.0
    dropout: float = Field(0.0, ge=0, lt=1)
    max_length: int = Field(384, ge=16)
