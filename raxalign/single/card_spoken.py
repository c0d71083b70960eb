"""What a model card says of an encoder whose vectors depend on the language of the texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from raxalign.languages import language, spellings

if TYPE_CHECKING:
    from raxalign.encoders.models.aligned import AlignedEncoder
    from raxalign.encoders.models.sentence_module import SentenceUse


@dataclass(frozen=True)
class Spoken:
    """How sentence-transformers is given the language.

    Attributes:
        choices: The languages; ``en>de`` is the pivot on its way to German.
        fixed: The language of texts that come without one (None: they are refused).
        layers: The layers whose pieces make the vector of a sentence.
        depth: The number of blocks of the encoder.
        transforms: Whether transforms are stored next to the weights.
        weights_changed: Whether the weights are others than those of the base encoder.
    """

    choices: tuple[str, ...]
    fixed: str | None
    layers: tuple[int, ...]
    depth: int
    transforms: bool
    weights_changed: bool

    @classmethod
    def of(cls, aligned: AlignedEncoder, use: SentenceUse, choices: Sequence[str]) -> Spoken:
        """Return what an encoder is read by, as it was exported."""
        from raxalign.encoders.models.sentence_module import layers_read

        return cls(
            tuple(choices),
            use.language,
            layers_read(use, aligned.transforms, aligned.n_layers),
            aligned.n_layers,
            bool(aligned.transforms),
            aligned.weights_changed,
        )

    def warning(self) -> str:
        """Return what the weights alone are."""
        if not self.transforms:
            return (
                "**The vectors of this encoder depend on the language of the text**, which has to"
                " be given."
            )
        bare = (
            "weights that no score below is of"
            if self.weights_changed
            else "the base encoder, with the scores of the column *base encoder*"
        )
        return (
            "**`AutoModel` opens this encoder without its alignment**, which is in transforms next"
            f" to the weights: it gives {bare}. sentence-transformers and raxalign apply the"
            " alignment; the column *given by* says which scores each gives. A program that opens"
            " this folder as a plain encoder reports another encoder's results."
        )

    def code(self) -> str:
        """Return how sentence-transformers and mteb are given the language."""
        first = self.fixed or self.choices[0]
        layers = (
            "the last layer"
            if self.layers == (self.depth,)
            else f"layer {'+'.join(map(str, self.layers))} of {self.depth}"
        )
        given = (
            f"The language is one of {', '.join(f'`{choice}`' for choice in self.choices)}. "
            + (
                f"Texts that come without one are read as `{self.fixed}`. "
                if self.fixed
                else "Texts that come without one are refused. "
            )
            + f"The vector of a sentence is made of the pieces of {layers}."
        )
        code = first.partition(">")[0]
        column = spellings(code)[-1].replace("-", "_")
        return f"""Vectors of sentences, aligned:

```python
from sentence_transformers import SentenceTransformer

model = SentenceTransformer(folder, trust_remote_code=True)  # runs aligned_sentences.py
vectors = model.encode(texts, language="{first}")  # or prompt_name="{first}"
```

{given}

mteb is given the language of a task by `encode_kwargs={{"language": "{first}"}}`. A task of several
languages passes on that of each column (`{column}` is {language(code).name}):

{MTEB}"""


MTEB = """```python
import mteb
from mteb.models import SentenceTransformerEncoderWrapper


class Aligned(SentenceTransformerEncoderWrapper):
    def encode(self, inputs, *, hf_subset, **kwargs):
        return super().encode(inputs, hf_subset=hf_subset, language=hf_subset, **kwargs)


results = mteb.evaluate(Aligned(model), mteb.get_tasks(tasks=["NTREXBitextMining"]))
```"""
