"""Run the same experiment in raxalign and in what engineers use in its place, on one machine.

usage: python -m benchmarks.against [--trials 1000] [--seconds 1] [--workers 8] [--peers NAME...]
[--python PYTHON] [--json FILE]

Ten corpora of 2 s are made, and each of `--trials` trials reads one of them and works for
`--seconds`. All work is a sleep, which stands for that of a GPU, so that `--workers` of them fit on
two cores. When half of the trials have ended, all processes of a program are killed at once, as
when a job's time is over or a machine is lost; then the same command is started again. What that
took is read from a log that the work itself writes (`benchmarks.against.log`).

The peers run in the Python that `--python` names, into which
``pip install -r benchmarks/against/requirements.txt`` has put them; raxalign runs in this one. With
`--json` what was measured is kept in a file, and a program that it has is not run again, so that a
run can be continued.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.against import work
from benchmarks.against.log import Found, Times, measure, read
from benchmarks.against.peers import PEERS, Peer
from benchmarks.processes import DRIVER, Processes, adopt_orphans, descendants
from benchmarks.table import children

ROOT = Path(__file__).resolve().parents[2]
HEAD = (
    *("", "time / ideal", "between two", "core-s per trial", "first work", "resumed"),
    *("repeated", "lost", "lines"),
)
_LOOK, _PATIENCE = 0.05, 600.0  # seconds between two looks, and without any news
_SAMPLE = 0.5  # seconds between two looks at the processes


@dataclass(frozen=True)
class Size:
    """How many trials there are, how many seconds each works, and how many work at once."""

    trials: int
    seconds: float
    workers: int


class Experiment:
    """One program in a folder of its own.

    Args:
        peer: The program.
        size: The size of the experiment.
        python: The Python that runs it.
        folder: Where it runs; empty.
    """

    def __init__(self, peer: Peer, size: Size, python: str, folder: Path) -> None:
        self._peer, self._size, self._folder = peer, size, folder
        self._log, self._output = folder / "work.log", folder / "output.log"
        self._processes = Processes()
        count = size.trials // len(work.LANGUAGES)
        facts = {"python": python, "workers": size.workers, "count": count}
        self._command = peer.command.format(**facts)
        self._environment = {
            **os.environ,
            **{name: text.format(**facts) for name, text in peer.environment.items()},
            work.TRIALS: str(size.trials),
            work.SECONDS: str(size.seconds),
            work.WORKERS: str(size.workers),
            work.LOG: str(self._log),
            "PYTHONPATH": str(ROOT),
        }
        peer.place(folder, range(count))

    def run(self) -> Found:
        """Run the program, kill it in the middle, and run it again. Raises `SystemExit` where it
        fails or its table is not whole. Whatever happens, nothing of the program is left.
        """
        try:
            return self._run()
        finally:
            _kill_all()

    def _run(self) -> Found:
        before, start = children(), time.monotonic()
        process = self._start()
        self._wait(process, self._size.trials // 2)
        _kill_all()
        killed = time.monotonic()
        restart = time.monotonic()
        process = self._start()
        self._wait(process, None)
        end = time.monotonic()
        _kill_all()
        cores = max(children() - before, self._sampled())
        rows = len((self._folder / "results.csv").read_text("utf-8").splitlines())
        if rows < self._size.trials:
            raise SystemExit(f"{self._peer.title} has {rows} results of {self._size.trials} trials")
        return measure(
            read(self._lines()),
            Times(start, killed, restart, end, cores),
            trials=[f"trial-{language}-{n}" for language, n in self._points()],
            seconds=self._size.seconds,
            workers=self._size.workers,
        )

    def _points(self) -> list[tuple[str, int]]:
        count = self._size.trials // len(work.LANGUAGES)
        return [(language, number) for language in work.LANGUAGES for number in range(count)]

    def _start(self) -> subprocess.Popen[bytes]:
        with self._output.open("ab") as output:
            return subprocess.Popen(
                ["bash", "-c", self._command],
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _sampled(self) -> float:
        """Return the core-seconds of all processes up to the last look at each. Those that end
        between two looks, and those whose parent does not wait for them, as Ray does not, are in
        one of two counts: the larger one is the nearer.
        """
        seconds = self._processes.look().seconds
        return seconds.total() - seconds[DRIVER]

    def _lines(self) -> list[str]:
        return self._log.read_text("ascii").splitlines() if self._log.exists() else []

    def _wait(self, process: subprocess.Popen[bytes], ends: int | None) -> None:
        """Wait until a number of trials have ended, or the program itself (None)."""
        last, news, sampled = time.monotonic(), -1, 0.0
        while True:
            if time.monotonic() - sampled > _SAMPLE:
                self._sampled()
                sampled = time.monotonic()
            code = process.poll()
            lines = self._lines()
            if ends is not None and sum(line.startswith("end trial-") for line in lines) >= ends:
                return
            if code == 0 and ends is None:
                return
            silent = time.monotonic() - last > _PATIENCE
            if code is not None or silent:
                why = "nothing happened for ten minutes" if silent else f"exit code {code}"
                tail = self._output.read_text("utf-8", "replace")[-3000:]
                raise SystemExit(f"{self._peer.title}: {why}\n{tail}")
            if len(lines) != news:
                last, news = time.monotonic(), len(lines)
            time.sleep(_LOOK)


def _kill_all() -> None:
    """Kill all processes of a program, whatever group they are in."""
    while left := descendants(os.getpid()):
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.01)


def table(found: dict[str, Found]) -> str:
    """Return the table of what the programs took."""
    rows = [
        (
            PEERS[name].title,
            f"{took.ratio:.2f}",
            f"{took.gap:.3f} s",
            f"{took.cores:.2f}",
            f"{took.begun:.1f} s",
            f"{took.resumed:.1f} s",
            f"{took.repeated:.0f} s ({took.again} trials)",
            str(took.lost),
            str(PEERS[name].lines()),
        )
        for name, took in found.items()
    ]
    widths = [max(map(len, column)) for column in zip(HEAD, *rows, strict=True)]
    lines = [HEAD, ["-" * width for width in widths], *rows]
    return "\n".join(
        f"| {' | '.join(f'{text:{width}}' for text, width in zip(line, widths, strict=True))} |"
        for line in lines
    )


def kept(file: Path | None, size: Size) -> dict[str, Found]:
    """Return by the names of programs what a file has of them. Raises `SystemExit` where that was
    measured at another size.
    """
    if file is None or not file.exists():
        return {}
    facts = json.loads(file.read_text("utf-8"))
    if facts["size"] != asdict(size):
        raise SystemExit(f"{file} has {facts['size']}: name another file for {size}")
    return {name: Found(**took) for name, took in facts["found"].items()}


def main() -> None:
    """Run the programs one after the other and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--peers", nargs="+", choices=sorted(PEERS), default=list(PEERS))
    parser.add_argument("--python", default=sys.executable, help="the Python of the peers")
    parser.add_argument("--json", type=Path, help="a file that keeps what was measured")
    given = parser.parse_args()
    if given.trials < 2 * len(work.LANGUAGES) or given.trials % len(work.LANGUAGES):
        parser.error(f"--trials is a multiple of {len(work.LANGUAGES)}, from twice that on")
    size = Size(given.trials, given.seconds, given.workers)
    adopt_orphans()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    found = kept(given.json, size)
    for name in [name for name in given.peers if name not in found]:
        python = sys.executable if PEERS[name].installed else given.python
        with tempfile.TemporaryDirectory(prefix="against-", ignore_cleanup_errors=True) as folder:
            found[name] = Experiment(PEERS[name], size, python, Path(folder)).run()
        print(f"{PEERS[name].title}: {found[name]}; load {os.getloadavg()[0]:.1f}", flush=True)
        if given.json:
            facts = {"size": asdict(size), "found": {name: asdict(f) for name, f in found.items()}}
            given.json.write_text(json.dumps(facts, indent=1), "utf-8")
    print(f"\n{size}\n\n{table(found)}")


if __name__ == "__main__":
    main()
