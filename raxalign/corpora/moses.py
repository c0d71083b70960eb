"""Two files that are parallel by line, as Moses and OPUS have them."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar

from raxalign.corpora.base import CorpusInputs, FileCorpus, SentencePair
from raxalign.corpora.readers.lines import count_lines, opened, plain_or_packed, read_parallel
from raxalign.errors import DataError
from raxalign.options.params import Parts
from raxalign.options.sources import DataPrefix, LocalFile, Source

_SIDE = "{side}"


class Moses(FileCorpus):
    """Line k of `<path>.<lang>` is translated by line k of `<path>.<pivot>`, or of two files that
    have the codes of their languages elsewhere in their paths.

    Relations: `tsv` is for both sides in one file, `hub` for JSON, CSV and Parquet with named
    fields; `opus` downloads text in this form.

    Example:
        corpus:
          source: moses
          path: "data/{lang}-{pivot}"
          split: {test: 1024, dev: 1024}
    """

    VERSION: ClassVar[int] = 1
    licence: ClassVar[str] = "that of the files"

    class Params(FileCorpus.Params):
        """Training, dev and test as files of their own are `path: {train: ..., dev: ..., test:
        ...}`, one prefix each, with `split: files`. A file may be compressed (`<path>.<lang>.gz`,
        or `.bz2` or `.xz`). `codes` stand in extensions, and for ``{side}``, ``{lang}`` and
        ``{pivot}``. Files with gold links are usually `pretokenized`.

        FLORES-200 is `path: "flores200_dataset/dev/{side}.dev"` with `codes: flores`. NTREX-128 is
        `path: "NTREX-128/newstest2019-*.{side}.txt"` with `codes: ntrex`: next to ``{side}``, a `*`
        in a file's name stands for what is not the same in both (`ref` and `src`).
        """

        path: DataPrefix | Parts
        """Path that both files share up to their extension, the code of the language; or the whole
        path, with `{side}` in place of that code; either may hold `{lang}` and `{pivot}`.
        """

    params: Params

    def sources(self, lang: str, pivot: str) -> Mapping[str, Source]:
        """Return the files of each part: `source` (the other language) and `target` (the pivot)."""
        return {
            self.source_name(part, name): LocalFile(
                plain_or_packed(self._file(part, code, lang, pivot))
            )
            for part in self.parts()
            for name, code in (("source", lang), ("target", pivot))
        }

    def read_part(
        self,
        part: str,
        lang: str,  # noqa: ARG002
        pivot: str,  # noqa: ARG002
        inputs: CorpusInputs,
    ) -> Iterator[SentencePair]:
        """Yield the sentence pairs of one part, streamed."""
        source, target = (
            Path(inputs.locations[self.source_name(part, name)]) for name in ("source", "target")
        )
        with opened(source) as source_file, opened(target) as target_file:
            yield from read_parallel((source_file, source), (target_file, target))

    def n_pairs(self, lang: str, pivot: str, enough: int) -> int | None:
        """Count the lines of the pivot's file up to `enough`, of the training part if any."""
        return count_lines(plain_or_packed(self._file(self.parts()[0], pivot, lang, pivot)), enough)

    def _file(self, part: str, code: str, lang: str, pivot: str) -> Path:
        """The file of a side: the prefix with an extension added (`with_suffix` would take a dot in
        the prefix for one), or the path with its code filled in.
        """
        place, own = self.place(part, lang, pivot), self.code(code)
        if _SIDE not in str(place):
            return place.with_name(f"{place.name}.{own}")
        path = Path(str(place).replace(_SIDE, own))
        name = glob.escape(path.name).replace("[*]", "*")
        found = sorted(path.parent.glob(name)) if "*" in name else []
        if len(found) > 1:
            names = ", ".join(file.name for file in found)
            raise DataError(path, f"is several files: {names}", remedy="Write more of the name")
        return found[0] if found else path
