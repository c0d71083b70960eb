"""The claims: sentences of papers, each with the comparisons that decide it."""

from __future__ import annotations

from findings import liu2020
from findings.questions import Claim, Pick, Quantity, Question, above

UNSEEN = Quantity(
    "contextual word retrieval, pairs that training does not link",
    "retrieval",
    "contextual_accuracy",
)
ALL = Quantity("contextual word retrieval, all pairs", "retrieval", "contextual_accuracy_all")
TAGS = Quantity("zero-shot accuracy of parts of speech", "pos", "accuracy")
XNLI = Quantity("zero-shot accuracy on XNLI", "xnli", "accuracy")
SPANS = Quantity("zero-shot F1 of named entities and of slots", "ner, slots", "f1")
SLOTS = Quantity("zero-shot F1 of slots", "slots", "f1")
"""The half of the table of named entities and slots for which there is text here."""
MOST = 8_000


def _finetune(sentences: int = MOST, lang: str = "avg") -> Pick:
    return Pick("finetune", sentences=sentences, lang=lang)


def _tuned(quantity: Quantity, sentences: int) -> Pick:
    """Fine-tuning as one model of several languages, by its mean over those but English."""
    return _finetune(sentences, "avg" if quantity is ALL else "avg_zero_shot")


def _rotation(
    method: str = "rotation", *, center: bool = False, lang: str = "avg", sentences: int = MOST
) -> Pick:
    return Pick(method, {"center": center}, sentences, lang)


def _order(quantity: Quantity, which: str) -> tuple[Question, ...]:
    none = Pick("none")
    return (
        above(f"finetune - rotation, {which}", _finetune(), _rotation(), quantity),
        above(f"rotation - none, {which}", _rotation(), none, quantity),
    )


def _centering(lang: str) -> tuple[tuple[float, Pick], ...]:
    return ((1.0, _rotation(center=True, lang=lang)), (-1.0, _rotation(lang=lang)))


def _scaled(factor: float, parts: tuple[tuple[float, Pick], ...]) -> tuple[tuple[float, Pick], ...]:
    return tuple((factor * weight, pick) for weight, pick in parts)


DISTANT, NEAR = ("tr-en", "zh-en"), ("de-en", "fr-en")
LOOKS = {"static": 3, "slots": 2, "xnli": 2}
"""The looks at grids that had more runs after their answers had been read; others had one."""


def _transfer(better: str, worse: str, quantity: Quantity = TAGS) -> tuple[Question, ...]:
    """The question whether a method transfers better than another."""
    sides = (Pick(better, lang="avg_zero_shot"), Pick(worse, lang="avg_zero_shot"))
    return (above(f"{better} - {worse}", *sides, quantity),)


CLAIMS = (
    Claim(
        "Cao et al. (2020), Table 3",
        "In contextual retrieval, fine-tuning is better than rotation, and rotation is better than"
        " the encoder as it is.",
        UNSEEN,
        "words",
        (*_order(UNSEEN, "unseen pairs"), *_order(ALL, "all pairs")),
    ),
    Claim(
        "Cao et al. (2020), Table 2",
        "The accuracy of fine-tuning grows with the number of sentence pairs.",
        XNLI,
        "xnli",
        tuple(
            above(
                f"{more:,} - {less:,} pairs, {quantity.task}",
                _tuned(quantity, more),
                _tuned(quantity, less),
                quantity,
            )
            for quantity in (XNLI, ALL)
            for more, less in ((2_000, 500), (MOST, 2_000))
        ),
    ),
    Claim(
        "Cao et al. (2020), Table 2",
        "Most of this growth comes early: the first fourfold increase brings more than the second.",
        XNLI,
        "xnli",
        tuple(
            Question(
                f"(2,000 - 500) - (8,000 - 2,000), {quantity.task}",
                (
                    (2.0, _tuned(quantity, 2_000)),
                    (-1.0, _tuned(quantity, 500)),
                    (-1.0, _tuned(quantity, MOST)),
                ),
                quantity,
            )
            for quantity in (XNLI, ALL)
        ),
    ),
    Claim(
        "Kulshreshtha et al. (2020), Table 3",
        "Centring each language helps rotation.",
        SLOTS,
        "slots",
        (
            Question("of 8,000 pairs: centred - not centred", _centering("es"), SLOTS),
            Question(
                "of a dictionary: centred - not centred",
                (
                    (1.0, _rotation("dictionary_rotation", center=True, lang="es")),
                    (-1.0, _rotation("dictionary_rotation", lang="es")),
                ),
                SLOTS,
            ),
        ),
    ),
    Claim(
        "Kulshreshtha et al. (2020), Table 3",
        "Centring helps most for distant languages.",
        SPANS,
        "words",
        (
            Question(
                "gain in tr and zh - gain in de and fr",
                (
                    *(part for lang in DISTANT for part in _scaled(0.5, _centering(lang))),
                    *(part for lang in NEAR for part in _scaled(-0.5, _centering(lang))),
                ),
                ALL,
            ),
        ),
    ),
    Claim(
        "Kulshreshtha et al. (2020), Table 3",
        "Rotations from parallel text are better than rotations from dictionaries.",
        SLOTS,
        "slots",
        (
            above(
                "not centred: parallel - dictionary",
                _rotation(lang="es"),
                _rotation("dictionary_rotation", lang="es"),
                SLOTS,
            ),
            above(
                "centred: parallel - dictionary",
                _rotation(center=True, lang="es"),
                _rotation("dictionary_rotation", center=True, lang="es"),
                SLOTS,
            ),
        ),
    ),
    Claim(
        "Pan et al. (2021), Table 2",
        "Post-pretraining on translations (MoCo and TLM) helps zero-shot transfer.",
        XNLI,
        "pretraining",
        _transfer("ppa", "none", XNLI),
    ),
    Claim(
        "Pan et al. (2021), Table 5",
        "MoCo and TLM each help: without one of them, transfer is worse.",
        XNLI,
        "transfer",
        (*_transfer("ppa", "tlm"), *_transfer("ppa", "ppa_without_tlm")),
    ),
    Claim(
        "Pan et al. (2021), Table 5",
        "Masking within single sentences (MLM) does not replace TLM.",
        XNLI,
        "transfer",
        _transfer("ppa", "ppa_with_mlm"),
    ),
    Claim(
        "Yang et al. (2021), Table 2",
        "Word exchange (WEAM) is better than TLM.",
        XNLI,
        "transfer",
        _transfer("weam", "tlm"),
    ),
    *liu2020.CLAIMS,
)
"""Every claim is asked of the test side of its grid."""
