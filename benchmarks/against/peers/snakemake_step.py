"""The script of the two rules in the Snakefile. Snakemake defines the name `snakemake` in it."""
# ruff: noqa: F821

import json
from pathlib import Path

from benchmarks.against import work

wildcards = snakemake.wildcards
if snakemake.rule == "corpus":
    made = work.corpus(wildcards.language)
else:
    text = json.loads(Path(snakemake.input[0]).read_text("utf-8"))
    made = work.trial(wildcards.language, int(wildcards.number), text)
Path(snakemake.output[0]).write_text(json.dumps(made), "utf-8")
