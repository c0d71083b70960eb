"""The families of encoders by name."""

from __future__ import annotations

from functools import partial

from tests.families.family import BERT_SIZES, DECODER, FROM_PADDING, ROPE, Family, build
from tests.families.specials import (
    BERT,
    CAMEMBERT,
    DEBERTA,
    EUROBERT,
    GEMMA,
    LLAMA,
    LLAMA_2,
    MBART,
    MBART_CODES,
    MMBERT,
    MODERNBERT,
    MPNET,
    MT5,
    NLLB,
    NLLB_CODES,
    QWEN_SPECIALS,
    REMBERT,
    ROBERTA,
    XLM,
)
from tests.families.vocabularies import byte_fallback, byte_level, end_of_word, unigram, wordpiece

__all__ = ["FAMILIES", "Family", "build"]

# How byte-level tokenizers of decoders divide a text into words.
LLAMA_3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"  # noqa: E501
QWEN = LLAMA_3.replace(r"\p{N}{1,3}", r"\p{N}")

ADAPTERS = {
    name[:2]: name
    for name in (
        *("en_XX", "de_DE", "fr_XX", "tr_TR", "hi_IN"),
        *("zh_CN", "th_TH", "ar_AR", "ru_RU"),
    )
}
_XLMR_SIZES = {**BERT_SIZES, **FROM_PADDING}
_ROPE_SIZES = {**BERT_SIZES, **ROPE}
_bert = partial(Family, tokenizer=wordpiece, specials=BERT, tokenizer_class="BertTokenizer")
TRANSLATOR = {
    "d_model": 32,
    "encoder_layers": 3,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "init_std": 0.2,
    "max_position_embeddings": 128,
    "scale_embedding": True,
}
_xlmr = partial(
    Family,
    tokenizer=unigram,
    specials=ROBERTA,
    tokenizer_class="XLMRobertaTokenizer",
    sizes=_XLMR_SIZES,
)
_fast = partial(Family, tokenizer_class="PreTrainedTokenizerFast")
_sentences = partial(_xlmr, head=False)
_decoder = partial(Family, head=False, decoder=True, sizes=DECODER)


def ids(**pieces: int) -> dict[str, int]:
    """Return the numbers of special pieces as a configuration names them."""
    return {f"{name}_token_id": number for name, number in pieces.items()}


MASKED = (
    _bert("mBERT", "google-bert/bert-base-multilingual-cased", "Bert"),
    _bert(
        "DistilBERT",
        "distilbert/distilbert-base-multilingual-cased",
        "DistilBert",
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
    _xlmr("XLM-R", "FacebookAI/xlm-roberta-base", "XLMRoberta"),
    _xlmr("XLM-R-XL", "facebook/xlm-roberta-xl", "XLMRobertaXL"),
    Family(
        "RoBERTa",
        "FacebookAI/roberta-base",
        "Roberta",
        byte_level,
        ROBERTA,
        "RobertaTokenizer",
        _XLMR_SIZES,
    ),
    Family(
        "CamemBERT",
        "almanach/camembert-base",
        "Camembert",
        unigram,
        CAMEMBERT,
        "CamembertTokenizer",
        {**_XLMR_SIZES, **ids(bos=5, eos=6)},
    ),
    _fast(
        "XLM",
        "FacebookAI/xlm-mlm-100-1280",
        "XLM",
        end_of_word,
        XLM,
        model="XLMWithLMHeadModel",
        sizes={
            "emb_dim": 32,
            "n_layers": 3,
            "n_heads": 2,
            "n_langs": 100,
            "use_lang_emb": False,
            "embed_init_std": 0.2,
            "init_std": 0.2,
            "max_position_embeddings": 128,
        },
    ),
    _xlmr(
        "gte",
        "Alibaba-NLP/gte-multilingual-mlm-base",
        "Gte",
        sizes={**_ROPE_SIZES, "pad_token_id": 1},
    ),
    _bert("nomic-bert", "nomic-ai/nomic-bert-2048", "NomicBert", sizes=_ROPE_SIZES),
    _xlmr(
        "jina-v3",
        "jinaai/jina-embeddings-v3",
        "JinaEmbeddingsV3",
        sizes={**_ROPE_SIZES, "pad_token_id": 1, "type_vocab_size": 1},
    ),
    _fast(
        "ModernBERT",
        "answerdotai/ModernBERT-base",
        "ModernBert",
        byte_level,
        MODERNBERT,
        sizes={**BERT_SIZES, "local_attention": 16, **ids(pad=3, cls=1, sep=2, bos=1, eos=2)},
    ),
    _fast(
        "mmBERT",
        "jhu-clsp/mmBERT-base",
        "ModernBert",
        partial(byte_fallback, prepend=False),
        MMBERT,
        sizes={**BERT_SIZES, "local_attention": 16, **ids(pad=0, cls=1, sep=1, bos=2, eos=1)},
    ),
    _fast(
        "EuroBERT",
        "EuroBERT/EuroBERT-210m",
        "EuroBert",
        partial(byte_level, regex=LLAMA_3),
        EUROBERT,
        sizes={**DECODER, **ids(pad=1, bos=0, eos=1, mask=2)},
    ),
    _fast(
        "UltraBERT",
        "dmis-lab/UltraBERT-150M",
        "Ultrabert",
        byte_level,
        BERT,
        sizes={**DECODER, "sliding_window": 16, "prediction_head_size": 24},
    ),
    Family(
        "mDeBERTa-v3",
        "microsoft/mdeberta-v3-base",
        "DebertaV2",
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
            "legacy": False,
            "pos_att_type": ["p2c", "c2p"],
            "position_biased_input": False,
            "max_relative_positions": -1,
        },
        dropped=("legacy",),
    ),
    Family(
        "RemBERT",
        "google/rembert",
        "RemBert",
        unigram,
        REMBERT,
        "RemBertTokenizer",
        {**BERT_SIZES, "input_embedding_size": 16, "output_embedding_size": 40},
    ),
    Family(
        "MPNet",
        "microsoft/mpnet-base",
        "MPNet",
        partial(wordpiece, lowercase=True),
        MPNET,
        "MPNetTokenizer",
        {**BERT_SIZES, "max_position_embeddings": 130, "pad_token_id": 1},
        cased=False,
    ),
    _bert("RoFormer", "junnyu/roformer_chinese_char_base", "RoFormer"),
    _xlmr(
        "X-MOD",
        "facebook/xmod-base",
        "Xmod",
        sizes={**_XLMR_SIZES, "languages": tuple(ADAPTERS.values())},
        adapters=ADAPTERS,
    ),
)
"""Families with a masked-LM head."""

