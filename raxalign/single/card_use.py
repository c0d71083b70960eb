"""The code on a model card: how an exported encoder is opened and read."""

from __future__ import annotations


def use(
    family: str,
    opened_by: str,
    lang: str,
    layers: str,
    pooling: str | None,
    *,
    has_transforms: bool,
) -> str:
    """Return the code that opens an exported encoder.

    Args:
        family: the family of the encoder.
        opened_by: the class of transformers that opens it.
        lang: a language that it was aligned for.
        layers: the layers that were aligned.
        pooling: how the method joined the pieces of a word (None: it read no words).
        has_transforms: whether transforms are stored next to the weights.
    """
    words = (
        _WORDS.replace("LANG", lang)
        .replace("LAYERS", layers)
        .replace("POOLING", pooling or "mean")
        .replace("HOW", _how(layers, pooling))
    )
    if family == "static":
        return _STATIC.replace("LANG", lang) + ("\n\n" + _STORED + "\n\n" + words) * has_transforms
    if has_transforms:
        return f"{_STORED}\n\n{words}"
    return f"{words}\n\n{_PLAIN.replace('AutoModelForMaskedLM', opened_by)}"


def _how(layers: str, pooling: str | None) -> str:
    if pooling is None:
        return ""
    return (
        f"The alignment was fitted on layers `{layers}`, with words read by `{pooling}` of their"
        " pieces: read them in the same way.\n\n"
    )


_WORDS = """HOW```python
import raxalign as rx
# from huggingface_hub import snapshot_download; folder = snapshot_download("user/name")

encoder = rx.AlignedEncoder.from_export(folder)
words = encoder.words([["ein", "Haus"]], "LANG", layers="LAYERS", pooling="POOLING")
words.vectors_NLH  # words x layers x hidden size
```"""
_PLAIN = """The weights themselves are aligned, so that other libraries open them as well:

```python
from transformers import AutoModelForMaskedLM, AutoTokenizer

model = AutoModelForMaskedLM.from_pretrained(folder)
tokenizer = AutoTokenizer.from_pretrained(folder)
```

```python
from sentence_transformers import SentenceTransformer

vectors = SentenceTransformer(folder).encode(["Ein Haus."])
```"""
_STORED = """The alignment is stored next to the weights, in `transforms.safetensors`. Other
libraries open the encoder *without* it."""
_STATIC = """Vectors of words, as they were trained.
There is one file per language, in word2vec's text format.

```python
from gensim.models import KeyedVectors

vectors = KeyedVectors.load_word2vec_format(f"{folder}/LANG.vec")
```"""
