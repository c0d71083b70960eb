"""The claims of Liu et al. (2020): encoders from little and much text, mean difference shift."""

from __future__ import annotations

from findings.questions import Claim, Pick, Quantity, Question

MRR = Quantity("MRR of dictionary words", "dictionary_retrieval", "mrr")
CONVERTED = Quantity("convert rate", "token_translation", "convert_rate")
BLEU = Quantity("BLEU-1", "token_translation", "bleu1")

STATIC = (("GloVe", "glove"), ("Word2Vec", "word2vec"))
LITTLE, MUCH = 2_000, 28_000
SHORT, LONG = 20, 128


def _static(algorithm: str, size: int) -> Pick:
    return Pick("none", encoder={"algorithm": algorithm, "max_sentences": size})


def _bert(size: int, window: int = LONG) -> Pick:
    return Pick("none", encoder={"window": window, "max_sentences": size})


def _words(text: str, *parts: tuple[float, Pick]) -> Question:
    """The question whether a weighted sum of values in word retrieval is above 0."""
    return Question(text, parts, MRR)


def _against_static(size: int, sign: float) -> tuple[Question, ...]:
    """The questions whether a BERT is better aligned than static vectors (`sign` 1) or worse."""
    return tuple(
        _words(
            f"BERT - {name}" if sign > 0 else f"{name} - BERT",
            (sign, _bert(size)),
            (-sign, _static(algorithm, size)),
        )
        for name, algorithm in STATIC
    )


LOWER, UPPER = (1, 2), (3, 4)


def _weights(quantity: Quantity, layer: int, weight: int, other: int) -> Question:
    """The question whether a value at one weight of the shift is above that at another."""
    names = [f"layer{layer}_alpha{alpha}_{quantity.metric}" for alpha in (weight, other)]
    parts = ((1.0, Pick("none", metric=names[0])), (-1.0, Pick("none", metric=names[1])))
    text = f"α = {weight} - α = {other}, layer {layer}"
    return Question(text, parts, quantity)


CLAIMS = (
    Claim(
        "Liu et al. (2020), Figure 1",
        "Trained on little text, static vectors are better aligned than BERT.",
        MRR,
        "static",
        _against_static(LITTLE, -1.0),
    ),
    Claim(
        "Liu et al. (2020), Figure 3",
        "Trained on much text, BERT is better aligned than static vectors.",
        MRR,
        "static",
        _against_static(MUCH, 1.0),
    ),
    Claim(
        "Liu et al. (2020), Figures 1 and 3",
        "More text improves the alignment of BERT more than that of static vectors.",
        MRR,
        "static",
        tuple(
            _words(
                f"gain of BERT - gain of {name}",
                (1.0, _bert(MUCH)),
                (-1.0, _bert(LITTLE)),
                (-1.0, _static(algorithm, MUCH)),
                (1.0, _static(algorithm, LITTLE)),
            )
            for name, algorithm in STATIC
        ),
    ),
    Claim(
        "Liu et al. (2020), Figure 5",
        "Trained on much text, BERT is worse aligned with a short window than with a long one.",
        MRR,
        "static",
        (
            _words(
                "window 128 - window 20, much text", (1.0, _bert(MUCH)), (-1.0, _bert(MUCH, SHORT))
            ),
        ),
    ),
    Claim(
        "Liu et al. (2020), Figure 5",
        "A short window costs BERT more with much text than with little.",
        MRR,
        "static",
        (
            _words(
                "(128 - 20 with much text) - (128 - 20 with little)",
                (1.0, _bert(MUCH)),
                (-1.0, _bert(MUCH, SHORT)),
                (-1.0, _bert(LITTLE)),
                (1.0, _bert(LITTLE, SHORT)),
            ),
        ),
    ),
    Claim(
        "Liu et al. (2020), Figure 7",
        "The convert rate grows with the weight of the shift, at every layer.",
        CONVERTED,
        "translation",
        tuple(
            _weights(CONVERTED, layer, more, less)
            for layer in (*LOWER, *UPPER)
            for more, less in ((2, 1), (3, 2))
        ),
    ),
    Claim(
        "Liu et al. (2020), Figure 8",
        "BLEU-1 does not follow: in the lower layers it falls with the weight.",
        BLEU,
        "translation",
        tuple(_weights(BLEU, layer, 1, 3) for layer in LOWER),
    ),
    Claim(
        "Liu et al. (2020), Figure 8",
        "In the last layers, BLEU-1 grows with the weight.",
        BLEU,
        "translation",
        tuple(_weights(BLEU, layer, 3, 1) for layer in UPPER),
    ),
)
