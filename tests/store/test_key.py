"""Identity: the same value has the same key anywhere, another value another."""

import math
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raxalign.store.key import canonical_json, digest, file_digest

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def same(left, right):
    """Equality as keys see it: 1 is 1.0, but not True; NaN is NaN; a tuple is a list."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[name], right[name]) for name in left)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    nan = all(isinstance(side, float) and math.isnan(side) for side in (left, right))
    return nan or bool(left == right)


def reordered(value):
    if isinstance(value, dict):
        return {name: reordered(value[name]) for name in reversed(value)}
    return [reordered(entry) for entry in value] if isinstance(value, list) else value


def retyped(value):
    """Every whole number as the other of the two number types, where that is exact; every list as a
    tuple.
    """
    if isinstance(value, dict):
        return {name: retyped(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return tuple(retyped(entry) for entry in value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53:
        return float(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


@settings(max_examples=30)
@given(VALUES)
def test_the_order_of_keys_and_the_type_of_whole_numbers_and_lists_do_not_matter(value):
    assert digest(reordered(value)) == digest(retyped(value)) == digest(value)


@settings(max_examples=30)
@given(VALUES, VALUES)
def test_keys_are_equal_exactly_where_values_are(left, right):
    assert (digest(left) == digest(right)) == same(left, right)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        *((1, "1"), (1, True), (0, False), (None, "null"), (math.nan, "NaN"), ("é", "e\u0301")),
        *((math.inf, -math.inf), (math.nan, {"float": "nan"}), ([], {}), ([[1], 2], [1, [2]])),
        ({"a": 1, "b": 2}, {"a": 2, "b": 1}),
    ],
)
def test_values_that_look_alike_differ(left, right):
    assert digest(left) != digest(right)


def test_a_key_never_changes_between_versions():
    found = canonical_json({"λ": 1.0, "b": [1.5, None, True], "a": (2, "x")})
    assert found == '{"a":[2,"x"],"b":[1.5,null,true],"λ":1}'
    assert digest({}) == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"


@pytest.mark.parametrize(
    "value", [b"bytes", {1: 2}, {1, 2}, object(), [bytearray(b"x")], {"path": os}]
)
def test_what_json_has_no_form_for_is_refused(value):
    with pytest.raises(TypeError):
        digest(value)


def test_file_digest_is_the_sha256_of_the_bytes(tmp_path):
    (tmp_path / "empty").write_bytes(b"")
    known = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert file_digest(tmp_path / "empty") == known
