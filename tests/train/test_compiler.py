"""What torch.compile needs on a machine."""

from __future__ import annotations

import pytest

from raxalign.errors import DependencyError
from raxalign.train import precision
from raxalign.train.precision import check_compiler


def test_a_missing_compiler_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(DependencyError, match=r"C\+\+ compiler \(no-such-compiler\)"):
        check_compiler("cpu")


def test_a_compiler_that_is_there_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "sh")
    check_compiler("cpu")


def test_a_card_requires_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "sh")
    monkeypatch.setattr(precision, "find_spec", lambda name: None)
    with pytest.raises(DependencyError, match="package triton"):
        check_compiler("cuda:0")
