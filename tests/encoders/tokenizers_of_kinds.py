"""Small tokenizers of the kinds that encoders have, trained in an instant on a few sentences."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from typing import Any

from tokenizers import (
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import PreTrainedTokenizerFast

from raxalign.encoders.models.vocabulary import train_wordpiece

TEXTS = {
    "en": ["We now have four mice, don't we?", "The ﬁne café on the corner is closed [SEP] 🙂."],
    "de": ["Wir haben jetzt vier Mäuse.", "Das Haus (alt) steht in der Straße."],
    "tr": ["Şimdi dört faremiz var.", "İstanbul'da ılık bir gün."],
    "hi": ["हमारे पास अब चार चूहे हैं।", "यह घर पुराना है।"],
    "zh": ["我们现在有四只老鼠。", "他在New York住了12年。"],
    "th": ["ตอนนี้เรามีหนูสี่ตัว", "น้ำในบ้านนี้เย็น"],
    "ar": ["لدينا الآن أربعة فئران.", "البيت قديمٌ جدًا"],
}
"""Sentences in seven languages, with a ligature, combining marks and a character of two planes."""
ALPHABET = 60
"""How many characters the byte-fallback tokenizer has besides bytes: a few less than its texts."""
KINDS = ("wordpiece", "unigram", "byte-level", "byte-fallback")
_SPECIALS = ["<unk>", "<s>", "</s>", "<pad>", "<mask>"]


def _wrapped(tokenizer: Tokenizer) -> Any:
    ends = [(name, tokenizer.token_to_id(name)) for name in ("<s>", "</s>")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> $B </s>", special_tokens=ends
    )
    kinds = ("unk", "cls", "sep", "pad", "mask")
    names = {f"{kind}_token": name for kind, name in zip(kinds, _SPECIALS, strict=True)}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)


def _unigram() -> Any:
    """As XLM-R's: a blank is put before each run of other characters."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    trainer = trainers.UnigramTrainer(
        vocab_size=260, special_tokens=_SPECIALS, unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator([t for texts in TEXTS.values() for t in texts], trainer)
    return _wrapped(tokenizer)


def _byte_level() -> Any:
    """As RoBERTa's: no blank before the first word of a text."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=420,
        special_tokens=_SPECIALS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([t for texts in TEXTS.values() for t in texts], trainer)
    return _wrapped(tokenizer)


def _byte_fallback() -> Any:
    """As Gemma's: blanks are characters like others, and what is unknown is read in bytes."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
    tokenizer.pre_tokenizer = pre_tokenizers.Split("\u2581", "merged_with_next")
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    texts = TEXTS["en"] + TEXTS["de"] + TEXTS["zh"]
    counts = Counter(character for text in texts for character in text.replace(" ", "\u2581"))
    # left to itself, the trainer chooses among equally frequent characters by chance
    alphabet = sorted(counts, key=lambda character: (-counts[character], character))[:ALPHABET]
    trainer = trainers.BpeTrainer(
        vocab_size=420,
        special_tokens=[*_SPECIALS, *(f"<0x{byte:02X}>" for byte in range(256))],
        initial_alphabet=alphabet,
        limit_alphabet=ALPHABET,
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    plain = json.loads(tokenizer.to_str()) | {"pre_tokenizer": None}
    return _wrapped(Tokenizer.from_str(json.dumps(plain)))


@cache
def tokenizer_of(kind: str) -> Any:
    """Return the tokenizer of one of `KINDS`, the same object each time."""
    if kind == "wordpiece":
        return train_wordpiece([t.split() for texts in TEXTS.values() for t in texts], 400)
    return {"unigram": _unigram, "byte-level": _byte_level, "byte-fallback": _byte_fallback}[kind]()
