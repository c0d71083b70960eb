"""The program that made the weights of `encoder: phrasebook`.

``python -m raxalign.encoders.training.phrasebook FOLDER`` makes them again, in about two minutes on
one quiet core. A run that is killed goes on from its last checkpoint. The weights in the package
were made on the CPU with the constants below. Another version of PyTorch, or another processor, may
round otherwise; a test therefore compares their SHA-256 and does not make them again.

A BERT is trained by masked language modelling on sentences of the phrasebook. No sentence is a
translation of another one, and none is among the first `FIRST` sentences of the phrasebook, which
are left to grids. (One is spelled like one of these: Bulgarian sentence 477, in another tense.) At
`TRANSLATED` of the masked places the encoder reads a translation of the word in place of the mask,
so that its languages share a space in part, as those of large multilingual encoders do (an
alternating language model, Yang et al. 2020). The translations are those of a dictionary: the gold
links of `DICTIONARY` sentences, likewise none of the first ones.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from pathlib import Path

import numpy as np
import torch

from raxalign.corpora.phrases.rows import LANGS, PhraseSentence, links, read, sentences
from raxalign.encoders.models.loading import save_model
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.encoders.training.masked_lm import (
    PackedRows,
    Pretraining,
    new_bert,
    train_settings,
    training_rows,
)
from raxalign.encoders.training.masking import Masks, chance_of
from raxalign.encoders.training.params import ScratchParams
from raxalign.encoders.training.wordpiece import train_wordpiece
from raxalign.running import in_text
from raxalign.train.chance import MIXING
from raxalign.train.loop import Fitted, fit
from raxalign.train.objective import Step
from raxalign.train.runtime import Runtime

FIRST = 10_000
"""The first sentence of the phrasebook (seed 0) that the dictionary is read from."""
SENTENCES = 8_000
"""Sentences per language; each language has its own."""
DICTIONARY = 3_000
"""Sentences, each in all languages, that the dictionary is read from."""
TRANSLATED = 0.3
"""The share of the masked places at which a translation is read."""
PARAMS = ScratchParams(
    layers=2,
    hidden_size=64,
    heads=4,
    intermediate=128,
    vocab_size=4_500,
    learning_rate=5e-3,
    warmup=0.05,
    steps=2_500,
    mask_share=0.3,
    dropout=0.0,
)

Dictionary = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Recipe:
    """What an encoder is made from: its options, the number of sentences per language, and the
    number of sentences that its dictionary is read from.
    """

    params: ScratchParams = PARAMS
    sentences: int = SENTENCES
    dictionary: int = DICTIONARY


def monolingual(count: int) -> dict[str, list[list[str]]]:
    """Return the text, `count` sentences in words per language. None is a translation of another:
    of the sentences from `FIRST` on, language k of n has every n-th one.
    """
    return {
        lang: [words.split(" ") for ((words,),) in read("text", "0", (lang,), range(count))]
        for lang in LANGS
    }


def translations(count: int) -> Dictionary:
    """Return the translations of each word, one per pair of languages: the word that is linked to
    it most often in `count` sentences. A word that two languages spell alike has the translations
    of both; a word that is its own translation has none there.
    """
    found: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for row in sentences(LANGS, count, first=FIRST):
        said = dict(zip(LANGS, row, strict=True))
        for source, target in permutations(LANGS, 2):
            for word, other in _pairs(said[source], said[target]):
                found[word, source + target][other] += 1
    table = defaultdict(list)
    for word, direction in sorted(found):
        counts = found[word, direction]
        best = min(counts, key=lambda other: (-counts[other], other))
        if best != word:
            table[word].append(best)
    return table


def _pairs(source: PhraseSentence, target: PhraseSentence) -> Iterator[tuple[str, str]]:
    """The pairs of words of a sentence pair that are linked to each other alone."""
    found = links(source.senses, target.senses)
    ahead, back = Counter(i for i, _ in found), Counter(j for _, j in found)
    for i, j in found:
        if ahead[i] == back[j] == 1:
            yield source.words[i], target.words[j]


class Alternating(Pretraining):
    """Predicts masked pieces. At some of the masked places the encoder reads a translation.

    `translations` (vocabulary, languages - 1) has in its row the first translations of each piece,
    repeated until the row is full; a piece without a translation has -1 there.
    """

    def __init__(
        self,
        encoder: TransformerEncoder,
        rows: PackedRows,
        params: ScratchParams,
        dictionary: Dictionary,
    ) -> None:
        super().__init__(encoder, rows, params)
        vocabulary = encoder.tokenizer.get_vocab()
        self.translations = np.full((len(vocabulary), len(LANGS) - 1), -1)
        for word, others in dictionary.items():
            known = [vocabulary[other] for other in others if other in vocabulary]
            if word in vocabulary and known:
                places = np.resize(known, self.translations.shape[1])
                self.translations[vocabulary[word]] = places

    def choose(self, step: Step, rows: PackedRows) -> Masks:
        """Choose the masks of the global batch, some of them translations."""
        return self._translated(super().choose(step, rows), chance_of(step, MIXING))

    def _translated(self, masks: Masks, rng: np.random.Generator) -> Masks:
        places = rng.integers(self.translations.shape[1], size=len(masks.targets))
        others = self.translations[masks.targets, places]
        chosen = (rng.random(len(others)) < TRANSLATED) & (others >= 0)
        return replace(masks, inputs=np.where(chosen, others, masks.inputs))


def make(folder: Path, recipe: Recipe, runtime: Runtime) -> Fitted:
    """Train the encoder on one thread and write it in half precision.

    Args:
        folder: The folder that takes model and tokenizer.
        recipe: Its options and numbers of sentences.
        runtime: The place of checkpoints.

    Returns:
        The losses of the training.
    """
    torch.set_num_threads(1)
    params, text = recipe.params, monolingual(recipe.sentences)
    running = [in_text(words, lang).text.split() for lang, part in text.items() for words in part]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(params.seed)
        tokenizer = train_wordpiece(running, params.vocab_size)
        encoder = TransformerEncoder(new_bert(params, len(tokenizer)), tokenizer)
        rows, _ = training_rows(encoder, text, params)
        objective = Alternating(encoder, rows, params, translations(recipe.dictionary))
        where = replace(runtime, seed=params.seed)
        fitted = fit(objective, len(rows), train_settings(params, rows), where, name="phrasebook")
        save_model(encoder.model.half(), tokenizer, folder)
    return fitted


def _print(metrics: Mapping[str, float], step: int) -> None:
    loss = ", ".join(f"{name} {value:.3f}" for name, value in metrics.items())
    sys.stderr.write(f"step {step}: {loss}\n")


if __name__ == "__main__":
    target = Path(sys.argv[1])
    make(target, Recipe(), Runtime(report=_print, checkpoints=target / "checkpoints"))
