"""Lanes: what they find, in which order, and with which settings of PyTorch."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from raxalign.similarity import Tiling, nearest_neighbors, worker_pool

SMALL = Tiling(block_bytes=8192, wide_group=8, row_group=4, column_group=4)


@pytest.fixture
def four_threads(monkeypatch):
    """Four threads of PyTorch, and lanes for the smallest work."""
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    monkeypatch.setattr(worker_pool, "_WORK", 0)
    yield
    torch.set_num_threads(before)


def default_threads():
    """The number of PyTorch threads that a new thread gets."""
    with ThreadPoolExecutor(1) as executor:
        return executor.submit(torch.get_num_threads).result()


@pytest.mark.parametrize(
    ("threads", "expected"), [(1, 1), (2, 2), (3, 3), (4, 4), (5, 1), (6, 3), (16, 4)]
)
def test_lanes_divide_the_threads(monkeypatch, threads, expected):
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    many = torch.zeros(1, 1).expand(2**15, 2**15)
    assert worker_pool.lanes_for(many, many) == expected


def test_little_work_and_a_device_have_one_lane(four_threads, monkeypatch):
    few = torch.zeros(10, 3)
    assert worker_pool.lanes_for(few, few) == 4
    assert worker_pool.lanes_for(few.to("meta"), few.to("meta")) == 1
    monkeypatch.setattr(worker_pool, "_WORK", 301)
    assert worker_pool.lanes_for(few, few) == 1


@pytest.mark.parametrize(("number", "each"), [(2, 2), (4, 1)])
def test_lanes_share_the_threads_and_leave_all_settings_alone(four_threads, number, each):
    counts = worker_pool.at_once([torch.get_num_threads] * 5, number)
    assert counts == [each] * 5
    assert torch.get_num_threads() == 4
    assert default_threads() == 4


def test_a_default_other_than_the_callers_number_stays(four_threads):
    def caller():
        assert torch.get_num_threads() == 4  # from here on the number is this thread's own
        torch.set_num_threads(2)
        set_again = threading.Thread(target=torch.set_num_threads, args=[3])
        set_again.start()
        set_again.join()
        return worker_pool.at_once([torch.get_num_threads] * 2, 2), torch.get_num_threads()

    with ThreadPoolExecutor(1) as executor:
        assert executor.submit(caller).result() == ([1, 1], 2)
    assert default_threads() == 3


def test_new_threads_get_the_default_while_lanes_work(four_threads):
    assert worker_pool.at_once([default_threads] * 2, 2) == [4, 4]


def test_lanes_of_several_callers_leave_the_default_alone(four_threads):
    begin = threading.Barrier(3)

    def call():
        begin.wait(timeout=30)
        return [worker_pool.at_once([torch.get_num_threads] * 2, 2) for _ in range(20)]

    with ThreadPoolExecutor(3) as executor:
        for found in executor.map(lambda _: call(), range(3)):
            assert found == [[2, 2]] * 20
    assert default_threads() == 4


@pytest.mark.parametrize("number", [1, 2, 3])
def test_results_come_in_the_order_of_their_jobs(number):
    assert worker_pool.at_once([lambda: "a", lambda: 2, lambda: None, lambda: 4.0], number) == [
        "a",
        2,
        None,
        4.0,
    ]


def test_jobs_run_at_the_same_time():
    together = threading.Barrier(2)
    assert sorted(worker_pool.at_once([lambda: together.wait(timeout=30)] * 2, 2)) == [0, 1]


@pytest.mark.parametrize("number", [1, 2])
def test_the_error_of_a_job_reaches_the_caller(number):
    def fail():
        raise KeyError("here")

    with pytest.raises(KeyError, match="here"):
        worker_pool.at_once([lambda: 1, fail], number)


def test_jobs_run_in_the_callers_modes_of_autograd():
    modes = [torch.is_grad_enabled, torch.is_inference_mode_enabled]
    assert worker_pool.at_once(modes, 2) == [True, False]
    with torch.no_grad():
        assert worker_pool.at_once(modes, 2) == [False, False]
    with torch.inference_mode():
        assert worker_pool.at_once(modes, 2) == [False, True]


@pytest.mark.parametrize("number", [1, 2, 3, 4])
@pytest.mark.parametrize(("rows", "columns"), [(4, 5), (1, 1), (5, 2), (7, 3)])
def test_a_walk_visits_every_cell_once(number, rows, columns):
    """No two cells of a row or of a column at a time, and each in an order of its own."""
    busy, visited, lock = Counter(), [], threading.Lock()

    def visit(lane, row, column):
        keys = ("row", row), ("column", column), ("lane", lane)
        with lock:
            busy.update(keys)
            assert busy.most_common(1)[0][1] == 1
            visited.append((row, column))
        torch.ones(50, 50) @ torch.ones(50, 50)
        with lock:
            busy.subtract(keys)

    worker_pool.walk(range(rows), range(columns), visit, number)
    assert sorted(visited) == [(row, column) for row in range(rows) for column in range(columns)]
    turns = [
        (row, column) for _, row, column in worker_pool._turns(range(rows), range(columns), number)
    ]
    for row in range(rows):
        assert [cell for cell in visited if cell[0] == row] == [c for c in turns if c[0] == row]
    for column in range(columns):
        assert [c for c in visited if c[1] == column] == [c for c in turns if c[1] == column]


@pytest.mark.parametrize("number", [1, 2, 3])
def test_the_error_of_a_visit_ends_a_walk(number):
    visited = []

    def visit(lane, row, column):
        visited.append((row, column))
        if (row, column) == (2, 1):
            raise ValueError("a visit failed")

    with pytest.raises(ValueError, match="a visit failed"):
        worker_pool.walk(range(6), range(4), visit, number)
    assert (2, 1) in visited
    assert (5, 1) not in visited
    assert worker_pool.at_once([lambda: 1, lambda: 2], 2) == [1, 2]


@pytest.mark.parametrize("measure", ["csls", "released_cao"])
@pytest.mark.parametrize("threads", [2, 3, 4])
def test_lanes_find_what_one_thread_finds(four_threads, monkeypatch, measure, threads):
    """Many vectors are equal to others, so that ties are decided too."""
    g = torch.Generator().manual_seed(0)
    x, y = torch.randn(300, 8, generator=g), torch.randn(200, 8, generator=g)
    x, y = torch.cat([x, y[:40], x[:50]]), torch.cat([y, x[:70]])
    torch.set_num_threads(threads)
    opened, walked = [], worker_pool._turns

    def noted(rows, columns, number):
        opened.append((len(rows), len(columns), number))
        return walked(rows, columns, number)

    monkeypatch.setattr(worker_pool, "_turns", noted)
    found = nearest_neighbors(x, y, measure=measure, tiling=SMALL)
    [(rows, columns, number)] = opened
    assert number == threads
    assert columns >= threads <= rows
    again = nearest_neighbors(x, y, measure=measure, tiling=SMALL)
    torch.set_num_threads(1)
    alone = nearest_neighbors(x, y, measure=measure, tiling=SMALL)
    assert len(opened) == 2
    for some, same, expected in zip(found, again, alone, strict=True):
        assert torch.equal(some, expected)
        assert torch.equal(same, expected)


def test_lanes_work_in_inference_mode_and_on_vectors_with_gradients(four_threads):
    g = torch.Generator().manual_seed(0)
    x, y = torch.randn(90, 6, generator=g), torch.randn(70, 6, generator=g)
    expected = nearest_neighbors(x, y, tiling=SMALL)
    with torch.inference_mode():
        inside = nearest_neighbors(x * 1, y * 1, tiling=SMALL)
    for found in (inside, nearest_neighbors(x.requires_grad_(), y, tiling=SMALL)):
        assert all(torch.equal(*pair) for pair in zip(found, expected, strict=True))


def test_values_that_are_not_finite_are_refused_in_lanes(four_threads):
    x = torch.ones(20, 3)
    y = x.clone()
    y[7, 1] = float("nan")
    with pytest.raises(ValueError, match="target has values that are NaN"):
        nearest_neighbors(x, y, tiling=SMALL)
    assert torch.get_num_threads() == 4
