"""Hashes of rows, looked for among those that were trained on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from raxalign.tasks.transfer.fingerprints import among

HASHES = st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 3), max_size=8)


@given(HASHES, HASHES)
def test_a_hash_is_found_among_those_that_are_known_in_any_order(found, known):
    asked = np.array(found, np.int64)
    expected = [entry in known for entry in found]
    assert among(asked, np.array(known, np.int64)).tolist() == expected
    assert among(asked, np.array(sorted(known), np.int64)).tolist() == expected


@pytest.mark.parametrize("entry", [5, 2**63 - 1])
def test_what_is_larger_than_all_that_is_known_is_not_found(entry):
    assert among(np.array([entry]), np.array([1, 4])).tolist() == [False]
