"""Families without a masked-LM head: sentence encoders, the encoder of a translator, decoders."""

from __future__ import annotations

from functools import partial

from tests.families.family import BERT_SIZES, DECODER, FROM_PADDING, Family
from tests.families.regexes import LLAMA_3, QWEN
from tests.families.specials import BERT, GEMMA, LLAMA, LLAMA_2, MT5, QWEN_SPECIALS, ROBERTA
from tests.families.vocabularies import byte_fallback, byte_level, unigram, wordpiece

_xlmr = partial(
    Family,
    tokenizer=unigram,
    specials=ROBERTA,
    tokenizer_class="XLMRobertaTokenizer",
    sizes={**BERT_SIZES, **FROM_PADDING},
)
_bert = partial(Family, tokenizer=wordpiece, specials=BERT, tokenizer_class="BertTokenizer")

HEADLESS = (
    _bert(
        "LaBSE", "sentence-transformers/LaBSE", "BertConfig", "BertModel", head=False, pooling="cls"
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
        "BGE-M3", "BAAI/bge-m3", "XLMRobertaConfig", "XLMRobertaModel", head=False, pooling="cls"
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
