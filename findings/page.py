"""The page of what was found, in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from findings.papers import GRIDS, PaperClaim, Papers, grid_file
from findings.record import MARGIN, Answer, Difference, Ran, Record
from raxalign.grid.estimates import duration

NOT_YET = "not measured yet"
OUTSIDE = "outside the paper's range"
SAYS = {
    "held": "as the paper says",
    "refuted": "the opposite",
    "no difference": f"no difference above {MARGIN:g} %",
    "cannot tell": "cannot tell",
}
"""What a difference says of a sentence; of one that is outside its range, too."""
_CITED = "published-encoder"
SIDES = {
    "other-layer": "another layer (8)",
    "other-text": "another test set (NTREX)",
    "other-aligner": "another word aligner (thot)",
}
"""The grids that check the cited one, with what each has in place of it."""
SIDES_SIZE = 1_600
"""Their number of sentence pairs."""
_EXPECTED = {**SAYS, "held": "as expected"}
_ORDER = ("refuted", "cannot tell", "no difference", "held")

HEAD = f"""# Findings

What papers say of alignment, asked again on real text of a published encoder:
multilingual-e5-small (Wang et al. 2024; 12 layers of 384, 100 languages), its weights rounded to 4
bits and its products computed in the precision of the grid (last table), with the subword tokens
that the texts use. It is a retrieval encoder that has been aligned by its training, which none of
these papers' encoders had been; how it compares with its published figures is on [a page of its
own](published-encoder.md).

The tables are made by `python -m findings` from the results of the grids in `findings/`, none of
them by hand. Claims and seeds stand in those grids, and the lock file next to each says when a
claim was written down, and whether there were results before.

- **The sentence.** Each claim is a sentence of a paper in our words, with its place and the few
  words that are quoted. A verdict is about that sentence alone.
- **The range.** *Held* and *refuted* are said only where the difference lies within what the
  sentence is about: the paper's encoder, its numbers of sentence pairs, its languages, and its
  layers and other options. Elsewhere the verdict is *{OUTSIDE}*, with what is
  outside. All sentences below are about multilingual BERT: on another encoder a result shows
  whether a sentence carries over, and neither holds nor refutes it.
- **Levels and chance.** Next to each difference are both values and what guessing gets: one label
  in three of XNLI; of retrieval one of as many candidates as there are pairs (there are more, so
  that it is less); 0 for F1.
- **No difference** is said where the whole 95 % confidence interval lies within {MARGIN:g} % of how
  far the second value is from chance: with a value b and a chance c, within
  ± {MARGIN / 100:g} · |b - c|. Otherwise a difference that is not significant reads *cannot tell*,
  with the minimum detectable effect (MDE, 80 % power) where five runs show it: not significant is
  not the same as no effect.
- **Tests.** Intervals count test examples and training runs as random. P-values are corrected by
  Holm over the claims of their grid, and before that for earlier looks (look k: times k (k + 1)).
  Methods with runs that are not all done are not looked at.
- **Epochs** are how often a training run read its sentences; maps are fitted to them once.
- **Machine time** is that of all stages and evaluations that the values were made from, by the
  clock, so that other work on the machine lengthens it.
"""


@dataclass(frozen=True)
class _Found:
    """A paper's claim with the differences that there are, each with what is outside its range."""

    claim: PaperClaim
    differences: tuple[tuple[Difference, tuple[str, ...]], ...]
    written: tuple[str, ...]
    whole: bool

    @classmethod
    def of(cls, claim: PaperClaim, ran: Ran | None) -> _Found:
        grid = grid_file(claim.grid)
        answers = [ran.answers[text] for text in claim.claims if ran and text in ran.answers]
        found = tuple(
            (each, tuple(claim.range.left_by(grid, each.encoder, each.sentences)))
            for answer in answers
            for each in answer.differences
        )
        written = tuple(dict.fromkeys(answer.written for answer in answers))
        return cls(claim, found, written, len(found) == len(claim.claims) * _sizes(grid))

    @property
    def verdict(self) -> str:
        """Say what became of the sentence."""
        if not self.whole:
            return NOT_YET
        inside = [each.verdict for each, outside in self.differences if not outside]
        if not inside:
            return OUTSIDE
        worst = next(one for one in _ORDER if one in inside)
        return worst if worst in ("held", "refuted") else SAYS[worst]

    @property
    def results(self) -> str:
        """Say what the differences are, in the paper's sense."""
        several = (SAYS[each.verdict] for each, _ in self.differences)
        return "; ".join(dict.fromkeys(several)) if self.whole else ""

    @property
    def outside(self) -> str:
        """Say in what they are outside the range."""
        return ", ".join(dict.fromkeys(one for _, several in self.differences for one in several))


