"""Remarks next to the numbers: unknown pieces by language, and trainings whose loss did not
fall.
"""

import pytest

from raxalign.store.ledger import Ledger
from raxalign.values.results import remarked, remarks
from raxalign.values.scoreboard import Scoreboard
from tests.grids import small_plan
from tests.report.material import share


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    methods = ("none: {}", "finetune: {lambda: [0.1, 1.0]}")
    parts = {"languages": "{each: [de]}", "seeds": "[0, 1]", "methods": methods}
    return small_plan(tmp_path_factory.mktemp("grid"), **parts)


def noted(plan, notes):
    """The same notes on every evaluation."""
    return {key: {"notes": notes} for trial in plan.trials for key in trial.evaluations.values()}


def test_more_than_two_percent_of_unknown_pieces_are_remarked_on_once(plan):
    encoder = plan.trials[0].encoder
    found = remarks(plan, noted(plan, {"unknown": {"zh": 0.0833, "de": 0.02, "en": 0.0}}))
    assert found == [
        "8.3% of the subword tokens of zh in retrieval are unknown to the tokenizer of"
        f" {encoder} ([UNK])"
    ]


def test_what_a_training_read_is_remarked_on_with_its_maker(plan):
    trained = {"finetune": {"zh": 0.5}, "xnli": {"en": 0.01}}
    (found,) = remarks(plan, noted(plan, {"unknown": {"zh": 0.5}, "unknown_in_training": trained}))
    readers = "retrieval, the training run of finetune"
    assert found.startswith(f"50.0% of the subword tokens of zh in {readers} are unknown")


def test_trainings_whose_loss_did_not_fall_are_named_and_counted(plan):
    trial = next(t for t in plan.trials if t.params.get("lambda") == 0.1 and t.seed == 1)
    key = trial.evaluations["retrieval"]
    notes = {"loss_not_lowered": {"finetune": [0.9674, 1.6971]}}
    assert remarks(plan, {key: {"notes": notes}}) == [
        "the loss of the training run finetune did not fall (finetune lambda=0.1 de seed 1: 0.9674"
        " to 1.697)"
    ]
    (many,) = remarks(plan, noted(plan, notes))
    assert many.endswith("; finetune lambda=0.1 de seed 1: 0.9674 to 1.697, and 2 more)")


def test_trainings_whose_dropout_drew_otherwise_since_memory_ran_out_are_named(plan):
    key = next(iter(plan.trials)).evaluations["retrieval"]
    assert remarks(plan, {key: {"notes": {"cut_batches": ["xnli"]}}}) == [
        f"memory ran out in the training run xnli ({plan.trial_name(plan.trials[0])}), so that"
        " dropout drew other masks than where whole batches fit"
    ]


def test_what_a_method_was_fitted_on_that_is_little_is_remarked_on_once(plan):
    said = "150 pairs do not determine a rotation of 256 dimensions"
    found = remarks(plan, noted(plan, {"thin_support": {"rotation de": said}}))
    assert found == [f"rotation de: {said}"]


def test_training_runs_of_a_task_are_told_under_its_own_name_and_equal_parts_in_one_line(tmp_path):
    tasks = ("nli: {kind: xnli, data: phrasebook}", "retrieval: {}")
    plan = small_plan(tmp_path, languages="{each: [de]}", methods=("none: {}",), tasks=tasks)
    few = "4 of 60 rows are left out: without a label"
    notes = {"thin_support": {"xnli de/train": few, "xnli en/train": few, "rotation de": few}}
    notes |= {
        "loss_not_lowered": {"xnli": [1.0, 1.5]},
        "unknown_in_training": {"xnli": {"de": 0.5}},
    }
    key = plan.trials[0].evaluations["nli"]
    unknown, loss, *said = remarks(plan, {key: {"notes": notes}})
    assert said == [f"nli de/train, en/train: {few}", f"rotation de: {few}"]
    assert " in the training run of nli are unknown" in unknown
    assert loss.startswith("the loss of the training run nli did not fall")


def test_held_out_lines_that_were_left_out_are_counted_once(plan):
    left_out = {"left_out": {"th": {"test": [68, 1024], "dev": [1, 100]}}}
    assert remarks(plan, noted(plan, left_out)) == [
        "68 of 1,024 test lines of th have a blank side and are left out",
        "1 of 100 dev lines of th have a blank side and are left out",
    ]
    assert remarked({"notes": left_out}, None)["notes"] == left_out
    escaped = {"escaped": {"de": {"training": [30, 100]}}}
    (told,) = remarks(plan, noted(plan, escaped))
    assert told.startswith("30 of 100 training lines of de have marks that Moses")


