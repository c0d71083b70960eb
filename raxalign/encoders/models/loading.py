"""Opening Hugging Face folders and hub names, safetensors only, no foreign code, clear errors; and
what the base model, or the encoder half of a translation model, reads of a batch besides pieces: a
mask, token types, languages where it has an adapter (X-MOD), an embedding (XLM) or a piece (NLLB)
per language, and positions. Decoders (causal language models) are read as encoders: a piece sees
only those before it, unless one is opened as `bidirectional`.
"""

from __future__ import annotations

import inspect
import json
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal, NamedTuple

from raxalign.corpora.readers.repository import first_line
from raxalign.corpora.text.words import FORMAT_CHARACTERS
from raxalign.encoders.models.folder import (
    ADAPTER,
    AGAIN,
    SAVE_TOKENIZER,
    TOKENIZERS,
    check_folder,
    has_head,
    holds_both,
    read_config,
    weight_headers,
)
from raxalign.encoders.models.hub import encoder_place
from raxalign.encoders.models.vectors import Batch
from raxalign.errors import DataError, RaxalignError
from raxalign.extras import require
from raxalign.languages import is_code, language
from raxalign.lazy import np, torch
from raxalign.options.run import BasePrecision

_MODEL = ("config.json", "*.safetensors", "*.safetensors.index.json", ADAPTER)
_TOKENIZER = (*TOKENIZERS, "*token*.json", "merges.txt")
"""Patterns of the files that transformers makes a model, and a tokenizer, of."""

TextForm = Literal["none", "nfc", "clean"]
"""What is done to a text before the tokenizer's own steps: nothing, composition (Unicode's form C),
or composition without format characters.
"""
_TEXT_FORMS: dict[TextForm, list[list[str]]] = {
    "none": [],
    "nfc": [[]],
    "clean": [[], ["\u200b", " "], [FORMAT_CHARACTERS, ""]],
}
"""The steps of each form: a pattern and what replaces it, or nothing for composition."""
_FORM = "raxalign_normalize"
"""The entry of a model's ``config.json`` by which an encoder keeps its form on disk: transformers
makes some tokenizers anew and drops normalisers of theirs.
"""


def load_model(
    name: str, revision: str | None = None, base: BasePrecision = "fp32"
) -> tuple[Any, Any]:
    """(model, tokenizer) of a folder or hub name, float32, on the CPU, in eval mode: a masked LM
    where the folder has a whole one, else the encoder without a head; of T5 and its like, the
    encoder half, as of M2M-100, NLLB and mBART; of a decoder, the base model. With the `base` bf16
    its weights are read in bfloat16, never in float32 first, and held as by `hold`; of a folder
    that has some in float32 on purpose, these stay so. Attention is computed by PyTorch's fused
    kernels where the architecture has them. Raises `DataError` where the folder does not hold a
    whole encoder with safetensors and its tokenizer, `TransientError` where the hub does not
    answer.
    """
    from transformers import AutoConfig, AutoTokenizer

    folder = encoder_place(name, revision)
    if str(folder) == name:
        check_folder(folder)
    if (folder / ADAPTER).is_file():
        require("peft", f"{name}/{ADAPTER}")  # without it the adapter would be passed over
    options: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    held = base != "fp32"
    exactly = held and holds_both(*folder.glob("*.safetensors"))
    dtype = torch.bfloat16 if held and not exactly else torch.float32
    with quiet(), _explained(name, folder, *_MODEL):
        config = AutoConfig.from_pretrained(folder, **options)
        model = _open(name, folder, config, {**options, "dtype": dtype})
    with quiet(), _explained(name, folder, *_TOKENIZER):
        tokenizer = AutoTokenizer.from_pretrained(folder, use_fast=True, **options)
        int(tokenizer.model_max_length)  # transformers takes whatever stands there
        _check_fit(name, folder, model, tokenizer)
    keep_text_form(config, tokenizer)
    _own_weights(name, model)
    if held:
        from raxalign.encoders.models.held_base import hold

        hold(model, exactly=exactly)
    return model.eval(), tokenizer


