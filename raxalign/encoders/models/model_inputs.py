"""What a base model reads beside pieces and mask: token types, and languages where the architecture
has an adapter (X-MOD) or an embedding (XLM) per language.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from raxalign.encoders.models.vectors import Batch
from raxalign.errors import RaxalignError

if TYPE_CHECKING:
    import torch


class ModelInputs:
    """The inputs of a model's base by name, of a batch."""

    def __init__(self, model: Any) -> None:
        known = inspect.signature(model.base_model.forward).parameters
        config = model.config
        self.segment_types: int = getattr(config, "type_vocab_size", 0) or 0
        self.has_segments = "token_type_ids" in known and self.segment_types > 0
        self.has_positions = "position_ids" in known
        self.adapters = _codes(config.languages) if "lang_ids" in known else {}
        self.embedded = (
            dict(getattr(config, "lang2id", None) or {})
            if "langs" in known and getattr(config, "use_lang_emb", False) and config.n_langs > 1
            else {}
        )

    @property
    def has_languages(self) -> bool:
        """Whether the states depend on the language that a batch records."""
        return bool(self.adapters or self.embedded)

    def of(self, batch: Batch) -> dict[str, torch.Tensor]:
        """The inputs of a batch, on its device. A row of two languages has the adapter of its
        first. Raises `RaxalignError` for a language that the model does not have.
        """
        inputs = {"input_ids": batch.ids_BT, "attention_mask": batch.mask_BT}
        if self.has_segments:
            inputs["token_type_ids"] = batch.segments_BT
        if self.adapters:
            inputs["lang_ids"] = _numbers(batch, self.adapters, "adapter")[:, 0]
        if self.embedded:
            inputs["langs"] = _numbers(batch, self.embedded, "language embedding")
        return inputs


def _codes(languages: Any) -> dict[str, int]:
    """Language code -> number of the adapter, of X-MOD's names such as ``de_DE``; of several with
    one code (``zh_CN``, ``zh_TW``), the first.
    """
    codes: dict[str, int] = {}
    for number, name in enumerate(languages):
        codes.setdefault(str(name).split("_")[0], number)
    return codes


def _numbers(batch: Batch, numbers: dict[str, int], what: str) -> torch.Tensor:
    """The model's number of the language of each piece (B, T), 0 at padding."""
    import torch

    if not batch.languages:
        raise RaxalignError(
            f"this encoder has one {what} per language, and here the language of its rows is not"
            " known: it can be read and evaluated, but not trained by this method. Use another"
            " encoder for it"
        )
    missing = [lang for lang in batch.languages if _base(lang) not in numbers]
    if missing:
        raise RaxalignError(
            f"the encoder has no {what} for {', '.join(missing)} (it has one for"
            f" {', '.join(sorted(numbers))}); leave out this language, or use another encoder"
        )
    table = torch.tensor([numbers[_base(lang)] for lang in batch.languages])
    return table.to(batch.langs_BT.device)[batch.langs_BT.clamp(min=0)]


def _base(lang: str) -> str:
    """The language of a code without its script or region (``zh-Hant``)."""
    return lang.split("-")[0]
