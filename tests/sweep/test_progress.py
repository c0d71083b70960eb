"""What a person sees: plain lines where there is no terminal, and not too many."""

import io
import threading

import pytest
from rich.console import Console

from raxalign.sweep.events import (
    Advanced,
    Began,
    GroupsWaiting,
    JobEnded,
    Over,
    Planned,
    Said,
    Waiting,
)
from raxalign.sweep.job import Advance
from raxalign.sweep.progress import Progress, describe, describe_stage
from tests.grids import of_kind, small_plan
from tests.sweep.conftest import expected_job


@pytest.fixture
def out():
    return io.StringIO()


@pytest.fixture
def progress(out, plan, job):
    made = Progress(job.storage.ledger, Console(file=out, width=200))
    made.hear(Planned(plan, 2, 1, 4))
    return made


def lines(out):
    return out.getvalue().splitlines()[1:]


def rendered(progress):
    with progress._console.capture() as shown:
        progress._console.print(progress._render())
    return shown.get()


def encoder(plan):
    return next(stage for stage in plan.stages.values() if stage.kind == "encoder")


def test_a_grid_says_what_is_before_it(progress, out):
    assert out.getvalue() == "small: 2 trials to run, 1 cached, 4 shared stages to make\n"


EACH = "1 CPU and 1 GPU"
LOSSES = [
    Advance(float(second), 10 * second, {"encoder/loss": 8.0 - second / 10, "encoder/rate": 1e-3})
    for second in range(0, 31, 2)
]


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param(
            lambda trial, stage: [Advanced(stage, advance) for advance in LOSSES],
            [
                "[0/4] encoder scratch: step 100, 10 steps/s, loss 7.000, 10 s so far",
                "[0/4] encoder scratch: step 200, 10 steps/s, loss 6.000, 20 s so far",
                "[0/4] encoder scratch: step 300, 10 steps/s, loss 5.000, 30 s so far",
            ],
            id="a stage that steps, every ten seconds",
        ),
        pytest.param(
            lambda trial, stage: [Advanced(stage, Advance(float(s))) for s in range(0, 71, 2)],
            ["[0/4] encoder scratch: 30 s so far", "[0/4] encoder scratch: 60 s so far"],
            id="a stage that reports no steps, every thirty seconds",
        ),
        pytest.param(
            lambda trial, stage: [Advanced(trial, Advance(float(s))) for s in range(0, 131, 2)],
            ["none de: 60 s so far", "none de: 120 s so far"],
            id="a trial, every minute",
        ),
        pytest.param(
            lambda trial, stage: [JobEnded(stage, seconds=12.34), JobEnded(stage, "no text")],
            ["[1/4] encoder scratch: 12.3 s", "[2/4] encoder scratch: failed: no text"],
            id="the end of a stage, with its time or its failure",
        ),
        pytest.param(
            lambda trial, stage: [JobEnded(stage, "no text"), JobEnded(trial, "no text")],
            [
                "[1/4] encoder scratch: failed: no text",
                "1/2 none de: failed, as encoder scratch",
            ],
            id="an error of several, once",
        ),
        pytest.param(
            lambda trial, stage: [Waiting(2, nodes=1, each=EACH), Waiting(2, nodes=2, each=EACH)],
            [f"note: waiting for workers with {EACH} each: 1 requested, and none has started yet"],
            id="a wait for nodes, once",
        ),
        pytest.param(
            lambda trial, stage: [Began(trial), Waiting(2, workers=1, nodes=1, each=EACH)],
            [],
            id="no wait while others run",
        ),
        pytest.param(
            lambda trial, stage: [Said("was lost", trial), Said("waiting for rax2", stage)],
            ["none de: was lost", "encoder scratch: waiting for rax2"],
            id="what holds up a trial or a stage",
        ),
    ],
)
def test_what_happens_gives_these_lines(progress, out, plan, events, expected):
    for event in events(plan.trials[0], encoder(plan)):
        progress.hear(event)
    assert lines(out) == expected


