"""The grammar behind `corpora/phrasebook.py`: parallel sentences in six languages, by number and
seed, and labelled examples for tasks.
"""

from __future__ import annotations

from raxalign.corpora.grammar.entailment import LABELS, Entailment, entailment
from raxalign.corpora.grammar.lexicon import LANGS
from raxalign.corpora.grammar.questions import Question, questions
from raxalign.corpora.grammar.sentences import (
    Realization,
    Sentence,
    capacity,
    detokenized,
    sentence,
)
from raxalign.corpora.grammar.tagged import ENTITIES, SLOTS, Tagged, entities, slots

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
