"""Nearest neighbours against a brute-force oracle in float64, ties, cuts and bad input; and lanes:
what they find, in which order, and with which settings of PyTorch.
"""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from raxalign.similarity import measures, neighbors
from raxalign.similarity.measures import MEASURES, Scaled, hubness
from raxalign.similarity.neighbors import Tiling, lanes_for, nearest_neighbors, opened, walk

SMALL = Tiling(block_bytes=2048, row_group=4, column_group=4, wide_group=8)
SIZES = [st.integers(1, most) for most in (30_000, 20, 20, 30)]
TILINGS = st.builds(Tiling, *SIZES, st.sampled_from([100, 2**20]))
CASES = {"n": st.integers(1, 60), "m": st.integers(1, 60), "k": st.integers(1, 70)}
CASES |= {"seed": st.integers(0, 10_000), "tiling": TILINGS}


def transported(s, temperature):
    """log P of the plan after ten rounds of Sinkhorn, with uniform marginals (Cuturi 2013,
    algorithm 1): u = a / K v and v = b / Kᵀ u, from v = 1 on.
    """
    n, m = s.shape
    a, b, v = np.full(n, 1 / n), np.full(m, 1 / m), np.ones(m)
    kernel = np.exp((s - s.max()) / temperature)
    for _ in range(10):
        u = a / (kernel @ v)
        v = b / (kernel.T @ u)
    plan = u[:, None] * kernel * v
    assert np.allclose(plan.sum(0), b)
    return torch.from_numpy(np.log(plan))


def scores(x, y, measure, k):
    """Both directions' full score matrices in float64, by the definitions."""
    x, y = x.double(), y.double()
    if measure == "dot":
        return x @ y.T, x @ y.T
    if measure == "euclidean":
        return -(torch.cdist(x, y) ** 2), -(torch.cdist(x, y) ** 2)
    unit_x, unit_y = (torch.nn.functional.normalize(side, dim=1) for side in (x, y))
    if measure == "cosine":
        return unit_x @ unit_y.T, unit_x @ unit_y.T
    if measure == "inverted_softmax":  # T log p, with the temperature T
        s = unit_x @ unit_y.T
        return s - 0.05 * (s / 0.05).logsumexp(0), s - 0.05 * (s / 0.05).logsumexp(1)[:, None]
    if measure == "sinkhorn":
        s = (unit_x @ unit_y.T).numpy()
        return transported(s, 0.05), transported(s.T, 0.05).T
    if measure in ("csls", "margin"):
        whole_x, whole_y = unit_x, unit_y
    else:
        whole_x, whole_y = x / x.norm(), y / y.norm()
    s = whole_x @ whole_y.T
    r_x, r_y = s.topk(min(k, len(y)), 1).values.mean(1), s.topk(min(k, len(x)), 0).values.mean(0)
    terms = r_x[:, None] + r_y[None]
    if measure == "margin":
        return 2 * s / terms.clamp(min=1e-6), 2 * s / terms.clamp(min=1e-6)
    return 2 * unit_x @ whole_y.T - terms, 2 * whole_x @ unit_y.T - terms


def assert_nearest(x, y, measure, k, tiling=None, tolerance=1e-9):
    """Each answer's score is the best of the oracle's, and where the oracle has one clear winner it
    is the answer.
    """
    forward, backward = nearest_neighbors(x, y, measure=measure, k=k, tiling=tiling)
    assert forward.dtype == backward.dtype == torch.int64
    assert forward.shape == (len(x),)
    assert backward.shape == (len(y),)
    ahead, back = scores(x, y, measure, k)
    for scored_NM, answers in ((ahead, forward), (back.T, backward)):
        own, best = scored_NM.gather(1, answers[:, None])[:, 0], scored_NM.max(1).values
        assert torch.allclose(own, best, rtol=0, atol=tolerance)


def clouds(n, m, dim, seed=0, dtype=torch.float64):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, dim, generator=g, dtype=dtype) + 0.5
    y = torch.randn(m, dim, generator=g, dtype=dtype)
    y = y * torch.linspace(0.5, 2, m, dtype=dtype)[:, None] + 0.5
    common = min(n, m)
    y[:common] += x[:common]
    return x, y


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize(("n", "m"), [(70, 53), (1, 40), (40, 1), (1, 1), (3, 3)])
def test_agrees_with_brute_force(measure, n, m):
    assert_nearest(*clouds(n, m, 12), measure, 10)
    assert_nearest(*clouds(n, m, 12, seed=1), measure, 10, SMALL)


