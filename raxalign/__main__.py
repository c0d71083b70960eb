"""``python -m raxalign``."""

from raxalign.cli import main

if __name__ == "__main__":
    main()
