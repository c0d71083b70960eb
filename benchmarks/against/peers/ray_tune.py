"""Ray Tune alone. A run that was cut off is restored; Tune keeps nothing of shared stages."""

from pathlib import Path

import ray
from ray import tune

from benchmarks.against import work


def train(config, corpora):
    """Run one trial, and report its score."""
    language, number = config["point"]
    tune.report({"score": work.trial(language, number, corpora[language])})


def main():
    """Make the corpora, and run or restore the trials."""
    ray.init(num_cpus=work.workers(), include_dashboard=False, log_to_driver=False)
    make = ray.remote(work.corpus)
    corpora = dict(
        zip(work.LANGUAGES, ray.get([make.remote(lang) for lang in work.LANGUAGES]), strict=True)
    )
    trainable = tune.with_parameters(train, corpora=corpora)
    place = Path("tune").absolute()
    if tune.Tuner.can_restore(place / "grid"):
        tuner = tune.Tuner.restore(str(place / "grid"), trainable, restart_errored=True)
    else:
        tuner = tune.Tuner(
            trainable,
            param_space={"point": tune.grid_search(work.points())},
            tune_config=tune.TuneConfig(reuse_actors=True),
            run_config=tune.RunConfig(name="grid", storage_path=str(place), verbose=0),
        )
    scores = {tuple(result.config["point"]): result.metrics["score"] for result in tuner.fit()}
    work.write_table(scores[point] for point in work.points())


if __name__ == "__main__":
    main()