@settings(max_examples=40, deadline=None)
@given(**CASES, measure=st.sampled_from(sorted(MEASURES)))
def test_no_cut_changes_the_answer(n, m, k, seed, measure, tiling):
    assert_nearest(*clouds(n, m, 5, seed), measure, k, tiling)


def crowded(n, seed=0):
    """Unit vectors of two sides that lie between a common direction and noise, each at a place of
    its own: hubness terms range from 0 to 1.
    """
    g = torch.Generator().manual_seed(seed)
    sides = [torch.randn(n, 16, generator=g) + 5 * torch.rand(n, 1, generator=g) for _ in range(2)]
    return [torch.nn.functional.normalize(side, dim=1) for side in sides]


@pytest.fixture
def computed(monkeypatch):
    """The numbers of queries and candidates that the second pass multiplies at a time."""
    found, look = [], neighbors._Best.look

    def noted(self, some, start, count):
        found.append((len(some), min(count, len(self.penalties) - start)))
        look(self, some, start, count)

    monkeypatch.setattr(neighbors._Best, "look", noted)
    return found


@pytest.mark.parametrize("vectors", [clouds(600, 550, 16, dtype=torch.float32), crowded(600)])
def test_bounds_leave_few_candidates_to_compute_again(vectors, computed):
    assert_nearest(*vectors, "csls", 10, Tiling(column_group=4, wide_group=8), tolerance=1e-5)
    again = sum(queries * candidates for queries, candidates in computed)
    assert again < 0.2 * 2 * len(vectors[0]) * len(vectors[1])


def test_every_similarity_is_computed_once_more_where_bounds_exclude_nothing(computed):
    """All vectors are alike but for rounding, so that no group's bound excludes it."""
    x = 1 + 1e-7 * torch.randn(60, 5, generator=torch.Generator().manual_seed(0))
    tiling = Tiling(row_group=4, column_group=4, wide_group=4)
    assert_nearest(x, x[:50], "csls", 10, tiling, tolerance=1e-5)
    assert sum(queries * candidates for queries, candidates in computed) == 2 * 60 * 50


@settings(max_examples=40, deadline=None)
@given(**CASES)
def test_the_first_pass_finds_the_nearest_with_many_ties(n, m, k, seed, tiling):
    """Small whole numbers: many similarities are equal, and their sums are exact."""
    g = torch.Generator().manual_seed(seed)
    x, y = (torch.randint(-2, 3, (size, 3), generator=g).double() for size in (n, m))
    sides = map(neighbors.ScaledVectors.of, (x, y))
    found = neighbors.nearest_both(*sides, k, tiling)
    for nearest, similarities in zip(found, (x @ y.T, y @ x.T), strict=True):
        own, others = similarities.shape
        best = similarities.topk(min(k, others), 1).values
        assert torch.equal(nearest.values.sort(1, descending=True).values, best)
        assert torch.equal(similarities.gather(1, nearest.places), nearest.values)
        assert all(len(set(places)) == len(places) for places in nearest.places.tolist())
        peaks = [part.amax(1) for part in torch.split(similarities, nearest.group, dim=1)]
        assert torch.equal(nearest.peaks, torch.stack(peaks))
        assert nearest.peaks.shape[1] == own


def test_vectors_are_read_in_parts(monkeypatch):
    x, y = clouds(90, 70, 4)
    whole = nearest_neighbors(x, y, k=3, tiling=SMALL)
    for name in ("neighbors._READ", "neighbors._CACHED"):
        monkeypatch.setattr(f"raxalign.similarity.{name}", 7)
    parts = nearest_neighbors(x, y, k=3, tiling=SMALL)
    assert all(torch.equal(*pair) for pair in zip(parts, whole, strict=True))


def test_identical_rows_have_the_index_of_the_first():
    begin = torch.ones(1, 20)
    vectors = torch.cat([begin, torch.cat([begin[:, :19], begin[:, 19:] * 2], 1), begin, begin * 3])
    assert neighbors.first_twin(vectors).tolist() == [0, 1, 0, 3]
    assert neighbors.first_twin(vectors.flip(0)).tolist() == [0, 1, 2, 1]


@pytest.mark.parametrize("measure", MEASURES)
def test_ties_go_to_the_lower_index(measure):
    x = torch.randn(21, 7, generator=torch.Generator().manual_seed(3))
    doubled = x.repeat(3, 1)
    forward, backward = nearest_neighbors(doubled, doubled, measure=measure, k=4, tiling=SMALL)
    once, _ = nearest_neighbors(doubled, doubled, measure=measure, k=4)
    assert forward.max() < 21
    assert backward.max() < 21
    assert torch.equal(forward, once)
    assert torch.equal(forward[:21], forward[21:42])


