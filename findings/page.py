"""The page of what was found, in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from findings.papers import GRIDS, PaperClaim, Papers, grid_digest, grid_file
from findings.record import MARGIN, Answer, Difference, Ran, Record
from raxalign.analysis.significance import lies_within
from raxalign.grid.estimates import duration
from raxalign.values.claims import JudgedClaim

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

Which alignment helps multilingual-e5-small (Wang et al. 2024; 12 layers of 384, 100 languages),
and whether sentences of papers about multilingual BERT carry over to it. It is a retrieval
encoder that has been aligned by its training, which none of these papers' encoders had been; how
it compares with its published figures is on [a page of its own](published-encoder.md). Its
weights are rounded to 4 bits here and cut to the subword tokens of the texts, and its products
are computed in the precision of the grid (last table).

The tables are made by `python -m findings` from the results of grids, none of them by hand; data,
times and how to run it are in `findings/README.md`. Claims and seeds stand in the grids, and the
lock file next to each says when a claim was written down, and whether there were results before.

- **The sentence.** Each claim is a sentence of a paper in our words, with its place and the few
  words that are quoted. A verdict is about that sentence alone.
- **The range.** *Held* and *refuted* are used only where the difference lies within what the
  sentence is about: the paper's encoder, its numbers of sentence pairs, its languages, and its
  layers and other options. Elsewhere the verdict is *{OUTSIDE}*, with what is outside. All
  sentences below are about multilingual BERT: on another encoder a result shows whether a
  sentence carries over, and neither holds nor refutes it.
- **Levels and chance.** Next to each difference A - B are both values and what guessing gets: one
  label in three of XNLI; at most 1 / number of pairs of retrieval; 0 for F1.
- **No difference.** With a value B and a chance c, the margin is ± {MARGIN / 100:g} · |B - c|.
  Where a difference is not significant and its whole 95 % confidence interval lies within the
  margin, this reads *no difference above {MARGIN:g} %*; one that is significant and lies within
  it reads *(within the margin)*. Near 100 % the margin is nearly all that is left to win: read
  the interval. What is not significant otherwise reads *cannot tell*, with the minimum detectable
  effect (MDE, 80 % power; after the correction) from five runs on, or where nothing is random but
  the test examples: not significant is not the same as no effect.
- **Tests.** Intervals count test examples and training runs as random. P-values of claims are
  corrected by Holm over the tests of all claims of their grid that there are, and before that for
  earlier looks (from the second look k on: times k (k + 1)). Methods with runs that are not all
  done are not looked at.
- **Columns.** *Pairs* are sentence pairs of each language; *runs* training runs of A / of B (one
  where nothing is random); *epochs* how often a training run read its sentences, where maps are
  fitted to them once; *look* how often the comparison has been tested.
- **Shared runs.** Grids that ask for the same training runs share them: a value that stands in two
  sections is not a replication. A smaller grid has fewer comparisons to correct, so that more of
  them are bold.
- **Machine time** is that of all stages and evaluations that the values were made from, by the
  clock, so that other work on the machine lengthens it. A training run that was killed counts
  from where it went on: the version that ran it did not keep the time before.
"""


@dataclass(frozen=True)
class _Found:
    """A paper's claim with the differences that there are, each with what is outside its range."""

    claim: PaperClaim
    differences: tuple[tuple[Difference, tuple[str, ...]], ...]
    written: tuple[str, ...]
    whole: bool
    seconds: float

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
        seconds = ran.times.get(" ".join(claim.claims), 0.0) if ran else 0.0
        return cls(
            claim, found, written, len(found) == len(claim.claims) * len(_sizes(grid)), seconds
        )

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


def _sizes(grid: Mapping[str, Any]) -> list[int]:
    """The numbers of sentence pairs of a grid, without those that it leaves out of all methods."""
    listed = grid["sentences"] if isinstance(grid["sentences"], list) else [grid["sentences"]]
    out = [entry["sentences"] for entry in grid.get("exclude", ()) if entry.keys() == {"sentences"}]
    return [size for size in listed if not any(size in sizes for sizes in out)]


def render(record: Record, papers: Papers) -> str:
    """Return the page: a summary, the claims with their differences, and what each grid has."""
    found = [_Found.of(claim, record.grids.get(claim.grid)) for claim in papers.claims]
    lines = [HEAD, "## Methods on this encoder", ""]
    for name in GRIDS:
        ran = record.grids.get(name)
        if ran is not None and name in (_CITED, "transfer"):
            lines += [*_means(name, ran), ""]
    lines += ["## Robustness checks", "", *_sides(record), ""]
    lines += ["## Sentences of papers", "", *_summary(found), ""]
    for number, one in enumerate(found, start=1):
        lines += [*_section(number, one), ""]
    lines += ["## What is not asked", ""]
    lines += [f"- {left.paper}: {left.why}" for left in papers.not_asked]
    lines += ["", "## The grids", "", *_grids(record)]
    return "\n".join(lines).rstrip("\n") + "\n"


