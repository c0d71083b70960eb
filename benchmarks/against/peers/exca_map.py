"""exca: two maps whose items are cached. Its process pool has as many workers as the machine has
cores, less one, so that `local` is used, which starts as many processes as there are workers.
"""

import pydantic
from exca import MapInfra

from benchmarks.against import work


class Corpus(pydantic.BaseModel):
    """The corpora, one per language."""

    infra: MapInfra = MapInfra(folder="cache", cluster="local", max_jobs=work.workers())

    @infra.apply(item_uid=str)
    def make(self, languages: list[str]):
        """Yield the corpus of each language."""
        for language in languages:
            yield work.corpus(language)


class Experiment(pydantic.BaseModel):
    """The trials."""

    corpus: Corpus = Corpus()
    infra: MapInfra = MapInfra(
        folder="cache", cluster="local", max_jobs=work.workers(), timeout_min=60
    )

    @infra.apply(item_uid=str)
    def run(self, points: list[tuple[str, int]]):
        """Yield the score of each trial."""
        for language, number in points:
            (text,) = self.corpus.make([language])
            yield work.trial(language, number, text)


def main():
    """Make the corpora, then run the trials."""
    experiment = Experiment()
    list(experiment.corpus.make(list(work.LANGUAGES)))
    work.write_table(experiment.run(work.points()))


if __name__ == "__main__":
    main()
