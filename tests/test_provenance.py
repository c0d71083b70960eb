"""The commit that results record."""

import subprocess

import pytest

from raxalign import provenance

COMMIT = "5127a8b5127a8b5127a8b5127a8b5127a8b5127a"


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A package in a folder without a repository, as in a container."""
    package = tmp_path / "raxalign"
    package.mkdir()
    monkeypatch.setattr(provenance, "__file__", str(package / "provenance.py"))
    monkeypatch.delenv("RAXALIGN_COMMIT", raising=False)
    provenance.commit.cache_clear()
    yield tmp_path
    provenance.commit.cache_clear()


@pytest.mark.parametrize(
    ("described", "expected"),
    [
        ("", {}),
        (COMMIT, {"commit": COMMIT, "dirty": "false"}),
        (f"{COMMIT}-dirty\n", {"commit": COMMIT, "dirty": "true"}),
    ],
)
def test_without_a_repository_a_variable_names_the_commit(
    installed, monkeypatch, described, expected
):
    monkeypatch.setenv("RAXALIGN_COMMIT", described)
    assert provenance.commit() == expected


def test_a_repository_goes_before_the_variable(installed, monkeypatch):
    def git(*arguments):
        who = ("-c", "user.name=a", "-c", "user.email=a@b")
        done = subprocess.run(
            ["git", *who, *arguments], cwd=installed, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    git("init", "-q")
    (installed / "raxalign" / "a.py").write_text("a = 1\n")
    git("add", ".")
    git("commit", "-qm", "a")
    (installed / ".git" / "config").unlink()  # as cluster.yaml sends it: it may hold passwords
    monkeypatch.setenv("RAXALIGN_COMMIT", COMMIT)
    assert provenance.commit() == {"commit": git("rev-parse", "HEAD"), "dirty": "false"}
    (installed / "raxalign" / "a.py").write_text("a = 2\n")
    provenance.commit.cache_clear()
    assert provenance.commit()["dirty"] == "true"


def test_results_say_what_computed_them_and_with_which_python():
    assert provenance.versions()["python"].count(".") == 2
    assert provenance.machine("cpu").endswith(" cores")
