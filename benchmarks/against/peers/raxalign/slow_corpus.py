"""The corpus of a language pair as raxalign reads it."""

import raxalign as rx
from benchmarks.against import work
from raxalign.corpora.base import SentencePair


class SlowCorpus(rx.Corpus):
    """The corpora of the experiment."""

    VERSION = 1
    licence = "none"

    def sources(self, lang, pivot):
        """Return nothing."""
        return {}

    def read(self, lang, pivot, inputs):
        """Yield the sentences of a language with themselves."""
        for number, text in enumerate(work.corpus(lang)):
            yield SentencePair(number, text, text)