def _open(name: str, folder: Path, config: Any, options: dict[str, Any]) -> Any:
    """The masked LM, or else the encoder without a head."""
    from transformers import AutoModel, AutoModelForMaskedLM, AutoModelForTextEncoding
    from transformers.models.auto import modeling_auto as auto

    names = frozenset(weight_headers(*folder.glob("*.safetensors")))
    if any(weight.startswith("lm_predictions.") for weight in names):
        config.legacy = False  # the head of DeBERTa-v3 as it was published
    kind = type(config)
    if (half := half_class(config)) is not None:
        config.encoder_layerdrop = 0.0  # the states of all blocks are read
        options = {**options, "key_mapping": KEYS}
        model, missing = _read(name, folder, half, config, options)
        _check_whole(name, missing)
        return model
    if kind in auto.MODEL_FOR_MASKED_LM_MAPPING and has_head(config.to_dict(), names) is not False:
        model, missing = _read(name, folder, AutoModelForMaskedLM, config, options)
        _check_whole(name, [w for w in missing if w.startswith(model.base_model_prefix + ".")])
        if not missing:
            return model
    half = auto.MODEL_FOR_TEXT_ENCODING_MAPPING.get(kind, None)
    opener: Any = AutoModelForTextEncoding
    if half is None or not half.__name__.endswith("EncoderModel"):
        opener = AutoModel
        if kind not in auto.MODEL_MAPPING:
            fault = f"is not an encoder that transformers can open ({kind.__name__})"
            raise DataError(name, fault)
        if config.is_encoder_decoder:
            fault = f"is not an encoder: {config.model_type} is an encoder with a decoder"
            remedy = "Name a masked LM, an encoder without a head, a T5, an M2M-100, NLLB or mBART"
            remedy += ", or a decoder"
            raise DataError(name, fault, remedy=remedy)
    model, missing = _read(name, folder, opener, config, options)
    pooler = {weight for weight in missing if weight.startswith("pooler.")}
    if pooler:  # nothing here reads it, and it would be random
        model.pooler = None
    _check_whole(name, set(missing) - pooler)
    return model


def _read(
    name: str, folder: Path, opener: Any, config: Any, options: dict[str, Any]
) -> tuple[Any, list[str]]:
    """The model as a class of transformers opens it, and the weights that the folder lacks."""
    adapted = (folder / ADAPTER).is_file()
    if adapted:  # transformers leaves it apart, where it can be neither trained nor saved
        options = {**options, "adapter_kwargs": {"subfolder": "none"}}
    made = opener._model_mapping[type(config)] if hasattr(opener, "_model_mapping") else opener
    model, info = opener.from_pretrained(
        folder,
        config=config,
        use_safetensors=True,
        attn_implementation=_implementation(made),
        output_loading_info=True,
        ignore_mismatched_sizes=True,  # they are an error, here with names and sizes
        **options,
    )
    for label, stored, asked in sorted(info["mismatched_keys"]):
        fault = f"its weights do not fit its config.json: {label} has the shape {tuple(stored)}"
        remedy = "Copy both from one place"
        raise DataError(name, f"{fault}, and the config asks for {tuple(asked)}", remedy=remedy)
    if adapted:
        from peft import PeftModel

        with warnings.catch_warnings():
            warnings.filterwarnings("error", "Found missing adapter keys")
            model = PeftModel.from_pretrained(model, str(folder)).merge_and_unload()
    return model, sorted(info["missing_keys"])


def _implementation(model: Any) -> str | None:
    """The attention of a model's class by its name in transformers, None for its own choice."""
    if is_decoder(model.config_class):
        return None  # transformers knows which decoders need the plain products
    return "sdpa" if getattr(model, "_supports_sdpa", False) else "eager"


def _check_whole(name: str, missing_keys: Iterable[str]) -> None:
    if missing := sorted(missing_keys):
        some = ", ".join(missing[:3])
        fault = f"is not a whole encoder: {len(missing)} weights are missing ({some})"
        raise DataError(name, fault, remedy="Save it again with save_pretrained, or name another")