def test_views_half_precision_zeros_and_vectors_far_from_the_origin_are_read():
    x, y = clouds(30, 40, 8, dtype=torch.float32)
    before = x.clone(), y.clone()
    expected, doubled = nearest_neighbors(x, y), [torch.cat([side, side], 1) for side in (x, y)]
    for views in ((x.T.contiguous().T, y.T.contiguous().T), (doubled[0][:, 8:], doubled[1][:, :8])):
        assert all(map(torch.equal, nearest_neighbors(*views), expected))
    assert all(map(torch.equal, (x, y), before))
    assert_nearest(x.half(), y.half(), "csls", 10, tolerance=1e-5)
    y = torch.tensor([[0.0, 1.0], [-0.0, 1.0]])  # a tie
    assert nearest_neighbors(torch.tensor([[0.0, 2.0]]), y)[0].tolist() == [0]
    x, y = torch.tensor([[1.0, 0.0], [-1.0, 0.0]]), torch.tensor([[-1.0, 0.0], [0.0, 0.0]])
    assert nearest_neighbors(x, y, measure="cosine")[0].tolist() == [1, 0]
    # At 10,000 a square has a rounding error of 8 in float32, larger than these distances.
    x = torch.linspace(0, 1, 11)[:, None] + 10_000
    found, _ = nearest_neighbors(x, x.flip(0), measure="euclidean")
    assert found.tolist() == list(range(10, -1, -1))


def test_ascending_data_is_exact_too():
    """Every later row and column is nearer than all before: each block replaces the running
    neighbours.
    """
    x = torch.linspace(0.1, 5, 100, dtype=torch.float64)[:, None]
    assert_nearest(x, x * 2, "dot", 10, SMALL)
    angle = torch.linspace(0, 1.5, 100, dtype=torch.float64)
    x = torch.stack([angle.cos(), angle.sin()], 1)
    up = torch.tensor([[0.0, 1.0]], dtype=torch.float64)
    assert_nearest(x, up.repeat(7, 1), "csls", 10, SMALL)


ONES = torch.ones(2, 3)


@pytest.mark.parametrize(
    ("source", "target", "options", "word"),
    [
        (ONES, torch.ones(2, 4), {}, "equal dimensions"),
        (torch.ones(3), ONES, {}, "equal dimensions"),
        (ONES, torch.ones(0, 3), {}, "target has no vectors"),
        (torch.ones(0, 3), ONES, {}, "source has no vectors"),
        (ONES, ONES.double(), {}, "one float type"),
        (ONES.int(), ONES.int(), {}, "one float type"),
        (ONES, torch.tensor([[1.0, float("nan"), 0.0]]), {}, "target has values"),
        (torch.tensor([[1.0, float("inf")]]), torch.ones(2, 2), {}, "source has values"),
        (ONES, ONES, {"k": 0}, "at least one"),
        (ONES, ONES, {"measure": "euclid"}, "unknown measure"),
        (ONES, ONES, {"temperature": 0.0}, "temperature is 0"),
    ],
)
def test_bad_input_is_an_error(source, target, options, word):
    with pytest.raises(ValueError, match=word):
        nearest_neighbors(source, target, **options)


def test_hubness_is_the_mean_similarity_to_the_k_nearest(monkeypatch):
    others = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    vectors = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    for rows in (1024, 1):
        monkeypatch.setattr(measures, "_ROWS", rows)
        assert hubness(vectors, others, 2).tolist() == pytest.approx([(1 + 0.6) / 2, (1 + 0.8) / 2])
        assert hubness(vectors, others, 9).tolist() == pytest.approx([1.6 / 3, 1.8 / 3])


@pytest.mark.parametrize("measure", MEASURES)
def test_scores_of_all_candidates_find_the_same_neighbours(measure):
    x, y = clouds(40, 31, 6)
    forward, backward = nearest_neighbors(x, y, measure=measure, k=3)
    for queries, candidates, found in ((x, y, forward), (y, x, backward)):
        sides = Scaled.of(queries, candidates, measure)
        terms = sides.terms(sides.candidates, 3)
        assert torch.equal(terms.applied(sides.queries @ sides.candidates.T).argmax(1), found)
    if measure == "cosine":
        mutual = [(i, j) for i, j in enumerate(forward.tolist()) if backward[j] == i]
        assert Scaled.of(x, y, "cosine").mutual_nearest() == mutual
        assert Scaled.of(x[:0], y, "cosine").mutual_nearest() == []


