"""``python -m raxalign``, which like ``raxalign`` imports nothing of the working directory."""

import sys

if __name__ == "__main__":
    if not sys.flags.safe_path:
        del sys.path[0]
    from raxalign.cli import main

    main()
