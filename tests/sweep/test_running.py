"""A sweep without Ray: what starts when, what fails with what, and trials that come later."""

from dataclasses import replace

import pytest

from raxalign.grid.estimates import Times
from raxalign.grid.plan import Plan
from raxalign.sweep.cluster import Room
from raxalign.sweep.events import Began
from raxalign.sweep.grid import _Rationed
from raxalign.sweep.job import Job, Outbox
from raxalign.sweep.order import SweepJob, Whole
from raxalign.sweep.running import Sweep, missing_stages
from tests.grids import small_plan


def sweep_of(source, job, heard, cpus=2.0):
    sweep = Sweep(source, job, heard, lambda: Room(job, [{"CPU": cpus}]))
    sweep.ask()
    return sweep


def after_stages(sweep):
    while (config := sweep.take()) and "stage" in config:
        sweep.ended(config, {})
    assert config is not None
    return config


def write(job, trial):
    for key in trial.evaluations.values():
        job.storage.ledger.write(key, {"scores": [], "notes": {}, "seconds": 2.0}, None)


def test_nothing_starts_before_its_inputs_and_all_starts_in_the_end(plan, job, heard):
    sweep, ended = sweep_of(Whole(plan), job, heard), set()
    while (config := sweep.take()) is not None:
        key = config.get("stage") or config["trial"]
        wanted = plan.by_key[key].evaluations.values() if "trial" in config else [key]
        shared = {
            entry
            for entry in plan.closure(list(wanted))
            if entry != key and plan.stages[entry].kind in {"bitext", "pairs", "seen", "encoder"}
        }
        assert {entry for entry in shared if not plan.stages[entry].inline} <= ended
        ended.add(key)
        sweep.ended(config, {"seconds": 1.0})
    assert sweep.over
    assert {trial.key for trial in plan.trials} <= ended
    assert (sweep.counts.done, sweep.counts.failed) == (2, {})
    assert [error for _, error in heard.stages] == [None] * (len(ended) - 2)


@pytest.mark.parametrize(
    ("at_once", "lasting", "done"),
    [(None, [True], 2), (None, [False], 0), (1, [True, False], 1), (1, [True, True], 2)],
)
def test_no_trial_begins_once_its_budget_is_spent(plan, job, heard, at_once, lasting, done):
    """That is asked before the first trials, and whenever one has ended."""
    answers = iter(lasting)
    sweep = sweep_of(_Rationed(plan, lambda: next(answers), at_once), job, heard, cpus=4.0)
    while (config := sweep.take()) is not None:
        sweep.ended(config, {})
    assert sweep.over
    assert (sweep.counts.done, list(answers)) == (done, [])


def test_a_pruned_trial_ends_without_a_result_or_a_failure(plan, job, heard):
    sweep, where = sweep_of(Whole(plan), job, heard), "pruned at step 5 of 15"
    while (config := sweep.take()) is not None:
        sweep.ended(config, {"pruned": where} if "trial" in config else {})
    assert sweep.over
    assert (sweep.counts.done, sweep.counts.pruned, sweep.counts.failed) == (0, 2, {})
    assert sorted(heard.pruned) == sorted((trial.key, where) for trial in plan.trials)
    assert heard.trials == []


def test_as_many_jobs_run_as_there_is_room_for(plan, job, heard):
    one = sweep_of(Whole(plan), job, heard, cpus=1.0)
    first = one.take()
    assert one.take() is None
    one.ended(first, {})
    assert one.take() is not None


def test_nodes_that_come_later_get_jobs(plan, job, heard, monkeypatch):
    nodes = [{"CPU": 1.0}]
    sweep = Sweep(Whole(plan), job, heard, lambda: Room(job, tuple(nodes)))
    sweep.ask()
    after_stages(sweep)
    assert sweep.take() is None
    nodes.append({"CPU": 1.0})
    monkeypatch.setattr(Job, "EVERY", 0.0)
    sweep.look()
    assert "trial" in sweep.take()


def test_a_limit_of_trials_is_none_of_stages(plan, job, heard):
    sweep = sweep_of(Whole(plan), replace(job, at_once=1), heard, cpus=8.0)
    stages = [sweep.take() for _ in range(2)]
    assert all("stage" in config for config in stages)
    for config in stages:
        sweep.ended(config, {})
    after_stages(sweep)
    assert sweep.take() is None


def test_where_memory_ran_out_fewer_jobs_run_at_once_and_no_loss_is_counted(plan, job, heard):
    sweep = sweep_of(Whole(plan), replace(job, max_failures=0), heard, cpus=3.0)
    several = [sweep.take() for _ in range(2)]
    sweep.all_lost(MemoryError("full"), memory=True)
    assert heard.notices == [
        "memory ran out with 2 jobs at once; from now on one at a time"
        " (run.concurrency says so beforehand)"
    ]
    assert [sweep.take(), sweep.take()] == [several[0], None]
    sweep.ended(several[0], {})
    assert sweep.take() is not None
    assert sweep.take() is None
    assert heard.delays == []


