"""SimAlign (Jalili Sabet et al. 2020): links from the similarity of contextual word vectors.

A batch of n sentence pairs is a tensor (n, S, T): similarities of S source with T target words,
those of shorter sentences filled up with ``-inf``. Words without a vector have ``-inf`` too. Links
are booleans of the same shape, and a similarity of ``-inf`` is never a link.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal, final

from raxalign.arrays import offsets_of
from raxalign.corpora.text.words import spaced_out
from raxalign.encoders.base import Encoder
from raxalign.encoders.models.pieces import token_batches
from raxalign.encoders.models.vectors import parse_layers
from raxalign.errors import RaxalignError
from raxalign.lazy import np, torch
from raxalign.options.params import Removed
from raxalign.pairing.aligners.base import AlignerInputs, SimilarityAligner
from raxalign.pairing.links import Links
from raxalign.pairing.words import Words

ALPHA = 0.9
"""What the similarities of words with a link are multiplied by in later passes of `itermax`."""
PASSES = 2
"""The passes of `itermax`."""
Extraction = Literal["argmax", "itermax", "match"]
_VECTOR_BYTES = 64 << 20  # of the vectors of one side that are held at a time, with padding


@final
class SimAlign(SimilarityAligner):
    """Words are linked by the similarity of their vectors in a multilingual encoder. Nothing is
    trained, and a sentence pair's links depend on that pair alone.

    The vector of a word is the mean over its subword tokens. Links have no direction, so that
    `symmetrization` changes nothing. The similarity is ``(1 + cos) / 2``. The encoder is that of
    the option `encoder`, whatever a grid's own `encoder` is: all encoders of a grid are tested on
    the same links.

    Data: an encoder, and any number of sentence pairs.

    Reference: Jalili Sabet, Dufter, Yvon & Schütze 2020, SimAlign: High Quality Word Alignments
    without Parallel Training Data using Static and Contextualized Embeddings.

    Relations: `awesome_align` takes probabilities of subword tokens for cosines of words, and the
    method of that name trains the encoder for it; `fast_align` and `thot` learn from the sentence
    pairs and need no encoder.

    Example:
        pairs:
          aligner: simalign
          encoder: bert-base-multilingual-cased
          layer: 8
          method: itermax
    """

    VERSION: ClassVar[int] = 1
    papers = ("jalilisabet2020",)

    class Params(SimilarityAligner.Params):
        """The defaults are the paper's, for an encoder of 12 layers."""

        method: Extraction = "argmax"
        """How links are found: words that are each other's most similar one (`argmax`), the same
        again for the words left over (`itermax`), or the matching with the largest sum (`match`).
        """
        removed: ClassVar = {
            "distortion": Removed("leave it out: places in the sentences do not count", 0.0)
        }

    params: Params

    def align(
        self, src: Sequence[Sequence[str]], tgt: Sequence[Sequence[str]], inputs: AlignerInputs
    ) -> tuple[Links, Links]:
        """Return the same links as forward and as reverse ones; each pair's are sorted by source,
        then target. Raises `RaxalignError` where the encoder does not have the layer.
        """
        if inputs.encoder is None:
            raise RaxalignError("simalign: no encoder was loaded for it")
        encoder, layers = inputs.encoder, parse_layers(self.params.layer, inputs.encoder.n_layers)
        sides = Words.of(src), Words.of(tgt)
        budget = _VECTOR_BYTES // (4 * encoder.hidden_size)
        # longest first, so that few are padded much
        batches = list(token_batches(np.maximum(sides[0].lengths, sides[1].lengths), budget))
        parts = []
        for rows in batches:
            vectors = [
                _padded_vectors(
                    encoder, spaced_out(side.read(rows), self.params.spacing), lang, layers
                )
                for side, lang in zip(sides, (inputs.lang, inputs.pivot), strict=True)
            ]
            parts.append(self._links(*vectors))
        order = np.concatenate([np.zeros(0, np.int64), *batches])
        links = Links.join(parts).take(np.argsort(order))
        return links, links

    def _links(self, src_NSH: torch.Tensor, tgt_NTH: torch.Tensor) -> Links:
        """The links of n sentence pairs by the vectors of their words, (n, S, H) and (n, T, H)."""
        similarities_NST = cosine_similarities(src_NSH, tgt_NTH)
        found = extract(similarities_NST, self.params.method).cpu().numpy()
        rows, sources, targets = np.nonzero(found)
        counts = np.bincount(rows, minlength=len(found))
        return Links(offsets_of(counts), sources.astype(np.int32), targets.astype(np.int32))


