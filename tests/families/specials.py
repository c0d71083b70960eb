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


BERT = Specials(
    ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    "[CLS] $A [SEP]",
    "[CLS] $A [SEP] $B:1 [SEP]:1",
    {
        "pad_token": "[PAD]",
        "unk_token": "[UNK]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "mask_token": "[MASK]",
    },
)
MODERNBERT = Specials(
    ("[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"), BERT.single, BERT.pair, BERT.names
)
_ANGLES = {
    "bos_token": "<s>",
    "eos_token": "</s>",
    "cls_token": "<s>",
    "sep_token": "</s>",
    "pad_token": "<pad>",
    "unk_token": "<unk>",
    "mask_token": "<mask>",
}
ROBERTA = Specials(
    ("<s>", "<pad>", "</s>", "<unk>"),
    "<s> $A </s>",
    "<s> $A </s> </s> $B </s>",
    _ANGLES,
    ("<mask>",),
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
    {
        **BERT.names,
        "pad_token": "<pad>",
        "unk_token": "<unk>",
        "bos_token": "[CLS]",
        "eos_token": "[SEP]",
    },
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
    {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"},
)
EUROBERT = Specials(
    ("<|begin_of_text|>", "<|end_of_text|>", "<|mask|>"),
    "<|begin_of_text|> $A <|end_of_text|>",
    "<|begin_of_text|> $A <|end_of_text|> $B:1 <|end_of_text|>:1",
    {
        "bos_token": "<|begin_of_text|>",
        "eos_token": "<|end_of_text|>",
        "pad_token": "<|end_of_text|>",
        "mask_token": "<|mask|>",
    },
)
GEMMA_NAMES = {
    "pad_token": "<pad>",
    "eos_token": "<eos>",
    "bos_token": "<bos>",
    "unk_token": "<unk>",
    "mask_token": "<mask>",
}
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
