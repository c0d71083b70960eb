"""Records -> remarks: what a reader must know besides the numbers, one sentence each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from raxalign.caveats import UNKNOWN
from raxalign.corpora.text.words import ESCAPED
from raxalign.languages import remark
from raxalign.plan.names import ordered, trial_name
from raxalign.plan.plan import Plan
from raxalign.plan.trial import Trial, joint_trainings, kept_readouts

FLOOR = 0.02
"""A task in which no method reaches this share is near the floor."""

HARDLY = "hardly trained"
"""How the remark on trainings begins that ended too early."""

_SHOWN = 3  # trials that a remark names
_TRAINING = ("loss_not_lowered", "loss_still_falling", "cut_batches")
_SAID = ("not_as_trained", "thin_support", "partial")  # what speaks for itself
_OF_LINES = {
    "left_out": "a blank side and are left out",
    "escaped": f"{ESCAPED}, which are read as they stand",
}
_READ = ("unknown", "unknown_in_training", *_OF_LINES, *_TRAINING, *_SAID)


def remarked(record: Mapping[str, Any], metric: str | None) -> dict[str, Any]:
    """Return the small part of a record that `remarks` reads, for a grid whose records are not all
    in memory at once. `metric` is the main one of its task.
    """
    notes, scores = record.get("notes", {}), record.get("scores", ())
    test = [score for score in scores if score["split"] == "test"]
    main = [score for score in test if metric is not None and score["metric"] == metric]
    kept = {name: notes[name] for name in _READ if name in notes}
    return {"notes": kept, "scores": main}


def remarks(plan: Plan, records: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the remarks on the evaluations of a plan that have a record, each once: unknown
    pieces, trainings whose loss did not fall, or still fell at their end, or whose memory ran out,
    values near the floor, pieces other than the tokenizer's own, thin support, held-out lines that
    were left out, outdated readouts that were kept, joint trainings, and unknown
    languages.
    """
    there = [
        (trial, task, records[key].get("notes", {}))
        for trial in plan.trials
        for task, key in trial.evaluations.items()
        if key in records
    ]
    unknown: dict[tuple[str, str, str], dict[str, None]] = {}
    for trial, task, notes in there:
        trained = notes.get("unknown_in_training", {})
        readers = {task: notes.get("unknown", {})}
        readers |= {f"the training of {name}": rates for name, rates in trained.items()}
        for reader, rates in readers.items():
            for lang, share in rates.items():
                if share > UNKNOWN:
                    unknown.setdefault((trial.encoder, lang, f"{share:.1%}"), {})[reader] = None
    found = [
        f"{share} of the subword tokens of {lang} in {', '.join(readers)} are unknown to the"
        f" tokenizer of {encoder} ([UNK])"
        for (encoder, lang, share), readers in unknown.items()
    ]
    found += [*_trainings(plan, there), *_floors(plan, records)]
    found += dict.fromkeys(said for _, _, notes in there for said in _said(notes))
    found += kept_readouts((trial, task) for trial, task, _ in there)
    found += joint_trainings(trial for trial, _, _ in there)
    return [*found, *filter(None, map(remark, plan.languages))]


def _trainings(plan: Plan, there: Iterable[tuple[Trial, str, Mapping[str, Any]]]) -> Iterator[str]:
    """Yield the remarks on trainings, each with the trials that it is about."""
    found: dict[str, dict[str, dict[str, None]]] = {kind: {} for kind in _TRAINING}
    for trial, _, notes in there:
        shown = trial_name(trial, plan) if notes.keys() & found.keys() else ""
        for kind in _TRAINING:
            for name in notes.get(kind, ()):
                told = shown
                if kind != "cut_batches":
                    start, end, *late = notes[kind][name]
                    told += f": {start:.4g} to {end:.4g}"
                    told += "".join(
                        f", {part / (start - end):.0%} of it late" for part in late if start != end
                    )
                found[kind].setdefault(name, {})[told] = None
    flat, falling, cut = found.values()
    for name, runs in flat.items():
        yield f"the loss of the training {name} did not fall ({_first(runs)})"
    for name, runs in falling.items():
        yield (
            f"{HARDLY}: the loss of the training {name} still fell in its last fifth"
            f" ({_first(runs)}); train it longer, or at a larger `learning_rate`"
        )
    for name, runs in cut.items():
        yield (
            f"memory ran out in the training {name} ({_first(runs)}), so that dropout drew other"
            " masks than where whole batches fit"
        )


def _floors(plan: Plan, records: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield a remark per task in which no method leaves the floor in some languages: shares of
    which more is better, without a level of guessing of their own.
    """
    best: dict[str, dict[str, float]] = {}
    there: dict[str, set[str]] = {}
    for trial in plan.trials:
        for task, key in trial.evaluations.items():
            main = plan.main_metric(task)
            for score in records.get(key, {}).get("scores", ()):
                if score["split"] == "test" and score.get("metric") == main:
                    values = best.setdefault(task, {})
                    values[score["lang"]] = max(score["value"], values.get(score["lang"], 0.0))
                    there.setdefault(task, set()).add(trial.method)
    for task, values in best.items():
        low = near_floor(plan, task, plan.main_metric(task) or "", values)
        if low and len(there[task]) > 1:
            yield (
                f"near the floor: no method reaches {FLOOR:.0%} in {task} ({', '.join(low)}), so"
                " that differences there say little; more `sentences`, longer trainings or a"
                " stronger encoder leave it"
            )


def near_floor(plan: Plan, task: str, metric: str, best: Mapping[str, float]) -> list[str]:
    """Return the languages whose best value of a metric is below `FLOOR`: of shares of which more
    is better, without a level of guessing.
    """
    measured = plan.measured(task, metric)
    higher = (measured.unit, measured.better, measured.limits[0]) == ("share", "higher", 0)
    low = [lang for lang, value in best.items() if value < FLOOR]
    return ordered(low, plan) if higher and plan.guessing(task) is None else []


def _said(notes: Mapping[str, Any]) -> Iterator[str]:
    """Yield what notes say for themselves, and a sentence per held-out part of a language that is
    not evaluated as a whole.
    """
    for kind in _SAID:
        yield from (f"{name}: {said}" for name, said in notes.get(kind, {}).items())
    for kind, told in _OF_LINES.items():
        for lang, parts in notes.get(kind, {}).items():
            for part, (n, of) in parts.items():
                yield f"{n:,} of {of:,} {part} lines of {lang} have {told}"


def _first(runs: Iterable[str]) -> str:
    """Return the first runs, and how many more there are."""
    shown = list(runs)
    more = f", and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
    return f"{'; '.join(shown[:_SHOWN])}{more}"
