"""Making what a plan asks for: the functions that make artifacts, by stage kind, and the running of
a trial. The only place where plan, store and plug-ins meet.

No plug-in is named here: a stage records which one makes it, and the catalogue has it.
"""

import raxalign.stages.makers  # noqa: F401 fills MAKERS
from raxalign.stages.evaluation import is_trained, run_trial, train_trial
from raxalign.stages.workshop import FITTED, GPU_BYTES, TRAINED, Workshop

__all__ = ["FITTED", "GPU_BYTES", "TRAINED", "Workshop", "is_trained", "run_trial", "train_trial"]
