"""What a computation finds out about the ground that its numbers stand on: how much of a text the
tokenizer knew, which training came to nothing, and which rows of a source were left out.

The caller of a computation opens `Caveats.collecting`. Code that reads text or trains records what
it saw, and need not know who collects it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, ClassVar


class LeftOut(Counter[str]):
    """The rows of a source that its reader leaves out, counted by why. A reader leaves rows out
    through it alone, since the remark on them is made of it.

    >>> left = LeftOut()
    >>> [text for text in ("a", "", "b") if left.keep(text, "without a text")]
    ['a', 'b']
    >>> left.remarks("rows", kept=2)
    ('1 of 3 rows is left out: without a text',)
    """

    def keep(self, good: object, why: str) -> bool:
        """Return whether a row is good; count one that is not."""
        if not good:
            self[why] += 1
        return bool(good)

    def remarks(self, noun: str, kept: int) -> tuple[str, ...]:
        """Return the remark on the rows that are left out beside those that are `kept`, where there
        are any.
        """
        why = {reason: n for reason, n in self.items() if n}
        if not why:
            return ()
        lost = sum(why.values())
        counted = (f"{n:,} {reason}" if len(why) > 1 else reason for reason, n in why.items())
        verb = "are" if lost > 1 else "is"
        every = f"{lost + kept:,} {noun}".rstrip()
        return (f"{lost:,} of {every} {verb} left out: {', '.join(counted)}",)


@dataclass
class Caveats:
    """What was seen: `pieces` read by language, `unknown` ones among them, for each training whose
    loss did not fall its loss at the start and at the end, and for each encoder that reads text in
    other pieces than its tokenizer makes, in what they differ. `cut_batches` are the trainings with
    dropout in which memory ran out, so that batches were read in more parts. `still_falling` are
    those that ended while their loss still fell, with what `Course.still_falling` says. `words` are
    those looked up among static vectors by language, `with_vector` those that have one, `beyond`
    those beyond an encoder's positions, `cut` the digests of the texts that lose pieces at the
    maximum length or otherwise, by how and by language, each once, and `partial` says of files what
    is left out.
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
    cut: dict[str, dict[str, set[int]]] = field(default_factory=dict)
    partial: dict[str, str] = field(default_factory=dict)

    TOLD: ClassVar[Mapping[str, tuple[str, str]]] = {
        "absent": ("values that are absent", ""),
        "labels_not_in_training": ("labels that no training row has", ""),
        "missing_splits": ("splits that there are none of", ""),
        "not_in_both": ("questions left out, which are in one of the two languages alone", ""),
        "questions_unanswered": (
            "questions trained on as if they had no answer, since no window has it whole",
            "",
        ),
        "pairs_truncated": ("word pairs left out, since a word has no vector", "pairs"),
        "seen_in_training": ("evaluated rows that were trained on too", "rows"),
        "tags_not_in_training": ("tags that no training row has", ""),
        "truncated": ("sentences cut at the maximum length", "sentences"),
        "unread": ("texts without a vector", ""),
        "unread_src": ("sentences without a vector, which find nothing", "sentences"),
        "unread_tgt": ("sentences of the pivot without a vector, which find nothing", "sentences"),
        "without_counterpart": (
            "training rows left out, since another language has no row in their line",
            "",
        ),
        "words_left_out": ("words that have no subword token and are not trained on", "words"),
        "words_unread": ("words without a vector, which are linked with none", ""),
    }
    """The notes of an evaluation or a training that are reported to the user: what they count, and
    the note that has the number of all.
    """
    PRIVATE: ClassVar = frozenset(
        (
            *("candidates_src", "candidates_tgt", "examples", "first_src", "first_tgt", "found"),
            *("gold", "links", "pairs", "pairs_first", "pairs_identical", "pairs_seen", "pool"),
            *("possible", "rows", "rows_by_language", "sentences", "shared", "sure", "tokens"),
            *("vocabulary", "windows", "windows_with_answer", "words", "words_src", "words_tgt"),
            *("alpha", "labels", "layer", "models", "steps"),  # what was chosen
            *("entries", "entries_covered", "entries_in_text", "running_words"),  # `thin_support`
            *("misplaced", "unanswerable", "unlabelled"),  # the remarks on rows have them
        )
    )
    """The other notes that hold numbers: how much there is of what is compared, and what other
    sentences say.
    """
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

    def lose(self, lang: str, text: bytes, what: str) -> None:
        """Count a text that is not read as a whole, once however often it is read; `what` says what
        is lost.
        """
        self.cut.setdefault(what, {}).setdefault(lang, set()).add(hash(text))

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
        cut = {
            what: ", ".join(f"{len(texts):,} of {lang}" for lang, texts in sorted(lost.items()))
            for what, lost in self.cut.items()
        }
        partial = {
            **dict(sorted(self.partial.items())),
            "words with a vector": ", ".join(shares),
            "words beyond the encoder's positions": ", ".join(beyond),
            **cut,
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
    def warning(remarks: Sequence[str]) -> dict[str, str]:
        """Return the note of a part of a record on remarks, where there are any."""
        return {"warning": "; ".join(remarks)} if remarks else {}

    @staticmethod
    def thin_support(maker: str, notes: Mapping[str, object]) -> dict[str, str]:
        """Return what of a dictionary a method was fitted on, or a task evaluated on, and what else
        was little, or read in part, from its notes, those by language among them: ``rotation de``
        -> a sentence without its end.
        """
        said = list(_dictionary(notes))
        if "warning" in notes:
            said.append(str(notes["warning"]))
        found = {maker: "; ".join(said)} if said else {}
        for part, facts in notes.items():
            if isinstance(facts, Mapping):
                found |= Caveats.thin_support(f"{maker} {part}", facts)
        return found

    @classmethod
    def counted(cls, maker: str, notes: Mapping[str, Any]) -> dict[str, str]:
        """Return what the notes of an evaluation or a training count that is reported, by what it
        is, after the `maker` where one is named: ``12 of 300 in de/test``.
        """
        places: dict[str, list[str]] = {}
        for what, count in cls._counts(notes, ""):
            places.setdefault(f"{maker}: {what}" if maker else what, []).append(count)
        return {
            what: ", ".join(counts[:_SHOWN])
            + (f" and {len(counts) - _SHOWN} more" if len(counts) > _SHOWN else "")
            for what, counts in places.items()
        }

    @classmethod
    def _counts(cls, notes: Mapping[str, Any], place: str) -> Iterator[tuple[str, str]]:
        """Yield for each note of `TOLD` what it counts, and its number or its list."""
        for name, note in notes.items():
            if name in cls.TOLD:
                what, of = cls.TOLD[name]
                every = notes.get(of, notes.get("sentences") if of else None)
                for where, value in note.items() if isinstance(note, Mapping) else [(place, note)]:
                    among = every.get(where) if isinstance(every, Mapping) else every
                    told = _number(value, among if isinstance(among, int) else None)
                    if told:
                        yield what, f"{told} in {where}" if where else told
            elif isinstance(note, Mapping):
                yield from cls._counts(note, f"{place} {name}".lstrip())

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
            cls.counted(maker, notes),
            notes.get("partial", {}),
        )
        yield from (f"{name}: {told}" for part in parts for name, told in part.items())


def _listed(losses: Mapping[str, tuple[float, ...]]) -> dict[str, list[float]]:
    return {name: list(values) for name, values in sorted(losses.items())}


def _number(value: Any, among: int | None) -> str:
    """Write a number of some, or a list; nothing where there is none."""
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    if isinstance(value, int):
        of = f" of {among:,}" if among is not None else ""
        return f"{value:,}{of}" if value else ""
    return str(value)


_SHOWN = 3  # places that a sentence names
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