def _padded_vectors(
    encoder: Encoder, sentences: Sequence[Sequence[str]], lang: str, layers: tuple[int, ...]
) -> torch.Tensor:
    """The vectors of the words of sentences at the one layer, (n, longest, H). Words without a
    piece, and what follows a sentence's end, have zeros.
    """
    from torch.nn.utils.rnn import pad_sequence

    words = encoder.words(sentences, lang, layers=layers, pooling="mean")
    vectors_NH = words.vectors_NLH[:, 0].float()
    lengths = [len(sentence) for sentence in sentences]
    with torch.no_grad():
        return pad_sequence(list(torch.split(vectors_NH, lengths)), batch_first=True)


def cosine_similarities(src_NSH: torch.Tensor, tgt_NTH: torch.Tensor) -> torch.Tensor:
    """Return ``(1 + cos) / 2`` of the source words (n, S, H) with the target words (n, T, H), as
    (n, S, T).

    Values from 0 to 1 rather than cosines let `itermax` lower a similarity by a factor. Zero
    vectors, which stand for words without a vector and for padding, have ``-inf``.
    """
    src_norms, tgt_norms = (side.norm(dim=-1, keepdim=True) for side in (src_NSH, tgt_NTH))
    tiny = torch.finfo(src_NSH.dtype).tiny
    cosines_NST = torch.bmm(
        src_NSH / src_norms.clamp(min=tiny), (tgt_NTH / tgt_norms.clamp(min=tiny)).mT
    )
    has_vectors = (src_norms > 0) & (tgt_norms > 0).mT
    return ((1 + cosines_NST) / 2).masked_fill(~has_vectors, -torch.inf)


def extract(similarities_NST: torch.Tensor, extraction: Extraction) -> torch.Tensor:
    """Return the links (n, S, T) of similarities (n, S, T) by one of the three ways."""
    ways = {"argmax": mutual_argmax, "itermax": itermax, "match": best_match}
    return ways[extraction](similarities_NST)


def mutual_argmax(similarities_NST: torch.Tensor) -> torch.Tensor:
    """Return the links (n, S, T) of words that are each other's most similar one. The first of
    equally similar words counts as the most similar one.
    """
    _, S, T = similarities_NST.shape
    if not (S and T):
        return torch.zeros_like(similarities_NST, dtype=torch.bool)
    forward = similarities_NST.argmax(dim=2, keepdim=True)
    reverse = similarities_NST.argmax(dim=1, keepdim=True)
    steps_T = torch.arange(T, device=similarities_NST.device)
    steps_S = torch.arange(S, device=similarities_NST.device)[:, None]
    return (forward == steps_T) & (reverse == steps_S) & (similarities_NST > -torch.inf)


def itermax(similarities_NST: torch.Tensor) -> torch.Tensor:
    """Return the links (n, S, T) of `mutual_argmax`, made `PASSES` times (algorithm 1).

    Before each further pass, similarities of two words that both have a link are left out, and
    those of two words of which one has a link are multiplied by `ALPHA`. A word may so get a second
    link. The authors' program makes no further pass where a sentence has at most two words, or all
    of its words have a link.
    """
    links_NST = mutual_argmax(similarities_NST)
    for _ in range(PASSES - 1):
        src_linked = links_NST.any(dim=2, keepdim=True)
        tgt_linked = links_NST.any(dim=1, keepdim=True)
        lowered = torch.where(src_linked | tgt_linked, similarities_NST * ALPHA, similarities_NST)
        links_NST = links_NST | mutual_argmax(
            lowered.masked_fill(src_linked & tgt_linked, -torch.inf)
        )
    return links_NST


def best_match(similarities_NST: torch.Tensor) -> torch.Tensor:
    """Return the links (n, S, T) of the matching with the largest sum of similarities: each word of
    the shorter sentence has one link, and no word has two. Words without a vector have none.
    """
    from scipy.optimize import linear_sum_assignment

    links_NST = np.zeros(tuple(similarities_NST.shape), np.bool_)
    for links_ST, matrix_ST in zip(links_NST, similarities_NST.cpu().numpy(), strict=True):
        there = np.isfinite(matrix_ST)
        rows, columns = np.flatnonzero(there.any(axis=1)), np.flatnonzero(there.any(axis=0))
        src, tgt = linear_sum_assignment(matrix_ST[np.ix_(rows, columns)], maximize=True)
        links_ST[rows[src], columns[tgt]] = True
    return torch.from_numpy(links_NST)
