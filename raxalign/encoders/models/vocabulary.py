"""What encoders are trained on: sentences, and a WordPiece vocabulary that is reproducible."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from raxalign.corpora.text.dataset import read_table
from raxalign.corpora.text.sentences import read_sentences
from raxalign.errors import DataError

UNK = "[UNK]"
SPECIALS = ("[PAD]", UNK, "[CLS]", "[SEP]", "[MASK]")
ALPHABET_SHARE = 4  # characters are at most one in this many of the vocabulary


def train_wordpiece(
    sentences: Sequence[Sequence[str]], vocab_size: int, *, lowercase: bool = False
) -> Any:
    """A fast BERT tokenizer whose vocabulary was trained on the sentences; accents are kept, cased
    unless `lowercase`.

    The trainer of the library numbers continuing characters in the order of a hash table, and
    breaks ties by number, so that two processes get two vocabularies. The characters are therefore
    given to it, sorted, as if they were special pieces.
    """
    from tokenizers import models, trainers

    counts = Counter(word for sentence in sentences for word in sentence)
    alphabet = _alphabet(_splitter(lowercase), counts, vocab_size // ALPHABET_SHARE)
    tokenizer = _splitter(lowercase)
    tokenizer.model = models.WordPiece(unk_token=UNK)
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size,
        min_frequency=2,
        special_tokens=[*SPECIALS, *alphabet],
        limit_alphabet=0,
        show_progress=False,
    )
    tokenizer.train_from_iterator(map(" ".join, sentences), trainer, length=len(sentences))
    pieces = sorted(tokenizer.get_vocab().items(), key=lambda entry: entry[1])
    return wrap_vocabulary([piece for piece, _ in pieces], lowercase=lowercase)


def _splitter(lowercase: bool) -> Any:
    """A tokenizer that only normalises and splits, as BERT does."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    tokenizer = Tokenizer(models.WordPiece({UNK: 0}, unk_token=UNK))
    tokenizer.normalizer = normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=True, strip_accents=False, lowercase=lowercase
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def _alphabet(splitter: Any, counts: Counter[str], limit: int) -> list[str]:
    """The most frequent characters, sorted: each as what begins a word, which the trainer looks up
    for every one, and as ``##`` what continues one where it was seen so.
    """
    seen: Counter[str] = Counter()
    continuing = set()
    for word, count in counts.items():
        normal = splitter.normalizer.normalize_str(word)
        for part, _ in splitter.pre_tokenizer.pre_tokenize_str(normal):
            continuing.update(part[1:])
            for character in part:
                seen[character] += count
    frequent = sorted(seen, key=lambda character: (-seen[character], character))[:limit]
    return sorted([*frequent, *("##" + each for each in frequent if each in continuing)])


def wrap_vocabulary(pieces: Sequence[str], *, lowercase: bool = False) -> Any:
    """A fast tokenizer over a vocabulary in its order, with BERT's splitting and specials."""
    from tokenizers import models, processors
    from transformers import PreTrainedTokenizerFast

    ids = {piece: i for i, piece in enumerate(pieces)}
    tokenizer = _splitter(lowercase)
    tokenizer.model = models.WordPiece(ids, unk_token=UNK, max_input_chars_per_word=100)
    ends = [(name, ids[name]) for name in ("[SEP]", "[CLS]")]
    tokenizer.post_processor = processors.BertProcessing(*ends)
    names = [f"{kind}_token" for kind in ("pad", "unk", "cls", "sep", "mask")]
    # Wrapped, not `BertTokenizerFast(vocab_file=...)`, which in transformers 5 forgets all but the
    # special pieces.
    special = dict(zip(names, SPECIALS, strict=True))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)


def read_vocabulary(path: Path, *, whole: bool = False) -> list[str]:
    """Read the pieces of a ``vocab.txt``. Raises `DataError` where it lacks one that splitting
    needs or, of a `whole` one, any special piece.
    """
    needs = SPECIALS if whole else (UNK, "[CLS]", "[SEP]")
    try:
        pieces = path.read_text(encoding="utf-8-sig").rstrip("\n").split("\n")
    except (OSError, ValueError) as error:
        raise DataError(path, f"the vocabulary cannot be read ({error})") from error
    if missing := [special for special in needs if special not in pieces]:
        raise DataError(path, f"has no {', '.join(missing)}, which the vocabulary of a BERT has")
    return pieces


def read_words(folder: Path, limit: int) -> list[list[str]]:
    """The first `limit` sentences of a dataset of text. Raises `DataError` for another."""
    table = read_table(folder)
    if "words" not in table.column_names:
        columns = ", ".join(table.column_names)
        raise DataError(folder, f"has no column `words`, so it is not text (columns: {columns})")
    return read_sentences(table.slice(0, limit), "words")
