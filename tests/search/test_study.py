"""Studies of a plan: their names, their parts, and their JSON form."""

from dataclasses import asdict, replace

import pytest

from raxalign.errors import RaxalignError
from raxalign.grid.load import choose
from raxalign.grid.plan import Plan
from raxalign.grid.study import StudyRecord, Suggestion, Tried
from raxalign.store.sealed import seal, unseal
from tests.searches import SPACES, open_search, search_grid

SEARCHED = f"finetune: {{{SPACES}, batch_size: 16}}"
POINT = {"lambda": 0.5, "layers": "last"}


def opened(folder, search="trials: 4, confirm: 2", **parts):
    folder.mkdir(exist_ok=True)
    return open_search(search_grid(folder, search, **parts))


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    """A grid with one study."""
    return opened(tmp_path_factory.mktemp("searched"))


def test_there_is_one_study_per_language_and_size(tmp_path):
    plan = opened(tmp_path, languages="{each: [de, fr]}", sentences="[100, 200]").plan
    found = [(*study.languages, study.sentences) for study in plan.studies]
    assert found == [("de", 100), ("de", 200), ("fr", 100), ("fr", 200)]
    assert len({study.name for study in plan.studies}) == 4
    assert plan.trials == ()


def test_a_name_is_that_of_the_content_and_not_of_path_or_budget(tmp_path):
    def name(folder, search, **parts):
        return opened(tmp_path / folder, search, **parts).plan.studies[0].name

    first = name("one", "trials: 4, confirm: 2")
    assert name("two", "budget: 2 h, confirm: 3") == first
    assert name("three", "trials: 4, seed: 1") != first
    assert name("four", "trials: 4, sampler: random") != first
    assert name("five", "trials: 4", spaces="lambda: {uniform: [0, 1]}") != first
    assert name("six", "trials: 4", size=300) != first


def test_a_study_that_judges_by_an_added_metric_is_named_by_its_kind_and_options_too(tmp_path):
    def name(folder, metrics, metric="types"):
        task = f"xnli: {{setting: zero-shot, data: phrasebook{metrics}}}"
        search = f"search: {{metric: xnli/avg_zero_shot/{metric}, trials: 4}}\n"
        found = opened(tmp_path / folder, tasks=(task,), more=search)
        assert [trial.key for trial in found.plan.trials] == []
        return found.plan.studies[0].name

    first = name("one", ", metrics: {types: {kind: macro_f1}}")
    assert name("two", ", metrics: {types: {kind: macro_f1, leave_out: O}}") != first
    assert (
        name("three", ", metrics: {more: {kind: macro_f1, leave_out: O}, types: {kind: macro_f1}}")
        == first
    )
    alone = name("four", "", "accuracy")
    assert name("five", ", metrics: {types: {kind: macro_f1}}", "accuracy") == alone


def test_a_plan_with_suggestions_is_read_back_from_json_of_older_versions_too(searched):
    suggestions = [Suggestion(0, POINT), Suggestion(0, POINT, confirmed=True)]
    plan = searched.again(lambda study: suggestions).plan
    assert Plan.from_json(plan.to_json()) == plan
    older = plan.to_json().replace('"joint": {}}', '"joint": {}, "grid": ""}')
    assert '"grid"' in older
    assert Plan.from_json(older) == plan
    asked = [(entry.number, entry.confirmed, plan.by_key[entry.trial].seed) for entry in plan.asked]
    assert asked == [(0, False, 0), (0, True, 1), (0, True, 2)]


@pytest.mark.parametrize(
    ("seeds", "count", "fresh"),
    [
        ((0,), 3, (1, 2, 3)),
        ((0, 7), 3, (7, 1, 2)),
        ((3, 0, 1, 2, 4), 2, (0, 1)),
        ((0, 2), 0, ()),
    ],
)
def test_fresh_seeds_are_the_grid_s_others_and_then_unused_ones(searched, seeds, count, fresh):
    assert replace(searched.grid, seeds=seeds).fresh_seeds(count) == fresh


def test_only_chooses_trials_and_studies(tmp_path):
    plan = opened(tmp_path, languages="{each: [de, fr]}", methods=("none: {}", SEARCHED)).plan
    part, studies = choose(plan, only="language=de")
    assert [trial.languages for trial in part.trials] == [("de",)]
    assert [study.languages for study in studies] == [("de",)]
    part, studies = choose(plan, only="method=none")
    assert (len(part.trials), studies) == (2, ())
    for only, said in (
        ("lambda=1", "unknown name 'lambda' in a grid with a search"),
        ("method", "write name=value"),
        ("method=tlm", "no trial and no study is selected"),
    ):
        with pytest.raises(RaxalignError, match=said):
            choose(plan, only=only)
    with pytest.raises(RaxalignError, match="limited by its own budget"):
        choose(plan, limit=1)


def test_the_best_point_is_the_lowest_where_lower_is_better(searched):
    (study,) = searched.plan.studies
    study = replace(study, objective=replace(study.objective, lower=True))
    tried = [Tried(n, POINT, "done", score) for n, score in enumerate((0.4, 0.2, 0.3))]
    assert StudyRecord.of(study, tuple(tried), finished=False).best == 1


def test_a_record_confirms_once_it_is_finished():
    tried = (Tried(0, POINT, "done", 0.5), Tried(1, POINT, "impossible"))
    record = StudyRecord("finetune-de-1", tried, 0)
    assert list(record.suggestions()) == [Suggestion(0, POINT)]
    finished = StudyRecord("finetune-de-1", tried, 0, finished=True)
    assert list(finished.suggestions())[1:] == [Suggestion(0, POINT, confirmed=True)]
    assert unseal(seal(asdict(finished)), StudyRecord) == finished


def test_a_search_next_to_a_baseline_of_one_run_is_remarked(tmp_path):
    def about_seeds(seeds):
        parts = {"methods": ("none: {}", SEARCHED), "seeds": seeds}
        remarks = opened(tmp_path / seeds, **parts).plan.remarks()
        return [remark for remark in remarks if "give `seeds` several" in remark]

    assert len(about_seeds("[0]")) == 1
    assert about_seeds("[0, 1, 2]") == []
