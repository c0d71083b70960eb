"""SimAlign (Jalili Sabet et al. 2020): links from the similarity of contextual word vectors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, final

import numpy as np
import numpy.typing as npt
from pydantic import Field

from raxalign.arrays import offsets_of
from raxalign.config.params import LATER
from raxalign.config.sources import EncoderName
from raxalign.encoders.models.vectors import Layer, parse_layers
from raxalign.errors import RaxalignError
from raxalign.pairing.aligners.base import AlignerInputs, Links, WordAligner
from raxalign.pairing.words import Words
from raxalign.running import Spacing, spaced_out

if TYPE_CHECKING:
    import torch

    from raxalign.encoders.base import Encoder

_VECTOR_BYTES = 64 << 20  # of the vectors of one side that are held at a time
_SPACING = (
    "What divides the words of a sentence in the text that the encoder reads: the text itself, or"
    " what the language writes between given words (`language`), or `blanks`, so that each word is"
    " divided into pieces by itself, as in the program of the authors."
)
_METHOD = (
    "How links are found: words that are each other's most similar one (`argmax`), the same again"
    " for the words left over (`itermax`), or the matching with the largest sum (`match`)."
)


@final
class SimAlign(WordAligner):
    """Words are linked by the similarity of their vectors in a multilingual encoder. Nothing is
    trained, and a sentence pair's links depend on that pair alone.

    The vector of a word is the mean over its pieces. Links have no direction, so that
    `symmetrization` changes nothing. The similarity is ``(1 + cos) / 2``. The encoder is that of
    the option `encoder`, whatever a grid's own `encoder` is: all encoders of a grid are tested on
    the same links.

    Reference: Jalili Sabet, Dufter, Yvon & Schütze 2020, SimAlign: High Quality Word Alignments
    without Parallel Training Data using Static and Contextualized Embeddings.
    """

    VERSION: ClassVar[int] = 1
    papers = ("jalilisabet2020",)

    class Params(WordAligner.Params):
        """The defaults are the paper's, for an encoder of 12 layers."""

        encoder: EncoderName = Field(
            description=(
                "Encoder whose word vectors are compared: a folder, a hub name or a kind of"
                " encoder."
            )
        )
        layer: Layer = Field(
            "8", description="Layer whose word vectors are compared: `last` or one number."
        )
        method: Literal["argmax", "itermax", "match"] = Field("argmax", description=_METHOD)
        distortion: float = Field(
            0.0,
            ge=0,
            le=1,
            description=(
                "How much similarities are lowered away from the diagonal, κ in the paper (0: not"
                " at all; the paper has 0.5)."
            ),
        )
        spacing: Annotated[Spacing, LATER] = Field("language", description=_SPACING)

    params: Params

    def encoder(self) -> str:
        """Return the option `encoder`."""
        return self.params.encoder

    def check_encoder(self, n_layers: int | None) -> list[str]:
        """Return a fault where the encoder does not have the layer."""
        try:
            if n_layers is not None:
                parse_layers(self.params.layer, n_layers)
        except RaxalignError as error:
            return [f"layer: {self.params.encoder}: {error}; choose one of them"]
        return []

    def align(
        self, src: Sequence[Sequence[str]], tgt: Sequence[Sequence[str]], inputs: AlignerInputs
    ) -> tuple[Links, Links]:
        """Return the same links as forward and as reverse ones; each pair's are sorted by source,
        then target.

        Raises:
            RaxalignError: no encoder was given, or it does not have the layer.
        """
        if inputs.encoder is None:
            raise RaxalignError("simalign: no encoder was loaded for it")
        encoder, layers = inputs.encoder, parse_layers(self.params.layer, inputs.encoder.n_layers)
        sides = Words.of(src), Words.of(tgt)
        batches = list(_batches(sides[0].lengths, sides[1].lengths, encoder.hidden_size))
        parts = []
        for rows in batches:
            vectors = [
                _padded_vectors(
                    encoder, spaced_out(side.read(rows), self.params.spacing), lang, layers
                )
                for side, lang in zip(sides, (inputs.lang, inputs.pivot), strict=True)
            ]
            lengths = [side.lengths[rows] for side in sides]
            parts.append(self._links(vectors[0], vectors[1], lengths[0], lengths[1]))
        order = np.concatenate([np.zeros(0, np.int64), *batches])
        links = Links.join(parts).take(np.argsort(order))
        return links, links

    def _links(
        self,
        src_NSH: torch.Tensor,
        tgt_NTH: torch.Tensor,
        src_lengths: npt.NDArray[np.int64],
        tgt_lengths: npt.NDArray[np.int64],
    ) -> Links:
        """The links of n sentence pairs by the vectors of their words, (n, S, H) and (n, T, H);
        lengths are (n,).
        """
        import torch

        from raxalign.pairing.extraction import cosine_similarities, distorted, extract

        similarities_NST = cosine_similarities(src_NSH, tgt_NTH)
        if self.params.distortion:
            src, tgt = torch.from_numpy(src_lengths), torch.from_numpy(tgt_lengths)
            similarities_NST = distorted(similarities_NST, src, tgt, self.params.distortion)
        found = extract(similarities_NST, self.params.method).cpu().numpy()
        rows, sources, targets = np.nonzero(found)
        counts = np.bincount(rows, minlength=len(found))
        return Links(offsets_of(counts), sources.astype(np.int32), targets.astype(np.int32))


def _batches(
    src_lengths: npt.NDArray[np.int64], tgt_lengths: npt.NDArray[np.int64], hidden_size: int
) -> Iterator[npt.NDArray[np.int64]]:
    """Indices of sentence pairs (n,), longest first, so that few are padded much; the vectors of a
    side take at most `_VECTOR_BYTES` with padding (of one pair at least).
    """
    from raxalign.encoders.models.pieces import token_batches

    budget = _VECTOR_BYTES // (4 * hidden_size)
    return token_batches(np.maximum(src_lengths, tgt_lengths), budget)


def _padded_vectors(
    encoder: Encoder, sentences: Sequence[Sequence[str]], lang: str, layers: tuple[int, ...]
) -> torch.Tensor:
    """The vectors of the words of sentences at the one layer, (n, longest, H). Words without a
    piece, and what follows a sentence's end, have zeros.
    """
    import torch
    from torch.nn.utils.rnn import pad_sequence

    words = encoder.words(sentences, lang, layers=layers, pooling="mean")
    vectors_NH = words.vectors_NLH[:, 0].float()
    lengths = [len(sentence) for sentence in sentences]
    with torch.no_grad():
        return pad_sequence(list(torch.split(vectors_NH, lengths)), batch_first=True)
