"""Which idle workers Tune keeps between two steps."""

from __future__ import annotations

import pytest

from raxalign.sweep.tuner import KEPT, IdleWorkers

CORE, GPU = "one core", "one GPU"


class Worker:
    """A worker that Tune knows."""


class Clock:
    """A clock that is set by hand."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def idle(clock: Clock) -> IdleWorkers:
    return IdleWorkers(clock=clock)


def test_all_workers_stay_when_several_end_before_the_next_steps_are_there(idle) -> None:
    workers = [Worker() for _ in range(4)]
    assert all(idle.cache_object(CORE, worker) for worker in workers)
    assert list(idle.flush_cached_objects()) == []
    assert [idle.pop_cached_object(CORE) for _ in workers] == workers
    assert idle.pop_cached_object(CORE) is None
    assert idle.num_cached_objects == 0


def test_workers_stay_beside_a_step_that_waits_for_one_of_them(idle) -> None:
    idle.increase_max(CORE)
    workers = [Worker(), Worker()]
    assert all(idle.cache_object(CORE, worker) for worker in workers)
    assert list(idle.flush_cached_objects()) == []


def test_workers_end_when_a_step_waits_that_needs_something_else(idle) -> None:
    workers = [Worker(), Worker()]
    for worker in workers:
        idle.cache_object(CORE, worker)
    idle.increase_max(GPU)
    assert list(idle.flush_cached_objects()) == workers
    assert not idle.cache_object(CORE, Worker())
    assert idle.cache_object(GPU, Worker())


def test_all_but_one_worker_end_after_a_minute_without_a_step(idle, clock) -> None:
    first, second = Worker(), Worker()
    idle.cache_object(CORE, first)
    clock.now += 1.0
    idle.cache_object(CORE, second)
    clock.now += KEPT - 1.5
    assert list(idle.flush_cached_objects()) == []
    clock.now += 0.5
    assert list(idle.flush_cached_objects()) == [first]
    clock.now += 10 * KEPT
    assert list(idle.flush_cached_objects()) == []
    assert idle.pop_cached_object(CORE) is second


def test_all_workers_end_with_the_sweep(idle) -> None:
    workers = [Worker(), Worker()]
    for worker in workers:
        idle.cache_object(CORE, worker)
    assert list(idle.flush_cached_objects(force_all=True)) == workers
    assert idle.num_cached_objects == 0