def _own_weights(name: str, model: Any) -> None:
    """Copy the weights out of the mapped file. Raises `DataError` where one is not finite."""
    for label, parameter in model.named_parameters():
        if not torch.isfinite(parameter.detach().sum()):
            fault = f"its weights hold NaN or infinite values ({label})"
            raise DataError(name, fault, remedy="Its training diverged: take an earlier checkpoint")
        # Loaded weights are views of the mapped file, at odd addresses. Their products are
        # slower, and not bit-equal to those of trained ones.
        parameter.data = parameter.data.clone()


def _check_fit(name: str, folder: Path, model: Any, tokenizer: Any) -> None:
    """The tokenizer is fast, every piece has an embedding, and half of these at least a piece."""
    if getattr(tokenizer, "backend_tokenizer", None) is None:
        fault = "its tokenizer has no fast form (tokenizer.json)"
        remedy = "Words are mapped to subword tokens by it; convert the tokenizer"
        raise DataError(name, fault, remedy=remedy)
    rows, pieces = model.get_input_embeddings().num_embeddings, len(tokenizer)
    made_of = sorted(path.name for pattern in TOKENIZERS for path in folder.glob(pattern))
    remedy = f"{', '.join(made_of)} and the model do not belong together"
    if pieces <= rows <= 2 * pieces:
        return
    only = "only " if pieces > rows else ""
    remedy += "" if only else f". {SAVE_TOKENIZER}"
    fault = f"its tokenizer has {pieces} subword tokens, but the model {only}{rows} embeddings"
    raise DataError(name, fault, remedy=remedy)


@contextmanager
def _explained(name: str, folder: Path, *patterns: str) -> Iterator[None]:
    """Turn what transformers raises on the files of a folder that it opens in the block into the
    user's errors, which name the file that cannot be read by itself, else all that may be wrong.
    """
    try:
        yield
    except (RaxalignError, MemoryError, ImportError):
        raise
    except Exception as error:  # the tokenizers library raises nothing else
        files = sorted({path for pattern in patterns for path in folder.glob(pattern)})
        rest = [path.name for path in files if not _is_whole(path)]
        reason = first_line(error)
        if "tiktoken" in reason:  # the last form that is tried, after that of SentencePiece
            reason = "in no form of a tokenizer"
        told = f"{', '.join(rest)} ({reason})"
        fault = f"is not an encoder that transformers can open: {told}"
        raise DataError(name, fault, remedy=f"{AGAIN}, or name another") from error


def _is_whole(path: Path) -> bool:
    """Return whether nothing is wrong with a file, as far as it alone can show it; False where only
    the whole folder can. Raises `DataError` where something is.
    """
    from tokenizers import Tokenizer

    if path.suffix == ".safetensors":
        return bool(weight_headers(path))
    if path.suffix == ".json":
        read_config(path)
    try:
        if path.suffix == ".txt":
            path.read_text(encoding="utf-8")
        if path.name == "tokenizer.json":
            Tokenizer.from_file(str(path))
    except Exception as error:
        fault = f"cannot be read as a part of a tokenizer ({first_line(error)})"
        raise DataError(path, fault, remedy=AGAIN) from error
    return path.name == "tokenizer.json"


@contextmanager
def quiet() -> Iterator[None]:
    """No progress bars and no reports of weights from transformers; what is wrong is raised."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def save_model(model: Any, tokenizer: Any, folder: Path) -> None:
    """Write a folder that `AutoModel`, or `AutoModelForMaskedLM`, and `AutoTokenizer` open. What is
    held in bfloat16 is written so, and transformers opens all of it in float32, without rounding.
    """
    with quiet():
        # of half a model the names are its own, not those of the whole one that it was read from
        model.save_pretrained(folder, save_original_format=not is_half(model))
        tokenizer.save_pretrained(folder)
    if len({parameter.dtype for parameter in model.parameters()}) > 1:
        path = folder / "config.json"  # where transformers wrote the type of the first weight
        config = {**read_config(path), "dtype": "float32"}
        path.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def _steps(config: Any) -> list[list[str]]:
    """The steps of the form that a config keeps."""
    form: TextForm = getattr(config, _FORM, "none")
    return _TEXT_FORMS[form]


def keep_text_form(config: Any, tokenizer: Any) -> None:
    """Put the form that a config keeps, if any, before the tokenizer's own steps."""
    from tokenizers import Regex, normalizers

    steps: list[Any] = [
        normalizers.Replace(Regex(step[0]), step[1]) if step else normalizers.NFC()
        for step in _steps(config)
    ]
    backend = tokenizer.backend_tokenizer
    own = [] if backend.normalizer is None else [backend.normalizer]
    if steps:
        backend.normalizer = normalizers.Sequence([*steps, *own])