def _summary(found: Sequence[_Found]) -> Iterator[str]:
    yield "| | sentence | paper | verdict | result here | outside | machine time |"
    yield "|---|---|---|---|---|---|---|"
    for number, one in enumerate(found, start=1):
        claim = one.claim
        cells = (claim.says, f"{claim.paper}, {claim.place}", one.verdict, one.results, one.outside)
        yield f"| {number} | {' | '.join(cells)} | {duration(one.seconds) if one.whole else ''} |"


def _section(number: int, one: _Found) -> Iterator[str]:
    claim = one.claim
    yield f"### {number}: {one.verdict}"
    yield ""
    yield f"{claim.says} (“{claim.quote}”: {claim.paper}, {claim.place})"
    yield ""
    yield f"Measured: {claim.measured}; the grid is `{_file(claim.grid)}`. {claim.differs}"
    if one.whole:
        yield f"The claim was {_when(one.written)}."
        yield ""
        yield from _table([each for each, _ in one.differences], SAYS)


_COLUMNS = (
    *("A - B", "in", "pairs", "A", "B", "chance", "difference", "95 % CI", "p"),
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
    yield "" if each.difference is None else _signed(each.difference)
    yield "" if each.low is None or each.high is None else _interval(each.low, each.high)
    yield "" if each.p is None else "< .001" if each.p < 0.001 else f"{each.p:.3f}".lstrip("0")
    yield "" if each.margin is None else f"± {each.margin:.2f}"
    yield _number(each.detectable)
    yield " / ".join(map(str, each.runs))
    yield "" if each.epochs is None else f"{each.epochs:g}"
    yield str(each.look)
    yield f"{says.get(each.verdict, each.verdict)}{_within(each)}{each.why and f': {each.why}'}"


def _within(each: Difference) -> str:
    significant = each.verdict in ("held", "refuted")
    return " (within the margin)" * (significant and lies_within(each.low, each.high, each.margin))


def _when(written: Sequence[str]) -> str:
    """Say when claims were written down."""
    before = written and set(written) == {JudgedClaim.BEFORE}
    return "written down before the first result" if before else "written down after first results"


_LANGS = {
    "avg": "mean over aligned languages",
    "avg_zero_shot": "mean over aligned languages but English",
    "avg_unseen": "mean over languages that are not aligned",
}


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _means(name: str, ran: Ran) -> Iterator[str]:
    """The main metrics of a grid's methods by task, and what became of its own claims."""
    yield f"### `{name}`: {ran.done} of {ran.trials} trials"
    yield ""
    yield _about(name)
    yield ""
    if ran.answer:
        which = "methods show that have finished all runs" if ran.left else "report says"
        yield f"What the {which}: “{ran.answer}”"
        yield ""
    if ran.left:
        yield f"Not measured yet: {', '.join(ran.left)}."
        yield ""
    if not ran.means:
        return
    yield (
        "Percent; in brackets the difference to the encoder as it is and its 95 % confidence"
        " interval, in bold where it is significant after Holm's correction over the comparisons of"
        " the task that are there, those of single languages included. *Runs* are training runs, of"
        " the method or of the task; maps have no randomness of their own. Three say little about"
        " how much runs differ, so that few of their differences are significant among so many,"
        " even large ones."
    )
    yield ""
    columns = list(dict.fromkeys((each.task, each.lang) for each in ran.means))
    heads = (f"{task}, {_LANGS.get(lang, lang)}" for task, lang in columns)
    yield f"| method | pairs | epochs | runs | {' | '.join(heads)} |"
    yield "|---|---|---|---|" + "---|" * len(columns)
    base = {(each.task, each.lang): each.against for each in ran.means}
    yield f"| none | | | | {' | '.join(_number(base[column]) for column in columns)} |"
    cells: dict[tuple[str, int | None], dict[tuple[str, str], Difference]] = {}
    for each in ran.means:
        cells.setdefault((each.first, each.sentences), {})[each.task, each.lang] = each
    for (first, sentences), row in cells.items():
        epochs = next((one.epochs for one in row.values() if one.epochs), None)
        runs = max((one.runs[0] for one in row.values() if one.runs), default=1)
        shown = (
            _mean(row[column]) if column in row else f"{_number(base[column])} (unchanged)"
            for column in columns
        )
        told = (
            "" if sentences is None else f"{sentences:,}",
            "" if epochs is None else f"{epochs:g}",
            "" if runs == 1 else str(runs),
        )
        yield f"| {first} | {' | '.join(told)} | {' | '.join(shown)} |"
    yield ""
    yield from _expected(ran.answers)


def _mean(each: Difference) -> str:
    if each.difference is None or each.low is None or each.high is None:
        return f"{each.value:.2f} ({each.why or each.verdict})"
    if each.verdict == "=":
        return f"{each.value:.2f} (unchanged)"
    told = f"{each.value:.2f} ({_signed(each.difference)}: {_interval(each.low, each.high)})"
    return f"**{told}**" if each.verdict in ("better", "worse") else told


def _signed(value: float) -> str:
    return f"{value:+z.2f}"


def _interval(low: float, high: float) -> str:
    return f"{_signed(low)} to {_signed(high)}"


_LOOKED_FOR = {
    "retrieval": "Words of {test} test pairs of each language are looked for in both directions;"
    " the values are over those that were never linked in training (`contextual_accuracy`).",
    "sentence_retrieval": "Sentences are looked for among the {test} of their language.",
}


def _about(name: str) -> str:
    """Say what a grid reads, and which words and sentences of it are looked for."""
    grid = grid_file(name)
    (aligned,) = grid["languages"].values()
    asked = [lang for task in grid["tasks"].values() for lang in task.get("languages", ())]
    others = [lang for lang in dict.fromkeys(asked) if lang not in aligned]
    sizes = " or ".join(f"{size:,}" for size in _sizes(grid))
    test = grid["corpus"]["split"]["test"]
    looked_for = (
        text.format(test=test) for task, text in _LOOKED_FOR.items() if task in grid["tasks"]
    )
    return (
        f"`{_file(name)}`: {', '.join(aligned)} are aligned with {grid['pivot']} on {sizes}"
        f" sentence pairs of each; {', '.join(others) or 'no language'}: in no method's text."
        f" All pairs are from `{grid['corpus']['path']}`, and words are linked by"
        f" {grid['pairs']['aligner']}."
        f" {' '.join(looked_for)}"
    )


def _expected(answers: Mapping[str, Answer]) -> Iterator[str]:
    """What the grid was expected to show: claims of ours, of no paper."""
    if answers:
        yield (
            "What this grid was expected to show (our claims, of no paper). The report calls a"
            " claim held where every size is as expected, and refuted where one is the opposite:"
        )
        yield ""
        for text, answer in answers.items():
            yield f"- `{text}` ({_when([answer.written])}):"
            yield ""
            yield from _table(answer.differences, _EXPECTED)
            yield ""


def _sides(record: Record) -> Iterator[str]:
    """The claims of the cited grid, each next to what the grids that differ in one thing say."""
    yield (
        f"Claims of `{_CITED}` at {SIDES_SIZE:,} pairs, to be asked again by grids that have"
        " something else in one place: the difference, its 95 % confidence interval, and what it"
        " says of the claim (– where a grid cannot ask it). Another layer is both aligned and read."
        " Another word aligner links the words of training and those that are looked for. Another"
        f" text is read by the encoders of `{_CITED}` themselves, which were not trained again."
        " The claims were chosen from first results there. Holm's correction is over the claims of"
        " each grid, so compare the intervals too."
    )
    yield ""
    yield f"| claim | as in `{_CITED}` | {' | '.join(SIDES.values())} | holds |"
    yield "|---|---|" + "---|" * (len(SIDES) + 1)
    asked = {name: grid_file(name)["claims"] for name in (_CITED, *SIDES)}
    for text in dict.fromkeys(claim for name in SIDES for claim in asked[name]):
        there = {
            name: _of_size(record.grids.get(name), text) for name in asked if text in asked[name]
        }
        verdicts = {each.verdict for each in there.values() if each is not None}
        holds = "yes" if verdicts == {"held"} else "no" if "refuted" in verdicts else "not decided"
        holds += f" (asked by {len(there) - 1} of {len(SIDES)})"
        cells = (_told(there[name]) if name in there else "–" for name in asked)
        whole = NOT_YET if None in there.values() else holds
        yield f"| `{text}` | {' | '.join(cells)} | {whole} |"


def _of_size(ran: Ran | None, text: str) -> Difference | None:
    answer = ran.answers.get(text) if ran is not None else None
    several = answer.differences if answer is not None else ()
    return next((each for each in several if each.sentences == SIDES_SIZE), None)


def _told(each: Difference | None) -> str:
    if each is None:
        return NOT_YET
    if each.difference is None or each.low is None or each.high is None:
        return f"not tested: {each.why}"
    told = f"{_signed(each.difference)} ({_interval(each.low, each.high)})"
    return f"{told}: {_EXPECTED[each.verdict]}{_within(each)}"


def _grids(record: Record) -> Iterator[str]:
    yield "| grid | what it asks | seeds | precision | trials | machine time so far | last result |"
    yield "|---|---|---|---|---|---|---|"
    for name in GRIDS:
        text = grid_file(name)
        seeds = ", ".join(map(str, text["seeds"]))
        ran = record.grids.get(name)
        so_far: tuple[str, ...] = ("", NOT_YET, "", "")
        if ran is not None:
            older = "" if ran.grid == grid_digest(name) else ", of an earlier version of the file"
            trials = f"{ran.done} of {ran.trials}{older}"
            so_far = (ran.precision, trials, duration(ran.seconds), ran.day)
        asked = "; ".join(re.sub(r"\s+", " ", claim) for claim in text["claims"])
        said = (asked, seeds, *so_far)
        yield f"| `{_file(name)}` | {' | '.join(said)} |"


def _file(name: str) -> str:
    path = GRIDS[name]
    return f"{path.parent.name}/{path.name}"
