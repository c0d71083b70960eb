"""Which epoch each rule picks."""

from __future__ import annotations

from raxalign.tasks.transfer.selection import best_epoch, kept, select

ACCURACIES = {"en": [0.6, 0.8, 0.7], "de": [0.5, 0.4, 0.6], "fr": [0.9, 0.4, 0.4]}


def test_mean_dev_picks_one_epoch_by_the_mean():
    assert select("mean-dev", ACCURACIES) == dict.fromkeys(ACCURACIES, 0)  # 2.0, 1.6, 1.7 over 3


def test_target_dev_picks_an_epoch_a_language():
    assert select("target-dev", ACCURACIES) == {"en": 1, "de": 2, "fr": 0}


def test_rules_that_know_their_epoch_keep_one():
    for rule in ("pivot-dev", "last"):
        assert kept(rule) == rule
        assert set(select(rule, ACCURACIES).values()) == {0}
    assert kept("mean-dev") == kept("target-dev") == "every"


def test_the_earlier_of_equal_epochs_is_picked():
    assert best_epoch([0.5, 0.7, 0.7]) == 1
