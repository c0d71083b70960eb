"""What was run on what, and how, so that who has the page alone can run it again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Any, final

from raxalign.grid.estimates import Times, duration
from raxalign.grid.plan import Plan
from raxalign.grid.yaml_file import written
from raxalign.languages import language
from raxalign.report.document import Share
from raxalign.report.sections.base import Section
from raxalign.values.results import remarks

_DATA = {"bitext": ("corpora", "corpus"), "pairs": ("aligners", "aligner")}
"""Kind of stage -> the folder of its plug-ins, and the param with their options."""
_PLACES = frozenset({"lang", "pivot", "part", "keep_training"})
_TIMES = {"alignment": "aligned", "training of tasks": "tuned", "evaluation": "evaluation"}


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
        plan, storage, texts = self.material.plan, self.material.storage, dict[str, str]()
        notes = remarks(plan, self.material.records) if storage is not None else ()
        facts = self._facts()
        if plan.trials:
            facts |= self._made(list(self.material.records.values()))
            data = {
                (location if not location.startswith("/") else PurePath(location).name, digest)
                for stage in plan.stages.values()
                for name, digest in stage.digests.items()
                for location in [stage.locations.get(name, name)]
            }
            texts = {
                **self.material.sources,
                "Options in effect": written(options_in_effect(plan)),
                # as `sha256sum` writes them; the folder of a file is one of the machine alone
                "SHA-256 of the data": "\n".join(f"{d}  {name}" for name, d in sorted(data)),
            }
        known = [(name, value) for name, value in facts.items() if value]
        return Share(
            facts=(*(("note", note) for note in notes), *known),
            listings=tuple((title, text) for title, text in texts.items() if text),
        )

    def _facts(self) -> dict[str, str]:
        """Encoders, methods, tasks, corpora, languages and sizes, and how much is done."""
        results, plan = self.results, self.material.plan
        trials = plan.trials
        languages = [lang for lang in plan.languages if lang != plan.pivot]
        sizes = sorted({trial.sentences for trial in trials if trial.sentences is not None})
        makers = dict.fromkeys(s.maker for s in plan.stages.values() if s.kind == "pairs")
        return {
            "encoder": ", ".join(dict.fromkeys(trial.encoder for trial in trials)),
            "methods": ", ".join(dict.fromkeys(trial.method for trial in trials)),
            "tasks": ", ".join(results.tasks),
            "corpus": ", ".join(dict.fromkeys(_corpora(plan))),
            "word pairs": ", ".join(makers),
            "languages": ", ".join(map(_named, languages)) + f"; pivot {_named(plan.pivot)}",
            "sentence pairs per language": ", ".join(f"{size:,}" for size in sizes),
            "seeds": f"{len(results.seeds)}" if results.seeds else "",
            "trials": f"{len(trials):,}",
            "left out": "; ".join(line for line in plan.merged if line.endswith("dropped")),
            "evaluations": f"{results.done:,} of {results.planned:,} done",
        }

    def _made(self, records: Sequence[Mapping[str, Any]]) -> dict[str, str]:
        """When (days of UTC), with which versions, on which machines and in what time on a worker
        each, shared stages once, the evaluations were made.
        """
        versions: dict[str, dict[str, None]] = {}
        commits, machines = dict[str, None](), dict[str, None]()
        for record in records:
            found = dict(record.get("versions", {}))
            commit, dirty = found.pop("commit", None), found.pop("dirty", None) == "true"
            if commit is not None:
                commits[f"{commit}{' with changes' if dirty else ''}"] = None
            for name, version in found.items():
                versions.setdefault(name, {})[version] = None
            if device := record.get("device"):
                machine = f" ({record['machine']})" if "machine" in record else ""
                machines[f"{device}{machine}"] = None
        when = [record["created"] for record in records if "created" in record] or [0.0]
        first, last = (datetime.fromtimestamp(at, UTC) for at in (min(when), max(when)))
        begun = f"{first:%Y-%m-%d} to " if first.date() != last.date() else ""
        made = (f"{name} {' and '.join(sorted(every))}" for name, every in versions.items())
        return {
            "evaluated": f"{begun}{last:%Y-%m-%d %H:%M} UTC" if max(when) else "",
            "made with": ", ".join(made),
            "commit of raxalign": ", ".join(commits),
            "machine": ", ".join(machines),
            "computing time": self._time() if records else "",
        }

    def _time(self) -> str:
        plan, storage = self.material.plan, self.material.storage
        took = Times(plan, storage).by_key() if storage is not None else {}
        sums = {
            name: sum(seconds for key, seconds in took.items() if plan.stages[key].kind == kind)
            for name, kind in _TIMES.items()
        }
        shown = (f"{name} {duration(seconds)}" for name, seconds in sums.items() if seconds)
        return f"{duration(sum(took.values()))} of worker time ({', '.join(shown)})"


def _named(code: str) -> str:
    """A language by its code and its name: ``ha (Hausa)``."""
    name = language(code).name
    return code if name == code else f"{code} ({name})"


def _corpora(plan: Plan) -> Iterator[str]:
    """The corpora of the grid, by their kinds and names; files have none."""
    for stage in plan.stages.values():
        options = stage.params.get("corpus") if stage.kind == "bitext" else None
        if isinstance(options, Mapping):
            names = next((options[key] for key in ("corpus", "dataset") if options.get(key)), ())
            every = names if isinstance(names, list | tuple) else [names]
            yield " ".join([stage.maker, *map(str, every)])


def options_in_effect(plan: Plan) -> dict[str, Any]:
    """Return all options of a plan with defaults by section; several values are a list."""
    data: dict[str, dict[str, list[dict[str, Any]]]] = {
        catalogue: {} for catalogue, _ in _DATA.values()
    }
    for stage in plan.stages.values():
        if stage.kind in _DATA:
            catalogue, own = _DATA[stage.kind]
            rest = {n: v for n, v in stage.params.items() if n not in (own, *_PLACES)}
            options = stage.params.get(own)
            of_maker = (
                Plan.filled(catalogue, stage.maker, options) if isinstance(options, dict) else {}
            )
            data[catalogue].setdefault(stage.maker, []).append({**of_maker, **rest})

    def joined(points: Sequence[dict[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name in dict.fromkeys(name for point in points for name in point):
            several = [point[name] for point in points if name in point]
            values = [value for place, value in enumerate(several) if value not in several[:place]]
            if all(isinstance(value, int | float) for value in values):
                values.sort()
            found[name] = values[0] if len(values) == 1 else values
        return found

    every = {**data, "methods": plan.method_options()}
    shown = {of: {n: joined(found) for n, found in points.items()} for of, points in every.items()}
    return {"encoders": plan.encoder_options(), **shown, "tasks": plan.task_options()}
