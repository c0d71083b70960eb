"""One alignment of a grid: a method on an encoder, and the stage of what it makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from raxalign.plan.expansion.data import compiles, precision_of, prepared_pieces
from raxalign.plan.stage import Stage

if TYPE_CHECKING:
    from raxalign.methods.base import Method
    from raxalign.plan.expansion.data import SharedStages


@dataclass(frozen=True)
class Alignment:
    """Everything that the stages of a trial depend on.

    Attributes:
        kind: The kind of the method.
        method: The method with its params.
        params: Its canonical params (`Method.canonical`).
        start: The stage of the encoder that is aligned.
        family: The family of that encoder.
        languages: The languages of the trial, without the pivot.
        sentences: The number of training sentence pairs per language.
        seed: The seed of the method and of the tasks' trainings.
        head: Whether the encoder has a masked-LM head.
    """

    kind: str
    method: Method
    params: Mapping[str, Any]
    start: Stage
    family: str
    languages: tuple[str, ...]
    sentences: int
    seed: int
    head: bool = True

    def stage(self, shared: SharedStages) -> Stage:
        """Add the stage of the aligned encoder: everything that `align` reads, and nothing else."""
        grid, inputs = shared.grid, self._inputs(shared)
        digests: dict[str, str] = {}
        locations: dict[str, str] = {}
        for lang in self.languages:
            found, places = shared.identity.of(self.method.sources(lang, grid.pivot))
            digests |= {f"{name}/{lang}": value for name, value in found.items()}
            locations |= {f"{name}/{lang}": value for name, value in places.items()}
        prepared: dict[str, str] = {}
        if self.method.needs().pieces:
            prepared = prepared_pieces(shared, self.start, inputs, self.sentences)
        params: dict[str, Any] = {
            "method": dict(self.params),
            "languages": list(self.languages),
            "pivot": grid.pivot,
        }
        params |= {"seed": self.seed} if self.method.has_chance() else {}
        return shared.add(
            Stage(
                "aligned",
                self.kind,
                self.method.VERSION,
                params,
                inputs,
                digests,
                locations,
                options=self.method.params.model_dump_json(by_alias=True),
                prepared=prepared,
                precision=precision_of(grid, self.family),
                compiled=compiles(grid, self.family),
                shares=grid.run.workers if self.method.has_dropout() else 0,
            )
        )

    def _inputs(self, shared: SharedStages) -> dict[str, str]:
        """Add the stages that `align` reads; return their keys by the names of the inputs."""
        needs, inputs = self.method.needs(), {"encoder": self.start.key}
        for lang in self.languages:
            if needs.links:
                inputs[f"pairs/{lang}"] = shared.training_pairs(lang, self.sentences).key
            if needs.bitext:
                inputs[f"bitext/{lang}"] = shared.training_bitext(lang, self.sentences).key
            if needs.dev:
                inputs[f"dev/{lang}"] = shared.dev(lang, self.sentences, links=needs.links).key
        if needs.text:
            inputs |= {
                f"text/{lang}": shared.text(lang, self.sentences).key
                for lang in (*self.languages, shared.grid.pivot)
            }
        return inputs

    def reads_training(self, shared: SharedStages) -> bool:
        """Check whether the number of training sentences can change the result."""
        needs = self.method.needs()
        return needs.links or needs.bitext or (needs.text and shared.grid.text.corpus is None)
