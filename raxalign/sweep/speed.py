"""How fast the trainings that run are."""

from __future__ import annotations

from raxalign.sweep.advance import Advance
from raxalign.train.runtime import TOKENS


class Speeds:
    """Describes the speed of each training from its last two notes."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[Advance, str]] = {}

    def of(self, key: str, advance: Advance) -> str:
        """Describe the speed of a stage or trial, ending in a comma: its tokens per second, or
        steps where it has none. Empty while it is not known.
        """
        before, rate = self._last.get(key, (Advance(0.0), ""))
        if advance.step > before.step and advance.seconds > before.seconds:
            speed = (advance.step - before.step) / (advance.seconds - before.seconds)
            tokens = [v for name, v in advance.values.items() if name.endswith(TOKENS)]
            steps = f"{speed:.3g} steps/s, " if before.step else ""
            rate = f"{tokens[0]:,.0f} tokens/s, " if tokens else steps
        if advance.step != before.step or key not in self._last:
            self._last[key] = (advance, rate)
        return rate

    def drop(self, key: str) -> None:
        """Forget a stage or trial that ended."""
        self._last.pop(key, None)
