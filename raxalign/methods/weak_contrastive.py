"""Linked words are contrasted with the words of the other language (Wu & Dredze 2020)."""

from __future__ import annotations

from typing import final

from raxalign.methods.families.contrast import ContrastMethod


@final
class WeakContrastive(ContrastMethod):
    """Train the encoder so that a word is nearer to its translation than to any other word of that
    language in the batch.

    Formula: half the mean over links i of -log exp(cos(s_i, t_i) / τ) / Σ_j exp(cos(s_i, t_j) / τ),
    and half of the same from t to s; j runs over the links of the batch (`negatives: all`: over all
    words of the other side), s and t = p(f(word)), p a projector (linear without bias - ReLU -
    linear) that is trained along and left behind; + λ sqrt(Σ ||θ - θ0||²). Words of one language
    are never pushed apart, as they are in `strong_contrastive`.

    Data: linked words of the bitext; the sentence pairs of all languages are mixed, and are one
    another's negatives.

    Options and their profiles are those of `strong_contrastive`.

    Reference: Wu & Dredze (2020, §3); for `freeze` and `negatives: all` Bakos et al. (2025,
    AlignFreeze).

    Relations: Choose it over `strong_contrastive` where the words of one language are to keep their
    distances.

    Example:
        methods:
          none: {}
          weak_contrastive: {lambda: [0.1, 1], epochs: 1}
    """

    VERSION = 1
    reference = "Wu & Dredze 2020"
    papers = ("wu2020", "freeze=blocks bakos2025")
    strong = False
    name = "weak_contrastive"
