import numpy as np

from raxalign.arrays import offsets_of, ranges


def test_offsets_are_where_rows_begin_and_the_last_one_ends():
    assert offsets_of([2, 0, 3]).tolist() == [0, 2, 2, 5]
    assert offsets_of(np.array([True, False, True])).tolist() == [0, 1, 1, 2]


def test_offsets_are_int64_whatever_the_lengths_are():
    large = np.array([2**31 - 1, 2**31 - 1], np.int32)
    for lengths in ([], np.zeros(0, np.int32), large, np.ones(3, bool)):
        assert offsets_of(lengths).dtype == np.int64
    assert offsets_of(large).tolist() == [0, 2**31 - 1, 2**32 - 2]


def test_ranges_are_the_entries_of_rows_in_their_order():
    index, owners = ranges(np.array([0, 2, 2, 5]), np.array([2, 1, 0, 2]))
    assert index.tolist() == [2, 3, 4, 0, 1, 2, 3, 4]
    assert owners.tolist() == [0, 0, 0, 2, 2, 3, 3, 3]
