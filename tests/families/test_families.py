"""What every family of encoders is promised: it loads, it is read as it was trained, its states and
word vectors are those of transformers, and what is exported opens.
"""

from __future__ import annotations

from functools import cache

import pytest
import torch

from raxalign.catalog import catalog
from tests.families.catalogue import FAMILIES
from tests.families.checks import (
    TASKS,
    Subject,
    check_export,
    check_loads,
    check_pieces,
    check_states,
    check_words,
)


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def subject_of(tmp_path_factory):
    """Families by name, each written and loaded once."""
    root = tmp_path_factory.mktemp("families")
    return cache(lambda name: Subject.of(name, root))


@pytest.fixture(params=list(FAMILIES))
def subject(request, subject_of):
    return subject_of(request.param)


def test_it_loads_whole(subject):
    check_loads(subject)


def test_the_pieces_of_a_sentence_are_those_of_its_running_text(subject):
    check_pieces(subject)


def test_states_are_those_of_transformers_row_by_row_at_every_layer(subject):
    check_states(subject)


def test_the_vector_of_a_word_is_the_mean_of_the_pieces_that_share_characters_with_it(subject):
    check_words(subject)


def test_what_is_exported_opens_in_transformers(subject, tmp_path):
    check_export(subject, tmp_path / "export")


def test_there_are_28_families_and_every_task_is_tried():
    assert len(FAMILIES) == 28
    assert set(catalog("tasks")) <= set(TASKS)
