"""The model card of an exported encoder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raxalign.provenance import versions

if TYPE_CHECKING:
    from raxalign.encoders.models.aligned import AlignedEncoder


@dataclass(frozen=True)
class Card:
    """What a card tells: how the encoder was made, from what, and (task, language, metric, value)
    results on test sets; `family` is the encoder's, `opened_by` the class of transformers that
    opens it.
    """

    method: str
    params: Mapping[str, Any]
    encoder: str
    languages: Sequence[str]
    pivot: str
    seed: int | None
    sentences: int | None = None
    key: str | None = None
    data: Mapping[str, str] = field(default_factory=dict)
    results: Sequence[tuple[str, str, str, float]] = ()
    family: str = "transformer"
    opened_by: str = "AutoModelForMaskedLM"

    def of(self, aligned: AlignedEncoder) -> Card:
        """Return the same card with what its encoder says of itself."""
        encoder = aligned.encoder
        opened_by = getattr(encoder, "opened_by", self.opened_by)
        return replace(self, family=encoder.family, opened_by=opened_by)

    def write(self, folder: Path, *, has_transforms: bool) -> None:
        """Write ``README.md``."""
        (folder / "README.md").write_text(
            self.text(has_transforms=has_transforms), encoding="utf-8"
        )

    def text(self, *, has_transforms: bool) -> str:
        """Return the card as Markdown with the front matter that the Hugging Face Hub reads."""
        codes = [*self.languages, self.pivot]
        static = self.family == "static"
        front = [
            "---",
            *([] if static else ["library_name: transformers", f"pipeline_tag: {self._pipeline}"]),
            "language:",
            *(f"- '{code}'" for code in codes),
        ]
        front += ["tags:", "- raxalign", "- cross-lingual-alignment", "---"]
        parts = [
            "\n".join(front),
            f"# {self.encoder} aligned by {self.method}",
            (
                f"`{self.encoder}`, its representations of {', '.join(self.languages)} aligned with"
                f" {self.pivot} by the method `{self.method}`."
            ),
            "\n".join(self._facts()),
            *([_USE_STATIC] if static else []),
            *([_USE_TRANSFORMS] if has_transforms else [] if static else [self._use]),
        ]
        if self.results:
            rows = [
                f"| {task} | {lang} | {metric} | {value:.4f} |"
                for task, lang, metric, value in self.results
            ]
            parts += [
                "## Results (test)",
                "\n".join(["| task | language | metric | value |", "|---|---|---|---:|", *rows]),
            ]
        parts.append("The licence of the weights is that of the encoder they were made from.")
        return "\n\n".join(parts) + "\n"

    @property
    def _pipeline(self) -> str:
        """What the hub offers an encoder for: to fill masks, where it has the head."""
        masked = self.opened_by == "AutoModelForMaskedLM"
        return "fill-mask" if masked else "feature-extraction"

    @property
    def _use(self) -> str:
        return _USE.replace("AutoModelForMaskedLM", self.opened_by)

    def _facts(self) -> list[str]:
        facts = {
            "params": json.dumps(dict(self.params), ensure_ascii=False, sort_keys=True),
            "sentence pairs per language": (
                f"{self.sentences:,}" if self.sentences is not None else None
            ),
            "seed": self.seed,
            "key": self.key,
            **{f"word pairs {lang}-{self.pivot}": value for lang, value in self.data.items()},
            "made with": ", ".join(f"{name} {version}" for name, version in versions().items()),
        }
        return [f"* {name}: `{value}`" for name, value in facts.items() if value is not None]


_USE = """```python
from transformers import AutoModelForMaskedLM, AutoTokenizer

model = AutoModelForMaskedLM.from_pretrained(folder)
tokenizer = AutoTokenizer.from_pretrained(folder)
```

For vectors of sentences:

```python
from sentence_transformers import SentenceTransformer

vectors = SentenceTransformer(folder).encode(["Ein Haus."])
```"""
_USE_STATIC = """Vectors of words, as they were trained.
There is one file per language, in word2vec's text format.

```python
from gensim.models import KeyedVectors

vectors = KeyedVectors.load_word2vec_format(f"{folder}/de.vec")
```"""
_USE_TRANSFORMS = """The alignment is stored next to the weights, in `transforms.safetensors`.
Other libraries open the encoder *without* it. With it:

```python
from raxalign.encoders.models.aligned import AlignedEncoder

vectors = AlignedEncoder.from_export(folder).words([["ein", "Haus"]], "de").vectors_NLH
```"""
