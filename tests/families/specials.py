"""The special pieces of the families of encoders, and how they frame sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Specials:
    """The special pieces of a family, in the order of their numbers.

    Attributes:
        pieces: those at the front of the vocabulary.
        single: how one sentence is framed, ``[CLS] $A [SEP]``; empty: it is not.
        pair: how a pair is.
        names: the names that `tokenizer_config.json` gives them, such as ``cls_token``.
        last: those at the end of the vocabulary.
    """

    pieces: tuple[str, ...]
    single: str
    pair: str
    names: Mapping[str, str]
    last: tuple[str, ...] = field(default=())


def named(**pieces: str) -> dict[str, str]:
    """Return the names of `tokenizer_config.json`: ``cls="[CLS]"`` is ``cls_token``."""
    return {f"{name}_token": piece for name, piece in pieces.items()}


BERT = Specials(
    ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    "[CLS] $A [SEP]",
    "[CLS] $A [SEP] $B:1 [SEP]:1",
    named(pad="[PAD]", unk="[UNK]", cls="[CLS]", sep="[SEP]", mask="[MASK]"),
)
MODERNBERT = Specials(
    ("[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"), BERT.single, BERT.pair, BERT.names
)
_ANGLES = named(
    bos="<s>", eos="</s>", cls="<s>", sep="</s>", pad="<pad>", unk="<unk>", mask="<mask>"
)
ROBERTA = Specials(
    ("<s>", "<pad>", "</s>", "<unk>"),
    "<s> $A </s>",
    "<s> $A </s> </s> $B </s>",
    _ANGLES,
    ("<mask>",),
)


NLLB_CODES = {
    "en": "eng_Latn",
    "de": "deu_Latn",
    "fr": "fra_Latn",
    "tr": "tur_Latn",
    "hi": "hin_Deva",
    "zh": "zho_Hans",
    "th": "tha_Thai",
    "ar": "arb_Arab",
    "ru": "rus_Cyrl",
}
NLLB = Specials(
    ROBERTA.pieces,
    "eng_Latn $A </s>",
    "eng_Latn $A $B </s>",
    _ANGLES,
    (*NLLB_CODES.values(), "<mask>"),
)
"""Before a text stands the piece of its language, here that of the tokenizer as it is opened."""
MBART_CODES = {
    "en": "en_XX",
    "de": "de_DE",
    "fr": "fr_XX",
    "tr": "tr_TR",
    "hi": "hi_IN",
    "zh": "zh_CN",
    "th": "th_TH",
    "ar": "ar_AR",
    "ru": "ru_RU",
}
MBART = Specials(
    ROBERTA.pieces, "$A </s> en_XX", "$A $B </s> en_XX", _ANGLES, (*MBART_CODES.values(), "<mask>")
)


CAMEMBERT = Specials(
    ("<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED", "<s>", "</s>"),
    ROBERTA.single,
    ROBERTA.pair,
    ROBERTA.names,
    ("<mask>",),
)
DEBERTA = Specials(
    ("[PAD]", "[CLS]", "[SEP]", "[UNK]"), BERT.single, BERT.pair, BERT.names, ("[MASK]",)
)
REMBERT = Specials(
    ("<pad>", "</s>", "<s>", "<unk>", "[CLS]", "[SEP]", "[MASK]"),
    BERT.single,
    BERT.pair,
    {**BERT.names, **named(pad="<pad>", unk="<unk>", bos="[CLS]", eos="[SEP]")},
)
MPNET = Specials(
    ("<s>", "<pad>", "</s>", "[UNK]"),
    ROBERTA.single,
    ROBERTA.pair,
    {**ROBERTA.names, "unk_token": "[UNK]"},
    ("<mask>",),
)
XLM = Specials(
    ("<s>", "</s>", "<pad>", "<unk>", "<special0>", "<mask>"),
    "</s> $A </s>",
    "</s> $A </s> $B </s>",
    {**ROBERTA.names, "cls_token": "</s>"},
)
MT5 = Specials(
    ("<pad>", "</s>", "<unk>"),
    "$A </s>",
    "$A </s> $B </s>",
    named(pad="<pad>", eos="</s>", unk="<unk>"),
)
EUROBERT = Specials(
    ("<|begin_of_text|>", "<|end_of_text|>", "<|mask|>"),
    "<|begin_of_text|> $A <|end_of_text|>",
    "<|begin_of_text|> $A <|end_of_text|> $B:1 <|end_of_text|>:1",
    named(bos="<|begin_of_text|>", eos="<|end_of_text|>", pad="<|end_of_text|>", mask="<|mask|>"),
)
GEMMA_NAMES = named(pad="<pad>", eos="<eos>", bos="<bos>", unk="<unk>", mask="<mask>")
MMBERT = Specials(
    ("<pad>", "<eos>", "<bos>", "<unk>", "<mask>"),
    "<bos> $A <eos>",
    "<bos> $A <eos> $B:1 <eos>:1",
    {**GEMMA_NAMES, "cls_token": "<bos>", "sep_token": "<eos>"},
)
GEMMA = Specials(MMBERT.pieces, "<bos> $A", "<bos> $A <bos>:1 $B:1", GEMMA_NAMES)
LLAMA_2 = Specials(
    ("<unk>", "<s>", "</s>"),
    "<s> $A",
    "<s> $A <s>:1 $B:1",
    {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "</s>"},
)
LLAMA = Specials(
    ("<|begin_of_text|>", "<|end_of_text|>"),
    "<|begin_of_text|> $A",
    "<|begin_of_text|> $A <|begin_of_text|>:1 $B:1",
    {"bos_token": "<|begin_of_text|>", "eos_token": "<|end_of_text|>"},
)
QWEN_SPECIALS = Specials(
    ("<|endoftext|>", "<|im_start|>", "<|im_end|>"),
    "",
    "",
    {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"},
)
