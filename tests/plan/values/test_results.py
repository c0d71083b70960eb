"""Results are read part by part, so that those of ten thousand trials need not be in memory."""

import pytest

from raxalign.values.results import batches, rows, rows_of
from tests.grids import small_plan


class Counted:
    """A ledger that has every evaluation of a plan and notes what it is asked."""

    def __init__(self, plan):
        self.plan, self.listings = plan, 0
        self.read: list[list[str]] = []

    def keys(self):
        self.listings += 1
        return {key for trial in self.plan.trials for key in trial.evaluations.values()}

    def read_many(self, keys):
        self.read.append(list(keys))
        score = {"lang": "de", "metric": "accuracy", "split": "test"}
        return {
            key: {"params": {}, "scores": [{**score, "value": int(key[:8], 16) / 2**32}]}
            for key in self.read[-1]
        }


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    parts = {"methods": ("mean_shift: {alpha: [0.1, 0.2, 0.3, 0.4, 0.5]}",), "sentences": "[100]"}
    return small_plan(tmp_path_factory.mktemp("grid"), languages="{each: [de]}", **parts)


def test_parts_of_a_plan_are_read_with_one_listing_and_each_record_once(plan):
    ledger = Counted(plan)
    parts = batches(plan, ledger, size=2)
    first, records = next(parts)
    assert [trial.key for trial in first.trials] == [trial.key for trial in plan.trials[:2]]
    assert len(ledger.read) == 1  # the rest is not read before it is asked for
    found = rows_of(first, records)
    for part, records in parts:
        found += rows_of(part, records)
    assert (ledger.listings, [len(keys) for keys in ledger.read]) == (1, [2, 2, 1])
    assert found == rows(plan, Counted(plan))


def test_rows_of_a_trial_share_its_params(plan):
    ledger = Counted(plan)
    record = next(iter(ledger.read_many(plan.trials[0].evaluations.values()).values()))
    record["scores"] *= 3
    [key] = plan.trials[0].evaluations.values()
    found = rows_of(plan.only(iter(plan.trials[:1])), {key: record})
    assert len(found) == 3
    assert len({id(row["params"]) for row in found}) == 1
