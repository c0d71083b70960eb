"""Records -> remarks: what a reader must know besides the numbers, one sentence each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from raxalign.catalog import catalog
from raxalign.languages import remark
from raxalign.plan.names import trial_name

if TYPE_CHECKING:
    from raxalign.plan.plan import Plan

UNKNOWN = 0.02
"""A share of unknown pieces above this is remarked on: the encoder's vectors of such a text are
partly those of one piece.
"""

_SHOWN = 3  # trials that a remark names


_READ = ("unknown", "unknown_in_training", "loss_not_lowered", "not_as_trained", "thin_support")
"""The notes of a record that remarks are made of."""


def remarked(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the small part of a record that `remarks` and `chosen_in_report` read, for a grid
    whose records are not all in memory at once.
    """
    notes = record.get("notes", {})
    dev = [score for score in record.get("scores", ()) if score["split"] == "dev"]
    return {"notes": {name: notes[name] for name in _READ if name in notes}, "scores": dev[:1]}


def remarks(plan: Plan, records: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the remarks on the evaluations of a plan that have a record, each once: unknown
    pieces, trainings whose loss did not fall, pieces other than the tokenizer's own, thin support,
    unknown languages.
    """
    thin: dict[str, None] = {}
    unknown: dict[tuple[str, str, str], dict[str, None]] = {}
    trainings: dict[str, dict[str, None]] = {}
    for trial in plan.trials:
        for task, key in trial.evaluations.items():
            notes = records.get(key, {}).get("notes", {})
            for reader, lang, share in _unknown(task, notes):
                unknown.setdefault((trial.encoder, lang, f"{share:.1%}"), {})[reader] = None
            for name, (start, end) in notes.get("loss_not_lowered", {}).items():
                trainings.setdefault(name, {})[
                    f"{trial_name(trial, plan)}: {start:.4g} to {end:.4g}"
                ] = None
            for kind in ("not_as_trained", "thin_support"):
                thin |= {f"{name}: {said}": None for name, said in notes.get(kind, {}).items()}
    found = [
        f"{share} of the pieces of {lang} in {', '.join(readers)} are unknown to the tokenizer of"
        f" {encoder} ([UNK])"
        for (encoder, lang, share), readers in unknown.items()
    ]
    found += [_not_lowered(name, list(runs)) for name, runs in trainings.items()]
    return [*found, *thin, *filter(None, map(remark, plan.languages))]


def chosen_in_report(plan: Plan, records: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return a remark per param that the report chooses for each language, where there are dev
    values to choose by: plain results have every value of it, and choose none.
    """
    kinds = {
        trial.method: trial.kind
        for trial in plan.trials
        for key in trial.evaluations.values()
        if any(score["split"] == "dev" for score in records.get(key, {}).get("scores", ()))
    }
    return [
        f"{method}: every {param} has lines of its own here; the report (`raxalign report`) also"
        f" chooses one {param} for each language on the language's own dev set"
        for method, kind in kinds.items()
        if kind in catalog("methods")
        for param in catalog("methods")[kind].per_language
        if param in plan.axes.get(method, ())
    ]


def _unknown(task: str, notes: Mapping[str, Any]) -> Iterator[tuple[str, str, float]]:
    """Yield (what reads it, language, share) of texts with more than a few unknown pieces."""
    readers = {
        task: notes.get("unknown", {}),
        **{
            f"the training of {name}": rates
            for name, rates in notes.get("unknown_in_training", {}).items()
        },
    }
    for reader, rates in readers.items():
        for lang, share in rates.items():
            if share > UNKNOWN:
                yield reader, lang, share


def _not_lowered(name: str, runs: list[str]) -> str:
    more = f", and {len(runs) - _SHOWN} more" if len(runs) > _SHOWN else ""
    return f"the loss of the training {name} did not fall ({'; '.join(runs[:_SHOWN])}{more})"
