"""The commands that need no grid, or one encoder only: word pairs, one alignment, one evaluation,
one export.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from raxalign.cli import _complete
from raxalign.cli._terminal import (
    Device,
    Format,
    GoldFormat,
    GridFile,
    Options,
    Out,
    Overlap,
    Pivot,
    Plugins,
    Precision,
    Storage,
    Symmetrization,
    Threads,
    print_out,
    print_rows,
)
from raxalign.printing import to_stderr as tell

TextLanguage = Annotated[
    str | None,
    typer.Option(
        metavar="CODE",
        help=(
            "Language of the texts that sentence-transformers reads, where they are given without"
            " one."
        ),
    ),
]


def pairs(
    out: Out,
    source: Annotated[
        str,
        typer.Option(
            help="The corpus: a kind of `raxalign list corpora`.",
            autocompletion=_complete.kinds("corpora"),
        ),
    ],
    lang: Annotated[str, typer.Option(help="The other language.")],
    option: Options = None,
    pivot: Pivot = "en",
    sentences: Annotated[
        int | None,
        typer.Option(min=1, help="Sentence pairs, from the end of the corpus (default: all)."),
    ] = None,
    heldout: Annotated[
        int, typer.Option(min=0, help="Leave out this many lines at the end of the corpus.")
    ] = 0,
    aligner: Annotated[
        str,
        typer.Option(
            help="The word aligner: a kind of `raxalign list aligners`.",
            autocompletion=_complete.kinds("aligners"),
        ),
    ] = "eflomal",
    aligner_option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="An option of the word aligner.")
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(help="The encoder of a word aligner that reads one: a folder or a hub name."),
    ] = None,
    symmetrization: Annotated[
        Symmetrization, typer.Option(help="How the links of the two directions are combined.")
    ] = "intersection",
    one_to_one: Annotated[
        bool, typer.Option(help="Keep only links of words that have no other link.")
    ] = True,
    overlap: Annotated[
        Overlap,
        typer.Option(
            help=(
                "Drop repeated sentence pairs, and those that share a side with a held-out line, or"
                " keep them, as links made by hand need it (`aer`)."
            )
        ),
    ] = "drop",
    export_links: Annotated[
        Path | None, typer.Option(help="Also write the links to this file, as i-j (Pharaoh).")
    ] = None,
    storage: Storage = None,
    device: Device = None,
    threads: Threads = None,
    plugins: Plugins = None,
) -> None:
    """Make a word-pair dataset (`datasets.load_from_disk`) from any corpus."""
    from raxalign.plugin_files import open_file, visible
    from raxalign.single.pairs import PairsRequest, make_pairs
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
    with visible(open_file(path) for path in plugins or ()):
        notes = make_pairs(
            request,
            out,
            storage=storage_of(storage),
            export_links=export_links,
            threads=threads,
            tell=tell,
        )
    tell(f"{notes['sentence_pairs']:,} sentence pairs, {notes['word_pairs']:,} word pairs")
    print_out(str(out))


def aer(
    links: Annotated[
        Path,
        typer.Argument(
            metavar="LINKS",
            help="Links as i-j, one line per sentence pair, or a folder of `raxalign pairs`.",
        ),
    ],
    gold: Annotated[Path, typer.Argument(metavar="GOLD", help="Links made by hand.")],
    format: Annotated[  # noqa: A002
        GoldFormat, typer.Option(help="How GOLD is written: i-j and ipj, or `sentence i j [S|P]`.")
    ] = "pharaoh",
    one_based: Annotated[
        bool,
        typer.Option("--one-based", help="GOLD counts words from 1 (NAACL format always does)."),
    ] = False,
    links_one_based: Annotated[
        bool, typer.Option("--links-one-based", help="LINKS counts words from 1.")
    ] = False,
    swap: Annotated[
        bool, typer.Option("--swap", help="GOLD has its two sides in the opposite order.")
    ] = False,
) -> None:
    """Score word links against links made by hand: precision (possible links), recall (sure links),
    F1 and the alignment error rate.
    """
    from raxalign.single.aer import ErrorRateRequest, error_rate

    request = ErrorRateRequest(links, gold, format, int(one_based), int(links_one_based), swap)
    for name, value in error_rate(request, tell=tell).items():
        print_out(f"{name:<9}  {value:.4f}" if isinstance(value, float) else f"{name:<9}  {value}")


def power(
    runs: Annotated[int, typer.Option(min=2, help="Runs (seeds) of each side.")] = 5,
    examples: Annotated[
        list[int] | None,
        typer.Option(
            min=2,
            help="Test examples [default: 1000]; twice where the two sides have different ones.",
        ),
    ] = None,
    run_sd: Annotated[
        list[float] | None,
        typer.Option(
            "--run-sd",
            min=0.0,
            help="By how many points runs differ [default: 0.5]; twice for the system and for the"
            " baseline. 0: this side is not trained.",
        ),
    ] = None,
    disagree: Annotated[
        float,
        typer.Option(
            min=0.0, max=100.0, help="Percentage of examples that one system alone gets right."
        ),
    ] = 15.0,
    disagree_runs: Annotated[
        float,
        typer.Option(
            "--disagree-runs",
            min=0.0,
            max=100.0,
            help="Percentage of examples that one of two runs of a system alone gets right.",
        ),
    ] = 10.0,
    accuracy: Annotated[
        float,
        typer.Option(
            min=0.0, max=100.0, help="In percent, where the sides have different examples."
        ),
    ] = 70.0,
    detect: Annotated[
        float | None,
        typer.Option(
            min=0.01, help="A difference in points: how often it is found, and what it takes."
        ),
    ] = None,
) -> None:
    """Say which difference between two systems a comparison could see, before anything is run."""
    from raxalign.single.power import Assumed, power_lines

    given = Assumed(
        tuple(examples or (1000,)), tuple(run_sd or (0.5,)), disagree, disagree_runs, accuracy
    )
    for line in power_lines(given, runs, detect):
        print_out(line)


def align(
    method: Annotated[
        str,
        typer.Argument(
            help="A kind of `raxalign list methods`.", autocompletion=_complete.kinds("methods")
        ),
    ],
    encoder: Annotated[str, typer.Option(help="Encoder folder or hub name.")],
    pairs: Annotated[
        list[str],
        typer.Option(
            metavar="LANG=FOLDER",
            help="Word pairs of a language, from `raxalign pairs`; once per language.",
        ),
    ],
    out: Out,
    option: Options = None,
    pivot: Pivot = "en",
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
    device: Device = None,
    threads: Threads = None,
    precision: Annotated[
        Precision, typer.Option(help="Products inside the encoder, as `run.precision` of a grid.")
    ] = "fp32",
    storage: Storage = None,
    plugins: Plugins = None,
) -> None:
    """Align an encoder by one method, and write it as a Hugging Face folder with a model card."""
    from raxalign.plugin_files import open_file, visible
    from raxalign.single.align import AlignRequest, make_aligned
    from raxalign.single.pairs import parse_named
    from raxalign.single.place import storage_of

    request = AlignRequest(
        method,
        tuple(option or ()),
        encoder,
        parse_named(pairs, "--pairs"),
        pivot,
        seed,
        device,
        threads,
        precision,
    )
    with visible(open_file(path) for path in plugins or ()):
        make_aligned(request, out, storage=storage_of(storage))
    print_out(str(out))


def evaluate(
    file: GridFile,
    encoder: Annotated[
        str,
        typer.Option(
            help=(
                "Encoder folder (`raxalign align`, `raxalign export`, or any masked LM's) or hub"
                " name."
            )
        ),
    ],
    task: Annotated[
        list[str] | None,
        typer.Option(
            help="A task of the grid, by its name there (default: all).",
            autocompletion=_complete.names("task"),
        ),
    ] = None,
    language: Annotated[
        list[str] | None,
        typer.Option(
            help="A language of the grid (default: all).",
            autocompletion=_complete.names("language"),
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="One seed (default: the grid's).")] = None,
    format: Annotated[  # noqa: A002
        Format, typer.Option(help="table, json (one row per value) or csv.")
    ] = "table",
    every: Annotated[
        bool,
        typer.Option(
            "--all", help="In tables, also counts, standard errors and the two directions."
        ),
    ] = False,
    device: Device = None,
    threads: Threads = None,
    precision: Annotated[
        Precision | None,
        typer.Option(
            help="Products inside the encoder (default: `run.precision` of the grid); values of"
            " different precisions are kept apart."
        ),
    ] = None,
    storage: Storage = None,
) -> None:
    """Evaluate any encoder on the tasks of a grid, on the grid's own held-out word pairs and
    data.
    """
    from raxalign.plan.load import open_grid
    from raxalign.plan.values.remarks import remarks
    from raxalign.plan.values.results import read_records
    from raxalign.single.evaluate import EvaluateRequest, evaluate_encoder

    request = EvaluateRequest(
        encoder, tuple(task or ()), tuple(language or ()), seed, device, threads, precision
    )
    opened = open_grid(file, storage=storage)
    found, plan_ = evaluate_encoder(opened, request, tell=tell)
    print_rows(found, plan_, format, every=every)
    for remark in remarks(plan_, read_records(plan_, opened.storage.ledger)):
        tell(f"note: {remark}")


def export(
    key: Annotated[
        str,
        typer.Argument(
            help=(
                "Key of a trial (`results --format json`) or aligned encoder, or a unique"
                " beginning."
            )
        ),
    ],
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder to write; nothing is overwritten.")
    ],
    language: TextLanguage = None,
    storage: Storage = None,
    register: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Also register it as a version of a model in MLflow."),
    ] = None,
    push: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Also copy it to the repository NAME on the Hugging Face Hub."
        ),
    ] = None,
    private: Annotated[
        bool, typer.Option("--private", help="Make that repository private, if it is a new one.")
    ] = False,
    plugins: Plugins = None,
) -> None:
    """Write the aligned encoder of a trial as a folder that sentence-transformers and transformers
    open, with a model card.
    """
    from raxalign.plugin_files import open_file
    from raxalign.single.export import export_trial, refuse_unready
    from raxalign.single.export import push as to_hub
    from raxalign.single.place import storage_of

    place = storage_of(storage)
    if push:
        refuse_unready(push)
    for path in plugins or ():
        open_file(path)
    found = export_trial(key, folder, storage=place, language=language, tell=tell)
    print_out(str(folder))
    if register:
        from raxalign.tracking.models import Exported
        from raxalign.tracking.models import register as into_registry

        trial, uri = found.trial, os.environ.get("MLFLOW_TRACKING_URI")
        exported = Exported(folder, trial.key, found.plan.pivot, trial.languages)
        made = into_registry(exported, register, storage=place, uri=uri)
        tell(
            f"version {made.version} of the model {register} in MLflow:"
            f' mlflow.pyfunc.load_model("models:/{register}/{made.version}")'
        )
    if push:
        tell(f"pushed to {to_hub(folder, push, private=private)}")
