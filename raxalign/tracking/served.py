"""What MLflow opens of a registered encoder: the vectors of texts, each in its language.

The ``python_function`` flavour of a model names this module, so raxalign has to be installed where
the model is loaded. Nothing is unpickled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

from raxalign.encoders.models.sentence_config import SentencePooling
from raxalign.encoders.models.vectors import parse_layers
from raxalign.errors import RaxalignError
from raxalign.languages import spelled
from raxalign.running import Sentence

if TYPE_CHECKING:
    import numpy as np

    from raxalign.encoders.models.aligned import AlignedEncoder
    from raxalign.encoders.models.transforms import Transform

TEXT, LANGUAGE = "text", "language"
"""The columns of the input."""
LAYERS, POOLING, TOWARD = "layers", "pooling", "toward"
"""The params of a prediction."""
_POOLINGS = get_args(SentencePooling)


def default_layers(transforms: Sequence[Transform]) -> str:
    """Return the layer that is read where none is named: the highest one that is mapped when it is
    read, or else the last one.
    """
    readouts = [transform.layer for transform in transforms if transform.sort == "readout"]
    return str(max(readouts)) if readouts else "last"


class SentenceVectors:
    """The vectors of texts by an encoder that was aligned for some `languages` with a pivot, as the
    task `sentence_retrieval` reads them.
    """

    def __init__(self, aligned: AlignedEncoder, pivot: str, languages: Sequence[str]) -> None:
        self._aligned, self._pivot, self._languages = aligned, pivot, tuple(languages)
        self._mapped = {transform.lang for transform in aligned.transforms}

    def predict(self, model_input: Any, params: Mapping[str, Any] | None = None) -> np.ndarray:
        """Return one vector per row (rows, hidden size), float32.

        Args:
            model_input: A data frame with the columns `text` and `language`.
            params: `layers`, `pooling` (mean, cls, last or weighted), and `toward`: the other
                language of the pivot's texts, where the pivot's vectors depend on it.

        Raises:
            RaxalignError: A language has no transform, or the params name what the encoder does not
                have.
        """
        import numpy as np

        from raxalign.tasks.vectors.sentences import SentenceReading, sentence_vectors

        given = {name: str(value) for name, value in (params or {}).items() if value}
        layers = given.get(LAYERS) or default_layers(self._aligned.transforms)
        pooling: Any = given.get(POOLING, "mean")
        self._refuse_params(layers, pooling)
        reading = SentenceReading(layers, pooling, specials=True)
        spoken = {str(lang): self._known(str(lang)) for lang in set(model_input[LANGUAGE])}
        vectors = np.zeros((len(model_input), self._aligned.hidden_size), np.float32)
        for written, lang in spoken.items():
            rows = np.flatnonzero(np.asarray(model_input[LANGUAGE] == written))
            texts = [Sentence.of_text(str(model_input[TEXT].iloc[row])) for row in rows]
            view = self._aligned.toward(self._other(lang, given.get(TOWARD)))
            vectors[rows] = sentence_vectors(view, texts, lang, reading)[0].cpu().numpy()
        return vectors

    def _known(self, lang: str) -> str:
        """Return how the encoder spells a language. Raises where its vectors are not aligned."""
        aligned = {*self._mapped, self._pivot} if self._mapped else {*self._languages, self._pivot}
        found = spelled(lang, sorted(aligned))
        if found is None and self._mapped:
            raise RaxalignError(
                f"language {lang!r}: this encoder has no transform for it, so that its vectors"
                " would be those before the alignment; it is aligned for"
                f" {', '.join(sorted(aligned))}"
            )
        return found or lang

    def _other(self, lang: str, toward: str | None) -> str:
        """Return the language that the vectors of a text are to be compared with, or its own."""
        others = sorted({t.toward for t in self._aligned.transforms if t.lang == lang and t.toward})
        if not others:
            return lang
        if toward is None and len(others) == 1:
            return others[0]
        found = spelled(toward, others) if toward else None
        if found is None:
            raise RaxalignError(
                f"language {lang!r}: its vectors depend on the language that they are compared"
                f" with; name it by the param `{TOWARD}`, one of {', '.join(others)}"
            )
        return found

    def _refuse_params(self, layers: str, pooling: str) -> None:
        if pooling not in _POOLINGS:
            raise RaxalignError(f"{POOLING} {pooling!r}: choose one of {', '.join(_POOLINGS)}")
        read = parse_layers(layers, self._aligned.n_layers)
        moved = {t.layer for t in self._aligned.transforms if t.sort == "readout"}
        inside = {t.layer for t in self._aligned.transforms if t.sort == "inside"}
        if moved | inside and not (moved & set(read) or (inside and max(read) >= min(inside))):
            raise RaxalignError(
                f"{LAYERS} {layers!r}: the alignment is of layer"
                f" {', '.join(map(str, sorted(moved | inside)))}, and this one is as it was before"
            )


def _load_pyfunc(path: str, model_config: Mapping[str, Any]) -> SentenceVectors:
    """Open the files of a model: MLflow calls this."""
    import torch

    from raxalign.encoders.models.aligned import AlignedEncoder

    device = "cuda" if torch.cuda.is_available() else "cpu"
    aligned = AlignedEncoder.from_export(path, device=device)
    return SentenceVectors(aligned, model_config["pivot"], model_config["languages"])
