"""The grammar behind `corpora/phrasebook.py`: parallel sentences in six languages, by number and seed, and labelled examples for tasks."""

from __future__ import annotations

from raxalign.corpora._phrasebook.entailment import LABELS, Entailment, entailment
from raxalign.corpora._phrasebook.lexicon import LANGS
from raxalign.corpora._phrasebook.questions import Question, questions
from raxalign.corpora._phrasebook.sentences import Realization, Sentence, capacity, detokenized, sentence
from raxalign.corpora._phrasebook.tagged import ENTITIES, SLOTS, Tagged, entities, slots

__all__ = [
    "ENTITIES",
    "LABELS",
    "LANGS",
    "SLOTS",
    "Entailment",
    "Question",
    "Realization",
    "Sentence",
    "Tagged",
    "capacity",
    "detokenized",
    "entailment",
    "entities",
    "questions",
    "sentence",
    "slots",
]
