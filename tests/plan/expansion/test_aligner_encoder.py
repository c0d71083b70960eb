"""A word aligner that reads an encoder: what its word pairs depend on, and what others do not."""

from __future__ import annotations

import pytest

from raxalign.config.grid import load
from raxalign.errors import GridError, RaxalignError
from raxalign.plan.expansion.encoders import all_encoders
from raxalign.plan.expansion.expand import expand
from tests.grids import write_grid
from tests.tiny import tiny_bert


@pytest.fixture
def folder(tmp_path):
    tiny_bert(tmp_path / "small", ["the", "der"], layers=2)
    return tmp_path


def grid_of(folder, options, **parts):
    text = write_grid(folder, languages="{each: [de]}", sentences="[100]", **parts).read_text()
    path = folder / "grid.yaml"
    path.write_text(text.replace("{aligner: fast_align}", f"{{aligner: simalign, {options}}}"))
    return load(path)


def pairs_of(plan):
    return {stage.params["part"]: stage for stage in plan.stages.values() if stage.kind == "pairs"}


def test_its_encoder_is_an_input_of_the_word_pairs(folder):
    plan = expand(grid_of(folder, "encoder: small, layer: 1"))
    found = pairs_of(plan)
    assert found.keys() == {"heldout", "training"}
    (key,) = {stage.inputs["encoder"] for stage in found.values()}
    assert plan.stages[key].kind == "encoder"
    assert plan.stages[key].maker == "transformer"
    assert plan.stages[key].inline
    assert "encoder" not in found["heldout"].params["aligner"], "its key stands for its name"


def test_its_word_pairs_are_the_same_for_every_encoder_of_the_grid(folder):
    tiny_bert(folder / "other", ["the", "der"], layers=2, seed=1)
    grid = grid_of(folder, "encoder: small, layer: 1")
    text = grid.text_of_file
    start = text.index("encoder: {kind: scratch")
    end = text.index("\n", start)
    (folder / "grid.yaml").write_text(text[:start] + "encoder: [small, other]" + text[end:])
    plan = expand(load(folder / "grid.yaml"))
    assert len({trial.encoder for trial in plan.trials}) == 2
    assert len([stage for stage in plan.stages.values() if stage.kind == "pairs"]) == 2


def test_the_content_of_its_encoder_counts_and_not_its_path(folder):
    tiny_bert(folder / "copy", ["the", "der"], layers=2)
    tiny_bert(folder / "other", ["the", "der"], layers=2, seed=1)
    small, copy, other = (
        pairs_of(expand(grid_of(folder, f"encoder: {name}, layer: 1")))["training"].key
        for name in ("small", "copy", "other")
    )
    assert small == copy != other


def test_a_kind_of_encoder_is_made_from_the_grids_text(folder):
    plan = expand(grid_of(folder, "encoder: scratch, layer: 1"))
    encoder = plan.stages[pairs_of(plan)["heldout"].inputs["encoder"]]
    assert (encoder.maker, encoder.inline) == ("scratch", False)
    assert {name.split("/")[0] for name in encoder.inputs} == {"text"}


def test_other_word_aligners_read_no_encoder(tmp_path):
    grid = load(write_grid(tmp_path))
    assert len(all_encoders(grid)) == len(grid.encoders) == 1
    plan = expand(grid)
    assert all(
        "encoder" not in stage.inputs for stage in plan.stages.values() if stage.kind == "pairs"
    )


def test_a_layer_that_its_encoder_does_not_have_is_refused(folder):
    with pytest.raises(
        RaxalignError,
        match=r"grid\.yaml: 1 fault\n  line \d+: pairs: layer: .*small: layers '8': this encoder"
        r" has the layers 0 \(embeddings\) to 2; choose one of them",
    ):
        expand(grid_of(folder, "encoder: small"))


def test_a_folder_that_is_not_there_is_refused(folder):
    with pytest.raises(GridError, match=r"line \d+: pairs: .*missing: no such encoder folder"):
        expand(grid_of(folder, "encoder: ./missing, layer: 1"))


def test_a_name_that_no_encoder_can_have_is_refused(folder):
    with pytest.raises(RaxalignError, match=r"line 10: pairs: a b c is neither a folder nor"):
        expand(grid_of(folder, "encoder: a b c, layer: 1"))