def _sizes(grid: Mapping[str, object]) -> int:
    sizes = grid["sentences"]
    return len(sizes) if isinstance(sizes, list) else 1


def render(record: Record, papers: Papers) -> str:
    """Return the page: a summary, the claims with their differences, and what each grid has."""
    found = [_Found.of(claim, record.grids.get(claim.grid)) for claim in papers.claims]
    lines = [HEAD, "## Sentences of papers", "", *_summary(found), ""]
    for number, one in enumerate(found, start=1):
        lines += [*_section(number, one), ""]
    lines += ["## What is not asked", ""]
    lines += [f"- {left.paper}: {left.why}" for left in papers.not_asked]
    lines += ["", "## Methods on this encoder", ""]
    for name in GRIDS:
        ran = record.grids.get(name)
        if ran is not None and name in (_CITED, "transfer"):
            lines += [*_means(name, ran), ""]
    lines += ["## From another side", "", *_sides(record), ""]
    lines += ["## The grids", "", *_grids(record)]
    return "\n".join(lines).rstrip("\n") + "\n"


def _summary(found: Sequence[_Found]) -> Iterator[str]:
    yield "| | sentence | paper | verdict | result here | outside | machine time |"
    yield "|---|---|---|---|---|---|---|"
    for number, one in enumerate(found, start=1):
        claim = one.claim
        cells = (claim.says, f"{claim.paper}, {claim.place}", one.verdict, one.results, one.outside)
        yield f"| {number} | {' | '.join(cells)} | {_time(one) if one.whole else ''} |"


def _time(one: _Found) -> str:
    return duration(max((each.seconds for each, _ in one.differences), default=0.0))


def _section(number: int, one: _Found) -> Iterator[str]:
    claim = one.claim
    yield f"### {number}: {one.verdict}"
    yield ""
    yield f"{claim.says} (“{claim.quote}”: {claim.paper}, {claim.place})"
    yield ""
    yield f"Measured: {claim.measured}; the grid is `{_file(claim.grid)}`. {claim.differs}"
    if one.whole:
        yield f"The claim was written down: {', '.join(one.written)}."
        yield ""
        yield from _table([each for each, _ in one.differences], SAYS)


_COLUMNS = (
    *("compared", "in", "pairs", "first", "second", "chance", "difference", "95 % CI", "p"),
    *("margin", "MDE", "runs", "epochs", "look", "result"),
)


def _table(several: Sequence[Difference], says: Mapping[str, str]) -> Iterator[str]:
    yield f"| {' | '.join(_COLUMNS)} |"
    yield "|" + "---|" * len(_COLUMNS)
    for each in several:
        yield f"| {' | '.join(_row(each, says))} |"


def _row(each: Difference, says: Mapping[str, str]) -> Iterator[str]:
    yield f"{each.first} - {each.second}"
    yield f"{each.task} `{each.metric}`, {_LANGS.get(each.lang, each.lang)}"
    yield "" if each.sentences is None else f"{each.sentences:,}"
    yield from (_number(value) for value in (each.value, each.against, each.chance))
    yield "" if each.difference is None else f"{each.difference:+.2f}"
    yield "" if each.low is None or each.high is None else f"{each.low:+.2f} to {each.high:+.2f}"
    yield "" if each.p is None else "< .001" if each.p < 0.001 else f"{each.p:.3f}".lstrip("0")
    yield "" if each.margin is None else f"± {each.margin:.2f}"
    yield _number(each.detectable)
    yield " / ".join(map(str, each.runs))
    yield "" if each.epochs is None else f"{each.epochs:g}"
    yield str(each.look)
    yield says.get(each.verdict, each.verdict)