def test_a_job_that_alone_is_too_much_for_the_memory_is_given_up_and_others_go_on(plan, job, heard):
    sweep = sweep_of(Whole(plan), replace(job, max_failures=1), heard, cpus=1.0)
    given = [after_stages(sweep)["trial"]]
    sweep.all_lost(MemoryError("the machine is full"), memory=True)
    while not sweep.counts.failed:
        given.append(sweep.take()["trial"])
        sweep.all_lost(MemoryError("the machine is full"), memory=True)
    why = "its worker was lost 2 times without progress in between (the machine is full)"
    assert given.count(given[-1]) == 2
    assert sweep.counts.failed == {given[-1]: why}
    assert job.storage.ledger.failure(plan.by_key[given[-1]].run)["message"] == why
    assert sweep.take()["trial"] != given[-1]


def test_a_failed_stage_fails_the_trials_that_need_it_with_its_message(plan, job, heard):
    sweep = sweep_of(Whole(plan), job, heard)
    while plan.stages[(config := sweep.take())["stage"]].kind != "encoder":
        sweep.ended(config, {})
    sweep.ended(config, {"error": "no text", "trace": "here"})
    assert sorted(heard.trials) == sorted((trial.key, "no text") for trial in plan.trials)
    assert sweep.counts.failed == {trial.key: "no text" for trial in plan.trials}
    assert job.storage.ledger.failure(plan.trials[0].run) == {"message": "no text", "trace": "here"}


def test_what_the_ledger_has_is_cached_and_not_run(plan, job, heard):
    for trial in plan.trials:
        write(job, trial)
    sweep = sweep_of(Whole(plan), job, heard)
    assert sweep.take() is None
    assert sweep.over
    assert (sweep.counts.done, sweep.counts.cached) == (0, 2)


class OneByOne:
    """A source that gives the second trial of a plan when the first has ended."""

    def __init__(self, plan):
        self._plan, self.asked = plan, []

    @property
    def exhausted(self):
        return len(self.asked) > 1 and bool(self.asked[-1])

    def more(self, ended, idle):
        self.asked.append(dict(ended))
        first, second = self._plan.trials
        if len(self.asked) == 1:
            return self._plan.only(iter([first]))
        return self._plan.only(iter([second])) if ended else None


def test_a_source_adds_trials_after_the_results_of_others(plan, job, heard):
    source = OneByOne(plan)
    sweep = sweep_of(source, replace(job, plan=""), heard)
    first, second = plan.trials
    places = set()
    while not sweep.over:
        config = sweep.take()
        places.add(config["plan"])
        if config.get("trial") == first.key:
            write(job, first)
        sweep.ended(config, {})
    assert {first.key: None} in source.asked
    assert [key for key, _ in heard.trials] == [first.key, second.key]
    assert len(places) == 2


def groups_of(plan, job, heard, monkeypatch, *, cpus):
    """Return a sweep whose trials need two workers each, with its stages made."""
    monkeypatch.setattr(Plan, "trains", lambda plan, trial: True)
    sweep = sweep_of(Whole(plan), replace(job, workers=2), heard, cpus)
    sweep.first = after_stages(sweep)
    return sweep


def test_the_next_group_trains_before_what_the_last_one_left_is_evaluated(
    plan, job, heard, monkeypatch
):
    sweep = groups_of(plan, job, heard, monkeypatch, cpus=2.0)
    one = sweep.first
    assert one["needs"] == "GROUP"
    assert sweep.take() is None, "there is room for one group"
    sweep.trained(one)
    assert not sweep.over
    other = sweep.take()
    assert (other["needs"], other["trial"] != one["trial"]) == ("GROUP", True)
    assert sweep.take() is None, "its workers hold everything"
    sweep.trained(other)
    left = [sweep.take(), sweep.take()]
    assert [config["trial"] for config in left] == [one["trial"], other["trial"]]
    assert all(config["needs"] == "WORKER" and config[Job.TRAINED_ONLY] for config in left)
    for config in left:
        assert not sweep.over
        sweep.ended(config, {})
    assert sweep.over
    assert sweep.counts.done == 2


def test_a_worker_that_no_group_has_room_for_evaluates(plan, job, heard, monkeypatch):
    sweep = groups_of(plan, job, heard, monkeypatch, cpus=3.0)
    sweep.trained(sweep.first)
    assert sweep.take()["needs"] == "GROUP"
    assert sweep.take()["trial"] == sweep.first["trial"]
    assert sweep.take() is None


def test_a_trial_is_reported_to_begin_once_though_it_is_run_in_two_parts(
    plan, job, heard, monkeypatch
):
    sweep = groups_of(plan, job, heard, monkeypatch, cpus=4.0)
    sweep.started(sweep.first)
    sweep.trained(sweep.first)
    while (config := sweep.take())["trial"] != sweep.first["trial"]:
        sweep.started(config)
    sweep.started(config)
    begun = [event.what.key for event in heard.events if isinstance(event, Began)]
    assert sorted(begun) == sorted(trial.key for trial in plan.trials)


