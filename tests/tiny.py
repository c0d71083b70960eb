"""Tiny random BERTs with a WordPiece tokenizer, for tests: no download, a few milliseconds to
run.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def tiny_vocabulary(words: Iterable[str]) -> list[str]:
    """The specials, `words` whole (each in the order given, once), and every character of theirs,
    initial and continuing (``##x``).

    A word that is not listed falls into characters, so it has several pieces; one with a character
    that no listed word has is [UNK]. A word is split where `words` holds a beginning of it and
    ``##rest``.
    """
    words = list(dict.fromkeys(words))
    characters = sorted({character for word in words for character in word.removeprefix("##")})
    return list(
        dict.fromkeys(
            [*SPECIALS, *words, *characters, *("##" + character for character in characters)]
        )
    )


def tiny_bert(
    folder: Path | str,
    words: Iterable[str],
    *,
    layers: int = 2,
    hidden: int = 32,
    heads: int = 2,
    positions: int = 64,
    seed: int = 0,
    spread: float = 0.2,
) -> Path:
    """A folder with a random masked-LM BERT (safetensors, tied embeddings) and a cased WordPiece
    tokenizer; returns `folder`.

    `spread` is the standard deviation of the weights: larger than BERT's, so that contexts really
    change vectors.
    """
    import torch
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast

    vocabulary = tiny_vocabulary(words)
    ids = {piece: i for i, piece in enumerate(vocabulary)}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False, strip_accents=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(
        ("[SEP]", ids["[SEP]"]), ("[CLS]", ids["[CLS]"])
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token="[UNK]",
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    )
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=2 * hidden,
        max_position_embeddings=positions,
        initializer_range=spread,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = BertForMaskedLM(config)
    model.save_pretrained(folder)
    fast.save_pretrained(folder)
    return Path(folder)