_LANGS = {
    "avg": "mean over languages",
    "avg_zero_shot": "mean over languages but English",
    "avg_unseen": "mean over languages that are not aligned",
}


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _means(name: str, ran: Ran) -> Iterator[str]:
    """The main metrics of a grid's methods by task, and what became of its own claims."""
    yield f"### `{name}`: {ran.done} of {ran.trials} trials"
    yield ""
    if ran.answer:
        yield f"The report on these trials opens with: “{ran.answer}”"
        yield ""
    yield (
        "Percent; in brackets the difference to the encoder as it is and its 95 % confidence"
        " interval, in bold where it is significant after Holm's correction over the comparisons of"
        " the task that are there, those of single languages included."
    )
    yield ""
    columns = list(dict.fromkeys((each.task, each.lang) for each in ran.means))
    heads = (f"{task}, {_LANGS.get(lang, lang)}" for task, lang in columns)
    yield f"| method | pairs | epochs | {' | '.join(heads)} |"
    yield "|---|---|---|" + "---|" * len(columns)
    base = {(each.task, each.lang): each.against for each in ran.means}
    yield f"| none | | | {' | '.join(_number(base[column]) for column in columns)} |"
    cells: dict[tuple[str, int | None], dict[tuple[str, str], Difference]] = {}
    for each in ran.means:
        cells.setdefault((each.first, each.sentences), {})[each.task, each.lang] = each
    for (first, sentences), row in cells.items():
        epochs = next((one.epochs for one in row.values() if one.epochs), None)
        shown = (_mean(row[column]) if column in row else "" for column in columns)
        told = (
            "" if sentences is None else f"{sentences:,}",
            "" if epochs is None else f"{epochs:g}",
        )
        yield f"| {first} | {' | '.join(told)} | {' | '.join(shown)} |"
    yield ""
    yield from _expected(ran.answers)


def _mean(each: Difference) -> str:
    if each.difference is None or each.low is None or each.high is None:
        return f"{each.value:.2f} ({each.why or each.verdict})"
    told = f"{each.value:.2f} ({each.difference:+.2f}: {each.low:+.2f} to {each.high:+.2f})"
    return f"**{told}**" if each.verdict in ("better", "worse") else told


def _expected(answers: Mapping[str, Answer]) -> Iterator[str]:
    """What the grid was expected to show: claims of ours, of no paper."""
    if answers:
        yield "What this grid was expected to show (our claims, of no paper):"
        yield ""
        for text, answer in answers.items():
            yield f"- `{text}` (written down: {answer.written}):"
            yield ""
            yield from _table(answer.differences, _EXPECTED)
            yield ""


def _sides(record: Record) -> Iterator[str]:
    """The claims of the cited grid, each next to what the grids that differ in one thing say."""
    yield (
        f"Claims of `{_CITED}` that are asked again at {SIDES_SIZE:,} pairs by grids that differ"
        " from it in one thing: the difference, its 95 % confidence interval, and what it says of"
        " the claim (– where a grid cannot ask it). Holm's correction is over the claims of each"
        " grid."
    )
    yield ""
    yield f"| claim | as in `{_CITED}` | {' | '.join(SIDES.values())} | the same everywhere |"
    yield "|---|---|" + "---|" * (len(SIDES) + 1)
    asked = {name: grid_file(name)["claims"] for name in (_CITED, *SIDES)}
    for text in dict.fromkeys(claim for name in SIDES for claim in asked[name]):
        found = [_of_size(record.grids.get(name), text) for name in asked if text in asked[name]]
        same = "yes" if len({each and each.verdict for each in found}) == 1 else "no"
        cells = (
            _told(_of_size(record.grids.get(name), text)) if text in asked[name] else "–"
            for name in asked
        )
        yield f"| `{text}` | {' | '.join(cells)} | {NOT_YET if None in found else same} |"


def _of_size(ran: Ran | None, text: str) -> Difference | None:
    answer = ran.answers.get(text) if ran is not None else None
    several = answer.differences if answer is not None else ()
    return next((each for each in several if each.sentences == SIDES_SIZE), None)


def _told(each: Difference | None) -> str:
    if each is None or each.difference is None or each.low is None or each.high is None:
        return NOT_YET
    return (
        f"{each.difference:+.2f} ({each.low:+.2f} to {each.high:+.2f}): {_EXPECTED[each.verdict]}"
    )


def _grids(record: Record) -> Iterator[str]:
    yield "| grid | what it asks | seeds | precision | trials | machine time so far | last result |"
    yield "|---|---|---|---|---|---|---|"
    for name in GRIDS:
        text = grid_file(name)
        seeds = ", ".join(map(str, text["seeds"]))
        ran = record.grids.get(name)
        so_far: tuple[str, ...] = ("", NOT_YET, "", "")
        if ran is not None:
            trials = f"{ran.done} of {ran.trials}"
            so_far = (ran.precision, trials, duration(ran.seconds), ran.day)
        asked = "; ".join(re.sub(r"\s+", " ", claim) for claim in text["claims"])
        said = (asked, seeds, *so_far)
        yield f"| `{_file(name)}` | {' | '.join(said)} |"


def _file(name: str) -> str:
    path = GRIDS[name]
    return f"{path.parent.name}/{path.name}"
