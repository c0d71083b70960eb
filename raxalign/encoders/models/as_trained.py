"""The check that an encoder reads text in the pieces that its own tokenizer makes of it."""

from __future__ import annotations

from typing import Any

from raxalign.encoders.models.pieces import bulk_pieces, read_template
from raxalign.running import Sentence

SAMPLE = (
    "We now have four mice, don't we?",
    "Die Straße am Café ist seit 2019 gesperrt.",
    "Şimdi İstanbul'da yağmur yağıyor.",
    "Сега имаме четири мишки.",
    "हमारे पास अब चार चूहे हैं।",
    "我们现在有四只老鼠。",
    "ตอนนี้เรามีหนูสี่ตัว",
    "لدينا الآن أربعة فئران.",
)
"""A sentence of each of some languages and scripts."""


def other_pieces(tokenizer: Any) -> str | None:
    """Return in what the pieces of the sample, special ones included, differ from those that the
    tokenizer gives by itself; None where they are the same.
    """
    template = read_template(tokenizer)
    sentences = [Sentence.of_text(text) for text in SAMPLE]
    for sentence, pieces in zip(sentences, bulk_pieces(tokenizer, sentences, None), strict=True):
        read = [*template.before, *pieces.ids.tolist(), *template.after_single]
        expected = tokenizer(sentence.text, verbose=False)["input_ids"]
        if read != expected:
            ours, own = (" ".join(tokenizer.convert_ids_to_tokens(ids)) for ids in (read, expected))
            return f"{sentence.text!r} is read as {ours}, but its tokenizer makes {own} of it"
    return None
