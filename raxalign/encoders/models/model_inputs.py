"""What a base model reads beside pieces and mask: token types, languages where the architecture has
an adapter (X-MOD) or an embedding (XLM) per language, and positions: how many, and from where on.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from raxalign.encoders.models.vectors import Batch
from raxalign.errors import RaxalignError
from raxalign.languages import is_code, language

if TYPE_CHECKING:
    import torch


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
    """The number of the first position: behind the padding index in RoBERTa's like, else 0."""
    table = getattr(getattr(base, "embeddings", None), "position_embeddings", None)
    padding = getattr(table, "padding_idx", None)
    return 0 if padding is None else int(padding) + 1


def _of_model(model: Any) -> int | None:
    limit = getattr(model.config, "max_position_embeddings", None)
    if not isinstance(limit, int) or not 0 < limit < _NO_LIMIT:
        return None
    return limit - first_position(model.base_model)


def _of_tokenizer(tokenizer: Any) -> int | None:
    limit = int(tokenizer.model_max_length)
    return limit if 2 < limit < _NO_LIMIT else None


class ModelInputs:
    """The inputs of a model's base by name, of a batch."""

    def __init__(self, model: Any) -> None:
        known = inspect.signature(model.base_model.forward).parameters
        config = model.config
        self.segment_types: int = getattr(config, "type_vocab_size", 0) or 0
        self.has_segments = "token_type_ids" in known and self.segment_types > 0
        self.has_positions = "position_ids" in known
        adapters = config.languages if "lang_ids" in known else ()
        self.adapters = _Numbers({name: i for i, name in enumerate(adapters)}, "adapter")
        embedded = (
            getattr(config, "lang2id", None)
            if "langs" in known and getattr(config, "use_lang_emb", False) and config.n_langs > 1
            else None
        )
        self.embedded = _Numbers(embedded or {}, "language embedding")

    @property
    def has_languages(self) -> bool:
        """Whether the states depend on the language that a batch records."""
        return bool(self.adapters.named or self.embedded.named)

    def of(self, batch: Batch) -> dict[str, torch.Tensor]:
        """The inputs of a batch, on its device. A row of two languages has the adapter of its
        first. Raises `RaxalignError` for a language that the model does not have.
        """
        inputs = {"input_ids": batch.ids_BT, "attention_mask": batch.mask_BT}
        if self.has_segments:
            inputs["token_type_ids"] = batch.segments_BT
        if self.adapters.named:
            inputs["lang_ids"] = self.adapters.of(batch)[:, 0]
        if self.embedded.named:
            inputs["langs"] = self.embedded.of(batch)
        return inputs


class _Numbers:
    """The numbers of a model's adapters or embeddings by language."""

    def __init__(self, named: Mapping[str, int], what: str) -> None:
        self.named, self.what = named, what
        self.known = {name: language(name) for name in named if is_code(name)}
        self.found: dict[str, int | None] = {}

    def of(self, batch: Batch) -> torch.Tensor:
        """Return the number of the language of each piece (B, T), any at padding."""
        import torch

        if not batch.languages:
            raise RaxalignError(
                f"this encoder has one {self.what} per language, and here the language of its rows"
                " is not known: the datasets do not record it. Use another encoder"
            )
        numbers = [self.number(lang) for lang in batch.languages]
        if None in numbers:
            lacks = [lang for lang in batch.languages if self.number(lang) is None]
            raise RaxalignError(
                f"the encoder has no {self.what} for {', '.join(lacks)} (it has one for"
                f" {', '.join(sorted(self.named))}); leave out this language, or use another"
                " encoder"
            )
        table = torch.tensor(numbers).to(batch.langs_BT.device)
        return table[batch.langs_BT.clamp(min=0)]

    def number(self, lang: str) -> int | None:
        """Return the number of a language, None where the model does not have it: the number under
        the same name or tag, else of the same language in the same script, else of the same
        language. Models name regions (``zh_TW``) that codes leave out (``zh-Hant``).
        """
        if lang not in self.found:
            self.found[lang] = self.named.get(lang)
            wanted = language(lang) if self.found[lang] is None and is_code(lang) else None
            for parts in (("tag",), ("base", "script"), ("base",)) if wanted else ():
                same = [
                    self.named[name]
                    for name, other in self.known.items()
                    if all(getattr(other, part) == getattr(wanted, part) for part in parts)
                ]
                if same:
                    self.found[lang] = same[0]
                    break
        return self.found[lang]
