"""The experiment that all programs run: a corpus for each of ten languages, and many trials that
read one of them.

A sleep stands for the work of a GPU, so that eight workers fit on two cores. Each piece of work
appends a line to one log when it begins and one when it ends. How large the experiment is comes
from the environment, so that the command of a program is the same each time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

LANGUAGES = ("bg", "de", "el", "es", "fi", "fr", "hu", "it", "nl", "pt")
STAGE_SECONDS = 2.0
TRIALS, SECONDS, WORKERS, LOG = (f"AGAINST_{n}" for n in ("TRIALS", "SECONDS", "WORKERS", "LOG"))


def workers() -> int:
    """Return how many pieces of work may run at once."""
    return int(os.environ[WORKERS])


def numbers() -> range:
    """Return the numbers of the trials of each language."""
    return range(int(os.environ[TRIALS]) // len(LANGUAGES))


def points() -> list[tuple[str, int]]:
    """Return the language and the number of each trial."""
    return [(language, number) for language in LANGUAGES for number in numbers()]


def corpus(language: str) -> list[str]:
    """Make the corpus of a language: the stage that its trials share."""
    _work(f"corpus-{language}", STAGE_SECONDS)
    return [f"{language}{number}" for number in range(8)]


def trial(language: str, number: int, text: list[str]) -> float:
    """Run one trial on the corpus of its language; return its score."""
    if not text[0].startswith(language):
        raise ValueError(f"the corpus of {language} is needed, not {text}")
    _work(f"trial-{language}-{number}", float(os.environ[SECONDS]))
    return len(text) + number / 1000


def write_table(scores: Iterable[float]) -> None:
    """Write the table of all trials into the folder in which the program runs."""
    rows = zip(points(), scores, strict=True)
    lines = (f"{language},{number},{score}\n" for (language, number), score in rows)
    Path("results.csv").write_text("".join(lines), "utf-8")


def _work(name: str, seconds: float) -> None:
    _note("begin", name)
    time.sleep(seconds)
    _note("end", name)


def _note(what: str, name: str) -> None:
    """Append a line. The clock is the same in all processes of a machine."""
    line = f"{what} {name} {time.monotonic():.6f} {os.getpid()}\n"
    log = os.open(os.environ[LOG], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(log, line.encode("ascii"))
    finally:
        os.close(log)
