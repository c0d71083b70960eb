"""The precision of products, and what torch.compile needs on a machine."""

from __future__ import annotations

import pytest
import torch

from raxalign.errors import DependencyError, ResourceError
from raxalign.train import precision
from raxalign.train.precision import arithmetic, check_compiler, check_precision


def test_bf16_rounds_products_and_leaves_the_weights_alone() -> None:
    weight = torch.randn(8, 8, generator=torch.Generator().manual_seed(0)).requires_grad_()
    with arithmetic("bf16", "cpu"):
        product = weight @ weight
    assert product.dtype == torch.bfloat16
    product.float().sum().backward()
    assert weight.dtype == torch.float32
    assert weight.grad is not None
    assert weight.grad.dtype == torch.float32


def test_tf32_holds_within_its_block_alone() -> None:
    before = torch.get_float32_matmul_precision()
    with arithmetic("tf32", "cpu"):
        assert torch.get_float32_matmul_precision() == "high"
    assert torch.get_float32_matmul_precision() == before


def test_tf32_is_refused_where_nothing_computes_in_it() -> None:
    with pytest.raises(ResourceError, match=r"run\.precision: tf32 requires an NVIDIA card"):
        check_precision("tf32", "cpu")
    check_precision("bf16", "cpu")
    check_precision("fp32", "cpu")


def test_a_missing_compiler_is_named_and_a_card_requires_triton(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(DependencyError, match=r"C\+\+ compiler \(no-such-compiler\)"):
        check_compiler("cpu")
    monkeypatch.setenv("CXX", "sh")
    check_compiler("cpu")
    monkeypatch.setattr(precision, "find_spec", lambda name: None)
    with pytest.raises(DependencyError, match="package triton"):
        check_compiler("cuda:0")
