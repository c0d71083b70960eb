"""Seeds of the random streams: each has a name (`Stream`), and a number that never changes.

A seed is `mix` of the run's seed, of where in the training the stream is (an epoch, a step), and of
the stream's number. The numbers are part of every result: another number is another result.
"""

from __future__ import annotations

from typing import Final

from raxalign.lazy import np


class Stream:
    """The numbers of the random streams."""

    ORDER: Final = 0
    """The order of the rows in one epoch: ``mix(seed, epoch, ORDER)``."""

    DROPOUT: Final = 2
    """Dropout in one step and one share of its batch: ``mix(seed, step, share, DROPOUT)``."""

    USES: Final = 3
    """Draws of NumPy for one use of a global batch (the last two): ``mix(seed,
    step, USES, use)``.
    """

    DROPOUT_TWICE: Final = 3
    """Dropout of a micro-batch that is read twice, by the position of its first row in the batch:
    ``mix(seed, step, share, position, DROPOUT_TWICE)``. It has five parts where `USES` has four, so
    that the equal numbers do not collide.
    """

    NEW_WEIGHTS: Final = 4
    """Weights that the encoder does not have yet (a projector, a queue):
    ``mix(seed, NEW_WEIGHTS)``.
    """

    DEV: Final = 5
    """Draws for rows on which a loss is only measured: ``mix(seed, DEV)`` in place of the seed."""

    ADAPTERS: Final = 6
    """Low-rank adapters before their training: ``mix(seed, ADAPTERS)``."""

    MASKING: Final = 0
    """The use of a global batch's chance for its masks."""

    MIXING: Final = 1
    """The use of a global batch's chance for its rows: which sentence is first, which
    words change.
    """


def mix(*numbers: int) -> int:
    """Return a seed (63 bits) from several numbers: near numbers give unrelated seeds, and equal
    ones give the same seed everywhere.

    >>> mix(0, 1) == mix(0, 1), mix(0, 1) == mix(1, 0)
    (True, False)
    """
    return int(
        np.random.SeedSequence([abs(n) for n in numbers]).generate_state(1, np.uint64)[0]
        >> np.uint64(1)
    )
