"""eflomal (Östling & Tiedemann 2016), called as a program: Gibbs sampling of IBM 1, an HMM and
fertilities.

It seeds itself from the system: two runs differ in about 40 % of the sentences. It lower-cases, and
finds no links in sentences of 1,024 words and more. It is GPL-3 and therefore never imported.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from raxalign.children import child_environment
from raxalign.errors import DependencyError, RaxalignError, TransientError
from raxalign.lazy import pa, pc
from raxalign.options.params import Removed
from raxalign.pairing.aligners.base import AlignerInputs, WordAligner
from raxalign.pairing.links import Links
from raxalign.pairing.words import Words

_PROGRAM, _AT_ONCE = "eflomal-align", 8192  # sentences that are written at once


class Eflomal(WordAligner):
    """Runs `eflomal-align` once for both directions.

    The program is given numbers in place of words, so that words may hold spaces or `|||`; they are
    lower-cased before they are numbered. Two threads are of use, one per direction. It has no seed,
    and two runs differ in about 40 % of the sentences; `thot` is the same model with a seed, and
    `fast_align` the quick choice. `pip install 'raxalign[eflomal]'` installs it, by a C compiler.

    Data: the sentence pairs alone; the more, the better.

    Reference: Östling & Tiedemann 2016, Efficient word alignment with Markov Chain Monte Carlo.

    Relations: `thot` has links that do not change from run to run and needs no program.

    Example:
        pairs:
          aligner: eflomal
          symmetrization: intersection
          one_to_one: true
    """

    VERSION: ClassVar[int] = 1
    papers = ("ostling2016",)
    QUICKER: ClassVar[str] = "fast_align"
    STOCHASTIC: ClassVar[bool] = True

    class Params(WordAligner.Params):
        """The program's own options and defaults."""

        removed: ClassVar = {
            "model": Removed("leave it out: fertilities are trained", 3),
            "length": Removed("leave it out: the program chooses the number of iterations", 1.0),
            "samplers": Removed("leave it out: there are three samplers", 3),
            "null_prior": Removed("leave it out: the prior of no link is 0.2", 0.2),
        }
        lowercase: bool = Field(True, description=WordAligner.LOWERCASE)

    params: Params

    def missing(self) -> list[str]:
        """Return how the program is installed, where it is not."""
        if _find_program() is not None:
            return []
        return [
            f"pairs.aligner: eflomal: the program {_PROGRAM} is neither beside {sys.executable} nor"
            " on the PATH. Run: pip install 'raxalign[eflomal]' (it needs a C compiler), or take"
            " `aligner: thot`, which needs none"
        ]

    def align(
        self, src: Sequence[Sequence[str]], tgt: Sequence[Sequence[str]], inputs: AlignerInputs
    ) -> tuple[Links, Links]:
        """Both directions' links. Raises `DependencyError` without the program, `RaxalignError`
        with its last words where it fails.
        """
        program = _find_program()
        if program is None:
            raise DependencyError(*self.missing())
        if not len(src):
            return Links.of([]), Links.of([])
        inputs.work.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="eflomal-", dir=inputs.work) as scratch:
            folder = Path(scratch)
            _write_numbers(folder / "src", Words.of(src), self.params.lowercase)
            _write_numbers(folder / "tgt", Words.of(tgt), self.params.lowercase)
            options = {
                "--model": 3,
                "--length": 1.0,
                "--n-samplers": 3,
                "--null-prior": 0.2,
                "-s": folder / "src",
                "-t": folder / "tgt",
                "-f": folder / "forward",
                "-r": folder / "reverse",
            }
            arguments = [str(part) for option in options.items() for part in option]
            _run([program, *arguments], folder, inputs.threads)
            forward, reverse = (
                _read_output(folder / name, len(src)) for name in ("forward", "reverse")
            )
            return forward, reverse


def _find_program() -> str | None:
    beside = Path(sys.executable).parent / _PROGRAM
    return str(beside) if os.access(beside, os.X_OK) else shutil.which(_PROGRAM)


def _write_numbers(path: Path, words: Words, lowercase: bool) -> None:
    """One sentence per line, each word as its number."""
    codes, _ = words.folded(lowercase=lowercase)
    with path.open("w", encoding="ascii", newline="\n") as file:
        for at in range(0, len(words), _AT_ONCE):
            offsets = words.offsets[at : at + _AT_ONCE + 1]
            numbers = pa.array(codes[offsets[0] : offsets[-1]]).cast(pa.string())
            rows = pa.ListArray.from_arrays(pa.array(offsets - offsets[0], pa.int32()), numbers)
            file.writelines(f"{line}\n" for line in pc.binary_join(rows, " ").to_pylist())


def _run(command: list[str], folder: Path, threads: int) -> None:
    """Run the program in a process group of its own: it starts another, which has to end with us
    too.
    """
    environment = child_environment({"OMP_NUM_THREADS": str(threads), "TMPDIR": str(folder)})
    with (folder / "stderr").open("wb") as stderr:
        try:
            process = subprocess.Popen(
                command,
                env=environment,
                stdout=stderr,
                stderr=stderr,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            raise DependencyError(
                f"{command[0]} cannot be run ({error}); install it again with `pip install"
                " --force-reinstall eflomal`"
            ) from error
        try:
            code = process.wait()
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
    if code:
        raise _failure(code, (folder / "stderr").read_text(encoding="utf-8", errors="replace"))


def _failure(code: int, output: str) -> RaxalignError:
    last = "\n".join(f"  {line}" for line in output.strip().splitlines()[-5:])
    if code < 0 or "SIGKILL" in output:
        return TransientError(
            f"{_PROGRAM} was killed, perhaps for want of memory; it last said:\n{last}"
        )
    return RaxalignError(f"{_PROGRAM} failed with exit code {code}; it last said:\n{last}")


def _read_output(path: Path, n: int) -> Links:
    links = Links.read(path) if path.exists() else Links.of([])
    if len(links) != n:
        raise RaxalignError(
            f"{_PROGRAM} wrote {path.name} links of {len(links)} sentence pairs, {n} were given; is"
            " the disk full?"
        )
    return links
