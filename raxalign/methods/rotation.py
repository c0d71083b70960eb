"""Rotation of one language's vectors onto the other's: orthogonal Procrustes over word pairs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, final

from pydantic import Field, model_validator

from raxalign.config.sources import DataPath, LocalFile, Source, expand_path
from raxalign.encoders.base import Pooling, parse_layers
from raxalign.errors import RaxalignError
from raxalign.methods._anchors import collect_anchors
from raxalign.methods._pairs import Moments, linked_vectors, sentences_of
from raxalign.methods._procrustes import nearest_rotation, procrustes
from raxalign.methods.base import Effect, Method, MethodInputs, Needs

if TYPE_CHECKING:
    from raxalign.encoders._aligned import AlignedEncoder, Transform
    from raxalign.encoders.base import Encoder
    from raxalign.train.runtime import Runtime

__all__ = ["Rotation", "procrustes"]


@final
class Rotation(Method):
    """Rotate each language onto the pivot, or the pivot onto each language, by the orthogonal map that brings word pairs nearest together.

    Formula: W = argmin ||X W - Y||, W^T W = I, for each layer; with `center`, x -> (x - mean X) W + mean Y (Kulshreshtha et al. 2020, Eq. 5).

    Data: linked words of the bitext (`supervision: parallel`), or the entries of a dictionary (`dictionary`), whose vectors are means over
    all occurrences in the bitext in any case. Entries with a word that occurs less than `min_count` times are left out; the notes count them.

    Reference: Wang et al. (2019) as in Cao et al. (2020, §3.2); RotateAlign and NormRotate in Kulshreshtha et al. (2020).
    """

    VERSION = 1
    accepts = frozenset({"transformer", "static"})
    reference = "Wang et al. 2019; Kulshreshtha et al. 2020"

    class Params(Method.Params):
        """`center` also maps the centroids of the pairs onto each other; `direction` says which language moves."""

        center: bool = False
        layers: str = "last"
        pooling: Pooling = "last"
        direction: Literal["to-pivot", "to-other"] = "to-pivot"
        supervision: Literal["parallel", "dictionary"] = "parallel"
        dictionary: DataPath | None = None
        min_count: int = Field(1, ge=1)

        @model_validator(mode="after")
        def _has_dictionary(self) -> Rotation.Params:
            if self.supervision == "dictionary" and self.dictionary is None:
                raise ValueError("supervision: dictionary wants `dictionary`, a file of two words a line")
            return self

    params: Params

    def needs(self) -> Needs:
        """Word pairs; with a dictionary the bitext in which its words occur."""
        return Needs(links=True) if self.params.supervision == "parallel" else Needs(bitext=True)

    def canonical(self) -> dict[str, Any]:
        """Without what only a dictionary makes use of."""
        identity = self.params.identity()
        if self.params.supervision == "parallel":
            del identity["min_count"]
        return identity

    def effect(self) -> Effect:
        """Readouts; of the pivot, one for each language, where that is what moves."""
        return Effect(pivot=self.params.direction == "to-other")

    def sources(self, lang: str, pivot: str) -> Mapping[str, Source]:
        """The dictionary, where it is read."""
        if self.params.supervision == "parallel" or self.params.dictionary is None:
            return {}
        return {"dictionary": LocalFile(expand_path(self.params.dictionary, lang=lang, pivot=pivot))}

    def align(self, encoder: Encoder, inputs: MethodInputs, runtime: Runtime) -> AlignedEncoder:  # noqa: ARG002
        """The encoder with a rotation for each language and layer."""
        from raxalign.encoders._aligned import AlignedEncoder

        layers = parse_layers(self.params.layers, encoder.n_layers)
        transforms, notes = [], {}
        for lang in inputs.languages:
            moments, notes[lang] = self._moments(encoder, inputs, lang, layers)
            if not moments.count:
                raise RaxalignError(f"rotation: there are no word pairs for {lang}-{inputs.pivot}; look at its corpus, its links or its dictionary")
            transforms += [self._transform(moments, place, layer, lang, inputs.pivot) for place, layer in enumerate(layers)]
        return AlignedEncoder(encoder, tuple(transforms), notes=notes)

    def _moments(self, encoder: Encoder, inputs: MethodInputs, lang: str, layers: tuple[int, ...]) -> tuple[Moments, dict[str, int]]:
        """Sums over the pairs of one language, from its vectors to the pivot's, and counts for the notes."""
        moments = Moments.empty(len(layers), encoder.hidden_size, encoder.device)
        if self.params.supervision == "parallel":
            for src_PLH, tgt_PLH in linked_vectors(encoder, inputs.pairs[lang], lang, inputs.pivot, layers, self.params.pooling):
                moments.add(src_PLH, tgt_PLH)
            return moments, {"pairs": moments.count}
        return moments, self._add_dictionary(moments, encoder, inputs, lang, layers)

    def _add_dictionary(self, moments: Moments, encoder: Encoder, inputs: MethodInputs, lang: str, layers: tuple[int, ...]) -> dict[str, int]:
        """Adds the anchors of the entries whose words both occur."""
        import torch

        from raxalign.corpora._dictionary import read_dictionary

        entries = list(dict.fromkeys((src.lower(), tgt.lower()) for src, tgt in read_dictionary(inputs.files["dictionary"][lang])))
        folder, pooling = inputs.bitext[lang], self.params.pooling
        src = collect_anchors(encoder, sentences_of(folder, "src"), [entry[0] for entry in entries], lang, layers, pooling)
        tgt = collect_anchors(encoder, sentences_of(folder, "tgt"), [entry[1] for entry in entries], inputs.pivot, layers, pooling)
        src_E, tgt_E = (torch.tensor([side.words[entry[i]] for entry in entries], device=encoder.device) for i, side in enumerate((src, tgt)))
        kept_E = (src.counts_V[src_E] >= self.params.min_count) & (tgt.counts_V[tgt_E] >= self.params.min_count)
        moments.add(src.means_VLH[src_E[kept_E]], tgt.means_VLH[tgt_E[kept_E]])
        return {"pairs": moments.count, "entries": len(entries)}

    def _transform(self, moments: Moments, place: int, layer: int, lang: str, pivot: str) -> Transform:
        """The readout of one layer."""
        from raxalign.encoders._aligned import Affine, Transform

        cross, (from_mean, to_mean) = moments.cross(place, center=self.params.center), moments.means(place)
        if self.params.direction == "to-other":
            cross, from_mean, to_mean = cross.T, to_mean, from_mean
        weight = nearest_rotation(cross)
        step = Affine(from_mean, weight, to_mean) if self.params.center else Affine(weight=weight)
        if self.params.direction == "to-other":
            return Transform(pivot, layer, steps=(step,), toward=lang)
        return Transform(lang, layer, steps=(step,))
