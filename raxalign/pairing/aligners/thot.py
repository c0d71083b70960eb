"""eflomal's model as the library thot has it: seeded, in process, without a compiler (LGPL-3)."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from raxalign.arrays import offsets_of
from raxalign.lazy import np, pa
from raxalign.options.params import Removed
from raxalign.pairing.aligners.base import AlignerInputs, WordAligner

if TYPE_CHECKING:
    from raxalign.pairing.links import Links
    from raxalign.pairing.words import Words


class Thot(WordAligner):
    """Gibbs sampling of IBM 1, an HMM and fertilities, as in eflomal, with a seed: the same
    sentences give the same links in every run, with any number of threads.

    It finds no links in sentences of more than 1,024 words. Two threads are of use, one per
    direction. `fast_align` takes a twentieth of the processor time, with more wrong links.

    >>> from pathlib import Path
    >>> src, tgt = [["das", "Haus"], ["das", "Buch"]] * 9, [["the", "house"], ["the", "book"]] * 9
    >>> inputs = AlignerInputs(range(18), None, {}, Path(), threads=1)
    >>> forward, reverse = Thot(Thot.Params(seed=1)).align(src, tgt, inputs)
    >>> sorted(forward.pair(0)), sorted(reverse.pair(1))
    ([(0, 0), (1, 1)], [(0, 0), (1, 1)])

    Data: the sentence pairs alone; the more, the better.

    Reference: Östling & Tiedemann 2016, Efficient word alignment with Markov Chain Monte Carlo.

    Relations: `eflomal` is the same model without a seed, in C; `fast_align` is quicker.

    Example:
        pairs:
          aligner: thot
          symmetrization: intersection
          one_to_one: true
    """

    VERSION: ClassVar[int] = 1
    papers = ("ostling2016",)
    QUICKER: ClassVar[str] = "fast_align"

    class Params(WordAligner.Params):
        """The defaults are eflomal's."""

        removed: ClassVar = {
            "length": Removed("leave it out: there are fewer iterations for more sentences", 1.0),
            "samplers": Removed("leave it out: there are three samplers", 3),
        }
        lowercase: bool = Field(True, description=WordAligner.LOWERCASE)
        seed: int = Field(default=0, ge=0, lt=2**31)
        """Seed of the samplers."""

    params: Params

    def align(
        self, src: Sequence[Sequence[str]], tgt: Sequence[Sequence[str]], inputs: AlignerInputs
    ) -> tuple[Links, Links]:
        """Both directions' links; those of one sentence pair are sorted by the explained word."""
        from raxalign.pairing.words import Words

        sides = [self._numbers(Words.of(side)) for side in (src, tgt)]
        with ThreadPoolExecutor(max_workers=min(2, max(1, inputs.threads))) as pool:
            forward, reverse = pool.map(self._links, sides, sides[::-1])
        return forward, reverse.swapped()

    def _numbers(self, words: Words) -> list[list[str]]:
        """The sentences, each word as its number: words may be empty or hold blanks."""
        numbers = pa.array(words.folded(lowercase=self.params.lowercase)[0]).cast(pa.string())
        rows: list[list[str]] = pa.LargeListArray.from_arrays(words.offsets, numbers).to_pylist()
        return rows

    def _links(self, explaining: list[list[str]], explained: list[list[str]]) -> Links:
        """The links (explaining, explained) of one direction."""
        from thot.alignment import EflomalAlignmentModel

        from raxalign.pairing.links import Links

        model = EflomalAlignmentModel()
        last = max(2, round(5000 / max(1, len(explained)) ** 0.5))
        model.seed, model.deterministic, model.emit_training_alignments = (
            self.params.seed,
            True,
            True,
        )
        model.num_samplers, model.auto_iterations = 3, False
        model.set_iterations(max(2, last // 4), max(1, last // 4), last)
        for one, other in zip(explaining, explained, strict=True):
            model.add_sentence_pair(one, other)
        if explained:
            model.start_training()
            for _ in range(model.scheduled_iterations):
                model.train()
            model.end_training()
        # per explained word the word that explains it, from 1; 0 for none
        found = [model.get_training_alignment(i)[1].to_list() for i in range(len(explained))]
        words = np.array([word for row in found for word in row], np.int32)
        offsets = offsets_of([len(row) for row in found])
        places = np.concatenate([np.zeros(0, np.int32), *(np.arange(len(row)) for row in found)])
        return Links(offsets, words - 1, places.astype(np.int32)).where(words > 0)
