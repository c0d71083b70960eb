"""Corpora of local files, and where these are."""

from raxalign.corpora.base import CorpusInputs


def placed(corpus, downloads=None, lang="de"):
    """A corpus, and as its inputs the local files that it names for a language and English."""
    sources = corpus.sources(lang, "en").items()
    return corpus, CorpusInputs({name: str(source.path) for name, source in sources}, downloads)
