"""Word retrieval in parallel sentences: is a word's translation, in its sentence, its nearest
neighbour (Cao et al. 2020, §4)?
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal, final

import lazy_loader as lazy
import numpy as np
import pyarrow as pa
from pydantic import Field, model_validator

from raxalign.encoders.models.vectors import Layers, Pooling, parse_layers
from raxalign.sample import Sample
from raxalign.similarity import Measure
from raxalign.tasks.base import Outcome, Reads, Score, Task, TaskInputs, TaskNeeds
from raxalign.tasks.transfer.fingerprints import unit
from raxalign.tasks.transfer.outcome import means
from raxalign.tasks.vectors.linked_words import (
    Bools,
    Ints,
    LinkedWords,
    SeenTypes,
    Words,
    read_linked_words,
)
from raxalign.tasks.vectors.retrieved_words import (
    METRICS,
    SCHEMA,
    Answers,
    first_occurrences,
    search,
)
from raxalign.tasks.vectors.samples import word_pairs

if TYPE_CHECKING:
    import torch

    from raxalign.encoders.models.aligned import AlignedEncoder
    from raxalign.train.runtime import Runtime
else:
    torch = lazy.load("torch")


@final
class Retrieval(Task):
    """Contextual and non-contextual word retrieval between each language and the pivot, dev and
    test side, both directions.

    Candidates, and the neighbourhoods of CSLS, are all words of the other side's sentences, special
    tokens left out. Queries are linked words; a query is right when its nearest neighbour is the
    very occurrence it is linked with. Metrics, over pairs of different surface forms that are
    *unseen* (their word types are linked in no training set and stand in no dictionary that the
    grid uses):

    * `contextual_accuracy`: the mean of both directions, which are also given alone as
      `..._to_pivot` and `..._from_pivot`;
    * `noncontextual_accuracy`: the same in the corpus that is left when all but the first
      occurrence of each word type are taken out, on both sides: queries, candidates and
      neighbourhoods are first occurrences in the held-out text, and a pair counts where both its
      words are;
    * each also as `..._all`, over seen pairs too (`contextual_accuracy_all`,
      `contextual_accuracy_all_to_pivot`);
    * `..._pairs`, the number of pairs asked for, and `..._stderr`, the standard error of the mean,
      clustered by sentence.

    A metric over no pairs is left out, and the notes say so. Words that the encoder did not read
    (too long a sentence) are no candidates.
    """

    VERSION = 2
    predicts = frozenset(
        {"correct", "correct_first", "direction", "id", "identical", "src", "tgt", "unit", "unseen"}
    )
    accepts = frozenset({"transformer", "static"})
    main_metric = "contextual_accuracy"

    class Params(Task.Params):
        """`layers` are added up; `pooling` joins a word's pieces (Cao et al. take the last);
        `augmentation: sentence` makes a word's vector four times as wide, by the mean, largest and
        smallest value of each coordinate over its sentence, not scaled anew. `candidates: linked`
        is what circulating code does, and so is `specials: include`, which counts a sentence's
        first and last piece as linked words. `noncontextual` says from where repeated types are
        taken out: of the `corpus`, as Cao et al. do, or of the `queries` alone, each type's first
        pair that counts being asked for among all occurrences. `unseen_in` fixes the number of
        training sentences by which pairs count as seen.
        """

        layers: Layers = "last"
        pooling: Pooling = "last"
        augmentation: Literal["none", "sentence"] = "none"
        measure: Measure = "csls"
        k: int = Field(10, ge=1)
        candidates: Literal["all", "linked"] = "all"
        specials: Literal["include", "exclude"] = "exclude"
        noncontextual: Literal["corpus", "queries"] = "corpus"
        unseen_in: int | None = Field(None, ge=1)

        @model_validator(mode="after")
        def _words_alone(self) -> Retrieval.Params:
            if self.augmentation == "sentence" and self.specials == "include":
                raise ValueError(
                    "specials: include goes without augmentation: special pieces are no words of a"
                    " sentence"
                )
            return self

    params: Params

    def needs(self) -> TaskNeeds:
        """Held-out word pairs and the word types seen in training."""
        return TaskNeeds(heldout=True, seen=True, unseen_in=self.params.unseen_in)

    def reads(self, n_layers: int) -> Reads:
        """`layers`."""
        return Reads(frozenset(parse_layers(self.params.layers, n_layers)))

    def canonical(self) -> dict[str, object]:
        """Without `unseen_in`, which is in the identity of the pairs, and without `k` where no
        neighbourhood is looked at.
        """
        idle = (
            {"unseen_in"} if self.params.measure in ("csls", "released_cao") else {"unseen_in", "k"}
        )
        return {name: value for name, value in self.params.identity().items() if name not in idle}

    @classmethod
    def sample(cls, rows: pa.Table, metric: str) -> Sample | None:
        """The accuracies, a part per direction and a unit per sentence of the pivot."""
        return word_pairs(rows, metric)

    def evaluate(
        self,
        aligned: AlignedEncoder,
        languages: tuple[str, ...],
        inputs: TaskInputs,
        runtime: Runtime,  # noqa: ARG002
        trained: Path | None,  # noqa: ARG002
    ) -> Outcome:
        """Retrieval on the dev and the test side of every language."""
        scores: list[Score] = []
        tables: list[pa.Table] = []
        notes: dict[str, dict[str, object]] = {}
        for lang in languages:
            label, seen = f"{lang}-{inputs.pivot}", SeenTypes(inputs.seen[lang])
            for split, folder in (
                ("dev", inputs.heldout[lang] / "dev"),
                ("test", inputs.heldout[lang] / "data"),
            ):
                if not folder.is_dir():
                    continue
                answers, counts = self._answer(
                    aligned.toward(lang), read_linked_words(folder), lang, inputs.pivot, seen
                )
                values, absent = answers.metrics()
                scores += [Score(label, metric, split, value) for metric, value in values.items()]
                tables.append(answers.table(label, split))
                notes.setdefault(label, {})[split] = {
                    **counts,
                    **({"absent": absent} if absent else {}),
                }
        scores += (
            means(scores, metrics=[name for name, _, _ in METRICS]) if len(languages) > 1 else []
        )
        return Outcome(scores, pa.concat_tables(tables) if tables else SCHEMA.empty_table(), notes)

    def _answer(
        self, aligned: AlignedEncoder, pairs: LinkedWords, lang: str, pivot: str, seen: SeenTypes
    ) -> tuple[Answers, dict[str, object]]:
        """Searches among all words, and among first occurrences, and keeps the answers for linked
        words.
        """
        src_vectors, src_read = self._vectors(aligned, pairs.src, lang)
        tgt_vectors, tgt_read = self._vectors(aligned, pairs.tgt, pivot)
        vectors, units = (
            (src_vectors, tgt_vectors),
            np.array([unit(sentence) for sentence in pairs.tgt.sentences], dtype=np.int64),
        )
        words = len(pairs)  # special pieces, where they are pairs too, come behind these
        if self.params.specials == "include":
            from raxalign.tasks.vectors.special_words import link_specials

            pairs = link_specials(pairs)
        read = src_read[pairs.src_word] & tgt_read[pairs.tgt_word]
        kept = pairs.keep(read)
        pools = self._pools(kept, src_read, tgt_read)
        contextual = search(kept, vectors, pools, measure=self.params.measure, k=self.params.k)
        types = kept.types()
        identical = np.array([a == b for a, b in types], dtype=np.bool_)
        identical[int(read[:words].sum()) :] = False
        unseen = np.array([pair not in seen for pair in types], dtype=np.bool_)
        counts: dict[str, object] = {
            "sentences": len(pairs.ids),
            "pairs": len(pairs),
            "pairs_truncated": len(pairs) - len(kept),
            "pairs_identical": int(identical.sum()),
            "pairs_seen": int((~unseen & ~identical).sum()),
            "candidates_src": int(pools[0].sum()),
            "candidates_tgt": int(pools[1].sum()),
        }
        thinned = None
        if self.params.noncontextual == "corpus":
            pools = self._pools(
                kept, first_occurrences(kept.src, src_read), first_occurrences(kept.tgt, tgt_read)
            )
            thinned = search(kept, vectors, pools, measure=self.params.measure, k=self.params.k)
            counts |= {
                "pairs_first": int(thinned.asked.sum()),
                "first_src": int(pools[0].sum()),
                "first_tgt": int(pools[1].sum()),
            }
        return Answers(kept, units, contextual, thinned, identical, unseen), counts

    def _pools(self, pairs: LinkedWords, src: Bools, tgt: Bools) -> tuple[Bools, Bools]:
        """The candidates among the words of a corpus: all of them, or those that are linked with
        each other.
        """
        if self.params.candidates == "all":
            return src, tgt
        both = src[pairs.src_word] & tgt[pairs.tgt_word]
        return _only(src, pairs.src_word[both]), _only(tgt, pairs.tgt_word[both])

    def _vectors(
        self, aligned: AlignedEncoder, words: Words, lang: str
    ) -> tuple[torch.Tensor, Bools]:
        """Vectors (words, hidden), the layers added up, and which words have one."""
        found = aligned.words(
            words.sentences, lang, layers=self.params.layers, pooling=self.params.pooling
        )
        vectors_NH = found.vectors_NLH.sum(1)
        if self.params.augmentation == "sentence":
            vectors_NH = with_sentence(
                vectors_NH,
                torch.from_numpy(words.row).to(vectors_NH.device),
                found.present_N.to(vectors_NH.device),
            )
        read = found.present_N.cpu().numpy().astype(np.bool_)
        if self.params.specials == "exclude":
            return vectors_NH, read
        from raxalign.tasks.vectors.special_words import add_specials

        return add_specials(aligned, words, lang, vectors_NH, read, self.params.layers)


def with_sentence(
    vectors_NH: torch.Tensor, sentence_N: torch.Tensor, present_N: torch.Tensor
) -> torch.Tensor:
    """[word; mean; max; min] over the words of each word's sentence that have a vector, (N, 4H);
    absent words stay zero (Cao et al. 2020, §4).

    `sentence_N` are the numbers of sentences, from 0. No part is scaled: the cosine is over the
    whole vector.
    """
    words_MH, owners_M = vectors_NH[present_N], sentence_N[present_N]
    size = int(sentence_N.max()) + 1 if len(sentence_N) else 0
    empty_SH = vectors_NH.new_zeros(size, vectors_NH.shape[1])
    places_MH = owners_M[:, None].expand_as(words_MH)
    parts = [
        words_MH,
        *(
            empty_SH.scatter_reduce(0, places_MH, words_MH, how, include_self=False)[owners_M]
            for how in ("mean", "amax", "amin")
        ),
    ]
    wide_NW = vectors_NH.new_zeros(len(vectors_NH), 4 * vectors_NH.shape[1])
    wide_NW[present_N] = torch.cat(parts, dim=1)
    return wide_NW


def _only(present: Bools, words: Ints) -> Bools:
    chosen = np.zeros_like(present)
    chosen[words] = True
    return present & chosen
