"""The lines under the title of the report: what was run on what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, final

from raxalign.languages import language
from raxalign.report.document import Share
from raxalign.report.sections.base import Section

if TYPE_CHECKING:
    from raxalign.plan.plan import Plan


@final
class Facts(Section):
    """Encoders, methods, tasks, corpora, languages and sizes of the grid, and how much of it is
    done.
    """

    VERSION = 1
    place = 120

    def share(self) -> Share:
        """Return one line per fact that the grid has."""
        results, plan = self.material.results, self.material.plan
        trials = plan.trials
        languages = [lang for lang in plan.languages if lang != plan.pivot]
        sizes = sorted({trial.sentences for trial in trials if trial.sentences is not None})
        makers = dict.fromkeys(s.maker for s in plan.stages.values() if s.kind == "pairs")
        facts = {
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
        return Share(facts=tuple((name, value) for name, value in facts.items() if value))


def _named(code: str) -> str:
    """A language by its code and its name: ``ha (Hausa)``."""
    name = language(code).name
    return code if name == code else f"{code} ({name})"


def _corpora(plan: Plan) -> list[str]:
    """The corpora of the grid, by their kinds and names; files have none."""
    found: dict[str, None] = {}
    for stage in plan.stages.values():
        options = stage.params.get("corpus") if stage.kind == "bitext" else None
        if isinstance(options, Mapping):
            names = next((options[key] for key in ("corpus", "dataset") if options.get(key)), ())
            named = (
                [str(name) for name in names] if isinstance(names, list | tuple) else [str(names)]
            )
            found[" ".join([stage.maker, *named])] = None
    return list(found)
