from dataclasses import replace

import pytest
import torch

from raxalign.corpora.text.dataset import read_table
from raxalign.corpora.text.sentences import sentence_chunks
from raxalign.encoders.models.pieces import Pieces
from raxalign.encoders.models.rows import RowSource
from raxalign.encoders.models.token_means import Reading, text_blocks, token_means
from raxalign.errors import RaxalignError
from raxalign.methods.mean_shift import MeanShift
from raxalign.train.runtime import Runtime
from tests.methods.toy import toy_encoder, toy_inputs, toy_rows, write_text

BLOCKS = Reading(max_blocks=None)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    torch.set_num_threads(1)
    return toy_encoder(tmp_path_factory.mktemp("encoder"), layers=3, positions=32)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    return toy_inputs(tmp_path_factory.mktemp("inputs"), 20, ("de", "fr"))


def text(inputs, lang):
    return sentence_chunks(read_table(inputs.text[lang]), "words", 100)


def align(encoder, inputs, **params):
    return MeanShift(MeanShift.Params.model_validate(params)).align(encoder, inputs, Runtime())


@pytest.mark.parametrize("direction", ["to-pivot", "to-other"])
def test_alpha_one_at_the_last_layer_moves_one_mean_exactly_onto_the_other(
    encoder, inputs, direction
):
    """The mean over all blocks of the text as they are after the shift; alpha a half goes half the
    way.
    """
    for alpha in (1.0, 0.5):
        aligned = align(encoder, inputs, alpha=alpha, direction=direction)
        moving, held = ("de", "en") if direction == "to-pivot" else ("en", "de")
        after = {}
        for lang in (moving, held):
            states = [
                aligned.toward("de").hidden(encoder.collate(RowSource.of(encoder, [rows])))[-1][0]
                for block in text_blocks(encoder, text(inputs, lang), lang, BLOCKS)
                for rows in [Pieces.of([block], lang)]
            ]
            after[lang] = torch.stack([part.double().mean(0) for part in states]).mean(0)
        reading = Reading(max_blocks=None)
        before = token_means(encoder, text(inputs, moving), moving, (3,), reading).means_LH[0]
        expected = before + alpha * (after[held] - before)
        assert (after[moving] - expected).abs().max() < 1e-5
        assert (after[moving] - before).abs().max() > 0.01


def test_means_are_those_of_a_loop_over_blocks(encoder, inputs):
    reading = Reading(block_size=11, max_blocks=None)
    found = token_means(encoder, text(inputs, "de"), "de", (2,), reading)
    pieces = [row.ids[1:-1].tolist() for row in encoder.pieces(toy_rows(20)["src"], "de")]
    running = [piece for row in pieces for piece in row]
    states = []
    for row in (running[start : start + 11] for start in range(0, len(running), 11)):
        ids = torch.tensor([[encoder.tokenizer.cls_token_id, *row, encoder.tokenizer.sep_token_id]])
        with torch.no_grad():
            hidden = encoder.model(ids, output_hidden_states=True).hidden_states[2][0].double()
        states.append(hidden)
    expected = torch.stack([part.mean(0) for part in states]).mean(0)
    assert (found.rows, found.tokens) == (len(states), sum(map(len, states)))
    assert (found.means_LH[0] - expected).abs().max() < 1e-6


def test_blocks_are_clamped_to_the_positions_and_limited(encoder, inputs):
    lengths = [len(block) + 2 for block in text_blocks(encoder, text(inputs, "de"), "de", BLOCKS)]
    assert lengths[:-1] == [32] * (len(lengths) - 1)
    assert len(lengths) > 2
    assert align(encoder, inputs, max_blocks=2).notes["de"] == {"rows": 2, "tokens": 64}


def test_each_language_has_its_own_shift_and_the_pivot_one_toward_each(encoder, inputs):
    to_pivot = align(encoder, inputs, layers="2")
    assert [(t.lang, t.toward) for t in to_pivot.transforms] == [("de", None), ("fr", None)]
    to_other = align(encoder, inputs, layers="2", direction="to-other")
    assert [(t.lang, t.toward) for t in to_other.transforms] == [("en", "de"), ("en", "fr")]
    both = (*to_pivot.transforms, *to_other.transforms)
    assert {(t.sort, t.layer) for t in both} == {("inside", 2)}
    for one, other in zip(to_pivot.transforms, to_other.transforms, strict=True):
        assert torch.equal(one.steps[0].shift, -other.steps[0].shift)


@pytest.mark.parametrize("layers", ["2-3", "0", "-1", "all", ""])
def test_all_but_one_layer_above_the_embeddings_is_refused(layers):
    with pytest.raises(ValueError, match="layers"):
        MeanShift.Params(layers=layers)


def test_text_without_words_is_an_error_that_names_the_language(encoder, inputs, tmp_path):
    empty = replace(inputs, text={**inputs.text, "fr": write_text(tmp_path / "empty", [[], []])})
    with pytest.raises(RaxalignError, match="text of fr has no word"):
        align(encoder, empty)