_CLASSES = {"m2m_100": "M2M100Encoder", "mbart": "MBartEncoder"}
MODULES = {made: f"transformers.models.{kind}.modeling_{kind}" for kind, made in _CLASSES.items()}
"""The class of each encoder half -> its module in transformers, which names it nowhere else."""
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
        found.append(limit - _first_position(model.base_model))
    return min(filter(None, found), default=ASSUMED)


def _first_position(base: Any) -> int:
    """The number of the first position: behind the padding index in RoBERTa's like, else 0."""
    table = getattr(getattr(base, "embeddings", None), "position_embeddings", None)
    padding = getattr(table, "padding_idx", None)
    return 0 if padding is None else int(padding) + 1


class ModelInputs:
    """What a model reads: the inputs of its base by name, of a batch, the Unicode form of its
    texts, and which pieces a piece sees. `specials` are those that its tokenizer puts around texts.
    """

    def __init__(self, model: Any, tokenizer: Any, specials: tuple[int, ...] = ()) -> None:
        self.model, self.tokenizer = model, tokenizer
        self.max_positions = max_positions(model, tokenizer)
        spoken = language_pieces(tokenizer, specials)
        self.placed = -1 if spoken is None else spoken.placed
        self.spoken = _Numbers({} if spoken is None else spoken.named, "token")
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
    def is_half(self) -> bool:
        """Whether the model is the encoder half of a translation model."""
        return is_half(self.model)

    @property
    def is_decoder(self) -> bool:
        """Whether the model is a decoder, also one that was made bidirectional."""
        return is_decoder(self.model.config)

    @property
    def is_bidirectional(self) -> bool:
        """Whether the model is a decoder that was made bidirectional."""
        return bool(getattr(self.model.config, _BOTH_WAYS, False))

    def make_bidirectional(self) -> None:
        """Let every piece of a decoder see the whole row from now on; its ``config.json`` keeps
        this. Raises `RaxalignError` for an encoder, which is bidirectional as it is.
        """
        if not self.is_decoder:
            raise RaxalignError(
                f"bidirectional: {type(self.model).__name__} is not a decoder; its subword tokens"
                " see the whole row already. Leave the option out"
            )
        setattr(self.model.config, _BOTH_WAYS, True)

    def set_text_form(self, form: TextForm) -> None:
        """Put a form before the tokenizer's own steps from now on; ``config.json`` keeps it."""
        setattr(self.model.config, _FORM, form)
        keep_text_form(self.model.config, self.tokenizer)

    @property
    def text_steps(self) -> list[list[str]]:
        """The steps before the tokenizer's own ones: a pattern and what replaces it, or nothing for
        composition.
        """
        return _steps(self.model.config)

    @property
    def first_position(self) -> int:
        """The number of the first position: behind the padding index in RoBERTa's like, else 0."""
        return _first_position(self.model.base_model)

    @property
    def states_dtype(self) -> torch.dtype:
        """The type of states outside of autocast: that of the weights, or float32 where these are
        held in bfloat16.
        """
        own: torch.dtype = next(self.model.parameters()).dtype
        return torch.float32 if own == torch.bfloat16 else own

    def summary_places(self, starts_S: np.ndarray, lengths_S: np.ndarray) -> np.ndarray:
        """Return the place of the piece that stands for each row, (S,), which begins at `starts_S`:
        of an encoder the first piece ([CLS]), of a decoder the last one, which alone has seen the
        others.
        """
        return starts_S + lengths_S - 1 if self.is_decoder else starts_S

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
        if self.is_decoder:
            inputs["use_cache"] = False
            if self.is_bidirectional:
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
        dtype, width = self.states_dtype, mask_BT.shape[1]
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
