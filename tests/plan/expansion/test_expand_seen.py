"""What counts as seen in the plan: the sizes, the dictionaries and the selection that decide it."""

import pytest

from raxalign.config.grid import load
from raxalign.errors import RaxalignError
from raxalign.plan.expansion.expand import expand
from raxalign.plan.load import select
from tests.grids import write_grid


def plan_of(folder, **parts):
    return expand(load(write_grid(folder, **parts)))


def test_a_size_added_later_leaves_the_training_of_others_alone(tmp_path):
    few, more = (
        plan_of(tmp_path, sentences="[100]"),
        plan_of(tmp_path, sentences="[100, 200]", name="more.yaml"),
    )
    aligned = {t.aligned for t in more.trials}
    trained = {
        stage.key
        for stage in few.stages.values()
        if stage.kind == "pairs" and stage.params["part"] == "training"
    }
    assert trained <= set(more.stages)
    assert any("unseen_in" in warning for warning in more.warnings)
    assert aligned


def test_seen_entries_are_read_in_the_order_of_the_method_that_reads_the_dictionary(tmp_path):
    (tmp_path / "d.txt").write_text("dog hund\n", encoding="utf-8")

    def seen(swap):
        method = f"rotation: {{supervision: dictionary, dictionary: d.txt, swap: {swap}}}"
        plan = plan_of(
            tmp_path,
            methods=(method,),
            tasks=("retrieval: {}",),
            languages="{each: [de]}",
            sentences="100",
        )
        return next(stage for stage in plan.stages.values() if stage.kind == "seen")

    assert [
        name.partition("/")[0] for swap in ("false", "true") for name in seen(swap).digests
    ] == ["dictionary", "swapped"]
    assert seen("false").key != seen("true").key


def test_unseen_in_keeps_the_test_whatever_the_sizes(tmp_path):
    def tests_of(sentences):
        plan = plan_of(
            tmp_path,
            sentences=sentences,
            tasks=("retrieval: {unseen_in: 300}",),
            methods=("none: {}",),
            size=500,
        )
        return {s.key for s in plan.stages.values() if s.kind == "seen"}, plan.warnings

    assert tests_of("[100]") == tests_of("[100, 200]")
    with pytest.raises(RaxalignError, match=r"tasks\.retrieval\.unseen_in: 300 is smaller"):
        tests_of("[100, 400]")


def test_only_and_limit_never_change_what_counts_as_seen(tmp_path):
    plan = plan_of(tmp_path)
    part = select(plan, only="method=finetune, sentences=100", limit=1)
    assert len(part.trials) == 1
    assert part.trials[0] == next(
        trial for trial in plan.trials if trial.method == "finetune" and trial.sentences == 100
    )
    assert set(part.stages) < set(plan.stages)


def test_dictionaries_are_looked_for_once_per_point_and_language_however_many_points(
    tmp_path, monkeypatch
):
    from raxalign.methods.mean_shift import MeanShift

    asked = []
    monkeypatch.setattr(
        MeanShift, "dictionaries", lambda self, lang, pivot: asked.append(self.params.alpha) or ()
    )
    alphas = [round(0.05 * number, 2) for number in range(1, 21)]
    plan = plan_of(
        tmp_path, methods=(f"mean_shift: {{alpha: {alphas}}}",), languages="{each: [de]}"
    )
    assert len(plan.trials) == 40  # 20 values x 2 sizes
    assert asked == alphas
