"""A method and a task in one training, which leaves the aligned encoder and the task's model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.methods.base import MethodInputs
from raxalign.plan.stage import TASK, Stage
from raxalign.stages.workshop import Workshop
from raxalign.train.objective import Objective
from raxalign.train.options import RowOrder, TrainSettings

if TYPE_CHECKING:
    from raxalign.tasks.transfer.training import TrainingRun, Tuning


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

        joint, seed = self.method.effect().with_task, run.runtime.seed
        self._model = model = tuning.model.encoder.model
        first = RowOrder(tuning.batches.count, settings, seed)
        self._steps = first.total, 0
        turns: Turns | None = None
        if joint.weight:
            own = self.method.settings(shuffle=self.method.shuffles())
            second = RowOrder(self.method.n_rows(self.rows), own, seed)
            turns = Turns(first, second, joint.schedule == "alternate")
            self._steps = turns.total, first.total
        taught = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
        model.requires_grad_(requires_grad=True)
        encoder = tuning.model.encoder.with_model(model)
        try:
            with self.method.changing(encoder, seed):
                if turns is None:
                    yield tuning
                else:
                    yield Joint(tuning, self._objective(encoder, seed), turns, joint.weight)
        finally:
            for parameter, requires_grad in taught:
                parameter.requires_grad_(requires_grad=requires_grad)

    def _objective(self, encoder: Any, seed: int) -> Objective:
        """The method's objective for as many steps as it takes here."""
        params = self.method.params.model_copy(update={"steps": self._steps[1]})
        method = type(self.method)(params)
        made: Objective = method.objective(encoder, self.rows, seed)
        return made