def test_a_group_that_fails_is_not_evaluated(plan, job, heard, monkeypatch):
    sweep = groups_of(plan, job, heard, monkeypatch, cpus=2.0)
    sweep.ended(sweep.first, {"error": "no rows"})
    other = sweep.take()
    sweep.trained(other)
    sweep.ended(sweep.take(), {})
    assert sweep.over
    assert (sweep.counts.done, sweep.counts.failed) == (1, {sweep.first["trial"]: "no rows"})


@pytest.mark.parametrize("error", ["x: cannot write: the disk is full", "it failed"])
def test_a_storage_that_is_full_or_refuses_to_be_written_starts_nothing_more(
    plan, job, heard, error, tmp_path
):
    sweep = sweep_of(Whole(plan), job, heard, cpus=1.0)
    config = after_stages(sweep)
    if error == "it failed":
        (tmp_path / "storage").rename(tmp_path / "away")
        (tmp_path / "storage").write_text("in its place")
    sweep.ended(config, {"error": error})
    assert sweep.take() is None
    assert sweep.over
    assert sweep.counts.done == 0
    failures = [error, "not started, since the storage failed"]
    assert sorted(sweep.counts.failed.values()) == sorted(failures)
    assert [error for _, error in heard.trials] == [error]
    [notice] = heard.notices
    assert notice.startswith("nothing more is started, since results could not be kept: ")
    assert str(tmp_path / "storage") in notice or "the disk is full" in notice


def test_what_runs_when_a_storage_fails_ends_and_what_it_leaves_is_not_waited_for(plan, job, heard):
    sweep = sweep_of(Whole(plan), job, heard, cpus=2.0)
    config = after_stages(sweep)
    other = sweep.take()
    sweep.ended(config, {"error": "x: cannot write: the disk is full"})
    assert not sweep.over
    sweep.again(other)  # its worker was lost
    assert sweep.over
    assert sweep.counts.failed[other["trial"]].startswith("not started")


def test_an_error_of_one_trial_starts_the_others(plan, job, heard):
    sweep = sweep_of(Whole(plan), job, heard, cpus=1.0)
    config = after_stages(sweep)
    sweep.ended(config, {"error": "its loss diverged"})
    assert "trial" in sweep.take()
    assert heard.notices == []


def test_what_groups_wait_for_is_passed_on_and_its_end_once(plan, job, heard, monkeypatch):
    monkeypatch.setattr(Job, "EVERY", 0.0)
    monkeypatch.setattr(Plan, "trains", lambda plan, trial: True)
    job = replace(job, workers=2)
    sweep = Sweep(Whole(plan), job, heard, lambda: Room(job, [{"CPU": 2.0}]), lambda: {"CPU": 1.0})
    sweep.ask()
    config = after_stages(sweep)
    outbox = Outbox(job.scratch, config["trial"])
    outbox.begin(waiting=True)
    sweep.look()
    outbox.begin()
    sweep.look()
    sweep.look()
    first, last = heard.waits
    assert first.text == "waits for 2 workers with 1 CPU each; the cluster has 1 CPU free"
    assert (list(first.seconds), last.seconds) == ([config["trial"]], {})


def test_chains_are_as_long_as_the_times_that_the_storage_knows(plan, job):
    done, other = plan.trials
    write(job, done)
    took = Times(plan, job.storage).sampled(job.storage.ledger.keys())
    assert set(took.values()) == {2.0}
    (expected,) = SweepJob.of(plan, [], [other], job.workers, took | {other.aligned: 5.0})
    assert expected.cost == pytest.approx(2.0 * len(other.evaluations) + 5.0)


def test_before_a_first_run_the_text_of_a_training_comes_before_word_pairs(tmp_path, job, heard):
    scratch = "{kind: scratch, layers: 4, hidden_size: 256, vocab_size: 500, steps: 2000}"
    plan = small_plan(tmp_path, encoder=scratch, sentences="[200]")
    job = replace(job, plan="")
    sweep = sweep_of(Whole(plan), job, heard, cpus=1.0)
    kinds = []
    while "encoder" not in kinds:
        config = sweep.take()
        kinds.append(plan.stages[config["stage"]].kind)
        sweep.ended(config, {"seconds": 1.0})
    assert set(kinds) == {"bitext", "text", "encoder"}
    assert kinds.count("text") == 3


def test_missing_stages_come_after_their_inputs_and_trials_keep_their_own(plan, job, heard):
    wanted = [key for trial in plan.trials for key in trial.evaluations.values()]
    missing = missing_stages(plan, wanted, job.storage.artifacts, heard)
    kinds = {plan.stages[key].kind for key in missing}
    assert {"bitext", "pairs", "encoder"} <= kinds
    assert not kinds & {"evaluation", "aligned"}
    for place, key in enumerate(missing):
        inputs = set(plan.stages[key].inputs.values())
        assert inputs.intersection(missing) <= set(missing[:place])
