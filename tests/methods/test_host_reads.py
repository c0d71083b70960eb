"""A step of a training gives the device its work and reads nothing back."""

from __future__ import annotations

import pytest

from raxalign.train.loop import TrainSettings, fit
from raxalign.train.runtime import Runtime
from tests.host_reads import host_reads
from tests.methods.contract import asked_for, make, trained
from tests.methods.toy import toy_encoder, toy_inputs
from tests.train.problems import Regression


@pytest.mark.parametrize("kind", trained())
def test_no_step_after_the_first_one_waits_for_the_device(kind, tmp_path):
    toy_inputs(tmp_path, languages=("de", "fr"))
    method = make(kind, tmp_path)
    encoder, inputs = toy_encoder(tmp_path / "encoder"), asked_for(method, tmp_path)
    with host_reads() as steps:
        method.align(encoder, inputs, Runtime(seed=1))
    assert len(steps) > 2
    assert [name for found in steps[1:] for name in found] == []


def test_a_read_within_a_step_is_found():
    objective = Regression()  # asks which rows are rare, by the value of a tensor
    with host_reads() as steps:
        fit(objective, len(objective.x), TrainSettings(0.1, 4), Runtime())
    assert "__bool__" in steps[1]