def test_trials_are_counted_and_the_end_says_how_many(progress, out, plan):
    one, other = plan.trials
    progress.hear(JobEnded(one))
    progress.hear(Began(other))
    progress.hear(JobEnded(other, "no word pairs"))
    progress.hear(Over(1))
    said = lines(out)
    assert said[0] == f"1/2 {describe(one)}: done"
    assert said[1].startswith(f"2/2 {describe(other)}: failed: no word pairs (")
    assert said[2].startswith("1 done, 1 failed, 1 cached in ")


def test_a_pruned_trial_is_counted_for_itself(progress, out, plan):
    one, other = plan.trials
    progress.hear(JobEnded(one, pruned="pruned at step 5 of 15"))
    progress.hear(JobEnded(other))
    progress.hear(Over(0))
    said = lines(out)
    assert said[0] == f"1/2 {describe(one)}: pruned at step 5 of 15"
    assert said[1] == f"2/2 {describe(other)}: done"
    assert said[2].startswith("1 done, 1 pruned, 0 failed, 1 cached in ")


def test_a_terminal_shows_what_is_made_and_what_waits_without_lines_of_their_own(plan, job, out):
    console = Console(file=out, force_terminal=True, width=120)
    progress = Progress(job.storage.ledger, console)
    progress.hear(Planned(plan, 2, 0, 4))
    progress.hear(Advanced(encoder(plan), Advance(60.0, 500, {"loss": 2.5})))
    shown = []
    for waits in ({plan.trials[0].key: 30.0}, {}):
        progress.hear(GroupsWaiting(waits, "waits for 2 workers"))
        shown.append(rendered(progress))
    progress.stop()
    assert all("encoder scratch: step 500, loss 2.500, 60 s so far" in text for text in shown)
    assert "none de: waits for 2 workers (30 s so far)" in shown[0]
    assert "waits for" not in shown[1]


def test_the_thread_that_changes_the_display_draws_it(plan, job, out):
    """Another one would draw what is being changed: a table over hundreds of jobs takes a while."""
    before = set(threading.enumerate())
    progress = Progress(job.storage.ledger, Console(file=out, force_terminal=True, width=120))
    progress.hear(Planned(plan, 2, 0, 4))
    progress.hear(Advanced(encoder(plan), Advance(60.0, 500, {"loss": 2.5})))
    assert set(threading.enumerate()) <= before
    assert "stages 0/4" in out.getvalue(), "it is drawn at an event"
    progress.stop()


def test_a_trial_is_described_by_its_axes(plan):
    rotation = next(trial for trial in plan.trials if trial.method == "rotation")
    assert describe(rotation) == "rotation de sentences 100"
    assert describe(rotation, ("center",)) == "rotation center=False de sentences 100"


def test_no_two_shared_stages_have_the_same_line(plan):
    shared = [stage for stage in plan.stages.values() if stage.kind in ("bitext", "pairs")]
    lines = [describe_stage(stage) for stage in shared]
    assert len(set(lines)) == len(lines)
    assert "pairs fast_align de held-out" in lines


def test_training_runs_have_lines_with_their_source_and_seed(tmp_path):
    task = "pos: {train_on: [en, de], data: phrasebook, epochs: 1}"
    parts = {"languages": "{together: [de, fr]}", "seeds": "[0, 1]", "aligner": "thot"}
    made = small_plan(tmp_path, **parts, tasks=(task,), methods=("none: {}",))
    tuned = [describe_stage(stage) for stage in of_kind(made, "tuned")]
    assert sorted(tuned) == [f"tuned pos {lang} seed {n}" for lang in ("de", "en") for n in (0, 1)]


def test_a_wait_for_room_is_a_line_after_ten_seconds_and_then_every_minute(progress, out, plan):
    key = plan.trials[0].key
    text = "waits for 2 workers with 1 CPU each; the cluster has 1 CPU free"
    for second in range(0, 100, 3):
        progress.hear(GroupsWaiting({key: float(second)}, text))
    progress.hear(GroupsWaiting({}))
    progress.hear(GroupsWaiting({key: 12.0}, text))
    assert lines(out) == [f"none de: {text} ({s} s so far)" for s in (12, 72, 12)]


