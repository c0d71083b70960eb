"""Parts of a plan for processes that share nothing but a storage."""

import pytest

from raxalign.errors import RaxalignError
from raxalign.grid.load import select
from tests.grids import small_plan


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    found = small_plan(tmp_path_factory.mktemp("grid"))
    assert len(found.trials) == 18
    return found


@pytest.mark.parametrize("count", [1, 4, 18])
def test_shards_make_the_whole_together_and_none_twice(plan, count):
    parts = [select(plan, shard=f"{number}/{count}").trials for number in range(1, count + 1)]
    keys = [trial.key for part in parts for trial in part]
    assert sorted(keys) == sorted(plan.by_key)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_a_shard_is_the_same_whatever_the_order_of_the_trials(plan):
    turned = plan.only(reversed(plan.trials))
    for shard in ("1/3", "2/3", "3/3"):
        assert set(select(turned, shard=shard).by_key) == set(select(plan, shard=shard).by_key)


def test_a_shard_keeps_the_order_of_the_plan_and_the_stages_that_it_needs(plan):
    part = select(plan, shard="2/3")
    order = [trial.key for trial in plan.trials]
    places = [order.index(trial.key) for trial in part.trials]
    assert places == sorted(places)
    wanted = [key for trial in part.trials for key in trial.evaluations.values()]
    assert set(part.stages) == set(plan.closure(wanted))


def test_a_shard_is_of_what_only_selects_and_limit_is_of_the_shard(plan):
    parts = [select(plan, only="method=finetune", shard=f"{i}/2", limit=3) for i in (1, 2)]
    assert [len(part.trials) for part in parts] == [3, 3]
    assert {trial.method for part in parts for trial in part.trials} == {"finetune"}


def test_a_shard_beyond_the_trials_is_empty(plan):
    assert select(plan, shard="19/19").trials == ()


@pytest.mark.parametrize("text", ["0/3", "4/3"])
def test_parts_that_do_not_exist_are_refused(plan, text):
    with pytest.raises(RaxalignError, match=f"--shard '{text}': there is no such part"):
        select(plan, shard=text)


@pytest.mark.parametrize("text", ["", "3", "1/", "1/0x3", "-1/3", "1.5/3", "a/b"])
def test_what_is_not_a_part_is_refused_with_an_example(plan, text):
    with pytest.raises(RaxalignError, match="write i/n, for example 2/8"):
        select(plan, shard=text)
