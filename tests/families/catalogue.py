"""The families of encoders: a tiny random model of each in the files that its repository on the hub
has.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.families.vocabularies import (
    BERT,
    ROBERTA,
    Specials,
    byte_fallback,
    byte_level,
    end_of_word,
    unigram,
    wordpiece,
)

if TYPE_CHECKING:
    from tokenizers import Tokenizer

BERT_SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 48,
    "initializer_range": 0.2,
    "max_position_embeddings": 128,
}
"""Weights are wider than usual, so that contexts change vectors."""
FROM_PADDING = {"max_position_embeddings": 130, "pad_token_id": 1, "type_vocab_size": 1}
"""Positions that count on from the padding index, as RoBERTa's do."""
ROPE = {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}
DECODER = {**BERT_SIZES, "num_key_value_heads": 1, "head_dim": 16}
LLAMA_3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"  # noqa: E501
QWEN = LLAMA_3.replace(r"\p{N}{1,3}", r"\p{N}")


@dataclass(frozen=True)
class Family:
    """One family.

    Attributes:
        name: as it is called.
        hub: a repository whose files are imitated.
        config: the name of its configuration class in transformers.
        model: the name of the class that the repository's weights were saved from.
        tokenizer: makes the tokenizer.
        specials: its special pieces.
        tokenizer_class: what `tokenizer_config.json` records.
        sizes: what the configuration has besides the vocabulary's size.
        head: whether the weights have a masked-LM head.
        pooling: of sentence-transformers modules, if the repository has them.
        decoder: whether it is a causal language model.
        base: the class that gives the reference's states, where it is not that of `AutoModel`.
        dropped: what the repository's `config.json` does not record.
        adapters: the name of each language's adapter, in their order.
        cased: whether a WordPiece tokenizer keeps capital letters.
    """

    name: str
    hub: str
    config: str
    model: str
    tokenizer: Callable[[Specials], Tokenizer]
    specials: Specials
    tokenizer_class: str
    sizes: Mapping[str, Any] = field(default_factory=lambda: BERT_SIZES)
    head: bool = True
    pooling: str | None = None
    decoder: bool = False
    base: str = "AutoModel"
    dropped: tuple[str, ...] = ()
    adapters: Mapping[str, str] = field(default_factory=dict)
    cased: bool = True


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
ADAPTERS = {
    "en": "en_XX",
    "de": "de_DE",
    "fr": "fr_XX",
    "tr": "tr_TR",
    "hi": "hi_IN",
    "zh": "zh_CN",
    "th": "th_TH",
    "ar": "ar_AR",
    "ru": "ru_RU",
}

_xlmr = partial(
    Family,
    tokenizer=unigram,
    specials=ROBERTA,
    tokenizer_class="XLMRobertaTokenizer",
    sizes={**BERT_SIZES, **FROM_PADDING},
)
_bert = partial(
    Family,
    tokenizer=wordpiece,
    specials=BERT,
    tokenizer_class="BertTokenizer",
)

