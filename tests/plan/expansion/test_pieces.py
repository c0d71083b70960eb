"""`corpus.pieces`: training pairs that are chosen by an encoder's tokenizer."""

from __future__ import annotations

import pytest

from raxalign.config.grid import load
from raxalign.corpora.text.dataset import read_table
from raxalign.errors import GridError, RaxalignError
from raxalign.plan.expansion.encoders import all_encoders
from raxalign.plan.expansion.expand import expand
from raxalign.stages import Workshop
from raxalign.store.storage import Storage
from raxalign.train.runtime import Runtime
from tests.grids import write_grid
from tests.tiny import tiny_bert

LINES = ["a", "a b c", "a b", "b b b b", "c a b", "a b c a", "b", "c"]


@pytest.fixture
def folder(tmp_path):
    tiny_bert(tmp_path / "small", ["a", "b", "c"], layers=2)
    for lang in ("de", "en"):
        text = "".join(f"{line}\n" for line in LINES)
        (tmp_path / f"text.{lang}").write_text(text, encoding="utf-8")
    return tmp_path


def grid_of(folder, line="", source="phrasebook\n  size: 400"):
    path = write_grid(folder, languages="{each: [de]}", sentences="[2]")
    text = path.read_text(encoding="utf-8").replace("encoder: {kind: scratch", "encoder: small #")
    text = text.replace("source: phrasebook\n  size: 400", f"{line}source: {source}")
    path.write_text(text, encoding="utf-8")
    return load(path)


def bitexts(plan):
    return {s.params["part"]: s for s in plan.stages.values() if s.kind == "bitext"}


PIECES = "pieces: {encoder: small, min_pieces: 3, max_pieces: 7}\n  "


def test_the_limits_and_their_encoder_are_in_the_keys_of_training_alone(folder):
    plain, limited = bitexts(expand(grid_of(folder))), expand(grid_of(folder, PIECES))
    found = bitexts(limited)
    assert found["heldout"].key == plain["heldout"].key
    assert "pieces" not in plain["training"].params
    assert found["training"].params["pieces"] == {"min_pieces": 3, "max_pieces": 7}
    start = limited.stages[found["training"].inputs["encoder"]]
    assert (start.kind, start.maker, start.inline) == ("encoder", "transformer", True)


def test_limits_of_length_are_in_the_keys_of_training_alone(folder):
    plain = bitexts(expand(grid_of(folder)))
    limited = bitexts(expand(grid_of(folder, "max_basic_tokens: 99\n  max_words: 9\n  ")))
    assert {"max_basic_tokens"}.isdisjoint(plain["training"].params)
    assert limited["training"].params["max_basic_tokens"] == 99
    assert limited["training"].params["max_words"] == 9
    assert limited["heldout"].key == plain["heldout"].key


def test_the_encoder_counts_among_those_of_the_grid(folder):
    labels = [spec.label for spec in all_encoders(grid_of(folder, PIECES))]
    assert len(labels) == 2
    assert len(set(labels)) == 1


def test_training_pairs_are_the_first_ones_that_have_the_pieces(folder):
    source = 'moses\n  path: "text"\n  training_from: start\n  overlap: keep'
    grid = grid_of(folder, PIECES, source)
    text = grid.text_of_file.replace("{test: 30, dev: 30}", "{test: 1, dev: 1}")
    grid.path.write_text(text, encoding="utf-8")
    plan, root = expand(load(grid.path)), folder / "storage"
    workshop = Workshop(plan, Storage(str(root)), Runtime())
    made = workshop.ensure(bitexts(plan)["training"].key)
    assert read_table(made / "data").column("id").to_pylist() == [1, 4]


def test_a_kind_of_encoder_is_refused_since_it_is_made_from_this_text(folder):
    with pytest.raises(RaxalignError, match=r"corpus: pieces: encoder: 'scratch' is a kind of"):
        expand(grid_of(folder, "pieces: {encoder: scratch}\n  "))


def test_an_encoder_has_to_be_named(folder):
    with pytest.raises(GridError, match=r"corpus\.pieces\.encoder"):
        grid_of(folder, "pieces: {min_pieces: 3}\n  ")
