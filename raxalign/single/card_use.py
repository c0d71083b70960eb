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
    if family == "static" and has_transforms:
        return f"{_ALIGNED.replace('LANG', lang)}\n\n{words}"
    if family == "static":
        return _STATIC.replace("LANG", lang)
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
_STORED = """Vectors of words, aligned by what is stored next to the weights, in
`transforms.safetensors`. Programs that do not read it have vectors *without* the alignment."""
_STATIC = """Vectors of words, as they were trained.
There is one file per language, in word2vec's text format.

```python
from gensim.models import KeyedVectors

vectors = KeyedVectors.load_word2vec_format(f"{folder}/LANG.vec")
```"""
_ALIGNED = _STATIC.replace("as they were trained", "aligned").replace("G.vec", "G.aligned.vec")
ALIGNED_WORDS = """**The files `*.aligned.vec` hold the aligned vectors**, and the files `*.vec`
those as they were trained."""
UNALIGNED_PIECES = """**The files `*.vec` hold the vectors of pieces as they were trained**, without
the alignment, which raxalign applies to words."""
