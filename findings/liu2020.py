"""The claims of Liu et al. (2020): encoders from little and much text, mean difference shift."""

from __future__ import annotations

from findings.questions import Claim, Pick, Question, above

STATIC = (("GloVe", "glove"), ("Word2Vec", "word2vec"))
LITTLE, MUCH = 2_000, 28_000
WORDS, XNLI = ("dictionary_retrieval", "avg", "mrr"), ("xnli", "avg_zero_shot", "accuracy")


def _static(algorithm: str, size: int, lang: str) -> Pick:
    return Pick("none", lang=lang, encoder={"algorithm": algorithm, "max_sentences": size})


def _bert(size: int, lang: str, window: int = 128) -> Pick:
    return Pick("none", lang=lang, encoder={"window": window, "max_sentences": size})


def _static_or_bert(size: int, sign: float, *tests: tuple[str, str, str]) -> tuple[Question, ...]:
    """The questions whether static vectors are better than a BERT (`sign` 1) or worse (-1)."""
    return tuple(
        Question(
            (f"{name} - BERT" if sign > 0 else f"BERT - {name}") + f", {size:,} sentences",
            ((sign, _static(algorithm, size, lang)), (-sign, _bert(size, lang))),
            task,
            metric,
        )
        for task, lang, metric in tests
        for name, algorithm in STATIC
    )


LOWER, UPPER = (1, 2), (3, 4)


def _weights(stem: str, layer: int, weight: int, other: int) -> Question:
    """The question whether a value at one weight of the shift is above that at another."""
    names = [f"layer{layer}_alpha{alpha}_{stem}" for alpha in (weight, other)]
    parts = ((1.0, Pick("none", metric=names[0])), (-1.0, Pick("none", metric=names[1])))
    text = f"α = {weight} - α = {other}, layer {layer}"
    return Question(text, parts, "token_translation", stem)


CLAIMS = (
    Claim(
        "Liu et al. (2020), Figure 1",
        "With little text, static vectors are better aligned than those of BERT.",
        "static",
        _static_or_bert(LITTLE, 1.0, WORDS),
    ),
    Claim(
        "Liu et al. (2020), Figures 3 and 4",
        "With much text, BERT is better than static vectors.",
        "static",
        _static_or_bert(MUCH, -1.0, WORDS, XNLI),
    ),
    Claim(
        "Liu et al. (2020), Figures 1 and 3",
        "More text helps the alignment of BERT more than that of static vectors.",
        "static",
        tuple(
            Question(
                f"gain of BERT - gain of {name}",
                (
                    (1.0, _bert(MUCH, "avg")),
                    (-1.0, _bert(LITTLE, "avg")),
                    (-1.0, _static(algorithm, MUCH, "avg")),
                    (1.0, _static(algorithm, LITTLE, "avg")),
                ),
                "dictionary_retrieval",
                "mrr",
            )
            for name, algorithm in STATIC
        ),
    ),
    Claim(
        "Liu et al. (2020), Figures 5 and 6",
        "With much text, a short window makes BERT worse.",
        "static",
        tuple(
            above(
                f"window 128 - window 20, {task}",
                _bert(MUCH, lang),
                _bert(MUCH, lang, window=20),
                task=task,
                metric=metric,
            )
            for task, lang, metric in (WORDS, XNLI)
        ),
    ),
    Claim(
        "Liu et al. (2020), Figure 7",
        "The convert rate grows with the weight of the shift, at every layer.",
        "translation",
        tuple(
            _weights("convert_rate", layer, more, less)
            for layer in (*LOWER, *UPPER)
            for more, less in ((2, 1), (3, 2))
        ),
    ),
    Claim(
        "Liu et al. (2020), Figure 8",
        "BLEU-1 does not follow: in the lower layers it falls with the weight.",
        "translation",
        tuple(_weights("bleu1", layer, 1, 3) for layer in LOWER),
    ),
    Claim(
        "Liu et al. (2020), Figure 8",
        "In the last layers, BLEU-1 grows with the weight.",
        "translation",
        tuple(_weights("bleu1", layer, 3, 1) for layer in UPPER),
    ),
)
