"""submitit's local executor, which starts all jobs that it gets at once: threads that wait limit
them. What ran is in no cache.
"""

from concurrent.futures import ThreadPoolExecutor

import submitit

from benchmarks.against import work


def main():
    """Run the corpora as jobs, then the trials."""
    executor = submitit.LocalExecutor(folder="jobs")
    executor.update_parameters(timeout_min=60)

    def run(function, *arguments):
        return executor.submit(function, *arguments).result()

    with ThreadPoolExecutor(work.workers()) as pool:
        texts = pool.map(lambda lang: run(work.corpus, lang), work.LANGUAGES)
        corpora = dict(zip(work.LANGUAGES, texts, strict=True))
        scores = pool.map(lambda point: run(work.trial, *point, corpora[point[0]]), work.points())
        work.write_table(scores)


if __name__ == "__main__":
    main()