FAMILIES = {
    family.name: family
    for family in (
        _bert(
            "mBERT",
            "google-bert/bert-base-multilingual-cased",
            "BertConfig",
            "BertForMaskedLM",
        ),
        _bert(
            "DistilBERT",
            "distilbert/distilbert-base-multilingual-cased",
            "DistilBertConfig",
            "DistilBertForMaskedLM",
            tokenizer_class="DistilBertTokenizer",
            sizes={
                "dim": 32,
                "n_layers": 3,
                "n_heads": 2,
                "hidden_dim": 48,
                "initializer_range": 0.2,
                "max_position_embeddings": 128,
            },
        ),
        _xlmr("XLM-R", "FacebookAI/xlm-roberta-base", "XLMRobertaConfig", "XLMRobertaForMaskedLM"),
        _xlmr(
            "XLM-R-XL",
            "facebook/xlm-roberta-xl",
            "XLMRobertaXLConfig",
            "XLMRobertaXLForMaskedLM",
        ),
        Family(
            "RoBERTa",
            "FacebookAI/roberta-base",
            "RobertaConfig",
            "RobertaForMaskedLM",
            byte_level,
            ROBERTA,
            "RobertaTokenizer",
            {**BERT_SIZES, **FROM_PADDING},
        ),
        Family(
            "CamemBERT",
            "almanach/camembert-base",
            "CamembertConfig",
            "CamembertForMaskedLM",
            unigram,
            CAMEMBERT,
            "CamembertTokenizer",
            {**BERT_SIZES, **FROM_PADDING, "bos_token_id": 5, "eos_token_id": 6},
        ),
        Family(
            "XLM",
            "FacebookAI/xlm-mlm-100-1280",
            "XLMConfig",
            "XLMWithLMHeadModel",
            end_of_word,
            XLM,
            "PreTrainedTokenizerFast",
            {
                "emb_dim": 32,
                "n_layers": 3,
                "n_heads": 2,
                "embed_init_std": 0.2,
                "init_std": 0.2,
                "n_langs": 100,
                "use_lang_emb": False,
                "max_position_embeddings": 128,
            },
        ),
        _xlmr(
            "gte",
            "Alibaba-NLP/gte-multilingual-mlm-base",
            "GteConfig",
            "GteForMaskedLM",
            sizes={**BERT_SIZES, **ROPE, "pad_token_id": 1},
        ),
        _bert(
            "nomic-bert",
            "nomic-ai/nomic-bert-2048",
            "NomicBertConfig",
            "NomicBertForMaskedLM",
            sizes={**BERT_SIZES, **ROPE},
        ),
        _xlmr(
            "jina-v3",
            "jinaai/jina-embeddings-v3",
            "JinaEmbeddingsV3Config",
            "JinaEmbeddingsV3ForMaskedLM",
            sizes={**BERT_SIZES, **ROPE, "pad_token_id": 1, "type_vocab_size": 1},
        ),
        Family(
            "ModernBERT",
            "answerdotai/ModernBERT-base",
            "ModernBertConfig",
            "ModernBertForMaskedLM",
            byte_level,
            Specials(
                ("[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"), BERT.single, BERT.pair, BERT.names
            ),
            "PreTrainedTokenizerFast",
            {
                **BERT_SIZES,
                "local_attention": 16,
                "pad_token_id": 3,
                "cls_token_id": 1,
                "sep_token_id": 2,
                "bos_token_id": 1,
                "eos_token_id": 2,
            },
        ),
        Family(
            "mmBERT",
            "jhu-clsp/mmBERT-base",
            "ModernBertConfig",
            "ModernBertForMaskedLM",
            partial(byte_fallback, prepend=False),
            MMBERT,
            "PreTrainedTokenizerFast",
            {
                **BERT_SIZES,
                "local_attention": 16,
                "pad_token_id": 0,
                "cls_token_id": 1,
                "sep_token_id": 1,
                "bos_token_id": 2,
                "eos_token_id": 1,
            },
        ),
        Family(
            "EuroBERT",
            "EuroBERT/EuroBERT-210m",
            "EuroBertConfig",
            "EuroBertForMaskedLM",
            partial(byte_level, regex=LLAMA_3),
            EUROBERT,
            "PreTrainedTokenizerFast",
            {
                **DECODER,
                "pad_token_id": 1,
                "bos_token_id": 0,
                "eos_token_id": 1,
                "mask_token_id": 2,
            },
        ),
        Family(
            "UltraBERT",
            "dmis-lab/UltraBERT-150M",
            "UltrabertConfig",
            "UltrabertForMaskedLM",
            byte_level,
            BERT,
            "PreTrainedTokenizerFast",
            {**DECODER, "sliding_window": 16, "prediction_head_size": 24},
        ),
        Family(
            "mDeBERTa-v3",
            "microsoft/mdeberta-v3-base",
            "DebertaV2Config",
            "DebertaV2ForMaskedLM",
            partial(unigram, unknown="[UNK]"),
            DEBERTA,
            "DebertaV2Tokenizer",
            {
                **BERT_SIZES,
                "type_vocab_size": 0,
                "relative_attention": True,
                "position_buckets": 16,
                "norm_rel_ebd": "layer_norm",
                "share_att_key": True,
                "pos_att_type": ["p2c", "c2p"],
                "position_biased_input": False,
                "max_relative_positions": -1,
                "legacy": False,
            },
            dropped=("legacy",),
        ),
        Family(
            "RemBERT",
            "google/rembert",
            "RemBertConfig",
            "RemBertForMaskedLM",
            unigram,
            REMBERT,
            "RemBertTokenizer",
            {**BERT_SIZES, "input_embedding_size": 16, "output_embedding_size": 40},
        ),
        Family(
            "MPNet",
            "microsoft/mpnet-base",
            "MPNetConfig",
            "MPNetForMaskedLM",
            partial(wordpiece, lowercase=True),
            MPNET,
            "MPNetTokenizer",
            {**BERT_SIZES, "max_position_embeddings": 130, "pad_token_id": 1},
            cased=False,
        ),
        _bert(
            "RoFormer",
            "junnyu/roformer_chinese_char_base",
            "RoFormerConfig",
            "RoFormerForMaskedLM",
        ),
        _bert(
            "LaBSE",
            "sentence-transformers/LaBSE",
            "BertConfig",
            "BertModel",
            head=False,
            pooling="cls",
        ),
        _xlmr(
            "multilingual-e5",
            "intfloat/multilingual-e5-base",
            "XLMRobertaConfig",
            "XLMRobertaModel",
            head=False,
            pooling="mean",
        ),
        _xlmr(
            "BGE-M3",
            "BAAI/bge-m3",
            "XLMRobertaConfig",
            "XLMRobertaModel",
            head=False,
            pooling="cls",
        ),
        _xlmr(
            "paraphrase-multilingual",
            "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2",
            "BertConfig",
            "BertModel",
            sizes=BERT_SIZES,
            head=False,
            pooling="mean",
        ),
        Family(
            "mT5 encoder",
            "google/mt5-small",
            "MT5Config",
            "MT5ForConditionalGeneration",
            unigram,
            MT5,
            "T5Tokenizer",
            {
                "d_model": 32,
                "d_kv": 16,
                "d_ff": 48,
                "num_layers": 3,
                "num_decoder_layers": 2,
                "num_heads": 2,
                "initializer_factor": 1.0,
            },
            head=False,
            base="MT5EncoderModel",
        ),
        _xlmr(
            "X-MOD",
            "facebook/xmod-base",
            "XmodConfig",
            "XmodForMaskedLM",
            sizes={**BERT_SIZES, **FROM_PADDING, "languages": tuple(ADAPTERS.values())},
            adapters=ADAPTERS,
        ),
        Family(
            "Qwen3",
            "Qwen/Qwen3-0.6B-Base",
            "Qwen3Config",
            "Qwen3ForCausalLM",
            partial(byte_level, regex=QWEN),
            QWEN_SPECIALS,
            "Qwen2Tokenizer",
            DECODER,
            head=False,
            decoder=True,
        ),
        Family(
            "Llama",
            "meta-llama/Llama-3.2-1B",
            "LlamaConfig",
            "LlamaForCausalLM",
            partial(byte_level, regex=LLAMA_3),
            LLAMA,
            "PreTrainedTokenizerFast",
            DECODER,
            head=False,
            decoder=True,
        ),
        Family(
            "Gemma",
            "google/gemma-2-2b",
            "Gemma2Config",
            "Gemma2ForCausalLM",
            partial(byte_fallback, prepend=False),
            GEMMA,
            "GemmaTokenizer",
            {**DECODER, "query_pre_attn_scalar": 16, "sliding_window": 16},
            head=False,
            decoder=True,
        ),
        Family(
            "Mistral",
            "mistralai/Mistral-7B-v0.1",
            "MistralConfig",
            "MistralForCausalLM",
            byte_fallback,
            LLAMA_2,
            "LlamaTokenizer",
            DECODER,
            head=False,
            decoder=True,
        ),
    )
}


