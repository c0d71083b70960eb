"""The most pieces per row of a transformer, and where its position numbers begin."""

from __future__ import annotations

from typing import Any

ASSUMED = 512
"""The pieces per row of an encoder that limits them nowhere (T5's positions are relative)."""
_NO_LIMIT = 1_000_000


def max_positions(model: Any, tokenizer: Any) -> int:
    """The largest number of pieces in a row, special ones included: of the position table, or of
    the lengths that relative or rotary positions were trained on, and of the tokenizer.

    `model_max_length` of a tokenizer counts only from 3 to a million: others are placeholders.
    Where nothing limits rows, they have `ASSUMED` pieces (see `limit_note`).
    """
    found = [limit for limit in (_of_model(model), _of_tokenizer(tokenizer)) if limit]
    return min(found, default=ASSUMED)


def limit_note(model: Any, tokenizer: Any) -> str | None:
    """A sentence for an encoder whose rows nothing limits; None for others."""
    if _of_model(model) or _of_tokenizer(tokenizer):
        return None
    return (
        f"its positions are relative and its tokenizer names no limit: rows have up to {ASSUMED}"
        " pieces"
    )


def first_position(base: Any) -> int:
    """The number of the first position: behind the padding index in RoBERTa and its like (whose
    514 positions hold 512 pieces), else 0.
    """
    padding = getattr(_table(base), "padding_idx", None)
    return 0 if padding is None else int(padding) + 1


def _of_model(model: Any) -> int | None:
    limit = getattr(model.config, "max_position_embeddings", None)
    if not isinstance(limit, int) or limit <= 0 or limit >= _NO_LIMIT:
        return None
    return limit - first_position(model.base_model)


def _of_tokenizer(tokenizer: Any) -> int | None:
    limit = int(tokenizer.model_max_length)
    return limit if 2 < limit < _NO_LIMIT else None


def _table(base: Any) -> Any:
    embeddings = getattr(base, "embeddings", None)
    return getattr(embeddings, "position_embeddings", None)
