"""Everything but one mapping is in pyproject.toml: the wheel carries the repository's grids as
``raxalign/grids``, for `raxalign init`.
"""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["raxalign*"]), "raxalign.grids"],
    package_dir={"raxalign.grids": "grids"},
)
