"""Options and declared metrics of every task. Options that mean the same have one identity, and
those that change a result another.
"""

import re
from itertools import product

import pytest
from pydantic import ValidationError

from raxalign.catalog import catalog
from raxalign.measured import Measured
from raxalign.tasks.slots import Slots
from raxalign.tasks.taggers.task import TaggingTask
from raxalign.tasks.vectors.frame import VectorTask
from tests.tasks import outcomes

GOLD = {"test": {"text": "gold", "links": "gold.{lang}"}}
MINED = {"text": "t.{side}", "gold": "g"}
NEEDED = {
    "dictionary_retrieval": {"dictionary": "d.txt"},
    "word_alignment": {"data": GOLD},
    "slots": {"data": "phrasebook"},
    "bitext_mining": {"data": dict.fromkeys(("dev", "test"), MINED)},
    "mteb": {"tasks": ["NTREXBitextMining"]},
}
KINDS = dict(catalog("tasks").items())
NAACL, SOFTMAX = {"format": "naacl"}, {"extraction": "softmax"}
PAPER = {"tagger": "bilstm_crf", "selection": "target-dev", "epochs": 40, "batch_size": 10}
OF_PAPER = {"profile": "paper"}
CSLS, COSINE = {"measure": "csls"}, {"measure": "cosine"}
SAME = [
    ("retrieval", {"unseen_in": 10}, {}),
    ("retrieval", COSINE | {"k": 3}, COSINE),
    ("dictionary_retrieval", {"k": 3}, {}),
    ("sentence_retrieval", {"k": 3}, {}),
    ("representation", {"projection": "none", "occurrences": 3}, {"projection": "none"}),
    ("token_translation", {"alpha": [1]}, {"alpha": 1.0}),
    ("word_alignment", {"threshold": 0.2}, {}),
    ("word_alignment", NAACL | {"first": 1}, NAACL),
    ("ner", {"tagger": "linear", "learning_rate": 2e-5, "hidden": 7}, {}),
]
OTHER = [
    ("retrieval", {"k": 3}, {}),
    ("dictionary_retrieval", CSLS | {"k": 3}, CSLS),
    ("dictionary_retrieval", {"max_contexts": 3}, {}),
    ("sentence_retrieval", CSLS | {"k": 3}, CSLS),
    ("representation", {"occurrences": 3}, {}),
    ("token_translation", {"block_size": 3}, {}),
    ("word_alignment", SOFTMAX | {"threshold": 0.2}, SOFTMAX),
    ("ner", OF_PAPER, PAPER),  # whose weights are chosen after each epoch
]


def made(kind, **params):
    return outcomes.made(kind, **{**NEEDED.get(kind, {}), **params})


@pytest.mark.parametrize(("kind", "one", "other"), SAME + OTHER)
def test_options_have_one_identity_where_they_mean_the_same_and_only_there(kind, one, other):
    same = (kind, one, other) in SAME
    assert (made(kind, **one).canonical() == made(kind, **other).canonical()) is same


def test_comparisons_of_vectors_have_no_chance():
    for kind, task in KINDS.items():
        if issubclass(task, VectorTask):
            assert not made(kind).has_chance(), kind


def test_taggers_of_the_paper_are_conditioned_crfs_on_frozen_features():
    more = {"hidden": 384, "dropout": 0.5}
    expected = {**PAPER, **more, "learning_rate": 1e-4, "layers": "last-four"}
    for kind, task in KINDS.items():
        if issubclass(task, TaggingTask):
            own = "profile" in task.Params.model_fields
            kept = {"crf": "conditioned", "lstm_layers": 2, "input_dropout": 0.5}
            kept["evaluate_every"] = 150 if own else None
            tagger = made(kind, **OF_PAPER) if own else made(kind, **PAPER)
            assert {**expected, **kept}.items() <= tagger.canonical().items()
    assert made("ner", **OF_PAPER).training().languages(("de",), "en") == ("en", "de")
    own = made("ner", **OF_PAPER, selection="pivot-dev")
    assert own.settings().selection == "pivot-dev"


def test_parts_of_speech_are_tuned_for_five_epochs_and_the_data_of_slots_have_no_default():
    assert made("pos").settings().epochs == 5
    assert made("pos", tagger="bilstm_crf").settings().epochs == 40
    with pytest.raises(ValidationError, match="data"):
        Slots.Params()
    assert "dataset" in made("slots", data="hub").check(("de",), "en")[0]


def examples(name):
    """Every name that a declaration stands for, with 3 for a number.

    >>> examples("layer{l}_{a|b}")
    ['layer3_a', 'layer3_b']
    """
    place = re.compile(r"\{([^{}]*)\}")
    chosen = product(*(part.split("|") if "|" in part else "3" for part in place.findall(name)))
    return [place.sub("{}", name).format(*values) for values in chosen]


@pytest.mark.parametrize("kind", KINDS)
def test_every_metric_has_one_declaration_and_one_sentence(kind):
    task = KINDS[kind]
    declared, main = task.metrics, Measured.find(task.metrics, task.main_metric)
    assert (main.name, main.role) == (task.main_metric, "score")
    for entry in declared:
        assert re.fullmatch(r"[A-Z](?:(?!\. [A-Z]).)*\.", entry.about), entry
        for metric in examples(entry.name):
            assert [other for other in declared if other.names(metric)] == [entry]


ANISOTROPY = ("anisotropy", "anisotropy_pivot")
SPACES = (*ANISOTROPY, "hubness", "cka", "cka_unbiased")
LAYERS = tuple(f"layer3_{name}" for name in ("margin", "language_probe", *SPACES))
NUMBERS = {
    "representation": ("margin", *SPACES, LAYERS[0], *LAYERS[2:]),
    "sentence_retrieval": ("max_rank",),
    "bitext_mining": ("threshold",),
}
LOWER = {
    "word_alignment": ("alignment_error_rate",),
    "sentence_retrieval": ("max_rank", "own_language"),
}
NEITHER = {
    "representation": ("language_probe", "shared_subwords", *SPACES, *LAYERS[1:]),
    "sentence_retrieval": ("pivot_language",),
    "bitext_mining": ("threshold",),
}


@pytest.mark.parametrize("kind", KINDS)
def test_units_and_directions_are_those_of_this_list(kind):
    """What is not a count, nor in one of the lists, is a share of which higher values are better;
    a standard error is in the unit of its share.
    """
    for entry in KINDS[kind].metrics:
        for metric in examples(entry.name):
            plain = "lower" if metric in LOWER.get(kind, ()) else "higher"
            neutral = entry.role in ("count", "error") or metric in NEITHER.get(kind, ())
            assert entry.better == ("neither" if neutral else plain), metric
            unit = "number" if metric in NUMBERS.get(kind, ()) else "share"
            assert entry.unit == ("count" if entry.role == "count" else unit), metric
            counted = metric.endswith(("_pairs", "_count"))
            assert (entry.role == "count") is counted, metric
            assert (entry.role == "error") is metric.endswith("_stderr"), metric
