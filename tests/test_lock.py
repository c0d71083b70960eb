"""cluster/requirements.lock: the versions of constraints.txt with digests of their files."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CUDA = {"cuda-bindings", "cuda-pathfinder", "cuda-toolkit", "triton"}
# what torch's build for CUDA and the extra `segment` need, and constraints.txt, of a machine
# without a GPU, does not name
MORE = CUDA | {"jieba", "pythainlp", "setuptools"}


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.fixture(scope="module")
def locked():
    """Name -> version and digests."""
    text = (ROOT / "cluster/requirements.lock").read_text().replace("\\\n", " ")
    lines = (line.replace("==", " ").split() for line in text.splitlines())
    return {normal(name): (version, digests) for name, version, *digests in lines}


def test_the_lock_names_the_versions_of_the_constraints(locked):
    lines = (line.split("==") for line in (ROOT / "constraints.txt").read_text().split())
    pinned = {normal(name): version for name, version in lines}
    assert [name for name in locked.keys() & pinned if locked[name][0] != pinned[name]] == []
    more = {name for name in locked.keys() - pinned.keys() if not name.startswith("nvidia-")}
    assert more == MORE


def test_every_file_of_the_lock_has_a_digest(locked):
    assert len(locked) > 100
    for name, (_, digests) in locked.items():
        assert digests, name
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", digest) for digest in digests), name


def test_the_lock_has_what_the_cluster_needs(locked):
    with (ROOT / "pyproject.toml").open("rb") as opened:
        project = tomllib.load(opened)["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["aws"], *extras["segment"]]
    names = {normal(re.match(r"[\w.-]+", requirement)[0]) for requirement in wanted}
    assert names <= locked.keys()
    # pip builds raxalign itself with the setuptools of the lock
    assert int(locked["setuptools"][0].split(".")[0]) >= 77
