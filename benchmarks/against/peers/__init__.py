"""The programs that are compared, one small folder or file each as its users write it, and how each
is started.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.against.work import LANGUAGES

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Peer:
    """A program.

    Attributes:
        title: What it is, for the table.
        files: The files that its users write, copied into the folder in which it runs. In them
            ``@NUMBERS@`` stands for the numbers of a language's trials.
        command: What is typed into a shell, the same at each start; ``{python}`` is the peers' own
            Python. It leaves `results.csv`, with one line per trial.
        environment: Variables that stand for a machine with a core for each worker, where the
            program has no option for that: ``{workers}`` is their number.
        installed: Whether it runs in the Python that runs the benchmark, and not in the peers'.
    """

    title: str
    files: tuple[str, ...]
    command: str
    environment: Mapping[str, str] = field(default_factory=dict)
    installed: bool = False

    def place(self, folder: Path, numbers: range) -> None:
        """Write the files into a folder."""
        for name in self.files:
            text = (HERE / name).read_text("utf-8")
            listed = ", ".join(map(str, numbers))
            (folder / Path(name).name).write_text(text.replace("@NUMBERS@", listed), "utf-8")

    def lines(self) -> int:
        """Count the lines that users write: those of the files that are neither blank nor comments
        nor docstrings, and the parts of the command.
        """
        texts = ((HERE / name).read_text("utf-8") for name in self.files)
        return sum(map(code_lines, texts, self.files)) + len(self.command.split(" && "))


def code_lines(text: str, name: str) -> int:
    """Count the lines of a file that are neither blank nor comments, nor docstrings of Python."""
    lines = text.splitlines()
    told = {
        number
        for node in (ast.walk(ast.parse(text)) if name.endswith(".py") else ())
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        for number in range(node.lineno - 1, node.end_lineno or node.lineno)
    }
    bare = (line.strip() for number, line in enumerate(lines) if number not in told)
    return sum(bool(line) and not line.startswith("#") for line in bare)


_ALIKE = {"RAY_worker_niceness": "0"}  # or any other program of the machine comes before workers
_EACH = ",".join(LANGUAGES)
_HYDRA = f"{{python}} hydra_joblib.py --multirun language={_EACH}"
PEERS = {
    "raxalign": Peer(
        "raxalign",
        tuple(
            f"raxalign/{name}"
            for name in ("grid.yaml", "slow_corpus.py", "slow_method.py", "reading.py")
        ),
        "{python} -m raxalign grid grid.yaml --trust"
        " && {python} -m raxalign results grid.yaml --format csv > results.csv",
        {"RAY_OVERRIDE_RESOURCES": '{{"CPU": {workers}}}', **_ALIKE},
        installed=True,
    ),
    "ray-tune": Peer("Ray Tune", ("ray_tune.py",), "{python} ray_tune.py", _ALIKE),
    "exca": Peer("exca", ("exca_map.py",), "{python} exca_map.py"),
    "submitit": Peer("submitit", ("submitit_local.py",), "{python} submitit_local.py"),
    "snakemake": Peer(
        "Snakemake",
        ("Snakefile", "snakemake_step.py"),
        "{python} -m snakemake --cores {workers} --rerun-incomplete --nolock",
    ),
    "hydra": Peer(
        "Hydra",
        ("hydra_joblib.py", "hydra_joblib.yaml"),
        f"{_HYDRA} stage=corpus && {_HYDRA} 'number=range(0,{{count}})'"
        " && cat scores/* > results.csv",
    ),
}
