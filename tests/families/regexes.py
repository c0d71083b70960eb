"""How byte-level tokenizers of decoders divide a text into words."""

LLAMA_3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"  # noqa: E501
QWEN = LLAMA_3.replace(r"\p{N}{1,3}", r"\p{N}")
