"""Our own fast_align: deterministic, without a compiler, in NumPy."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from raxalign.arrays import Int32s, offsets_of
from raxalign.lazy import np
from raxalign.pairing.aligners._diagonal import DirectedModel, NumberedWords, Settings, make_cells
from raxalign.pairing.aligners.base import LOWERCASE, AlignerInputs, Links, WordAligner
from raxalign.pairing.words import Words


class FastAlign(WordAligner):
    """IBM model 2 whose distortion is one parameter, the tension towards the diagonal, estimated
    with the lexicon.

    The same sentences give the same links, always, with any number of threads (two are of use: one
    per direction).

    Reference: Dyer, Chahuneau & Smith 2013, A Simple, Fast, and Effective Reparameterization of IBM
    Model 2.
    """

    VERSION: ClassVar[int] = 1
    papers = ("dyer2013",)
    SHARE: ClassVar[float] = 0.1

    class Params(WordAligner.Params):
        """The defaults are the paper's settings.

        `profile: released` estimates the tension as the authors' program does with `-o`. That
        counts positions of explained words from 0 where it looks at what was found, and divides
        what the prior expects by the normaliser of swapped lengths. The tension comes out lower for
        it (5.0 in place of 13.2 on 8,447 pairs of English and French). `sane` follows the paper's
        equations.
        """

        iterations: int = Field(default=5, ge=1)
        """Passes over the sentence pairs."""
        null: float = Field(default=0.08, gt=0, lt=1)
        """Prior probability that a word has no link, p0 in the paper."""
        tension: float = Field(default=4.0, ge=0.1, le=14)
        """Pull towards the diagonal, λ in the paper; at the start, where it is estimated."""
        optimize_tension: bool = True
        """Whether the tension is estimated from the second pass on, rather than kept."""
        alpha: float = Field(default=0.01, ge=0)
        """Strength of the lexicon's Dirichlet prior, α in the paper (0: maximum likelihood)."""
        lowercase: bool = Field(True, description=LOWERCASE)
        profile: Literal["released", "sane"] = "sane"
        """How the tension is estimated: by the paper's equations (`sane`), or as the authors'
        program does (`released`).
        """

        def identity(self) -> dict[str, Any]:
            """Without the profile where it changes nothing."""
            idle = self.profile == "sane" or not self.optimize_tension
            every = super().identity().items()
            return {name: value for name, value in every if name != "profile" or not idle}

    params: Params

    def align(
        self, src: Sequence[Sequence[str]], tgt: Sequence[Sequence[str]], inputs: AlignerInputs
    ) -> tuple[Links, Links]:
        """Both directions' most probable links; positions of one sentence pair are sorted by
        source, then target.
        """
        if not len(src):
            return Links.of([]), Links.of([])
        source, target = self._side(Words.of(src)), self._side(Words.of(tgt))
        options = self.params.model_dump(exclude={"lowercase", "profile"})
        settings = Settings(**options, released=self.params.profile == "released")
        inputs.work.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="fast_align-", dir=inputs.work) as scratch:
            cells = make_cells(source, target, Path(scratch))
            directions = [DirectedModel(cells, source, target, axis, settings) for axis in (1, 2)]
            with ThreadPoolExecutor(max_workers=min(2, max(1, inputs.threads))) as pool:
                forward, reverse = pool.map(DirectedModel.links, directions)
        return _compact(forward, len(src)), _compact(reverse, len(src))

    def _side(self, words: Words) -> NumberedWords:
        numbers, size = words.folded(lowercase=self.params.lowercase)
        return NumberedWords(numbers, words.offsets[:-1], words.lengths, size)


def _compact(links: tuple[Int32s, Int32s, Int32s], n: int) -> Links:
    rows, src, tgt = links
    order = np.lexsort((tgt, src, rows))
    offsets = offsets_of(np.bincount(rows, minlength=n))
    return Links(offsets, src[order], tgt[order])
