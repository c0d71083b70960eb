"""The grammar behind `corpora/phrasebook.py`: parallel sentences in six languages, by number and seed, and labelled examples for tasks."""

from __future__ import annotations

from raxalign.corpora._phrasebook.entailment import LABELS, Entailment, entailment
from raxalign.corpora._phrasebook.lexicon import LANGS
from raxalign.corpora._phrasebook.sentences import Realization, Sentence, capacity, detokenized, sentence

__all__ = ["LABELS", "LANGS", "Entailment", "Realization", "Sentence", "capacity", "detokenized", "entailment", "sentence"]