def build(family: Family, folder: Path, seed: int = 0) -> Path:
    """Write the files of a family's repository into a folder; returns it."""
    import torch
    import transformers

    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = family.tokenizer(family.specials)
    sizes = {"vocab_size": tokenizer.get_vocab_size(), **family.sizes}
    if family.config != "DistilBertConfig":
        pad = family.specials.names.get("pad_token")
        sizes.setdefault("pad_token_id", tokenizer.token_to_id(pad) if pad else None)
    config = getattr(transformers, family.config)(**sizes)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = getattr(transformers, family.model)(config)
    model.save_pretrained(folder)
    path = folder / "config.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(
        json.dumps({name: record[name] for name in record if name not in family.dropped}),
        encoding="utf-8",
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    settings: dict[str, Any] = {
        "tokenizer_class": family.tokenizer_class,
        "model_max_length": 131_072 if family.decoder else 128,
        **family.specials.names,
    }
    if family.tokenizer_class in ("BertTokenizer", "DistilBertTokenizer", "MPNetTokenizer"):
        settings["do_lower_case"] = not family.cased
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    if family.pooling:
        _write_modules(folder, family.pooling)
    return folder


def _write_modules(folder: Path, pooling: str) -> None:
    """The files by which sentence-transformers pools a sentence's vectors."""
    kinds = {"": "Transformer", "1_Pooling": "Pooling"}
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in enumerate(kinds.items())
    ]
    (folder / "modules.json").write_text(json.dumps(modules), encoding="utf-8")
    (folder / "1_Pooling").mkdir(exist_ok=True)
    settings = {
        "word_embedding_dimension": 32,
        "pooling_mode_cls_token": pooling == "cls",
        "pooling_mode_mean_tokens": pooling == "mean",
    }
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(settings), encoding="utf-8")
