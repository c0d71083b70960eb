"""The options of a task that classifies sentences or pairs of sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from raxalign.config.params import LATER, BaseParams, Removed
from raxalign.tasks.transfer import params as shared
from raxalign.train.options import Betas, Clip, Epsilon, RateSchedule, WeightDecay


class ExampleCounts(BaseParams):
    """Examples per language of the phrasebook."""

    train: shared.TrainingRows = 3000
    dev: shared.DevelopmentRows = 600
    test: shared.TestRows = 600


class ClassificationParams(shared.SettingParams):
    """`data` is `hub`, `phrasebook` or files, whose paths may hold {lang} and {pivot}. Files are
    tab-separated, with a header that names their columns in any order or with the columns in the
    task's own order, or hold one JSON object per line. The optimiser and its schedule are those of
    Cao et al. (2020, A.1) unless options say otherwise.
    """

    removed: ClassVar[Mapping[str, Removed]] = {
        "static_head": Removed("the classifier over word vectors is 300 wide and has the rate 1e-3")
    }
    setting: Literal["zero-shot", "translate-train"] = "zero-shot"
    dataset: Annotated[str, shared.DATASET] = ""
    models: Annotated[Literal["together", "each"], LATER] = "together"
    """Whether `translate-train` trains one model on all languages (`together`), or one model per
    language on its own translations, whose dev set chooses the epoch (`each`).
    """
    revision: Annotated[str, shared.REVISION] = "main"
    phrasebook: Annotated[ExampleCounts, shared.PHRASEBOOK] = ExampleCounts()
    learning_rate: float = Field(5e-5, gt=0)
    max_length: int = Field(128, ge=8)
    schedule: Annotated[RateSchedule, LATER] = "constant"
    weight_decay: Annotated[WeightDecay, LATER] = 0.0
    betas: Annotated[Betas, LATER] = "0.9 0.98"
    eps: Annotated[Epsilon[float], LATER] = 1e-9
    clip: Annotated[Clip[float], LATER] = 0.0
    dropout: float = Field(0.1, ge=0, lt=1)
