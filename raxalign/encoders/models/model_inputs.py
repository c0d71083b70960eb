"""What a base model, or the encoder half of a translation model, reads of a batch besides pieces: a
mask, token types, languages where it has an adapter (X-MOD), an embedding (XLM) or a piece (NLLB)
per language, and positions. Decoders (causal language models) are read as encoders: a piece sees
only those before it, unless one is opened as `bidirectional`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from importlib import import_module
from operator import attrgetter
from typing import Any, NamedTuple

from raxalign.encoders.models.vectors import Batch
from raxalign.errors import RaxalignError
from raxalign.languages import is_code, language
from raxalign.lazy import np, torch

_CLASSES = {"m2m_100": "M2M100Encoder", "mbart": "MBartEncoder"}
MODULES = {made: f"transformers.models.{kind}.modeling_{kind}" for kind, made in _CLASSES.items()}
"""The class of each encoder half -> its module in transformers, which names it nowhere else."""
ALONE = "M2M100Encoder"
"""The architecture of SONAR's text encoder, whose sentences are the means over all pieces."""
KEYS = {r"^(model\.)?encoder\.": "", r"^(model\.)?shared\.": "embed_tokens."}
"""The names of weights in a whole model -> those in its encoder half."""
_LANGUAGE = re.compile(r"__([a-z]{2,3})__|([a-z]{2,3}_[A-Z][A-Za-z]{1,3})")


def half_class(config: Any) -> Any:
    """Return the class of transformers for the encoder half of a translation model; None for other
    architectures.
    """
    name = _CLASSES.get(config.model_type)
    return None if name is None else getattr(import_module(MODULES[name]), name)


def is_half(model: Any) -> bool:
    """Return whether a model is the encoder half of a translation model."""
    return type(model).__name__ in MODULES


class LanguagePieces(NamedTuple):
    """The piece for a language that a tokenizer puts around every text, and all such pieces by the
    names of their languages (``deu_Latn``, ``de_DE``, ``de``).
    """

    placed: int
    named: Mapping[str, int]


def language_pieces(tokenizer: Any, specials: tuple[int, ...]) -> LanguagePieces | None:
    """Return what a tokenizer has; None where none of the special pieces that it puts around texts
    names a language.
    """
    placed = [i for i in specials if _LANGUAGE.fullmatch(tokenizer.convert_ids_to_tokens(i))]
    if not placed:
        return None
    added = ((_LANGUAGE.fullmatch(name), i) for name, i in tokenizer.get_added_vocab().items())
    named = {found.group(1) or found.group(2): number for found, number in added if found}
    return LanguagePieces(placed[0], named)


ASSUMED = 512
"""The pieces per row of an encoder that limits them nowhere (T5's positions are relative)."""
_NO_LIMIT = 1_000_000
_BOTH_WAYS = "raxalign_bidirectional"
"""The entry of a model's ``config.json`` by which a decoder stays bidirectional on disk."""


def max_positions(model: Any, tokenizer: Any) -> int:
    """The largest number of pieces in a row, special ones included: of the position table, or of
    the lengths that relative or rotary positions were trained on, and of the tokenizer.

    `model_max_length` of a tokenizer counts only from 3 to a million: others are placeholders.
    Where nothing limits rows, they have `ASSUMED` pieces.
    """
    found = [int(tokenizer.model_max_length)] if 2 < tokenizer.model_max_length < _NO_LIMIT else []
    limit = getattr(model.config, "max_position_embeddings", None)
    if isinstance(limit, int) and 0 < limit < _NO_LIMIT:
        found.append(limit - first_position(model.base_model))
    return min(filter(None, found), default=ASSUMED)


def first_position(base: Any) -> int:
    """The number of the first position: behind the padding index in RoBERTa's like, else 0."""
    table = getattr(getattr(base, "embeddings", None), "position_embeddings", None)
    padding = getattr(table, "padding_idx", None)
    return 0 if padding is None else int(padding) + 1


def states_dtype(model: Any) -> torch.dtype:
    """Return the type of a model's states outside of autocast: that of its weights, or float32
    where these are held in bfloat16.
    """
    own: torch.dtype = next(model.parameters()).dtype
    return torch.float32 if own == torch.bfloat16 else own


