"""Translation of tokens by a shift inside the encoder."""