def test_what_an_evaluation_counts_is_told_with_where_it_is(plan):
    """Of records of an earlier version too."""
    seen = {"de/test": 3, "fr/test": 1, "en/dev": 2, "en/test": 5}
    notes = {"seen_in_training": seen, "rows": dict.fromkeys(seen, 1200), "rules": "mlqa"}
    notes |= {"missing_splits": ["th/dev"], "tags_not_in_training": {"de/test": ["X", "Y"]}}
    notes |= {"de-en": {"test": {"sentences": 30, "unread_src": 2, "unread_tgt": 0}}}
    expected = [
        "retrieval: evaluated rows that were trained on too: 3 of 1,200 in de/test, 1 of 1,200 in"
        " fr/test, 2 of 1,200 in en/dev and 1 more",
        "retrieval: splits that there are none of: th/dev",
        "retrieval: tags that no training row has: X, Y in de/test",
        "retrieval: sentences without a vector, which find nothing: 2 of 30 in de-en test",
    ]
    assert remarks(plan, noted(plan, notes)) == expected
    kept = {key: remarked(record, None) for key, record in noted(plan, notes).items()}
    assert remarks(plan, kept) == expected
    assert remarks(plan, noted(plan, {"rows": {"de/test": 3}, "seen_in_training": {}})) == []


def test_records_without_such_notes_and_trials_without_records_have_no_remarks(plan):
    assert remarks(plan, {}) == []
    scored = {key: {"scores": []} for key in plan.trials[0].evaluations.values()}
    assert remarks(plan, noted(plan, {}) | scored) == []


def test_a_report_has_the_remarks_among_its_facts(plan, tmp_path):
    ledger = Ledger(str(tmp_path / "storage"))
    (key,) = plan.trials[0].evaluations.values()
    ledger.write(key, {"scores": [], "notes": {"unknown": {"zh": 0.25}}}, None)
    (name, text), *rest = share("how_made", Scoreboard.of([], plan), ledger=ledger).facts
    assert (name, text[:37]) == ("note", "25.0% of the subword tokens of zh in ")
    assert "note" not in dict([*rest, *share("how_made", Scoreboard.of([], plan)).facts])


def test_what_is_kept_of_a_record_gives_the_same_remarks(plan):
    notes = {"unknown": {"de": 0.05}, "unknown_in_training": {"finetune": {"de": 0.06}}}
    notes |= {"loss_not_lowered": {"finetune": [1.0, 2.0]}, "cut_batches": ["finetune"]}
    notes |= {"not_as_trained": {"finetune": "pieces differ"}, "links": {"de": "a long list"}}
    notes |= {"thin_support": {"retrieval": "3 pairs"}}
    scores = [{"split": split, "value": 0.5} for split in ("test", "dev", "dev")]
    records = {key: {**record, "scores": scores} for key, record in noted(plan, notes).items()}
    kept = {key: remarked(record, None) for key, record in records.items()}
    assert len(remarks(plan, kept)) == 6
    assert remarks(plan, kept) == remarks(plan, records)
    first = next(iter(kept.values()))
    assert "links" not in first["notes"]
    assert first["scores"] == [], "no metric is the main one"


def test_values_under_outdated_readouts_are_remarked_on_where_there_are_some(tmp_path):
    methods = ("none: {}", "rotation: {}", "finetune: {}")
    tasks = ("pos: {data: phrasebook, readout: keep}", "retrieval: {}")
    plan = small_plan(tmp_path, methods=methods, tasks=tasks)
    said = (
        "pos: the post-hoc maps of rotation (`readout`) were fitted before the task's training run,"
        " which changes the encoder, and are kept: `readout: keep`"
    )
    assert remarks(plan, noted(plan, {})) == [said]
    others = {
        key: {"notes": {}}
        for trial in plan.trials
        for task, key in trial.evaluations.items()
        if (trial.method, task) != ("rotation", "pos")
    }
    assert remarks(plan, others) == []


def test_a_training_that_ended_too_early_is_said_to_be_hardly_trained(plan):
    key = next(t.evaluations["retrieval"] for t in plan.trials if t.params.get("lambda") == 0.1)
    notes = {"loss_still_falling": {"finetune": [1.04, 0.78, 0.052]}}
    assert remarks(plan, {key: remarked({"notes": notes}, None)}) == [
        "hardly trained: the loss of the training run finetune still fell in its last fifth"
        " (finetune lambda=0.1 de seed 0: 1.04 to 0.78, 20% of it late); train it longer, or at"
        " a larger `learning_rate`"
    ]


def scored(plan, values):
    """Records with a value per method of retrieval's main metric."""
    main = plan.main_metric("retrieval")
    score = {"lang": "de-en", "metric": main, "split": "test"}
    found = {}
    for trial in plan.trials:
        record = {"scores": [{**score, "value": values[trial.method]}]}
        found[trial.evaluations["retrieval"]] = remarked(record, main)
    return found


def test_a_task_in_which_no_method_leaves_the_floor_is_remarked_on(plan):
    assert remarks(plan, scored(plan, {"none": 0.006, "finetune": 0.011})) == [
        "near the floor: no method reaches 2% in retrieval (de-en), so that differences there say"
        " little; more `sentences`, longer training runs or a stronger encoder leave it"
    ]
    assert remarks(plan, scored(plan, {"none": 0.006, "finetune": 0.03})) == []
    alone = plan.only(trial for trial in plan.trials if trial.method == "none")
    assert remarks(alone, scored(alone, {"none": 0.006})) == []
