"""The answer of a grid in a few sentences, from its comparisons, and what became of its claims."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from raxalign.analysis.cells import MEANS, Cell, Name
from raxalign.grid.plan import Plan
from raxalign.measured import spoken
from raxalign.printing import counted
from raxalign.store.ledger import EarlierLook, Ledger
from raxalign.values.comparisons import LEFT, Compared, baseline_cells, comparisons, ordinal
from raxalign.values.curves import SizeCurves
from raxalign.values.numbers import NumberFormat
from raxalign.values.predictions import MOST_EVALUATIONS
from raxalign.values.results import FLOOR, near_floor, rows
from raxalign.values.scoreboard import Scoreboard, TableKey, why_uncompared

_MOST_TASKS = 3  # those after the main one; more of them are counted together
_MOST_NAMED = 6  # languages; more of them are counted
_FEW_NAMED = 3  # languages that are named where it is all of them
_OPTIMISTIC = "chosen on test itself, which is optimistic"
_NUMBERS = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]


@dataclass(frozen=True)
class LanguageTally:
    """What the comparisons of one cell in one table say: the languages in which its values are
    better, worse, and neither. `whole` is the comparison of the mean over these languages, and no
    others, or of the only one; `earlier` are the looks at them before; `untested` says why nothing
    is tested, where that is so; `baseline` is the cell that all are compared with.
    """

    table: TableKey
    better: list[str]
    worse: list[str]
    neither: list[str]
    whole: Compared | None
    at_chance: list[str]
    earlier: Sequence[EarlierLook]
    untested: str
    baseline: Cell | None = None

    @property
    def languages(self) -> list[str]:
        """All languages that are compared."""
        return self.better + self.worse + self.neither

    @property
    def decided(self) -> bool:
        """Whether the whole is significant, and no language is the other way."""
        verdict = self.whole.verdict if self.whole is not None else None
        return (verdict == "better" and not self.worse) or (verdict == "worse" and not self.better)

    def within(self, langs: Sequence[str], *, named: bool = False) -> str:
        """Say which of the languages these are: ``in de and fr``, ``in all five languages``; where
        the languages were `named` before and these are all of them, ``in both`` or ``in each``.
        """
        every = len(self.languages)
        if named and len(langs) == every:
            return ["", "in both", "in each"][min(every, 3) - 1]
        if len(langs) == every > _FEW_NAMED:
            return f"in all {_number(every)} languages"
        if len(langs) > _MOST_NAMED:
            return f"in {len(langs)} of {every} languages"
        return f"in {_listed(langs)}"

    def judged(self, *, named: bool = False) -> str:
        """Say where it is better or worse: ``better in bg and de, worse in es, neither in fr``."""
        sides = [("better", self.better), ("worse", self.worse)]
        parts = [
            f"{verdict} {self.within(langs, named=named)}".rstrip()
            for verdict, langs in sides
            if langs
        ]
        rest = "not" if len(parts) == 1 else "neither"
        if parts and 0 < len(self.neither) <= _MOST_NAMED:
            parts.append(f"{rest} in {_listed(self.neither, 'or')}")
        return ", ".join(parts)

    def where(self, *, named: bool = False) -> str:
        """Say in which languages a whole that is decided is significant too; empty: in none."""
        return self.judged(named=named).partition(" ")[2]


def answer(results: Scoreboard, curves: SizeCurves | None = None) -> str:
    """Return in few sentences what the grid shows, and how little where it shows little.

    They begin with what the development set chooses by the main task: the first task of the grid
    that is compared with a baseline over enough examples. `curves` are those of its values over the
    number of sentence pairs.
    """
    if not results.cells:
        return "No results yet."
    tables = results.compared_tables()
    if not tables:
        return _uncompared(results, left=any(f.untested == LEFT for f in results.compared))
    told = _Answer(results, tables, curves)
    return ("So far " if results.lacking.told() else "") + " ".join(told.sentences())


def stored_answer(plan: Plan, ledger: Ledger) -> str:
    """Return the answer of a ledger's results, after what they lack; nothing where there are none.

    Only the predictions of the tables that it is about are read: of very many evaluations those of
    the first task.
    """
    found = rows(plan, ledger)
    if not found:
        return ""
    results = Scoreboard.of(found, plan, ledger)
    tables = results.leading_tables()
    if results.done > MOST_EVALUATIONS:
        tables = [t for t in tables if plan.measured(t[0], t[1]).better != "neither"][:1]
    read = [*tables, *(_over_all(plan, table) for table in tables)]
    results = results.tested(comparisons(results.cells, plan, ledger, tables=read))
    told = answer(results, SizeCurves.of_main(results, ledger))
    return f"{results.lacking.told()} {told}".strip()


def _over_all(plan: Plan, table: TableKey) -> TableKey:
    """Return the table of the same metric over all pairs, of one over unseen pairs alone."""
    return table[0], plan.measured(*table[:2]).over_all_pairs, table[2]


@dataclass(frozen=True)
class _Answer:
    """The sentences on a grid of which `tables` are compared, that of the main task first."""

    results: Scoreboard
    tables: Sequence[TableKey]
    curves: SizeCurves | None = None

    def sentences(self) -> Iterator[str]:
        """Yield the sentences."""
        main, others = self.tables[0], self.tables[1:]
        leaders = {table: self._leader(table) for table in self.tables}
        system, how = leaders[main]
        tally = self._tally(system, main)
        assert tally.whole is not None or tally.languages, "the leader is compared in the main one"
        yield _noted(self._main(self._who(system, how), tally), self._doubts(tally))
        yield from self._over_all_pairs(system, tally)
        unseen = self._tally(system, main, unseen=True)
        if unseen.languages and unseen.languages != tally.languages:
            where = _not_aligned(unseen.languages)
            yield f"In {where} {self._other('it', unseen, named=True)}."
        yield from self._left(system)
        yield from self._data(system)
        yield from self._others(system, {table: leaders[table] for table in others})
        told = {id(system), *(id(cell) for cell, _ in leaders.values())}
        yield from self._asides(system, how, tally, told)

    def _left(self, system: Cell) -> Iterator[str]:
        """Yield which languages that were not aligned the method leaves as they are, whatever is
        measured.
        """
        own = [f for f in self.results.compared if f.cell is system and f.name[1] in system.unseen]
        changed = {self._lang(found) for found in own if found.baseline is not None}
        left = dict.fromkeys(self._lang(found) for found in own if found.untested == LEFT)
        if alone := [lang for lang in left if lang not in changed]:
            yield f"It changes nothing in {_not_aligned(alone)}."

    def _lang(self, found: Compared) -> str:
        """The language of a value, without the pivot that it is paired with."""
        return found.name[1].removesuffix(f"-{self.results.plan.pivot}")

    def _leader(self, table: TableKey) -> tuple[Cell, str]:
        """The compared cell with the best mean on dev, and how it was chosen, in words."""
        cells, by, tied = self.results.leader(table)
        if len(cells) == 1:
            return cells[0], ""
        every = {cell.method for cell in cells}
        several = "methods" if len(every) == len(cells) else "configurations"
        how = "tied for the best" if tied else "the better" if len(cells) == 2 else "the best"
        return cells[0], f"{how} of {_number(len(cells))} {several} on {by}"

    def _who(self, cell: Cell, how: str) -> str:
        """The name of a cell, with what tells it from others, and how it was chosen."""
        cells = {id(found.cell): found.cell for found in self.results.compared}.values()
        name = self.results.named(cell)
        if cell.sentences and len({other.sentences for other in cells} - {None}) > 1:
            name += f" with {cell.sentences:,} pairs"
        name += f" on {cell.encoder}" if len({other.encoder for other in cells}) > 1 else ""
        return f"{name}, {how}," if how else name

    def _task(self, table: TableKey) -> str:
        """What is measured: the task, its metric where that is not a main one in percent, and
        that a metric is over unseen pairs.
        """
        task, metric, split = table
        plan, measured = self.results.plan, self.results.plan.measured(task, metric)
        plugin = plan.task(task) if self.results.tasks.get(task) == task else None
        name = (plugin.called if plugin is not None else "") or task.replace("_", " ")
        facts = []
        if metric != plan.main_metric(task) or measured.unit != "share":
            facts.append(spoken(metric))
        facts += ["lower is better"] if measured.better == "lower" else []
        if measured.over_all_pairs:
            facts.append("words never linked in training")
        facts += ["dev set"] if split != "test" else []
        return name + (f" ({', '.join(facts)})" if facts else "")

    def _tally(self, system: Cell, table: TableKey, *, unseen: bool = False) -> LanguageTally:
        every = self.results.select(table, system)
        of_cell = [found for found in every if found.baseline is not None]
        home = self.results.plan.home_of(table[0])
        single = [found for found in of_cell if found.name[1] not in MEANS]
        others = [found for found in single if found.name[1] != home] or single
        asked = [found for found in others if (found.name[1] in system.unseen) == unseen]
        there = asked if asked or unseen else others  # a task may be for unseen ones alone
        mean = (table[0], "avg_unseen", *table[1:]) if unseen else system.mean_name(*table)
        langs: dict[str, list[str]] = {"better": [], "worse": [], "": [], "chance": []}
        for found in there:
            lang = self._lang(found)
            langs[found.verdict or "" if found.is_significant else ""].append(lang)
            langs["chance"] += [lang] if found.at_chance else []
        return LanguageTally(
            table,
            langs["better"],
            langs["worse"],
            langs[""],
            self._whole(system, mean, there, of_cell),
            langs["chance"],
            max((found.earlier for found in of_cell if found.tested), key=len, default=()),
            "" if any(found.tested for found in there) else next((f.untested for f in there), ""),
            next((found.baseline for found in of_cell), None),
        )

    def _whole(
        self, system: Cell, mean: Name | None, there: list[Compared], every: list[Compared]
    ) -> Compared | None:
        """The comparison of the mean over the languages that are there, where it is over no others
        (one that the method leaves as it is has none of its own); or that of the only one.
        """
        if len(there) == 1:
            return there[0]
        over = system.languages_of(mean, self.results.plan.pivot) if mean is not None else []
        if {found.name[1] for found in there} != set(over):
            return None
        return next((found for found in every if found.name == mean), None)

    def _main(self, who: str, tally: LanguageTally) -> str:
        """The sentence on the main task."""
        found, several = tally.whole, len(tally.languages) > 1
        against = f"{self._base(tally)} at {self._task(tally.table)}"
        against += "" if several else f" {tally.within(tally.languages)}"
        by, many = self._by(tally), f"{_number(len(tally.languages))} languages"
        few = len(tally.languages) <= _FEW_NAMED
        if tally.untested:
            which = f"{many} ({', '.join(tally.languages)})" if few else many
            average = f" on average over {which}" if several else ""
            told = f"is {by}{against}{average}, which is" if by else f"and {against} are"
            return f"{who} {told} not tested ({tally.untested})"
        if tally.decided:
            verb = "beats" if found and found.verdict == "better" else "is worse than"
            if not several:
                return f"{who} {verb} {against} by {by}, which is significant"
            where = tally.where()
            how = f"significantly {where}" if where else "but significantly in no single language"
            return f"{who} {verb} {against} by {by}, {how}"
        if tally.better or tally.worse:
            told = f"it is significantly {tally.judged()}{self._difference(tally)}"
            return f"{who} differs from {against}: {told}"
        if found and found.verdict == "=":
            return f"{who} does not differ from {against} in any example of any run"
        span = (
            f" in {_listed(tally.languages, 'or') if few else f'any of {many}'}" if several else ""
        )
        told = f"{against}{span}{self._difference(tally)}"
        return f"{who} does not differ significantly from {told}"

    def _difference(self, tally: LanguageTally) -> str:
        """The clause on the difference of a whole that is not decided."""
        average = " on average" if len(tally.languages) > 1 else ""
        return f"; the difference{average} is {by}" if (by := self._by(tally)) else ""

    def _base(self, tally: LanguageTally) -> str:
        if (base := tally.baseline) is None:
            return "the baseline"
        unaligned = baseline_cells([base], self.results.plan)
        return "the unaligned encoder" if unaligned else self.results.named(base)

    def _by(self, tally: LanguageTally) -> str:
        """The difference of the mean over languages, with its interval where it is tested; without
        a sign where the verb has it.
        """
        found, unit = tally.whole, self.results.unit(*tally.table[:2])
        test, difference = (found.comparison, found.difference) if found else (None, None)
        points = " points" if unit.sign else ""
        if tally.untested:
            side = "above " if (difference or 0) > 0 else "below " if difference else "apart from "
            return "" if difference is None else f"{unit.show(abs(difference))}{points} {side}"
        if found is None or test is None or test.low is None or test.high is None:
            return ""
        interval, sample = self._interval(tally, test.low, test.high), found.over_languages
        wider = ""
        if sample and sample.low is not None and sample.high is not None:
            wider = f"; for new languages {self._interval(tally, sample.low, sample.high)}"
        if tally.decided:
            average = " on average" if len(tally.languages) > 1 else ""
            shown = unit.show(abs(test.difference))
            return f"{shown}{points}{average} (95 % CI {interval}{wider})"
        plain = "not significant" if tally.better or tally.worse else ""
        said = {"no difference": found.says, "cannot tell": plain}
        said["not after correction"] = "not significant after correction"
        note = said.get(found.verdict or "", "significant")
        shown = f"95 % CI {interval}{note and f', {note}'}{wider}"
        return f"{unit.show_difference(test.difference)}{points} ({shown})"

    def _interval(self, tally: LanguageTally, low: float, high: float) -> str:
        """An interval of the difference, turned where the verb has the minus."""
        unit, found = self.results.unit(*tally.table[:2]), tally.whole
        if tally.decided and found is not None and (found.difference or 0) < 0:
            low, high = -high, -low
        shown = [unit.show(low), unit.show(high)]
        return ("–" if NumberFormat.MINUS not in "".join(shown) else " to ").join(shown)

    def _doubts(self, tally: LanguageTally, how: str = "") -> list[str]:
        """Where the values say little, whatever the tests say, and where `how` the cell was chosen
        makes them too good.
        """
        results, (task, metric, _) = self.results, tally.table
        best: dict[str, float] = {}
        for name in (name for name in results.names_of(tally.table) if name[1] not in MEANS):
            values = [cell.values[name].mean for cell in results.cells if name in cell.values]
            best[name[1].removesuffix(f"-{results.plan.pivot}")] = max(values)
        low = near_floor(results.plan, task, metric, best)
        told = [f"{ordinal(len(tally.earlier))} look, corrected"] if tally.earlier else []
        told += [f"at chance {tally.within(tally.at_chance)}"] if tally.at_chance else []
        told += [f"no method reaches {FLOOR * 100:g} % in {_listed(low)}"] if low else []
        told += [_OPTIMISTIC] if how.endswith("itself") else []
        return told

    def _over_all_pairs(self, system: Cell, tally: LanguageTally) -> Iterator[str]:
        """Yield what the same metric says over all pairs, where it decides otherwise."""
        every = self._tally(system, _over_all(self.results.plan, tally.table))
        verdicts = [t.whole.verdict if t.decided and t.whole else "" for t in (tally, every)]
        if every.languages and not every.untested and verdicts[0] != verdicts[1]:
            yield f"Over all words, those linked in training too, {self._other('it', every)}."

    def _data(self, system: Cell) -> Iterator[str]:
        """Yield what the method is worth in data of the best other one, and what more would bring,
        as the curves over the number of sentence pairs have it.
        """
        curves, method = self.curves, self.results.named(system)
        if curves is None or curves.encoder != system.encoder or method not in curves.shown:
            return
        unit, several = self.results.unit(*curves.table[:2]), list(curves.worths(method))
        told = []
        if several:
            sign, fitted = self.results.plan.measured(*curves.table[:2]).sign, curves.curves.curves
            other, size, worth = max(several, key=lambda one: sign * fitted[one[0]].at(one[1]))
            told.append(f"takes {worth.as_size('pairs')} for what {other} reaches with {size:,}")
        size, ahead = curves.ahead(method)
        if ahead is not None:
            value = curves.told_at(unit, method, size)
            told.append(f"would come to {value} with {size:,}, which is extrapolated")
        if told:
            yield f"By its curve over the number of sentence pairs it {' and '.join(told)}."
        if left := curves.curves.curves[method].leaves(size):
            yield f"What {size:,} pairs would bring is not extrapolated: {left}."

    def _other(self, subject: str, tally: LanguageTally, *, named: bool = False) -> str:
        """The clause on another task, other languages or another metric."""
        found, by, named = tally.whole, self._by(tally), named or len(tally.languages) == 1
        against = self._base(tally)
        if tally.untested:
            average = " on average" if len(tally.languages) > 1 else ""
            told = f"{subject} is {by}{against}{average}, which is not" if by else "nothing is"
            return f"{told} tested ({tally.untested})"
        if tally.decided and found:
            told = f"{subject} is significantly {found.verdict} by {by}"
            where = tally.where(named=named)
            alone = f", and {where}" if where else ", but in no single language"
            return told if len(tally.languages) == 1 else f"{told}{alone}"
        if judged := tally.judged(named=named):
            return f"{subject} is significantly {judged}{self._difference(tally)}"
        if found and found.verdict == "=":
            return f"{subject} does not differ from {against} in any example of any run"
        return f"{subject} shows no significant difference{self._difference(tally)}"

    def _others(self, system: Cell, best: Mapping[TableKey, tuple[Cell, str]]) -> Iterator[str]:
        """Yield a sentence per other task, on the best there; many of them are counted together."""
        if len(best) <= _MOST_TASKS:
            for table, (cell, how) in best.items():
                tally = self._tally(cell, table)
                told = self._other("it" if cell is system else self._who(cell, how), tally)
                where = f" {tally.within(tally.languages)}" if len(tally.languages) == 1 else ""
                yield _noted(f"At {self._task(table)}{where} {told}", self._doubts(tally, how))
            return
        tallies = [self._tally(system, table) for table in best]
        better, worse = sum(len(t.better) for t in tallies), sum(len(t.worse) for t in tallies)
        every = sum(len(t.languages) for t in tallies)
        yield (
            f"At the other {_number(len(best))} tasks it is significantly better in"
            f" {better or 'none'} and worse in {worse or 'none'} of {every} comparisons."
        )
        apart = [f"{self._who(c, '')} at {t[0]}" for t, (c, _) in best.items() if c is not system]
        if apart:
            yield f"Best on dev there: {', '.join(apart)}."

    def _asides(
        self, system: Cell, how: str, tally: LanguageTally, told: Collection[int]
    ) -> Iterator[str]:
        """Yield in brackets how to take the sentences, on the cells with the ids `told`."""
        name = system.mean_name(*tally.table)
        # dev and test share the seeds of the runs that both are values of
        chance = name is not None and any(s is not None for s in system.by_seed.get(name, ()))
        tested = [f for f in self.results.compared if f.tested and f.table in self.tables]
        notes = []
        if any(id(found.cell) in told for found in tested):
            notes.append("significance after Holm correction")
        if tally.whole is not None and tally.whole.verdict == "not after correction":
            count = sum(found.table == tally.table for found in tested)
            notes = [f"{notes[0]} over {counted(count, 'comparison')}"]
        if how.endswith("itself"):
            notes.append(_OPTIMISTIC)
        elif how and chance:
            notes.append("chosen and tested on the same training runs")
        if shown := "; ".join(notes):
            yield f"({shown[0].upper()}{shown[1:]}.)"


def _noted(told: str, notes: Sequence[str]) -> str:
    """A sentence, with what to hold against it in the brackets that it ends with or in its own."""
    if not notes:
        return f"{told}."
    shown = "; ".join(notes)
    return f"{told[:-1]}; {shown})." if told.endswith(")") else f"{told} ({shown})."


def _not_aligned(langs: Sequence[str]) -> str:
    which = "languages that were" if len(langs) > 1 else "a language that was"
    return f"{which} not aligned ({_listed(langs)})"


def _number(count: int) -> str:
    return _NUMBERS[count] if count < len(_NUMBERS) else f"{count:,}"


def _listed(names: Sequence[str], last: str = "and") -> str:
    return f" {last} ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def _uncompared(results: Scoreboard, *, left: bool) -> str:
    """What is said where nothing is compared, and why; `left` is whether methods leave some of the
    languages as they are.
    """
    if not results.leading_tables():
        return "Every result is over too few pairs for a conclusion."
    why = why_uncompared(results.plan, results.cells)
    if not why and left:
        why = "no method changes anything of the languages that the tasks are for"
    values = "no task of the grid has values of a method and of its baseline that compete"
    return f"Nothing is compared with a baseline: {why or values}."
