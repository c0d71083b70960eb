"""Lanes: what they find, in which order, and with which settings of PyTorch."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from raxalign.similarity import Tiling, nearest_neighbors, worker_pool
from raxalign.similarity.worker_pool import lanes_for, opened, walk

SMALL = Tiling(block_bytes=8192, wide_group=8, row_group=4, column_group=4)


@pytest.fixture
def four_threads(monkeypatch):
    """Four threads of PyTorch, and lanes for the smallest work."""
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    monkeypatch.setattr(worker_pool, "_WORK", 0)
    yield
    torch.set_num_threads(before)


def at_once(jobs, lanes):
    with opened(lanes) as run:
        return run(jobs)


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
    assert lanes_for(many, many) == expected


def test_little_work_and_a_device_have_one_lane(four_threads, monkeypatch):
    few = torch.zeros(10, 3)
    assert lanes_for(few, few) == 4
    assert lanes_for(few.to("meta"), few.to("meta")) == 1
    monkeypatch.setattr(worker_pool, "_WORK", 301)
    assert lanes_for(few, few) == 1


@pytest.mark.parametrize(("number", "each"), [(2, 2), (4, 1)])
def test_lanes_share_the_threads_and_leave_all_settings_alone(four_threads, number, each):
    assert at_once([torch.get_num_threads] * 5, number) == [each] * 5
    assert at_once([default_threads] * 2, number) == [4, 4]
    assert torch.get_num_threads() == default_threads() == 4


def test_a_default_other_than_the_callers_number_stays(four_threads):
    def caller():
        assert torch.get_num_threads() == 4  # from here on the number is this thread's own
        torch.set_num_threads(2)
        set_again = threading.Thread(target=torch.set_num_threads, args=[3])
        set_again.start()
        set_again.join()
        return at_once([torch.get_num_threads] * 2, 2), torch.get_num_threads()

    with ThreadPoolExecutor(1) as executor:
        assert executor.submit(caller).result() == ([1, 1], 2)
    assert default_threads() == 3


def test_lanes_of_several_callers_leave_the_default_alone(four_threads):
    begin = threading.Barrier(3)

    def call():
        begin.wait(timeout=30)
        return [at_once([torch.get_num_threads] * 2, 2) for _ in range(20)]

    with ThreadPoolExecutor(3) as executor:
        for found in executor.map(lambda _: call(), range(3)):
            assert found == [[2, 2]] * 20
    assert default_threads() == 4


def test_jobs_run_at_the_same_time_and_their_results_come_in_their_order():
    together = threading.Barrier(2)
    assert sorted(at_once([lambda: together.wait(timeout=30)] * 2, 2)) == [0, 1]
    for lanes in (1, 2, 3):
        assert at_once([lambda: "a", lambda: 2, lambda: None], lanes) == ["a", 2, None]


def test_jobs_run_in_the_callers_modes_of_autograd():
    modes = [torch.is_grad_enabled, torch.is_inference_mode_enabled]
    assert at_once(modes, 2) == [True, False]
    with torch.no_grad():
        assert at_once(modes, 2) == [False, False]
    with torch.inference_mode():
        assert at_once(modes, 2) == [False, True]


@pytest.mark.parametrize("number", [1, 2, 3, 4])
@pytest.mark.parametrize(("rows", "columns"), [(4, 5), (1, 1), (5, 2), (7, 3)])
def test_a_walk_visits_every_cell_once(number, rows, columns):
    """No two cells of a row or of a column at a time, and each in the order of every run."""
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

    runs = []
    for _ in range(2):
        visited.clear()
        walk(range(rows), range(columns), visit, number)
        runs.append(visited.copy())
    assert sorted(runs[0]) == [(row, column) for row in range(rows) for column in range(columns)]
    for side, size in enumerate((rows, columns)):
        for place in range(size):
            orders = [[cell for cell in run if cell[side] == place] for run in runs]
            assert orders[0] == orders[1]


@pytest.mark.parametrize("number", [1, 2, 3])
def test_the_error_of_a_visit_ends_a_walk(number):
    visited = []

    def visit(lane, row, column):
        visited.append((row, column))
        if (row, column) == (2, 1):
            raise ValueError("a visit failed")

    with pytest.raises(ValueError, match="a visit failed"):
        walk(range(6), range(4), visit, number)
    assert (2, 1) in visited
    assert (5, 1) not in visited


@pytest.mark.parametrize("measure", ["csls", "released_cao"])
@pytest.mark.parametrize("threads", [2, 3, 4])
def test_lanes_find_what_one_thread_finds(four_threads, monkeypatch, measure, threads):
    """Many vectors are equal to others, so that ties are decided too; twice, in inference mode, and
    on vectors with gradients.
    """
    g = torch.Generator().manual_seed(0)
    x, y = torch.randn(300, 8, generator=g), torch.randn(200, 8, generator=g)
    x, y = torch.cat([x, y[:40], x[:50]]), torch.cat([y, x[:70]])
    torch.set_num_threads(threads)
    seen, take = set(), nearest_neighbors.__globals__["ScaledVectors"].take

    def noted(self, places):
        seen.add(threading.get_ident())
        return take(self, places)

    monkeypatch.setattr("raxalign.similarity.neighbors.ScaledVectors.take", noted)
    found = [nearest_neighbors(x, y, measure=measure, tiling=SMALL) for _ in range(2)]
    assert len(seen) >= threads
    with torch.inference_mode():
        found.append(nearest_neighbors(x * 1, y * 1, measure=measure, tiling=SMALL))
    torch.set_num_threads(1)
    alone = nearest_neighbors(x, y, measure=measure, tiling=SMALL)
    torch.set_num_threads(threads)
    found.append(nearest_neighbors(x.requires_grad_(), y, measure=measure, tiling=SMALL))
    for other in found:
        assert all(torch.equal(*pair) for pair in zip(other, alone, strict=True))
