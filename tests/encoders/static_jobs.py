"""What a test of the static encoders runs in processes of their own."""

from __future__ import annotations

from pathlib import Path

from raxalign.encoders.base import EncoderInputs
from raxalign.encoders.static import Static
from raxalign.train.runtime import Runtime


def build_all(text: dict[str, str], folder: str) -> None:
    """Word2Vec of words, fastText of words and GloVe of pieces, each in a folder of its own."""
    for name, options in (
        ("w", {"algorithm": "word2vec"}),
        ("f", {"buckets": 500}),
        ("g", {"algorithm": "glove", "units": "pieces", "vocab_size": 100}),
    ):
        out = Path(folder) / name
        out.mkdir(parents=True)
        kind = Static(Static.Params.model_validate({"dimension": 8, "min_count": 1, **options}))
        kind.build(
            EncoderInputs(text={lang: Path(path) for lang, path in text.items()}), Runtime(), out
        )
