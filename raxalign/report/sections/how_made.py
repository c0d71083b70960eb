"""What was run on what, and how the results were made, so that who has the page alone can say so
and run it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, final

from raxalign.config.grid import written
from raxalign.languages import language
from raxalign.plan.estimates.cost import duration, seconds_by_key
from raxalign.plan.names import (
    Options,
    encoder_options,
    filled,
    method_options,
    task_options,
)
from raxalign.plan.values.remarks import remarks
from raxalign.report.document import Listing, Share
from raxalign.report.sections.base import Section

if TYPE_CHECKING:
    from raxalign.plan.plan import Plan
    from raxalign.store.storage import Storage

_DATA = {"bitext": ("corpora", "corpus"), "pairs": ("aligners", "aligner")}
"""Kind of stage -> the folder of its plug-ins, and the param with their options."""
_PLACES = frozenset({"lang", "pivot", "part", "keep_training"})
_COMMIT = ("commit", "dirty")


@final
class HowMade(Section):
    """Notes on what a reader must know; what the grid has and how much of it is done; when and with
    which versions, machines and time the results were made; all options in effect, the digests of
    the data, and the grid file with its plug-ins.
    """

    VERSION = 1
    place = 120

    def share(self) -> Share:
        """Return the notes and facts, and the texts that the grid has."""
        plan, storage = self.material.plan, self.material.storage
        records = self.material.records
        notes = remarks(plan, records) if storage is not None else ()
        facts = self._facts()
        texts: dict[str, str] = {}
        if plan.trials:
            made = list(records.values())
            facts |= {
                "evaluated": _dates(made),
                "made with": _versions(made),
                "commit of raxalign": ", ".join(_commits(made)),
                "machine": ", ".join(_machines(made)),
                "computing time": _time(plan, storage) if storage is not None and made else "",
            }
            texts = {
                **self.material.sources,
                "Options in effect": written(options_in_effect(plan)),
                "SHA-256 of the data": "\n".join(_digests(plan)),
            }
        known = [(name, value) for name, value in facts.items() if value]
        return Share(
            facts=(*(("note", note) for note in notes), *known),
            listings=tuple(Listing(title, text) for title, text in texts.items() if text),
        )

    def _facts(self) -> dict[str, str]:
        """Encoders, methods, tasks, corpora, languages and sizes, and how much is done."""
        results, plan = self.material.results, self.material.plan
        trials = plan.trials
        languages = [lang for lang in plan.languages if lang != plan.pivot]
        sizes = sorted({trial.sentences for trial in trials if trial.sentences is not None})
        makers = dict.fromkeys(s.maker for s in plan.stages.values() if s.kind == "pairs")
        return {
            "encoder": ", ".join(dict.fromkeys(trial.encoder for trial in trials)),
            "methods": ", ".join(dict.fromkeys(trial.method for trial in trials)),
            "tasks": ", ".join(results.tasks),
            "corpus": ", ".join(_corpora(plan)),
            "word pairs": ", ".join(makers),
            "languages": ", ".join(map(_named, languages)) + f"; pivot {_named(plan.pivot)}",
            "sentence pairs per language": ", ".join(f"{size:,}" for size in sizes),
            "seeds": f"{len(results.seeds)}" if results.seeds else "",
            "trials": f"{len(trials):,}",
            "left out": "; ".join(line for line in plan.merged if line.endswith("dropped")),
            "evaluations": f"{results.done:,} of {results.planned:,} done",
        }


def _named(code: str) -> str:
    """A language by its code and its name: ``ha (Hausa)``."""
    name = language(code).name
    return code if name == code else f"{code} ({name})"


def _corpora(plan: Plan) -> Iterable[str]:
    """The corpora of the grid, by their kinds and names; files have none."""
    found: dict[str, None] = {}
    for stage in plan.stages.values():
        options = stage.params.get("corpus") if stage.kind == "bitext" else None
        if isinstance(options, Mapping):
            names = next((options[key] for key in ("corpus", "dataset") if options.get(key)), ())
            every = names if isinstance(names, list | tuple) else [names]
            found[" ".join([stage.maker, *map(str, every)])] = None
    return found


def _time(plan: Plan, storage: Storage) -> str:
    """What was computed took on one worker each, shared stages once."""
    took = seconds_by_key(plan, storage)
    kinds = {"alignment": "aligned", "training of tasks": "tuned", "evaluation": "evaluation"}
    sums = {
        name: sum(seconds for key, seconds in took.items() if plan.stages[key].kind == kind)
        for name, kind in kinds.items()
    }
    shown = (f"{name} {duration(seconds)}" for name, seconds in sums.items() if seconds)
    return f"{duration(sum(took.values()))} of worker time ({', '.join(shown)})"


def options_in_effect(plan: Plan) -> dict[str, Any]:
    """Return all options of a plan by section and name, defaults filled in; several values are a
    list.
    """
    data: dict[str, dict[str, list[Options]]] = {catalogue: {} for catalogue, _ in _DATA.values()}
    for stage in plan.stages.values():
        if stage.kind in _DATA:
            catalogue, own = _DATA[stage.kind]
            rest = {n: v for n, v in stage.params.items() if n not in (own, *_PLACES)}
            options = stage.params.get(own)
            of_maker = filled(catalogue, stage.maker, options) if isinstance(options, dict) else {}
            data[catalogue].setdefault(stage.maker, []).append({**of_maker, **rest})
    return {
        "encoders": encoder_options(plan),
        **{catalogue: _each_joined(makers) for catalogue, makers in data.items()},
        "methods": _each_joined(method_options(plan)),
        "tasks": task_options(plan),
    }


def _each_joined(points: Mapping[str, Sequence[Options]]) -> dict[str, Options]:
    return {name: _joined(every) for name, every in points.items()}


def _joined(points: Sequence[Options]) -> Options:
    """The options of several points as one mapping."""
    found: Options = {}
    for name in dict.fromkeys(name for point in points for name in point):
        several = [point[name] for point in points if name in point]
        values = [value for place, value in enumerate(several) if value not in several[:place]]
        if all(isinstance(value, int | float) for value in values):
            values.sort()
        found[name] = values[0] if len(values) == 1 else values
    return found


def _dates(records: Sequence[Mapping[str, Any]]) -> str:
    """When the first and the last evaluation ended; days are those of UTC."""
    times = [record["created"] for record in records if "created" in record]
    if not times:
        return ""
    first, last = (datetime.fromtimestamp(found, UTC) for found in (min(times), max(times)))
    begun = f"{first:%Y-%m-%d} to " if first.date() != last.date() else ""
    return f"{begun}{last:%Y-%m-%d %H:%M} UTC"


def _versions(records: Iterable[Mapping[str, Any]]) -> str:
    """The libraries, each with all versions that evaluations were made with."""
    found: dict[str, dict[str, None]] = {}
    for record in records:
        for name, version in record.get("versions", {}).items():
            if name not in _COMMIT:
                found.setdefault(name, {})[version] = None
    return ", ".join(f"{name} {' and '.join(sorted(versions))}" for name, versions in found.items())


def _commits(records: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    """The commits, each once, with a word where files had been changed since."""
    versions = (record.get("versions", {}) for record in records)
    return dict.fromkeys(
        f"{found['commit']}{' with changes' if found.get('dirty') == 'true' else ''}"
        for found in versions
        if "commit" in found
    )


def _machines(records: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    """The devices, each once, with the name of the card or processor."""
    return dict.fromkeys(
        f"{record['device']} ({record['machine']})" if "machine" in record else record["device"]
        for record in records
        if record.get("device")
    )


def _digests(plan: Plan) -> Iterator[str]:
    """One line per file or remote data that a stage reads, as `sha256sum` writes them."""
    found = {
        (_name(stage.locations.get(name, name)), digest)
        for stage in plan.stages.values()
        for name, digest in stage.digests.items()
    }
    yield from (f"{digest}  {name}" for name, digest in sorted(found))


def _name(location: str) -> str:
    """A file without its folder, which is one of the machine alone; a remote name as it is."""
    return PurePath(location).name if location.startswith("/") else location
