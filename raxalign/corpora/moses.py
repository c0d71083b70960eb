"""Two files that are parallel by line, as Moses and OPUS have them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar

from raxalign.config.sources import DataPrefix, LocalFile, Source, expand_path
from raxalign.corpora._lines import read_parallel
from raxalign.corpora.base import Corpus, CorpusInputs, SentencePair
from raxalign.errors import DataError


class Moses(Corpus):
    """Line k of `<path>.<lang>` is translated by line k of `<path>.<pivot>`."""

    VERSION: ClassVar[int] = 1
    licence: ClassVar[str] = "that of the files"

    class Params(Corpus.Params):
        """`path` is the prefix that both files share; their extensions are the language codes. It may hold ``{lang}`` and ``{pivot}``."""

        path: DataPrefix

    params: Params

    def sources(self, lang: str, pivot: str) -> Mapping[str, Source]:
        """The two files, as `source` (the other language) and `target` (the pivot)."""
        prefix = expand_path(self.params.path, lang=lang, pivot=pivot)
        return {"source": LocalFile(_side(prefix, lang)), "target": LocalFile(_side(prefix, pivot))}

    def read(self, lang: str, pivot: str, inputs: CorpusInputs) -> Iterator[SentencePair]:
        """The sentence pairs, streamed."""
        source, target = Path(inputs.locations["source"]), Path(inputs.locations["target"])
        for path, code in ((source, lang), (target, pivot)):
            if not path.is_file():
                remedy = f"`path` is the prefix that both files share, here {path.with_suffix('')} for {source.name} and {target.name}"
                raise DataError(path, f"there is no such file ({code} side)", remedy=remedy)
        with source.open("rb") as source_file, target.open("rb") as target_file:
            yield from read_parallel((source_file, source), (target_file, target))


def _side(prefix: Path, code: str) -> Path:
    """The prefix with an extension added (`with_suffix` would take a dot in the prefix for one)."""
    return prefix.with_name(f"{prefix.name}.{code}")