@pytest.mark.parametrize("measure", ["inverted_softmax", "sinkhorn"])
def test_a_temperature_changes_these_measures_and_they_find_each_candidate_more_evenly(measure):
    """Where one target is near to all sources, a low temperature and a high one differ."""
    x, y = clouds(60, 60, 5, seed=3)
    y[0] = x.mean(0)
    found = {
        t: nearest_neighbors(x, y, measure=measure, temperature=t)[0] for t in (0.01, 0.05, 5.0)
    }
    assert not torch.equal(found[0.01], found[5.0])
    plain = nearest_neighbors(x, y, measure="cosine")[0]
    assert len(found[0.05].unique()) > len(plain.unique())


LITTLE = Tiling(block_bytes=8192, wide_group=8, row_group=4, column_group=4)


@pytest.fixture
def four_threads(monkeypatch):
    """Four threads of PyTorch, and lanes for the smallest work."""
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    monkeypatch.setattr(neighbors, "_WORK", 0)
    yield
    torch.set_num_threads(before)


def at_once(jobs, lanes):
    with opened(lanes) as run:
        return run(jobs)


def default_threads():
    """The number of PyTorch threads that a new thread gets."""
    with ThreadPoolExecutor(1) as executor:
        return executor.submit(torch.get_num_threads).result()


def test_lanes_divide_the_threads_and_little_work_and_a_device_have_one(four_threads, monkeypatch):
    few, many = torch.zeros(10, 3), torch.zeros(1, 1).expand(2**15, 2**15)
    assert lanes_for(few, few) == 4
    assert lanes_for(few.to("meta"), few.to("meta")) == 1
    monkeypatch.setattr(neighbors, "_WORK", 301)
    assert lanes_for(few, few) == 1
    for threads, expected in {1: 1, 2: 2, 3: 3, 4: 4, 5: 1, 6: 3, 16: 4}.items():
        monkeypatch.setattr(torch, "get_num_threads", lambda number=threads: number)
        assert lanes_for(many, many) == expected


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
        return [at_once([torch.get_num_threads] * 2, 2) for _ in range(10)]

    with ThreadPoolExecutor(3) as executor:
        for found in executor.map(lambda _: call(), range(3)):
            assert found == [[2, 2]] * 10
    assert default_threads() == 4


def test_jobs_run_at_the_same_time_in_the_callers_modes_and_their_results_come_in_order():
    together = threading.Barrier(2)
    assert sorted(at_once([lambda: together.wait(timeout=30)] * 2, 2)) == [0, 1]
    for lanes in (1, 2, 3):
        assert at_once([lambda: "a", lambda: 2, lambda: None], lanes) == ["a", 2, None]
    modes = [torch.is_grad_enabled, torch.is_inference_mode_enabled]
    assert at_once(modes, 2) == [True, False]
    with torch.no_grad():
        assert at_once(modes, 2) == [False, False]
    with torch.inference_mode():
        assert at_once(modes, 2) == [False, True]


@pytest.mark.parametrize(
    ("number", "rows", "columns"), [(1, 4, 5), (2, 1, 1), (2, 7, 3), (3, 4, 5), (4, 5, 2)]
)
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


@pytest.mark.parametrize(("measure", "threads"), [("csls", 4), ("released_cao", 2)])
def test_lanes_find_what_one_thread_finds(four_threads, monkeypatch, measure, threads):
    """Many vectors are equal to others, so that ties are decided too; twice, in inference mode, and
    on vectors with gradients.
    """
    g = torch.Generator().manual_seed(0)
    x, y = torch.randn(150, 8, generator=g), torch.randn(100, 8, generator=g)
    x, y = torch.cat([x, y[:20], x[:25]]), torch.cat([y, x[:35]])
    torch.set_num_threads(threads)
    seen, take = set(), nearest_neighbors.__globals__["ScaledVectors"].take

    def noted(self, places):
        seen.add(threading.get_ident())
        return take(self, places)

    def found(x, y):
        return nearest_neighbors(x, y, measure=measure, tiling=LITTLE)

    monkeypatch.setattr("raxalign.similarity.neighbors.ScaledVectors.take", noted)
    by_lanes = [found(x, y), found(x, y), found(x.clone().requires_grad_(), y)]
    assert len(seen) >= threads
    with torch.inference_mode():
        by_lanes.append(found(x * 1, y * 1))
    torch.set_num_threads(1)
    alone = found(x, y)
    for other in by_lanes:
        assert all(torch.equal(*pair) for pair in zip(other, alone, strict=True))
