"""An aligned encoder as mteb asks for it: texts to vectors, by the language of mteb's subset."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mteb.models.model_meta import ModelMeta
from mteb.similarity_functions import cos_sim, pairwise_cos_sim

from raxalign.corpora.text.words import tokenize, within_text
from raxalign.errors import RaxalignError
from raxalign.tasks.embedding_benchmark.registry import SIDES
from raxalign.tasks.vectors.sentences import SentenceReading, sentence_vectors

if TYPE_CHECKING:
    import torch
    from mteb.abstasks import AbsTask

    from raxalign.encoders.models.aligned import AlignedEncoder


class EncoderForMteb:
    """mteb's `EncoderProtocol`. Similarity is the cosine.

    Args:
        aligned: the encoder, in its view toward the other language of the pivot.
        reading: how sentences become vectors.
        task: the task that is evaluated, whose data are loaded.
        spoken: the languages of a subset's sides, or of a column, by its name.
    """

    similarity = staticmethod(cos_sim)
    similarity_pairwise = staticmethod(pairwise_cos_sim)

    def __init__(
        self,
        aligned: AlignedEncoder,
        reading: SentenceReading,
        task: AbsTask,
        spoken: Mapping[str, tuple[str, ...]],
    ) -> None:
        self._aligned, self._reading, self._task, self._spoken = aligned, reading, task, spoken
        self.unread = 0
        self.mteb_model_meta = ModelMeta.create_empty({"name": "raxalign/aligned", "revision": "1"})

    def encode(self, inputs: Any, *, hf_split: str, hf_subset: str, **_: Any) -> torch.Tensor:
        """Return the vectors (texts, H) of the texts that the batches hold."""
        texts = [text for batch in inputs for text in batch["text"]]
        lang = self._language(texts, hf_split, hf_subset)
        divide = tokenize(lang)
        words = [within_text(divide, text) for text in texts]
        vectors_SH, read = sentence_vectors(self._aligned, words, lang, self._reading)
        self.unread += int((~read).sum())
        return vectors_SH.float().cpu()

    def _language(self, texts: list[str], split: str, subset: str) -> str:
        """Return the language of texts. For a parallel data set mteb names the column. For a pair
        it does not say which side it asks for: that is the column that has these texts.
        """
        task: Any = self._task
        if getattr(task, "parallel_subsets", False):
            for pair, sides in self._spoken.items():
                if subset in (names := pair.split("-")):
                    return sides[names.index(subset)]
        sides = self._spoken[subset]
        if len(sides) == 1:
            return sides[0]
        rows = task.dataset.get(subset, task.dataset)[split]
        columns = zip(SIDES, sides, strict=True)
        same = [lang for column, lang in columns if list(rows[column]) == texts]
        if len(same) == 1:
            return same[0]
        raise RaxalignError(
            f"mteb: {task.metadata.name}: both sides of {subset} ({split}) have the same texts, so"
            " that their languages are not known: leave the task out"
            if same
            else f"mteb: {task.metadata.name}: mteb changes the texts of {subset} ({split}) before"
            " they are read, so that their language is not known: leave the task out"
        )
