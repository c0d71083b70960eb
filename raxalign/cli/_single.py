"""The commands without a grid, or of one encoder: word pairs, alignment, evaluation, export."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from raxalign.caveats import Caveats
from raxalign.cli import _options as opt
from raxalign.cli._terminal import print_out, print_values
from raxalign.printing import to_stderr as tell


def pairs(
    out: opt.Out,
    source: Annotated[str, Option(autocompletion=opt.complete_kinds("corpora"))],
    lang: Annotated[str, Option()],
    option: opt.Options = None,
    pivot: opt.Pivot = "en",
    sentences: opt.Number = None,
    heldout: Annotated[int, Option(min=0)] = 0,
    aligner: Annotated[str, Option(autocompletion=opt.complete_kinds("aligners"))] = "thot",
    aligner_option: Annotated[opt.Several, Option(metavar="NAME=VALUE")] = None,
    encoder: str | None = None,
    symmetrization: opt.Symmetrization = "intersection",
    one_to_one: bool = True,
    overlap: Literal["drop", "keep"] = "drop",
    export_links: Path | None = None,
    storage: opt.Storage = None,
    device: opt.Device = None,
    threads: opt.Threads = None,
    plugins: opt.Plugins = None,
) -> None:
    """Make a word-pair dataset (`datasets.load_from_disk`) from any corpus.

    Options:
        source: The corpus: a kind of `raxalign list corpora`.
        lang: The other language.
        sentences: Sentence pairs, from the end of the corpus (default: all).
        heldout: Leave out this many lines at the end of the corpus.
        aligner: The word aligner: a kind of `raxalign list aligners`.
        aligner_option: An option of the word aligner.
        encoder: The encoder of a word aligner that reads one: a folder or a hub name.
        symmetrization: How the links of the two directions are combined.
        one_to_one: Keep only links of words that have no other link.
        overlap: Drop repeated sentence pairs, and those that share a side with a held-out line, or
            keep them, as links made by hand need it (`aer`).
        export_links: Also write the links to this file, as i-j (Pharaoh), one line per line of the
            corpus.
    """
    from raxalign.catalog import PluginFile
    from raxalign.single.align import PairsRequest
    from raxalign.single.place import storage_of

    request = PairsRequest(
        source,
        tuple(option or ()),
        lang,
        pivot,
        sentences,
        heldout,
        aligner,
        tuple(aligner_option or ()),
        symmetrization,
        one_to_one,
        encoder,
        device,
        overlap,
    )
    with PluginFile.visible(PluginFile.open(path) for path in plugins or ()):
        notes = request.make(
            out, storage=storage_of(storage), export_links=export_links, threads=threads, tell=tell
        )
    tell(
        f"{notes['sentence_pairs']:,} sentence pairs, {notes['without_links']:,} of them without a"
        f" link, {notes['word_pairs']:,} word pairs"
    )
    for name, told in notes["partial"].items():
        tell(f"note: {name}: {told}")
    print_out(str(out))


def aer(
    links: Annotated[Path, Argument(metavar="LINKS")],
    gold: Annotated[Path, Argument(metavar="GOLD")],
    format: Literal["pharaoh", "naacl"] = "pharaoh",  # noqa: A002
    one_based: bool = False,
    links_one_based: bool = False,
    swap: bool = False,
) -> None:
    """Score word links against links made by hand: precision (possible links), recall (sure links),
    F1 and the alignment error rate.

    Options:
        links: Links as i-j, one line per sentence pair, or a folder of `raxalign pairs`.
        gold: Links made by hand.
        format: How GOLD is written: i-j and ipj, or `sentence i j [S|P]`.
        one_based: GOLD counts words from 1 (NAACL format always does).
        links_one_based: LINKS counts words from 1.
        swap: GOLD has its two sides in the opposite order.
    """
    from raxalign.single.aer import ErrorRateRequest

    request = ErrorRateRequest(links, gold, format, int(one_based), int(links_one_based), swap)
    for name, value in request.scores(tell=tell).items():
        print_out(f"{name:<9}  {value:.4f}" if isinstance(value, float) else f"{name:<9}  {value}")


def power(
    runs: Annotated[int, Option(min=2)] = 5,
    examples: Annotated[list[int] | None, Option(min=2)] = None,
    run_sd: Annotated[list[float] | None, Option(min=0.0)] = None,
    disagree: opt.Percentage = 15.0,
    disagree_runs: opt.Percentage = 10.0,
    accuracy: opt.Percentage = 70.0,
    detect: Annotated[float | None, Option(min=0.01)] = None,
) -> None:
    """Say which difference between two systems a comparison can detect, before anything is run. For
    the comparisons of a grid: `raxalign plan FILE --detect POINTS`.

    Options:
        runs: Runs (seeds) of each side that is trained.
        examples: Test examples (default: 1000); twice where the two sides have different ones.
        run_sd: By how many points runs differ (default: 0.5); twice for the system and for the
            baseline, and 0 where nothing is trained.
        disagree: Percentage of examples that one system alone gets right.
        disagree_runs: Percentage of examples that one of two runs of a system alone gets right.
        accuracy: In percent; it counts where the sides have different examples.
        detect: A difference in points: how often it is found, and what it takes to find it.
    """
    from raxalign.analysis.power import Assumed

    given = Assumed(
        tuple(examples or (1000,)), tuple(run_sd or (0.5,)), disagree, disagree_runs, accuracy
    )
    for line in given.lines(runs, detect):
        print_out(line)


def align(
    method: Annotated[str, Argument(autocompletion=opt.complete_kinds("methods"))],
    encoder: Annotated[str, Option()],
    pairs: Annotated[list[str], Option(metavar="LANG=FOLDER")],
    out: opt.Out,
    option: opt.Options = None,
    pivot: opt.Pivot = "en",
    seed: Annotated[int, Option(min=0)] = 0,
    device: opt.Device = None,
    threads: opt.Threads = None,
    precision: opt.Precision = "fp32",
    storage: opt.Storage = None,
    plugins: opt.Plugins = None,
) -> None:
    """Align an encoder by one method, and write it as a Hugging Face folder with a model card.

    Options:
        method: A kind of `raxalign list methods`.
        encoder: Encoder folder or hub name.
        pairs: Word pairs of a language, from `raxalign pairs`; once per language.
        seed: Seed of everything random.
        precision: Matrix multiplications inside the encoder, as `run.precision` of a grid.
    """
    from raxalign.catalog import PluginFile
    from raxalign.single.align import AlignRequest
    from raxalign.single.place import storage_of

    request = AlignRequest(
        method,
        tuple(option or ()),
        encoder,
        _named(pairs, "--pairs"),
        pivot,
        seed,
        device,
        threads,
        precision,
    )
    with PluginFile.visible(PluginFile.open(path) for path in plugins or ()):
        notes = request.make(out, storage=storage_of(storage))
    for told in Caveats.said(method, notes):
        tell(f"note: {told}")
    print_out(str(out))


def evaluate(
    file: opt.GridFile,
    encoder: Annotated[str, Option()],
    task: Annotated[opt.Several, Option(autocompletion=opt.complete_names("task"))] = None,
    mteb: Annotated[opt.Several, Option(metavar="NAME[=FOLDER]")] = None,
    option: opt.Options = None,
    language: Annotated[opt.Several, Option(autocompletion=opt.complete_names("language"))] = None,
    seed: Annotated[int | None, Option(min=0)] = None,
    format: opt.Format = "table",  # noqa: A002
    every: opt.Every = False,
    device: opt.Device = None,
    threads: opt.Threads = None,
    precision: opt.Precision | None = None,
    storage: opt.Storage = None,
) -> None:
    """Evaluate any encoder on the tasks of a grid, on the grid's own held-out word pairs and
    data.

    Options:
        encoder: Encoder folder (`raxalign align`, `raxalign export`, or any masked LM's) or hub
            name.
        task: A task of the grid, by its name there (default: all).
        mteb: A task of mteb by its name there, in place of the grid's tasks; FOLDER has a copy of
            its data (default: mteb loads it).
        language: A language of the grid (default: all).
        seed: One seed (default: the grid's).
        format: table, json (one row per value) or csv.
        precision: Matrix multiplications inside the encoder (default: `run.precision` of the
            grid); values of different precisions are kept apart.
    """
    from raxalign.grid.load import open_grid
    from raxalign.report.tables import Selection
    from raxalign.single.evaluate import EvaluateRequest
    from raxalign.values.results import read_records, remarks

    tasks, languages = tuple(task or ()), tuple(language or ())
    of_mteb = (tuple(mteb or ()), tuple(option or ()))
    request = EvaluateRequest(encoder, tasks, languages, seed, device, threads, precision, *of_mteb)
    opened = open_grid(file, storage=storage)
    found, plan_ = request.evaluate(opened, tell=tell)
    print_values(found, plan_, format, Selection(every=every))
    for remark in remarks(plan_, read_records(plan_, opened.storage.ledger)):
        tell(f"note: {remark}")


def export(
    key: str,
    folder: Annotated[Path, Argument(metavar="DIR")],
    best: bool = False,
    language: Annotated[str | None, Option(metavar="CODE")] = None,
    storage: opt.Storage = None,
    register: Annotated[str | None, Option(metavar="NAME")] = None,
    push: Annotated[str | None, Option(metavar="NAME")] = None,
    private: bool = False,
    plugins: opt.Plugins = None,
) -> None:
    """Write the aligned encoder of a trial as a folder that sentence-transformers and transformers
    open, with a model card.

    Options:
        key: Key of a trial (`results --keys`) or aligned encoder, or a unique beginning; with
            --best the grid file.
        folder: The folder to write; nothing is overwritten.
        best: Of the grid that is named in place of a key, the trial that dev chose.
        language: Language of the texts that sentence-transformers reads, where they are given
            without one.
        register: Also register it as a version of a model in MLflow.
        push: Also copy it to the repository NAME on the Hugging Face Hub.
        private: Make that repository private, if it is a new one.
    """
    from raxalign.catalog import PluginFile
    from raxalign.extras import require
    from raxalign.grid.load import open_grid
    from raxalign.single.export import export_trial, refuse_unready
    from raxalign.single.export import push as to_hub
    from raxalign.single.place import storage_of
    from raxalign.values.results import rows
    from raxalign.values.scoreboard import Scoreboard

    if register:
        require("sentence_transformers", "--register")
    if push:
        refuse_unready(push)
    for path in plugins or ():
        PluginFile.open(path)
    if best:
        opened = open_grid(Path(key), storage=storage)
        place = opened.storage
        key, why = Scoreboard.of(rows(opened.plan, place.ledger), opened.plan).chosen_run()
        tell(why)
    else:
        place = storage_of(storage)
    found = export_trial(key, folder, storage=place, language=language, tell=tell)
    print_out(str(folder))
    if register:
        from raxalign.tracking.ui import register as into_registry

        uri = os.environ.get("MLFLOW_TRACKING_URI")
        version = into_registry(folder, found.trial.key, register, place, uri)
        tell(
            f"version {version} of the model {register} in MLflow:"
            f' mlflow.sentence_transformers.load_model("models:/{register}/{version}")'
        )
    if push:
        tell(f"pushed to {to_hub(folder, push, private=private)}")


def _named(options: Sequence[str], flag: str) -> dict[str, Path]:
    """``de=FOLDER`` texts -> language -> absolute path. Raises `RaxalignError` for what is none, or
    a language given twice.
    """
    from raxalign.errors import RaxalignError
    from raxalign.languages import language, spelled

    found: dict[str, Path] = {}
    for option in options:
        lang, equals, place = option.partition("=")
        if not equals or not lang or not place:
            raise RaxalignError(
                f"{flag} {option}: write LANGUAGE=FOLDER, for example {flag} de=pairs/de-en"
            )
        if (other := spelled(language(lang).code, found)) is not None:
            same = "" if other == lang else f", as {other}"
            raise RaxalignError(f"{flag} {option}: {lang} is given twice{same}")
        found[lang] = Path(place).expanduser().absolute()
    return found