HEADLESS = (
    _bert("LaBSE", "sentence-transformers/LaBSE", "Bert", head=False, pooling="cls"),
    _sentences("multilingual-e5", "intfloat/multilingual-e5-base", "XLMRoberta", pooling="mean"),
    _sentences("BGE-M3", "BAAI/bge-m3", "XLMRoberta", pooling="cls"),
    _sentences(
        "paraphrase-multilingual",
        "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2",
        "Bert",
        sizes=BERT_SIZES,
        pooling="mean",
    ),
    Family(
        "mT5 encoder",
        "google/mt5-small",
        "MT5",
        unigram,
        MT5,
        "T5Tokenizer",
        {
            "d_model": 32,
            "d_kv": 16,
            "d_ff": 48,
            "num_heads": 2,
            "initializer_factor": 1.0,
            "num_layers": 3,
            "num_decoder_layers": 2,
        },
        model="MT5ForConditionalGeneration",
        head=False,
        base="MT5EncoderModel",
    ),
    Family(
        "NLLB encoder",
        "facebook/nllb-200-distilled-600M",
        "M2M100",
        unigram,
        NLLB,
        "PreTrainedTokenizerFast",
        {**TRANSLATOR, "encoder_layerdrop": 0.5},
        model="M2M100ForConditionalGeneration",
        head=False,
        base="M2M100ForConditionalGeneration",
        spoken=NLLB_CODES,
    ),
    Family(
        "mBART encoder",
        "facebook/mbart-large-cc25",
        "MBart",
        unigram,
        MBART,
        "PreTrainedTokenizerFast",
        TRANSLATOR,
        model="MBartForConditionalGeneration",
        head=False,
        base="MBartForConditionalGeneration",
        spoken=MBART_CODES,
    ),
    _decoder(
        "Qwen3",
        "Qwen/Qwen3-0.6B-Base",
        "Qwen3",
        partial(byte_level, regex=QWEN),
        QWEN_SPECIALS,
        "Qwen2Tokenizer",
    ),
    _decoder(
        "Llama",
        "meta-llama/Llama-3.2-1B",
        "Llama",
        partial(byte_level, regex=LLAMA_3),
        LLAMA,
        "PreTrainedTokenizerFast",
    ),
    _decoder(
        "Gemma",
        "google/gemma-2-2b",
        "Gemma2",
        partial(byte_fallback, prepend=False),
        GEMMA,
        "GemmaTokenizer",
        sizes={**DECODER, "query_pre_attn_scalar": 16, "sliding_window": 16},
    ),
    _decoder(
        "Mistral", "mistralai/Mistral-7B-v0.1", "Mistral", byte_fallback, LLAMA_2, "LlamaTokenizer"
    ),
)
"""Families without one: sentence encoders, the encoders of translators, decoders."""

FAMILIES = {family.name: family for family in (*MASKED, *HEADLESS)}
