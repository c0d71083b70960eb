"""Hydra with its joblib launcher: one sweep for the corpora, then one for the trials. Hydra keeps
what each job returned, and has no cache.
"""

import json
from pathlib import Path

import hydra

from benchmarks.against import work


@hydra.main(version_base=None, config_path=".", config_name="hydra_joblib")
def main(config):
    """Make one corpus, or run one trial."""
    place = Path(config.corpora, f"{config.language}.json")
    if config.stage == "corpus":
        place.parent.mkdir(exist_ok=True)
        place.write_text(json.dumps(work.corpus(config.language)), "utf-8")
        return
    score = work.trial(config.language, config.number, json.loads(place.read_text("utf-8")))
    Path(config.scores).mkdir(exist_ok=True)
    row = f"{config.language},{config.number},{score}\n"
    Path(config.scores, f"{config.language}-{config.number}").write_text(row, "utf-8")


if __name__ == "__main__":
    main()
