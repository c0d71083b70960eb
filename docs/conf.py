"""How the pages of docs/ become a site: `make docs` builds it, warnings as errors."""

import re

from sphinx.application import Sphinx

from raxalign.version import VERSION

project = "raxalign"
author = "the authors of raxalign"
copyright = author  # noqa: A001 Sphinx reads this name
version = release = VERSION

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
templates_path: list[str] = []

# Headings of all pages can be linked to; the generated pages go down to the options of a kind.
myst_heading_anchors = 4
# Docstrings set names between single backticks.
default_role = "literal"
autodoc_preserve_defaults = True
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"

html_theme = "furo"
html_title = f"raxalign {VERSION}"
html_copy_source = False

# What readers search for, and where it is: a page, or a heading of one. Each is a main entry of the
# index, which the search of the site puts first; written here, since generated pages have some.
SEARCHED = {
    "index#Citation": "citation, cite, BibTeX, references.bib",
    "how-to/install": "installation, pip, uv, CUDA, compiler",
    "how-to/own-text": "custom dataset, own data, parallel corpus",
    "how-to/own-text#In a notebook": "notebook, Jupyter, pandas",
    "how-to/results#Tables": "CSV, JSON, tables",
    "how-to/search": "hyperparameter, hyperparameter search, tuning, Optuna, pruning",
    "how-to/interruptions": "resume, restart, checkpoint, crash, preemption, Ctrl-C",
    "how-to/report": "LaTeX, HTML report, figures",
    "how-to/mlflow": "MLflow, experiment tracking, wandb, Weights & Biases, TensorBoard",
    "how-to/cluster": "cluster, Ray, multi-node",
    "how-to/cluster#Slurm": "Slurm, sbatch, HPC",
    "how-to/cluster#Nodes without a network": "offline, HF_HUB_OFFLINE",
    "how-to/gpus": "GPU, mixed precision, bf16, fp16",
    "how-to/gpus#Where memory runs out": "out of memory, OOM, gradient checkpointing",
    "how-to/object-stores": "S3, bucket, cloud storage",
    "how-to/plugins": "custom method, custom task, extension",
    "explanation/numbers#Words and subword tokens": "tokenizer, tokeniser, subword, WordPiece",
    "explanation/numbers#Zero-shot transfer": "zero-shot, cross-lingual transfer",
    "explanation/statistics": "significance, significance test, confidence interval, p-value, Holm",
    "explanation/statistics#Minimum detectable effect": "power analysis, effect size, sample size",
    "explanation/architecture#Determinism": "determinism, reproducibility",
    "reference/grid-file#Sections": "seed, seeds, random seed, YAML",
    "reference/training": "learning rate, batch size, epochs, warm-up, weight decay",
    "reference/aligners": "word alignment, fast_align, eflomal",
    "reference/methods/finetune": "lambda, λ, regulariser, regularisation, fine-tuning",
    "reference/methods/none": "baseline",
    "reference/methods/rotation": "Procrustes, orthogonal mapping",
}


def _add_searched(_: object, page: str, source: list[str]) -> None:
    """Put the entries of a page under their headings."""
    for place, words in SEARCHED.items():
        name, _, heading = place.partition("#")
        if name == page:
            entries = ", ".join(f"! {word}" for word in words.split(", "))
            below = rf"\g<0>\n\n```{{index}} {entries}\n```\n"
            line = rf"^#+ {re.escape(heading) or '.*'}$"
            source[0], count = re.subn(line, below, source[0], count=1, flags=re.MULTILINE)
            if not count:
                raise ValueError(f"docs/conf.py: {page} has no heading {heading}")


def setup(app: Sphinx) -> None:
    """Connect what adds entries to the index."""
    app.connect("source-read", _add_searched)
