"""Tokenizers of the kinds that encoders have, trained on a few sentences in milliseconds:
WordPiece, Unigram, byte-level BPE and BPE with byte fallback, with the special pieces of a family.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.families.sentences import all_texts
from tests.families.specials import Specials

if TYPE_CHECKING:
    from tokenizers import Tokenizer

SPACE = "▁"


def wordpiece(specials: Specials, unknown: str = "[UNK]", *, lowercase: bool = False) -> Tokenizer:
    """BERT's: words at blanks and punctuation, each Chinese character alone, ``##`` in words."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

    made = Tokenizer(models.WordPiece(unk_token=unknown))
    made.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    # Rare characters are left out, as mBERT's vocabulary leaves some out.
    trainer = trainers.WordPieceTrainer(
        vocab_size=600,
        limit_alphabet=240,
        special_tokens=[*specials.pieces, *specials.last],
        show_progress=False,
    )
    made.train_from_iterator(all_texts(), trainer)
    return framed(made, specials)


def unigram(specials: Specials, unknown: str = "<unk>") -> Tokenizer:
    """SentencePiece's Unigram, as XLM-R has it: a blank is the character ``▁`` before a word."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    made = Tokenizer(models.Unigram())
    made.normalizer = normalizers.Replace(" {2,}", " ")
    made.pre_tokenizer = pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="always")
    made.decoder = decoders.Metaspace(replacement=SPACE, prepend_scheme="always")
    trainer = trainers.UnigramTrainer(
        vocab_size=900,
        special_tokens=[*specials.pieces, *specials.last],
        unk_token=unknown,
        show_progress=False,
    )
    made.train_from_iterator(all_texts(), trainer)
    return framed(made, specials)


def byte_level(
    specials: Specials, *, regex: str | None = None, prefix_space: bool = False
) -> Tokenizer:
    """GPT-2's BPE over bytes; with a `regex` words are found by it, as in Llama 3 and Qwen."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    made = Tokenizer(models.BPE())
    level = pre_tokenizers.ByteLevel(add_prefix_space=prefix_space, use_regex=regex is None)
    made.pre_tokenizer = (
        level
        if regex is None
        else pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(regex), "isolated"), level])
    )
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=700,
        special_tokens=[*specials.pieces, *specials.last],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(all_texts(), trainer)
    return framed(made, specials)


def byte_fallback(specials: Specials, *, prepend: bool = True) -> Tokenizer:
    """SentencePiece's BPE, as Llama 2 and Gemma have it: characters that it does not know fall into
    their bytes, and with `prepend` a text begins with ``▁``.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, trainers

    unknown = specials.names["unk_token"]
    made = Tokenizer(models.BPE(unk_token=unknown, fuse_unk=True, byte_fallback=True))
    steps = [normalizers.Prepend(SPACE)] if prepend else []
    made.normalizer = normalizers.Sequence([*steps, normalizers.Replace(" ", SPACE)])
    made.decoder = decoders.Sequence(
        [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    octets = [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(
        vocab_size=900,
        limit_alphabet=200,
        special_tokens=[*specials.pieces, *octets],
        show_progress=False,
    )
    # Without a blank no piece would end at a word's end, so that texts are cut before training.
    words = [SPACE + word for text in all_texts() for word in text.split()]
    made.train_from_iterator(words, trainer)
    return framed(_without_added(made, specials, AddedToken), specials)


def end_of_word(specials: Specials) -> Tokenizer:
    """XLM's BPE: words at blanks and punctuation, lowercased, whose last piece ends in ``</w>``."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    made = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    made.normalizer = normalizers.BertNormalizer(lowercase=True, handle_chinese_chars=False)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.BPEDecoder(suffix="</w>")
    trainer = trainers.BpeTrainer(
        vocab_size=700,
        special_tokens=[*specials.pieces, *specials.last],
        end_of_word_suffix="</w>",
        show_progress=False,
    )
    made.train_from_iterator(all_texts(), trainer)
    return framed(made, specials)


def _without_added(made: Tokenizer, specials: Specials, added: Callable[..., object]) -> Tokenizer:
    """The tokenizer with bytes as plain pieces: a trainer knows no pieces but special ones."""
    import json

    from tokenizers import Tokenizer

    record = json.loads(made.to_str())
    keep = {*specials.pieces, *specials.last}
    record["added_tokens"] = [piece for piece in record["added_tokens"] if piece["content"] in keep]
    again = Tokenizer.from_str(json.dumps(record))
    again.add_special_tokens([added(piece, special=True) for piece in specials.last])
    return again


def framed(made: Tokenizer, specials: Specials) -> Tokenizer:
    """The tokenizer with the family's post-processor."""
    from tokenizers import processors

    if not specials.single:
        return made
    parts = {part.split(":")[0] for part in f"{specials.single} {specials.pair}".split()}
    made.post_processor = processors.TemplateProcessing(
        single=specials.single,
        pair=specials.pair,
        special_tokens=[
            (part, made.token_to_id(part)) for part in sorted(parts) if not part.startswith("$")
        ],
    )
    return made
