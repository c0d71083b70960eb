"""What was found, as data: the page is made from it, so that grids of hours are not run again for a
word on the page.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from findings.answers import Answer, Answered
from findings.claims import CLAIMS
from findings.entries import common_entries
from findings.questions import Question
from raxalign.analysis.significance import ContrastTest, Spread, TrainedSide
from raxalign.grid.estimates import Times
from raxalign.grid.load import Opened


@dataclass(frozen=True)
class Ran:
    """How a grid ran: the day of its last evaluation, how many stages and evaluations it has, the
    seconds that they took, the dictionary entries that its encoders are compared over, how many
    evaluations are missing, and what else is to be known about a run that was not repeated.
    """

    day: str
    stages: int
    seconds: float
    entries: Mapping[str, int] = field(default_factory=dict)
    missing: int = 0
    note: str = ""

    @classmethod
    def of(cls, opened: Opened, *, partly: bool = False) -> Ran | None:
        """Return how a grid ran; None where an evaluation is missing, or with `partly` where all
        are.
        """
        keys = {key for trial in opened.plan.trials for key in trial.evaluations.values()}
        records = opened.storage.ledger.read_many(sorted(keys))
        missing = len(keys) - len(records)
        if not records or (missing and not partly):
            return None
        latest = max(record["created"] for record in records.values())
        took = Times(opened.plan, opened.storage).by_key()
        day = datetime.fromtimestamp(latest, UTC).date().isoformat()
        return cls(day, len(took), round(sum(took.values()), 1), common_entries(opened), missing)


@dataclass(frozen=True)
class Record:
    """The answers of the page, and the runs that they are from, by grid."""

    answered: Sequence[Answered]
    grids: Mapping[str, Ran]

    @classmethod
    def read(cls, path: Path) -> Record:
        """Read what `write` wrote; what is not asked any more is left out."""
        data = json.loads(path.read_text(encoding="utf-8"))
        answered = tuple(_answered(data["claims"]))
        return cls(answered, {name: Ran(**grid) for name, grid in data["grids"].items()})

    def write(self, path: Path) -> None:
        """Write the record as JSON."""
        claims = {
            found.claim.text: {
                "seconds": found.seconds,
                "answers": {
                    entry.question.text: {**asdict(entry.contrast), "p_adjusted": entry.p_adjusted}
                    for entry in found.answers
                    if entry.contrast is not None
                },
            }
            for found in self.answered
        }
        grids = {name: asdict(grid) for name, grid in self.grids.items()}
        text = json.dumps({"grids": grids, "claims": claims}, ensure_ascii=False, indent=1)
        path.write_text(f"{text}\n", encoding="utf-8")


def _answered(claims: Mapping[str, Any]) -> Iterator[Answered]:
    for claim in CLAIMS:
        if claim.text in claims:
            kept = claims[claim.text]
            answers = (_answer(asked, kept["answers"].get(asked.text)) for asked in claim.questions)
            yield Answered(claim, tuple(answers), kept["seconds"])


def _answer(question: Question, kept: Mapping[str, Any] | None) -> Answer:
    if kept is None:
        return Answer(question, None)
    found = {name: value for name, value in kept.items() if name != "p_adjusted"}
    contrast = ContrastTest(
        **{**found, "runs": tuple(found["runs"]), "spread": _spread(found.get("spread"))}
    )
    return Answer(question, contrast, kept["p_adjusted"])


def _spread(kept: Mapping[str, Any] | None) -> Spread | None:
    """Return kept variances; answers of earlier versions have none."""
    if kept is None:
        return None
    trained = tuple(TrainedSide(**side) for side in kept["trained"])
    return Spread(kept["examples"], kept["clusters"], trained)