def record(job, trial, **scores):
    """Write the results of a trial; names are ``split_lang_metric``."""
    rows = []
    for name, value in scores.items():
        split, lang, metric = name.split("_", 2)
        rows.append({"lang": f"{lang}-en", "metric": metric, "split": split, "value": value})
    for key in trial.evaluations.values():
        job.storage.ledger.write(key, {"scores": rows, "params": {}, "seconds": 1.0}, None)


def test_a_trial_shows_its_mean_on_dev_of_a_metric_with_enough_pairs(progress, out, plan, job):
    one, other = plan.trials
    few = {"dev_de_contextual_accuracy": 0.9, "dev_de_contextual_accuracy_pairs": 29.0}
    many = {"dev_de_contextual_accuracy_all": 0.25, "dev_de_contextual_accuracy_all_pairs": 90.0}
    mean = {"dev_fr_contextual_accuracy_all": 0.375}
    record(job, one, **few, **many, **mean, test_de_contextual_accuracy_all=0.99)
    record(job, other, test_de_contextual_accuracy=0.99)
    progress.hear(JobEnded(one))
    progress.hear(JobEnded(other))
    said = [line for line in lines(out) if not line.startswith("note")]
    assert said[0] == f"1/2 {describe(one)}: done, retrieval contextual accuracy all 31.2 % on dev"
    assert said[1] == f"2/2 {describe(other)}: done"  # test values are for the end


def test_a_trial_shows_its_mean_on_dev_of_each_task(progress, out, job, tmp_path):
    """Of the first four; how many more there are is said."""
    names = ("one", "two", "three", "four", "five", "six")
    tasks = [f"{n}: {{kind: ner, data: phrasebook, epochs: {k}}}" for k, n in enumerate(names, 1)]
    plan = small_plan(tmp_path, tasks=("retrieval: {}", *tasks), methods=("none: {}",))
    trial = plan.trials[0]
    progress.hear(Planned(plan, 0, 0, 0, first=False))
    for n, key in enumerate(trial.evaluations.values()):
        score = {"lang": "de", "metric": "f1", "split": "dev", "value": n / 10}
        split = "test" if n == 0 else "dev"  # retrieval has none on dev
        job.storage.ledger.write(key, {"scores": [{**score, "split": split}], "seconds": 1.0}, None)
    progress.hear(JobEnded(trial))
    shown = "one F1 10.0 %, two F1 20.0 %, three F1 30.0 %, four F1 40.0 % and 2 more on dev"
    assert lines(out)[0].endswith(f"done, {shown}")


def test_what_runs_is_shown_with_its_speed_and_time_left(progress, out, plan, monkeypatch):
    clock = [100.0]
    monkeypatch.setattr("raxalign.sweep.progress.time.monotonic", lambda: clock[0])
    one, other = plan.trials
    stage = encoder(plan)
    jobs = [
        expected_job(stage.key, "encoder", 60.0),
        expected_job(one.key, "none", 20.0, frozenset({stage.key})),
        expected_job(other.key, "rotation", 20.0, frozenset({stage.key})),
    ]
    progress.hear(Planned(plan, 0, 0, 0, first=False, jobs=jobs, workers=2))
    assert lines(out) == ["about 80 s from now, by what has run in this storage"]
    progress.hear(Began(stage))
    clock[0] += 20
    progress.hear(Advanced(stage, Advance(18.0, 90, {"encoder/loss": 3.0})))
    progress.hear(Advanced(stage, Advance(20.0, 100, {"encoder/loss": 2.0})))
    shown = rendered(progress)
    text = "encoder scratch: step 100, 5 steps/s, loss 2.000, 20 s so far, about 40 s left"
    assert text in shown
    assert "about 60 s left" in shown  # 40 s, then both trials at once
    clock[0] += 40
    progress.hear(JobEnded(stage, seconds=60.0))
    progress.hear(Began(one))
    watched = {"xnli/loss": 1.0, "xnli/tokens_per_second": 12345.6}
    progress.hear(Advanced(one, Advance(5.0, 10, watched)))
    shown = rendered(progress)
    shows = "xnli step 10, 12,346 tokens/s, loss 1.000, 5 s so far, about 20 s left"
    assert f"{describe(one)}: {shows}" in shown
    assert "encoder scratch" not in shown
