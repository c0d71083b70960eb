"""Linked words are contrasted with the words of both languages (Wu & Dredze 2020)."""

from __future__ import annotations

from typing import final

from raxalign.methods.families.contrast import ContrastMethod


@final
class StrongContrastive(ContrastMethod):
    """Train the encoder so that a word is nearer to its translation than to any other word of the
    batch, of either language.

    Formula: mean over words i of both sides of -log exp(cos(z_i, z_i') / τ) / Σ_{j ≠ i}
    exp(cos(z_i, z_j) / τ), where i' is the word linked to i, j runs over the linked words of both
    sides of the batch (`negatives: all`: over all its words), z = p(f(word)), p a projector (linear
    without bias - ReLU - linear) that is trained along and left behind; + λ sqrt(Σ ||θ - θ0||²).

    Data: linked words of the bitext; the sentence pairs of all languages are mixed, and are one
    another's negatives.

    `profile` fills in what is not given. `paper` is the published setting: 128 sentence pairs per
    batch, 100,000 steps, λ = 1, first subword tokens, and words that occur in the batch several
    times are not treated apart. `released` is the same with the projector of the authors' code,
    whose second layer has no bias either. `sane` is for thousands of sentence pairs: 32 per batch,
    by epochs; a tenth of the λ, since such a short training all but stops under λ = 1; last subword
    tokens, which the other methods and retrieval read; and links that share a word type on either
    side are not negatives of one another (`same_type: mask`): in a batch of sentences these are
    frequent words above all, and would push translations apart.

    The realignment of AlignFreeze (`raxalign init alignfreeze`) is `front_frozen` in the example
    with `pooling: first`, `same_type: keep` and `projector_bias: false`: its code holds the lower
    half of the blocks (or the upper one) while the embeddings are trained, and contrasts first
    subword tokens with all words of the batch.

    Reference: Wu & Dredze (2020, §3); for `freeze` and `negatives: all` Bakos et al. (2025,
    AlignFreeze).

    Relations: `weak_contrastive` pushes no words of one language apart; `finetune` has no negatives
    and holds one side near its start.

    Example:
        methods:
          none: {}
          strong_contrastive: {lambda: [0.1, 1], epochs: 1}
          front_frozen:
            kind: strong_contrastive
            freeze: {blocks: lower}
            negatives: all
            regularizer: none
    """

    VERSION = 1
    reference = "Wu & Dredze 2020"
    papers = ("wu2020", "freeze=blocks bakos2025")
    strong = True
    name = "strong_contrastive"
