"""Tiny random models of real configuration classes, with 3 layers of width 32."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.tiny import tiny_bert

_WORDS = [f"w{i}" for i in range(38)]  # with their characters and the specials 65 pieces
_SIZE: dict[str, Any] = {"vocab_size": 80, "hidden_size": 32, "num_hidden_layers": 3}
_SIZE |= {"num_attention_heads": 2, "intermediate_size": 64, "max_position_embeddings": 40}
_SIZE |= {"initializer_range": 0.2, "pad_token_id": 0}
_T5 = {"vocab_size": 80, "d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 3, "num_heads": 2}
_SMALL = {"embedding_size": 16}
_MODERN = {"bos_token_id": 2, "cls_token_id": 2, "eos_token_id": 3, "sep_token_id": 3}
_MODERN |= {"local_attention": 8, "global_attn_every_n_layers": 2}
_DEBERTA: dict[str, Any] = {"relative_attention": True, "position_buckets": 8, "legacy": False}
_DEBERTA |= {"norm_rel_ebd": "layer_norm", "share_att_key": True, "pos_att_type": ["p2c", "c2p"]}
_DEBERTA |= {"position_biased_input": False, "type_vocab_size": 0}
_XLM: dict[str, Any] = {"vocab_size": 80, "emb_dim": 32, "n_layers": 3, "n_heads": 2}
_XLM |= {"max_position_embeddings": 40, "embed_init_std": 0.2, "init_std": 0.2, "pad_index": 0}
_XLM |= {"pad_token_id": 0, "n_langs": 2, "use_lang_emb": True, "lang2id": {"en": 0, "de": 1}}
_XMOD = {"languages": ["en_XX", "de_DE"], "adapter_reduction_factor": 2}
_DISTIL = {"vocab_size": 80, "dim": 32, "n_layers": 3, "n_heads": 2, "hidden_dim": 64}
CONFIGS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "bert": ("BertConfig", _SIZE),
    "xlm-r": ("XLMRobertaConfig", _SIZE),
    "distilbert": ("DistilBertConfig", {**_DISTIL, "max_position_embeddings": 40}),
    "mdeberta": ("DebertaV2Config", {**_SIZE, **_DEBERTA}),
    "rembert": ("RemBertConfig", _SIZE | {"input_embedding_size": 16, "output_embedding_size": 24}),
    "mpnet": ("MPNetConfig", _SIZE),
    "roformer": ("RoFormerConfig", {**_SIZE, "embedding_size": 32}),
    "modernbert": ("ModernBertConfig", {**_SIZE, **_MODERN}),
    "electra": ("ElectraConfig", {**_SIZE, **_SMALL}),
    "albert": ("AlbertConfig", {**_SIZE, **_SMALL}),
    "xmod": ("XmodConfig", {**_SIZE, **_XMOD}),
    "xlm": ("XLMConfig", _XLM),
    "mt5": ("MT5Config", _T5),
    "umt5": ("UMT5Config", _T5),
}


@cache
def model_of(name: str, *, head: bool) -> Any:
    """The model of a name, with its masked-LM head or without; of a T5 the encoder half."""
    import torch
    import transformers
    from transformers import AutoModel, AutoModelForMaskedLM, AutoModelForTextEncoding

    config, options = CONFIGS[name]
    half = name in ("mt5", "umt5")
    kind = AutoModelForTextEncoding if half else AutoModelForMaskedLM if head else AutoModel
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return kind.from_config(getattr(transformers, config)(**options)).eval()


def folder_of(folder: Path, model: Any) -> Path:
    """`folder`, with the model and a tokenizer in it."""
    model.save_pretrained(folder)
    _tokenizer().save_pretrained(folder)
    return folder


def encoder_of(name: str, *, head: bool = False) -> Any:
    """An encoder of a name, in memory."""
    from raxalign.encoders.models.transformer import TransformerEncoder

    return TransformerEncoder(deepcopy(model_of(name, head=head)), deepcopy(_tokenizer()))


@cache
def _tokenizer() -> Any:
    from transformers import AutoTokenizer

    with TemporaryDirectory() as folder:
        return AutoTokenizer.from_pretrained(tiny_bert(folder, _WORDS))
