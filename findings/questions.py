"""What a claim consists of: questions about values, each of which picks cells of a grid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Quantity:
    """What numbers measure, in words, and the task and metric of that name in results."""

    text: str
    task: str
    metric: str


@dataclass(frozen=True)
class Pick:
    """One value: a cell of a grid (method, some of its params, sentences) and a language.

    `encoder` has some options of the encoder, in a grid that has several. Encoders that differ in
    nothing but their seed are runs of one value. `metric` is that of the value where the values of
    a question have different ones.
    """

    method: str
    params: Mapping[str, object] = field(default_factory=dict)
    sentences: int | None = None
    lang: str = "avg"
    encoder: Mapping[str, object] = field(default_factory=dict)
    metric: str | None = None


@dataclass(frozen=True)
class Question:
    """A weighted sum of values of one quantity that is above 0 where the claim holds."""

    text: str
    parts: tuple[tuple[float, Pick], ...]
    quantity: Quantity


@dataclass(frozen=True)
class Claim:
    """A sentence of a paper, the quantity that the paper measured, the grid that asks it, and its
    questions.

    Only questions about the paper's own quantity decide. The claim is held if the answer to each of
    these is above 0 and its interval does not hold 0. It is refuted if one answer is below 0 and
    its interval does not hold 0.
    """

    paper: str
    text: str
    quantity: Quantity
    grid: str
    questions: tuple[Question, ...]

    def decided_by(self, question: Question) -> bool:
        """Whether an answer says something about the claim."""
        return question.quantity == self.quantity


def above(text: str, better: Pick, worse: Pick, quantity: Quantity) -> Question:
    """Return the question whether one value is above another."""
    return Question(text, ((1.0, better), (-1.0, worse)), quantity)
