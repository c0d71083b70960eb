"""Making what a plan asks for: the functions that make artifacts, by stage kind, and the running of
a trial. The only place where plan, store and plug-ins meet.

No plug-in is named here: a stage records which one makes it, and the catalogue has it.
"""

import raxalign.stages.makers  # noqa: F401 fills `Workshop.MAKERS`
from raxalign.stages.workshop import Workshop

__all__ = ["Workshop"]
