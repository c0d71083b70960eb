"""A small multilingual BERT that the package carries, for when nothing can be downloaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, final

from raxalign.encoders.base import EncoderInputs, EncoderKind
from raxalign.encoders.models.folder import Footprint, config_depth, config_footprint, read_config
from raxalign.encoders.models.sentence_config import SentenceConfig
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.options.sources import LocalFile, Source

FOLDER = Path(__file__).parent / "weights" / "phrasebook"
"""The folder of the encoder, in Hugging Face's form."""


@final
class Phrasebook(EncoderKind):
    """A small BERT that is part of raxalign, pre-trained on the six languages of the corpus
    `phrasebook`. Its text has no sentence of the first 10,000 of that corpus (`seed: 0`), nor a
    translation of another sentence; a dictionary joins its languages in part.
    ``raxalign/encoders/weights/phrasebook.json`` records how it was made.

    Data: nothing from outside.

    Relations: `transformer` reads published encoders, `scratch` trains one on the grid's own text;
    choose this one to try things out in seconds, without a download.

    Example:
        encoder: phrasebook
        corpus: {source: phrasebook, size: 1_300, split: {test: 300, dev: 200}}
    """

    VERSION: ClassVar[int] = 1
    papers = ("devlin2019",)
    family: ClassVar[str] = "transformer"

    class Params(EncoderKind.Params):
        """There are no options."""

    def sources(self) -> Mapping[str, Source]:
        """The files of the folder."""
        return {path.name: LocalFile(path) for path in sorted(FOLDER.iterdir())}

    def depth(self, known: Callable[[str], str | None]) -> int | None:  # noqa: ARG002
        """The number in ``config.json``."""
        return config_depth(read_config(FOLDER / "config.json"))

    def unpooled(self, pooling: str, known: Callable[[str], str | None]) -> Sequence[str]:  # noqa: ARG002
        """Only `own` is lacking."""
        return SentenceConfig.lacking(self.label(), pooling, None, causal=False)

    def footprint(self, known: Callable[[str], str | None]) -> Footprint | None:  # noqa: ARG002
        """By the config and the headers of the weights."""
        return config_footprint(read_config(FOLDER / "config.json"), FOLDER)

    def load(self, inputs: EncoderInputs, device: str) -> TransformerEncoder:
        """The encoder, in single precision."""
        return TransformerEncoder.from_folder(FOLDER, device=device, base=inputs.base_precision)
