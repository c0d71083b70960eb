"""Making what a plan asks for: the functions that make artifacts, by stage kind, and the running of
a trial. The only place where plan, store and plug-ins meet.

No plug-in is named here: a stage records which one makes it, and the catalogue has it.
"""

from raxalign.stages.data import make_bitext, make_pairs, make_pieces, make_seen, make_text
from raxalign.stages.evaluation import is_trained, run_trial, train_trial
from raxalign.stages.models import make_aligned, make_encoder, make_tuned
from raxalign.stages.workshop import FITTED, GPU_BYTES, MAKERS, TRAINED, Workshop

__all__ = [
    "FITTED",
    "GPU_BYTES",
    "TRAINED",
    "Workshop",
    "is_trained",
    "run_trial",
    "train_trial",
]

MAKERS.update(
    {
        "bitext": make_bitext,
        "text": make_text,
        "pairs": make_pairs,
        "seen": make_seen,
        "pieces": make_pieces,
        "encoder": make_encoder,
        "aligned": make_aligned,
        "tuned": make_tuned,
    }
)
