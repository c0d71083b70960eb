"""The metadata of the package, as an index shows it, and what installs and releases it."""

import re
import shutil
import subprocess
import sys
import tomllib
from email import message_from_string
from pathlib import Path

import pytest
import yaml
from packaging.specifiers import SpecifierSet

from raxalign.version import VERSION

ROOT = Path(__file__).parent.parent
BUILD = "from setuptools.build_meta import prepare_metadata_for_build_wheel as p; print(p('out'))"


@pytest.mark.slow
def test_an_index_shows_the_readme_without_links_to_files_that_it_does_not_have(tmp_path):
    for name in ("README.md", "LICENSE", "pyproject.toml", "setup.py"):
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "raxalign").mkdir()
    for name in ("__init__.py", "version.py"):
        shutil.copy(ROOT / "raxalign" / name, tmp_path / "raxalign" / name)
    shutil.copytree(ROOT / "grids", tmp_path / "grids")
    (tmp_path / "out").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", BUILD], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    folder = tmp_path / "out" / done.stdout.split()[-1]
    shown = message_from_string((folder / "METADATA").read_text(encoding="utf-8"))
    text = str(shown.get_payload())
    assert shown["Description-Content-Type"] == "text/markdown"
    assert "# raxalign" in text
    assert "as one HTML page (tutorial)." in text
    assert re.findall(r"\]\((?!https?:)[^)]*\)", text) == []
    assert "Keywords" in shown


@pytest.fixture(scope="module")
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_citation_and_the_changelog_name_the_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## \[(\d\S*)\] - (\d{4}-\d\d-\d\d)$", changelog, re.MULTILINE)
    assert newest
    assert (citation["version"], citation["date-released"]) == newest.groups()
    assert citation["version"] == VERSION
    # what an archive needs for a DOI
    needed = ("title", "abstract", "authors", "keywords", "license", "version", "date-released")
    assert all(citation[name] for name in needed)


def made(folder, *arguments, path="/usr/bin:/bin"):
    """Run make there, with these programs on the PATH alone."""
    return subprocess.run(
        ["make", *arguments], cwd=folder, env={"PATH": path}, capture_output=True, text=True
    )


def test_make_setup_takes_uv_if_it_is_there_and_the_versions_of_the_constraints_by_either(tmp_path):
    (tmp_path / "uv").write_text("#!/bin/sh\n")
    (tmp_path / "uv").chmod(0o755)
    system, both = "/usr/bin:/bin", f"{tmp_path}:/usr/bin:/bin"
    for given, path, by_uv in ([], system, False), ([], both, True), (["UV="], both, False):
        told = made(ROOT, "-n", "setup", f"VENV={tmp_path}/new", *given, path=path).stdout
        installs = [part for part in re.split(r"&&|\n", told) if "pip install" in part]
        assert installs
        assert all("--constraint constraints.txt" in line for line in installs)
        assert all((f"{tmp_path}/uv pip" in line) == by_uv for line in installs)
        assert ("--torch-backend auto" in told) == by_uv


def test_a_release_is_of_a_commit_without_a_tag_and_is_uploaded_by_nobody(tmp_path):
    folder = tmp_path / "checkout"
    (folder / "raxalign").mkdir(parents=True)
    shutil.copy(ROOT / "Makefile", folder)
    shutil.copy(ROOT / "raxalign" / "version.py", folder / "raxalign")
    who = ("-c", "user.name=a", "-c", "user.email=a@b.c")

    def git(*arguments):
        subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)

    git("init")
    git("add", "--all")
    git("commit", "--message", "one")
    (folder / "more.txt").write_text("not committed")
    refused = made(folder, "release")
    assert refused.returncode == 2
    assert "release: git status lists changes: commit or remove them" in refused.stderr
    (folder / "more.txt").unlink()
    git("tag", f"v{VERSION}")
    refused = made(folder, "release")
    assert refused.returncode == 2
    assert f"release: the tag v{VERSION} is there: raise VERSION in" in refused.stderr
    steps = made(folder, "-n", "release").stdout
    assert "twine upload" not in steps
    assert "git push" not in steps
    clean = "--only-binary :all:"  # what every installation has comes as wheels: nothing compiles
    wanted = ("twine check", clean, "grid quickstart.yaml", "git tag --annotate")
    order = [steps.index(step) for step in wanted]
    assert order == sorted(order)


@pytest.mark.parametrize("name", ["Dockerfile", ".readthedocs.yaml", "cluster/skypilot.yaml"])
def test_files_for_other_machines_name_a_python_files_and_extras_that_there_are(name, project):
    text = (ROOT / name).read_text(encoding="utf-8")
    named = set(re.findall(r"(?:FROM python:|python: \"|--python )(\d\.\d+)", text))
    assert named == {"3.12"}, "that of cluster/requirements.lock"
    assert SpecifierSet(project["requires-python"]).contains(*named)
    files = re.findall(r"(?:--requirement|--constraint|configuration:) (\S+)", text)
    assert files
    assert all((ROOT / file).is_file() for file in files)
    for extras in re.findall(r"\.\[([\w,]+)\]", text):
        assert set(extras.split(",")) <= project["optional-dependencies"].keys()
    if name == ".readthedocs.yaml":
        assert yaml.safe_load(text)["version"] == 2
