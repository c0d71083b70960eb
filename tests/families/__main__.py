"""Print the table of families as markdown: ``python -m tests.families [--quick] [NAME ...]``."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TextIO


def main(arguments: list[str]) -> None:
    """Try the families named, or all; progress goes to stderr."""
    os.environ["TQDM_DISABLE"] = "1"
    import torch
    from transformers.utils import logging

    from tests.families.catalogue import FAMILIES
    from tests.families.table import errors, examine, heading, line

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    torch.set_num_threads(1)
    quick = "--quick" in arguments
    names = [name for name in arguments if name != "--quick"] or list(FAMILIES)
    rows = []
    _write(sys.stdout, heading())
    with tempfile.TemporaryDirectory(prefix="families-") as root:
        for name in names:
            start = time.process_time()
            rows.append(examine(name, Path(root), quick=quick))
            _write(sys.stdout, line(rows[-1]))
            seconds = time.process_time() - start
            _write(sys.stderr, f"{name}: {seconds:.1f} s of CPU")
    _write(sys.stdout, f"\n{errors(rows)}")


def _write(stream: TextIO, text: str) -> None:
    """Write a line at once: a run that is stopped leaves what it found."""
    stream.write(f"{text}\n")
    stream.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