class ModelInputs:
    """The inputs of a model's base by name, of a batch. `spoken` are the pieces for languages that
    its tokenizer has.
    """

    def __init__(self, model: Any, spoken: LanguagePieces | None = None) -> None:
        self.model = model
        self.placed = -1 if spoken is None else spoken.placed
        self.spoken = _Numbers({} if spoken is None else spoken.named, "piece")
        known = inspect.signature(model.base_model.forward).parameters
        config = model.config
        self.segment_types: int = getattr(config, "type_vocab_size", 0) or 0
        self.has_segments = "token_type_ids" in known and self.segment_types > 0
        self.has_positions = "position_ids" in known
        adapters = config.languages if "lang_ids" in known else ()
        self.adapters = _Numbers({name: i for i, name in enumerate(adapters)}, "adapter")
        embeds = "langs" in known and getattr(config, "use_lang_emb", False) and config.n_langs > 1
        embedded = getattr(config, "lang2id", None) if embeds else None
        self.embedded = _Numbers(embedded or {}, "language embedding")

    @property
    def has_languages(self) -> bool:
        """Whether the states depend on the language that a batch records."""
        return bool(self.adapters.named or self.embedded.named or self.spoken.named)

    def of(self, batch: Batch) -> dict[str, Any]:
        """The inputs of a batch, on its device. A row of two languages has the adapter of its
        first, and the piece of the text that stands next to it. Raises `RaxalignError` for a
        language that the model does not have.
        """
        inputs: dict[str, Any] = {"input_ids": batch.ids_BT, "attention_mask": batch.mask_BT}
        if self.spoken.named:
            own_BT = self.spoken.of(batch)
            inputs["input_ids"] = torch.where(batch.ids_BT == self.placed, own_BT, batch.ids_BT)
        if is_decoder(self.model.config):
            inputs["use_cache"] = False
            if is_bidirectional(self.model.config):
                inputs["attention_mask"] = self._both_ways(batch.mask_BT)
        if self.has_segments:
            inputs["token_type_ids"] = batch.segments_BT
        if self.adapters.named:
            inputs["lang_ids"] = self.adapters.of(batch)[:, 0]
        if self.embedded.named:
            inputs["langs"] = self.embedded.of(batch)
        return inputs

    def _both_ways(self, mask_BT: torch.Tensor) -> torch.Tensor:
        """The mask (B, 1, T, T) in the place of the causal one, sliding windows included."""
        dtype, width = states_dtype(self.model), mask_BT.shape[1]
        hidden_B1TT = (mask_BT == 0)[:, None, None, :].expand(-1, 1, width, -1)
        added_B1TT = torch.zeros(hidden_B1TT.shape, dtype=dtype, device=mask_BT.device)
        return added_B1TT.masked_fill(hidden_B1TT, torch.finfo(dtype).min)


class _Numbers:
    """The numbers of a model's adapters or embeddings by language."""

    def __init__(self, named: Mapping[str, int], what: str) -> None:
        self.named, self.what = named, what
        self.known = {name: language(name) for name in named if is_code(name)}
        self.found: dict[str, int | None] = {}

    def of(self, batch: Batch) -> torch.Tensor:
        """Return the number of the language of each piece (B, T), any at padding."""
        if not batch.languages:
            raise RaxalignError(
                f"this encoder has one {self.what} per language, and here the language of its rows"
                " is not known: the datasets do not record it. Use another encoder"
            )
        numbers = [self.number(lang) for lang in batch.languages]
        if lacks := [lang for lang in batch.languages if self.number(lang) is None]:
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
                alike = attrgetter(*parts)
                same = [n for n, other in self.known.items() if alike(other) == alike(wanted)]
                if same:
                    self.found[lang] = self.named[same[0]]
                    break
        return self.found[lang]


def is_decoder(config: Any) -> bool:
    """Return whether transformers has the architecture of a config as a causal LM alone. What it
    has as a masked LM too, such as BERT, is an encoder.
    """
    from transformers.models.auto import modeling_auto as auto

    masked, causal = auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES, auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    return config.model_type in causal and config.model_type not in masked


def make_bidirectional(model: Any) -> None:
    """Let every piece of a decoder see the whole row from now on; its ``config.json`` keeps this.
    Raises `RaxalignError` for an encoder, which is bidirectional as it is.
    """
    if not is_decoder(model.config):
        raise RaxalignError(
            f"bidirectional: {type(model).__name__} is not a decoder; its pieces see the whole row"
            " already. Leave the option out"
        )
    setattr(model.config, _BOTH_WAYS, True)


def is_bidirectional(config: Any) -> bool:
    """Return whether a decoder was made bidirectional."""
    return bool(getattr(config, _BOTH_WAYS, False))


def summary_places(model: Any, starts_S: np.ndarray, lengths_S: np.ndarray) -> np.ndarray:
    """Return the place of the piece that stands for each row, (S,), which begins at `starts_S`: of
    an encoder the first piece ([CLS]), of a decoder the last one, which alone has seen the others.
    """
    return starts_S + lengths_S - 1 if is_decoder(model.config) else starts_S
