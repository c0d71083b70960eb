"""Processes that are what actors of Tune and drivers are for `raxalign.sweep.forked`. They import
this, and so do their workers, so it imports little.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

from raxalign.sweep.forked import Libraries


def say(*words):
    sys.stdout.write(f"{' '.join(map(str, words))}\n")
    sys.stdout.flush()


def job(what, patience):
    """Say who the worker is, on its own standard output, and do what a test asks for."""
    started = subprocess.Popen(["sleep", "1000"]) if what == "hang" else None
    place = os.environ["PLACE"], str(Path.cwd()), patience(-7)
    say(os.getpid(), os.getppid(), started.pid if started else 0, place)
    if what == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "fail":
        raise ValueError("odd")
    while what == "hang":
        time.sleep(1000)


def actor(name, *modules):
    """Be an actor that reads its jobs from standard input."""
    libraries = Libraries(name, modules, {})
    for what in map(str.strip, sys.stdin):
        worker = libraries._worker()
        if worker is None:
            say(os.getpid(), 0, 0)
            continue
        try:
            worker.do(what, pickle.dumps(job), abs)
        except RuntimeError as error:
            say(error, "in job" in "".join(error.__notes__))


def driver(name):
    """Be a driver that keeps the process with the libraries."""
    with Libraries(name, (), {}).kept():
        say("kept")
        sys.stdin.read()
