"""Print the table of families as markdown: ``python -m tests.families [--quick] [NAME ...]``."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path


def main(arguments: list[str]) -> None:
    """Try the families named, or all; progress goes to stderr."""
    os.environ["TQDM_DISABLE"] = "1"
    import torch
    from transformers.utils import logging

    from tests.families.catalogue import FAMILIES
    from tests.families.table import as_markdown, examine

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    torch.set_num_threads(1)
    quick = "--quick" in arguments
    names = [name for name in arguments if name != "--quick"] or list(FAMILIES)
    rows = []
    with tempfile.TemporaryDirectory(prefix="families-") as root:
        for name in names:
            start = time.process_time()
            rows.append(examine(name, Path(root), quick=quick))
            sys.stderr.write(f"{name}: {time.process_time() - start:.1f} s of CPU\n")
    sys.stdout.write(as_markdown(rows) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
