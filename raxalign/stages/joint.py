"""A method and a task in one training, which leaves the aligned encoder and the task's model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.blocks import find_blocks
from raxalign.errors import RaxalignError
from raxalign.methods.base import MethodInputs
from raxalign.plan.stage import TASK, Stage
from raxalign.stages.workshop import Workshop
from raxalign.train.objective import Objective
from raxalign.train.options import RowOrder, TrainSettings

if TYPE_CHECKING:
    from raxalign.tasks.transfer.training import TrainingRun, Tuning
    from raxalign.train.joint import Mixing


def align_with_task(
    shop: Workshop, stage: Stage, encoder: Any, inputs: MethodInputs, folder: Path
) -> AlignedEncoder:
    """Train a method together with its task, whose model is written; return the aligned encoder."""
    task, companion = stage.task, JointTraining(stage.plugin(), encoder, inputs)
    assert task is not None, "the caller has asked"
    (folder / TASK).mkdir()
    notes = task.plugin().train(
        AlignedEncoder(encoder),
        task.languages,
        shop.training_inputs(stage, task),
        shop.runtime_for(stage),
        folder / TASK,
        companion=companion.trained,
    )
    return companion.aligned(notes)


class JointTraining:
    """The part of a method in the training of a task: `trained` is what `Task.train` takes as
    `companion`, and `aligned` gives the encoder afterwards.
    """

    _model: Any
    _steps: tuple[int, int]

    def __init__(self, method: Any, encoder: Any, inputs: MethodInputs) -> None:
        """Read what the method is trained on. Raises `RaxalignError` where it has nothing to
        train.
        """
        method.acts(encoder.n_layers)
        self.method, self.encoder, self.rows = method, encoder, method.rows(encoder, inputs)

    def aligned(self, notes: Mapping[str, object]) -> AlignedEncoder:
        """Return the encoder that was trained, with what both count; `notes` are the task's."""
        self.encoder.model = self._model
        counted: Mapping[str, object] = self.method.counts(self.rows)
        steps = dict(zip(("steps", "steps_of_method"), self._steps, strict=True))
        made: AlignedEncoder = self.method.aligned(
            self.encoder, {**counted, **steps, "with_task": dict(notes)}
        )
        return made

    @contextmanager
    def trained(
        self, tuning: Tuning, settings: TrainSettings, run: TrainingRun
    ) -> Iterator[Objective]:
        """Yield the objective of both, which trains what the method does, and the task's head. At
        the end the task's model has the parameters again that it had.
        """
        from raxalign.train.joint import Joint, Turns

        joint, seed = self.method.joint(), run.runtime.seed
        self._model = model = tuning.model.encoder.model
        first = RowOrder(tuning.batches.count, settings, seed)
        self._steps = first.total, 0
        turns: Turns | None = None
        if joint.weight:
            own = self.method.settings(shuffle=self.method.shuffles())
            second = RowOrder(self.method.n_rows(self.rows), own, seed)
            turns = Turns(first, second, joint.every, joint.schedule == "alternate")
            self._steps = turns.total, turns.of_second
            if not turns.of_second:
                raise RaxalignError(
                    f"{self.method.name}: with_task: every: {joint.every} is more than the"
                    f" {first.steps_per_epoch} steps of an epoch of {joint.task}, so that the"
                    " method is never trained. Choose fewer"
                )
        taught = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
        model.requires_grad_(requires_grad=True)
        encoder = tuning.model.encoder.with_model(model)
        try:
            with self.method.changing(encoder, seed):
                if turns is None:
                    yield tuning
                else:
                    mixing = _mixing(joint, encoder, run)
                    yield Joint(tuning, self._objective(encoder, seed), turns, mixing)
        finally:
            for parameter, requires_grad in taught:
                parameter.requires_grad_(requires_grad=requires_grad)

    def _objective(self, encoder: Any, seed: int) -> Objective:
        """The method's objective for as many steps as it takes here."""
        params = self.method.params.model_copy(update={"steps": self._steps[1]})
        method = type(self.method)(params)
        made: Objective = method.objective(encoder, self.rows, seed)
        return made


def _mixing(joint: Any, encoder: Any, run: TrainingRun) -> Mixing:
    """How the gradients of both are joined; a group of weights is a block, or all outside them."""
    from raxalign.train.joint import Mixing

    base = encoder.model.base_model
    parts = find_blocks(base).parts if joint.gradients else ()
    groups = {f"block-{n}": list(part.parameters()) for n, part in enumerate(parts, 1)}
    inside = {id(parameter) for group in groups.values() for parameter in group}
    groups |= {"embeddings": [p for p in base.parameters() if id(p) not in inside]}

    def report(values: Mapping[str, float], step: int) -> None:
        run.runtime.report({f"{run.name}/{name}": value for name, value in values.items()}, step)

    mixing = Mixing(joint.weight, joint.conflicts == "project", joint.gradients, groups)
    return replace(mixing, report=report)
