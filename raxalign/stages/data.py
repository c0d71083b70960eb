"""Making the stages of data: bitext, text, word pairs and seen word types."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from raxalign.corpora.base import CorpusInputs
from raxalign.plan.data import SEEN_SWAPPED
from raxalign.plan.stage import Stage
from raxalign.stages.bench import Bench


def make_bitext(bench: Bench, stage: Stage, folder: Path) -> Mapping[str, Any]:
    """Write a training set, or the dev and test sides; return its notes."""
    from raxalign.corpora.text.bitext import BitextOptions, write_heldout, write_training

    corpus, params = stage.plugin(), stage.params
    inputs = CorpusInputs(stage.locations, bench.downloads, stage.digests)
    split: Any = params["split"]
    names = ("overlap", "shortage", "max_words", "segmentation")
    options = BitextOptions(**{name: params[name] for name in names if name in params})  # type: ignore[arg-type]
    lang, pivot = str(params["lang"]), str(params["pivot"])
    sizes = (
        corpus.part_sizes(lang, pivot, inputs)
        if split == "files"
        else (split["test"], split["dev"])
    )
    if params["part"] == "heldout":
        return write_heldout(corpus, lang, pivot, inputs, sizes, options, folder)
    sentences = int(str(params["sentences"]))
    elsewhere = list(bench.inputs(stage, "heldout").values())
    return write_training(corpus, lang, pivot, inputs, sizes, sentences, options, folder, elsewhere)


def make_text(bench: Bench, stage: Stage, folder: Path) -> Mapping[str, Any]:
    """Write the sentences of one language, each once; return the notes."""
    from raxalign.corpora.text.bitext import write_text

    bitexts = bench.datasets(stage, "bitext")
    is_pivot = stage.params["lang"] == stage.params["pivot"]
    return write_text(list(bitexts.values()), "tgt" if is_pivot else "src", folder)


def make_pairs(bench: Bench, stage: Stage, folder: Path) -> Mapping[str, Any]:
    """Run the word aligner, or cut a training set out of its run; return the notes."""
    from raxalign.pairing.build import build_heldout, build_training, slice_training

    params = stage.params
    sources = {name: bench.ensure(key) for name, key in stage.inputs.items()}
    if params["part"] == "slice":
        return slice_training(sources["run"], folder, int(str(params["sentences"])))
    aligner, metadata = stage.plugin(), {"key": stage.key}
    with tempfile.TemporaryDirectory(prefix="raxalign-") as work:
        options: dict[str, Any] = {
            **{name: params[name] for name in ("lang", "pivot", "symmetrization", "one_to_one")},
            "locations": stage.locations,
            "threads": bench.runtime.threads,
            "work": Path(work),
            "metadata": metadata,
        }
        training = sources["training"] / "data"
        if params["part"] == "training":
            return build_training(training, aligner, folder, **options)
        return build_heldout(
            sources["heldout"],
            training,
            aligner,
            folder,
            **options,
            keep_training=bool(params.get("keep_training")),
        )


def make_seen(bench: Bench, stage: Stage, folder: Path) -> Mapping[str, Any]:
    """Collect the word types that were linked in training; return the notes."""
    from raxalign.corpora.readers.dictionary import read_dictionary
    from raxalign.pairing.types import build_seen

    run = bench.ensure(stage.inputs["run"]) / "linked_types.arrow"
    pairs = list(bench.datasets(stage, "pairs").values())
    dictionaries = [
        read_dictionary(Path(place), swap=name.startswith(f"{SEEN_SWAPPED}/"))
        for name, place in stage.locations.items()
    ]
    return build_seen([run], pairs, dictionaries, folder)
