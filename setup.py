"""What pyproject.toml cannot say: the wheel carries the repository's grids as ``raxalign/grids``,
for `raxalign init`; and a package index, which has none of the repository's files, shows README.md
without its pictures and without the links to them.
"""

import re
from pathlib import Path

from setuptools import find_packages, setup

README = (Path(__file__).parent / "README.md").read_text(encoding="utf-8")
SHOWN = re.sub(r"!\[[^\]]*\]\((?!https?:)[^)]+\)\n*", "", README)

setup(
    packages=[*find_packages(include=["raxalign*"]), "raxalign.grids"],
    package_dir={"raxalign.grids": "grids"},
    long_description=re.sub(r"\[([^\]]+)\]\((?!https?:)[^)]+\)", r"\1", SHOWN),
    long_description_content_type="text/markdown",
)
