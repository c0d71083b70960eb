"""Times before and after a first run: by the size of the work, corrected by what was measured."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import raxalign as rx
from raxalign.config.grid import load
from raxalign.plan.estimates.disk import estimate_disk
from raxalign.plan.estimates.forecast import (
    GPU,
    TOKENS,
    OtherWork,
    Speed,
    Work,
    core_speed,
    forecast,
    other_work,
    quicker_links,
    start_seconds,
    worker_speed,
)
from raxalign.plan.expansion.expand import expand
from raxalign.plan.plan import Plan
from raxalign.plan.stage import Stage
from tests.grids import write_grid

SPEED = Speed(1.2e11, 1.2e11)


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    tasks = ("retrieval: {}", "xnli: {data: phrasebook, epochs: 2, phrasebook: {train: 900}}")
    return expand(load(write_grid(tmp_path, tasks=tasks, sentences="[100, 200]")))


def of(plan: Plan, kind: str, **params: object) -> list[str]:
    return [
        key
        for key, stage in plan.stages.items()
        if stage.kind == kind and params.items() <= stage.params.items()
    ]


def test_every_stage_of_a_plan_has_a_time_before_a_first_run(plan: Plan) -> None:
    left = [key for key, stage in plan.stages.items() if not stage.inline]
    found = forecast(plan, {}, left, SPEED)
    assert set(found.seconds) == set(left)
    assert found.unknown == {}
    assert found.total == pytest.approx(sum(found.kinds.values()))
    assert "before a first run" in found.told(1)


def test_a_pre_training_costs_six_operations_per_parameter_and_token(plan: Plan) -> None:
    (key,) = of(plan, "encoder")
    blocks = 2 * (4 * 32 * 32 + 2 * 32 * 64 + 9 * 32 + 64)
    tokens = 30 * 16 * 64  # steps, rows and window
    operations = 6 * tokens * (blocks + 400 * 32)
    assert Work(plan, SPEED).seconds(key) == pytest.approx(operations / (1.2e11 / 2))


def test_a_training_costs_its_pairs_and_epochs(plan: Plan) -> None:
    work = Work(plan, SPEED)
    by_size: dict[float, set[float | None]] = {}
    for key in of(plan, "aligned"):
        if plan.stages[key].maker == "finetune":
            pairs = next(k for n, k in plan.stages[key].inputs.items() if n.startswith("pairs"))
            by_size.setdefault(work.sentences(pairs), set()).add(work.seconds(key))
    small, large = (by_size[size].pop() for size in sorted(by_size))
    assert sorted(by_size) == [100, 200]
    blocks = 2 * (4 * 32 * 32 + 2 * 32 * 64 + 9 * 32 + 64)
    each = 2 * TOKENS * 8 * blocks / (1.2e11 / 2) + 2 * 4e-4  # of both sides, and a frozen copy
    assert large is not None
    assert small is not None
    assert large - small == pytest.approx(100 * each)


def test_a_faster_machine_takes_less(plan: Plan) -> None:
    left = list(plan.stages)
    slow, fast = (forecast(plan, {}, left, speed).total for speed in (SPEED, Speed(2.4e11, 2.4e11)))
    assert fast == pytest.approx(slow / 2)


def test_a_gpu_makes_models_faster_and_not_data(plan: Plan) -> None:
    (encoder,), pairs = of(plan, "encoder"), of(plan, "pairs")[0]
    with_gpu = Work(plan, Speed(1.2e13, 1.2e11))
    assert with_gpu.seconds(pairs) == Work(plan, SPEED).seconds(pairs)
    assert with_gpu.seconds(encoder) == pytest.approx(
        (Work(plan, SPEED).seconds(encoder) or 0) / 100
    )


def test_what_has_run_corrects_its_own_kind(plan: Plan) -> None:
    small, large = (of(plan, "bitext", sentences=size)[0] for size in (100, 200))
    work = Work(plan, SPEED)
    a, b = work.seconds(small), work.seconds(large)
    assert a is not None
    assert b is not None
    (encoder,), pairs = of(plan, "encoder"), of(plan, "pairs")[0]
    found = forecast(plan, {small: 3 * a}, [large, encoder, pairs], SPEED)
    assert found.seconds[large] == pytest.approx(3 * b)
    assert found.seconds[pairs] == pytest.approx(work.seconds(pairs))
    assert found.seconds[encoder] == pytest.approx(work.seconds(encoder))
    assert found.measured == 1
    assert "1 of 3 from what has run in this storage" in found.told(1)


def test_several_workers_are_never_faster_than_the_longest_stage(plan: Plan) -> None:
    (encoder,) = of(plan, "encoder")
    text = forecast(plan, {encoder: 100.0}, [encoder], SPEED).told(4)
    assert text.startswith("time, about: 2 min of worker time, 2 min with 4 workers (from what")
    assert forecast(plan, {}, [], SPEED).told(2) == "nothing is left to run"


def test_the_start_of_ray_counts_until_the_end_and_not_as_work(plan: Plan) -> None:
    (encoder,) = of(plan, "encoder")
    found = forecast(plan, {encoder: 45.0}, [encoder], SPEED)
    assert found.told(1).startswith("time, about: 40 s of worker time (from what")
    start = start_seconds(SPEED.core, ray=True)
    assert (start, start_seconds(SPEED.core / 2, ray=False)) == (10.0, 8.0)
    assert "time, about: 40 s of worker time, 60 s with the start of Ray (" in found.told(1, start)
    assert ", 60 s with 2 workers and the start of Ray (" in found.told(2, start)


def test_a_busy_machine_is_named_with_its_load_and_a_quiet_one_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert OtherWork(0.0, 4).note(100) == ""  # workers of a cluster are elsewhere
    assert OtherWork(6.0, 2).note(2) == (
        "other work has a load of 6.0 on the 2 cores of this machine; while that lasts, all takes"
        " longer"
    )
    assert OtherWork(0.9, 2).note(2) == ""
    monkeypatch.setattr("raxalign.plan.estimates.forecast.os.getloadavg", lambda: (2.5, 9.0, 9.0))
    monkeypatch.setattr("raxalign.plan.estimates.forecast.os.cpu_count", lambda: 4)
    assert other_work() == OtherWork(2.0, 4)


def test_pairs_that_are_cut_out_of_a_larger_run_cost_what_is_cut_out(tmp_path: Path) -> None:
    def trainings(align_on: str) -> list[float | None]:
        methods = ("finetune: {epochs: 2}",)
        path = write_grid(tmp_path, sentences="[100, 200]", methods=methods)
        text = path.read_text(encoding="utf-8").replace(
            "{aligner:", f"{{align_on: {align_on}, aligner:"
        )
        path.write_text(text, encoding="utf-8")
        plan = expand(load(path))
        work = Work(plan, SPEED)
        return sorted(work.seconds(key) or 0 for key in of(plan, "aligned"))

    assert trainings("largest") == trainings("own")


def test_data_of_unknown_size_has_no_time_and_is_named(tmp_path: Path) -> None:
    tasks = ("xnli: {data: {train: 'a.{pivot}.tsv', dev: 'b.{lang}.tsv'}}",)
    for name in ("a.en", "b.en", "b.de", "b.fr"):
        text = "premise\thypothesis\tlabel\nA\tB\tneutral\n"
        (tmp_path / f"{name}.tsv").write_text(text, encoding="utf-8")
    plan = expand(load(write_grid(tmp_path, tasks=tasks)))
    tuned = of(plan, "tuned")
    found = forecast(plan, {}, tuned, SPEED)
    assert found.unknown == {"tuned": len(tuned)}
    assert "not known before something like it has run" in found.told(1)
    everything = forecast(plan, {}, [*tuned, *of(plan, "bitext")], SPEED)
    assert everything.told(1).startswith("time, at least: ")
    assert forecast(plan, {}, of(plan, "bitext"), SPEED).told(1).startswith("time, about: ")
    one, *others = tuned
    assert forecast(plan, {one: 5.0}, others, SPEED).total == 5.0 * len(others)


def test_the_speed_is_that_of_additions_per_second(monkeypatch: pytest.MonkeyPatch) -> None:
    for tick, speed in ((0.01, 4650 * 5e5), (0.005, 4650 * 1.5e6)):
        clock = (tick * number for number in range(100))
        monkeypatch.setattr(
            "raxalign.plan.estimates.forecast.time.thread_time", lambda clock=clock: next(clock)
        )
        assert core_speed() == pytest.approx(speed)
    monkeypatch.setattr("raxalign.plan.estimates.forecast.core_speed", lambda: 3.0)
    assert worker_speed(2, gpu=False) == Speed(6.0, 3.0)
    assert worker_speed(2, gpu=True) == Speed(GPU, 3.0)


@pytest.mark.parametrize(
    ("aligner", "seconds", "named"),
    [("eflomal", 100.0, True), ("eflomal", 0.001, False), ("fast_align", 100.0, False)],
)
def test_a_quicker_word_aligner_is_named_where_links_take_most_of_the_time(
    tmp_path: Path, aligner: str, seconds: float, named: bool
) -> None:
    plan = expand(load(write_grid(tmp_path, aligner=aligner)))
    left = [key for key, stage in plan.stages.items() if not stage.inline]
    times = forecast(plan, dict.fromkeys(of(plan, "pairs"), seconds), left, SPEED)
    found = quicker_links(plan, times)
    assert ("`pairs: {aligner: fast_align}` is much quicker" in found) is named
    assert found.startswith("  most of it is eflomal, about ") is named
    assert "most of it" not in quicker_links(plan, forecast(plan, {}, [], SPEED))


ALL = 1_000_000_000


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        pytest.param({"sentences": 300, "corpus": {"size": 600}}, 300, id="some of a corpus"),
        pytest.param({"sentences": ALL, "corpus": {"size": 600}}, 600, id="all of it"),
        pytest.param({"sentences": ALL, "corpus": {"path": "x"}}, math.inf, id="all of a file"),
        pytest.param({"sentences": 300, "corpus": {"path": "x"}}, 300, id="some of a file"),
        pytest.param({"part": "heldout", "split": {"test": 150, "dev": 60}}, 210, id="held out"),
    ],
)
def test_a_bitext_has_what_is_asked_for_and_no_more_than_its_corpus(params, expected) -> None:
    stage = Stage("bitext", "x", 1, params)
    plan = Plan("", "en", 0, (), {stage.key: stage}, {})
    assert Work(plan).sentences(stage.key) == expected


def test_all_text_of_a_file_has_no_estimate_and_all_of_a_sized_corpus_its_own(
    tmp_path: Path,
) -> None:
    for lang in ("de", "en"):
        (tmp_path / f"plain.{lang}").write_text("Hallo .\n")
    sized = "{source: phrasebook, size: 40, seed: 1}"
    file = f"{{source: moses, path: {tmp_path}/plain}}"
    found = {}
    for name, text in (("sized", sized), ("file", file)):
        grid = tmp_path / f"{name}.yaml"
        grid.write_text(
            f"name: {name}\nencoder: phrasebook\nlanguages: {{together: [de]}}\n"
            "corpus: {source: phrasebook, size: 60, split: {test: 10, dev: 10}}\nsentences: [20]\n"
            f"text: {text}\nmethods: {{mlm: {{epochs: 1}}}}\ntasks: {{retrieval: {{}}}}\n"
        )
        plan = rx.plan(grid, storage=str(tmp_path / "storage")).plan
        work, disk = Work(plan, SPEED), estimate_disk(plan, {})
        texts = {key for key, stage in plan.stages.items() if stage.kind == "text"}
        aligned = {key for key, stage in plan.stages.items() if stage.kind == "aligned"}
        assert texts
        assert aligned
        found[name] = [work.seconds(key) for key in texts | aligned], disk.unknown.get("text")
    assert all(seconds is not None and seconds < 60 for seconds in found["sized"][0])
    assert found["sized"][1] is None
    assert set(found["file"][0]) == {None}
    assert found["file"][1] == 2
