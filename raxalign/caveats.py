"""What a computation finds out about the ground that its numbers stand on: how much of a text the
tokenizer knew, which training came to nothing.

The caller of a computation opens `Caveats.collecting`. Code that reads text or trains records what
it saw, and need not know who collects it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, ClassVar


@dataclass
class Caveats:
    """What was seen: `pieces` read by language, `unknown` ones among them, for each training whose
    loss did not fall its loss at the start and at the end, and for each encoder that reads text in
    other pieces than its tokenizer makes, in what they differ. `cut_batches` are the trainings with
    dropout in which memory ran out, so that batches were read in more parts. `still_falling` are
    those that ended while their loss still fell, with what `Course.still_falling` says. `words` are
    those looked up among static vectors by language, `with_vector` those that have one, `beyond`
    those beyond an encoder's positions, `cut` the digests of the texts that lose pieces at the
    maximum length, each once, and `partial` says of files what is left out.
    """

    pieces: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    not_lowered: dict[str, tuple[float, float]] = field(default_factory=dict)
    still_falling: dict[str, tuple[float, float, float]] = field(default_factory=dict)
    not_as_trained: dict[str, str] = field(default_factory=dict)
    cut_batches: dict[str, None] = field(default_factory=dict)
    words: Counter[str] = field(default_factory=Counter)
    with_vector: Counter[str] = field(default_factory=Counter)
    beyond: Counter[str] = field(default_factory=Counter)
    cut: dict[str, set[int]] = field(default_factory=dict)
    partial: dict[str, str] = field(default_factory=dict)

    UNKNOWN: ClassVar = 0.02
    """The share of unknown pieces above which a remark is made: vectors are partly those of [UNK].
    """

    @classmethod
    @contextmanager
    def collecting(cls) -> Iterator[Caveats]:
        """Gather what is seen inside the block; of two blocks the inner one gets it."""
        found = cls()
        token = _LISTENER.set(found)
        try:
            yield found
        finally:
            _LISTENER.reset(token)

    @staticmethod
    def listener() -> Caveats | None:
        """Return the collector that is open, or None."""
        return _LISTENER.get()

    def read(self, lang: str, pieces: int, unknown: int) -> None:
        """Count pieces of a language, and the unknown ones among them."""
        self.pieces[lang] += pieces
        self.unknown[lang] += unknown

    def lose(self, lang: str, pieces: bytes) -> None:
        """Count a text of which pieces are lost at the maximum length, once however often read."""
        self.cut.setdefault(lang, set()).add(hash(pieces))

    def notes(self, reader: str = "") -> dict[str, object]:
        """Return the notes for a record: `unknown` (language -> share of ``[UNK]`` among its
        pieces), `loss_not_lowered` (training -> the two losses), `loss_still_falling` (training
        -> three), `not_as_trained` (encoder -> in what its pieces differ), `cut_batches`
        (trainings), `partial` (what is read in part, by the `reader` -> how much of it).
        """
        rates = {
            lang: round(self.unknown[lang] / count, 6)
            for lang, count in sorted(self.pieces.items())
            if count
        }
        shares = [f"{self.with_vector[k] / n:.1%} of {k}" for k, n in sorted(self.words.items())]
        beyond = [f"{n:,} of {lang}" for lang, n in sorted(self.beyond.items()) if n]
        cut = [f"{len(texts):,} of {lang}" for lang, texts in sorted(self.cut.items())]
        partial = {
            **dict(sorted(self.partial.items())),
            "words with a vector": ", ".join(shares),
            "words beyond the encoder's positions": ", ".join(beyond),
            "texts cut at the maximum length": ", ".join(cut),
        }
        found: dict[str, object] = {
            "unknown": rates,
            "loss_not_lowered": _listed(self.not_lowered),
            "loss_still_falling": _listed(self.still_falling),
            "not_as_trained": dict(sorted(self.not_as_trained.items())),
            "cut_batches": sorted(self.cut_batches),
            "partial": {f"{reader}{name}": said for name, said in partial.items() if said},
        }
        return {name: note for name, note in found.items() if note}

    @staticmethod
    def thin_support(maker: str, notes: Mapping[str, object]) -> dict[str, str]:
        """Return what of a dictionary a method was fitted on, or a task evaluated on, and what else
        was little, from its notes by language: ``rotation de`` -> a sentence without its end.
        """
        found = {}
        for lang, facts in notes.items():
            if not isinstance(facts, Mapping):
                continue
            said = list(_dictionary(facts))
            if "warning" in facts:
                said.append(str(facts["warning"]))
            if said:
                found[f"{maker} {lang}"] = "; ".join(said)
        return found

    @classmethod
    def said(cls, maker: str, notes: Mapping[str, Any]) -> Iterator[str]:
        """Yield all caveats in the notes of one computation that stands by itself, as `raxalign
        align`, each a sentence without its end.
        """
        for lang, share in notes.get("unknown", {}).items():
            if share > cls.UNKNOWN:
                yield f"{share:.1%} of the subword tokens of {lang} are unknown ([UNK])"
        for name, (start, end) in notes.get("loss_not_lowered", {}).items():
            yield f"the loss of the training run {name} did not fall ({start:.4g} to {end:.4g})"
        for name, (start, end, _) in notes.get("loss_still_falling", {}).items():
            told = f"still fell in its last fifth ({start:.4g} to {end:.4g})"
            yield f"the loss of the training run {name} {told}; train it longer"
        for name in notes.get("cut_batches", ()):
            yield f"memory ran out in the training run {name}, so that dropout drew other masks"
        parts = (
            notes.get("not_as_trained", {}),
            cls.thin_support(maker, notes),
            notes.get("partial", {}),
        )
        yield from (f"{name}: {told}" for part in parts for name, told in part.items())


def _listed(losses: Mapping[str, tuple[float, ...]]) -> dict[str, list[float]]:
    return {name: list(values) for name, values in sorted(losses.items())}


_LISTENER: ContextVar[Caveats | None] = ContextVar("caveats", default=None)


def _dictionary(facts: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence on how much of a dictionary is found."""
    entries, where = facts.get("entries"), "in the text"
    if (there := facts.get("entries_in_text")) is None:
        there, where = facts.get("entries_covered"), "among the words that have a vector"
    shares: Mapping[str, float] = facts.get("running_words", {})
    if not entries or there is None:
        return
    words = " and ".join(f"{share:.1%} in {lang}" for lang, share in shares.items())
    yield f"{there:,} of {entries:,} entries of the dictionary are {where}" + (
        f"; of the word occurrences they cover {words}" if words else ""
    )
