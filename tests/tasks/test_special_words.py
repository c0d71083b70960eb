"""Special pieces as words: positions, links and vectors by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.tasks.vectors.pairs import LinkedWords, SideWords
from raxalign.tasks.vectors.sentences import add_specials
from tests.tiny import tiny_bert

SENTENCES = [["der", "Hund"], ["bellt"]]


@pytest.fixture(scope="module")
def aligned(tmp_path_factory: pytest.TempPathFactory) -> AlignedEncoder:
    folder = tmp_path_factory.mktemp("tiny")
    return AlignedEncoder(
        TransformerEncoder.from_folder(tiny_bert(folder / "e", ["der", "Hund", "bellt"]))
    )


def test_specials_come_behind_the_words_of_their_sentence_and_are_linked_across() -> None:
    """Words 0 1 | 2 on the one side and 0 | 1 2 on the other; Hund (1) is linked with dog (0), and
    bellt (2) with barks (2).
    """
    src, tgt = SideWords(SENTENCES), SideWords([["dog"], ["it", "barks"]])
    pairs = LinkedWords(
        np.array([7, 9]), src, tgt, np.array([0, 1]), np.array([1, 2]), np.array([0, 2])
    )
    found = pairs.with_specials()
    assert found.src.sentences == [["der", "Hund", "[CLS]", "[SEP]"], ["bellt", "[CLS]", "[SEP]"]]
    assert found.tgt.sentences == [["dog", "[CLS]", "[SEP]"], ["it", "barks", "[CLS]", "[SEP]"]]
    assert found.ids.tolist() == [7, 9]
    assert found.row.tolist() == [0, 1, 0, 1, 0, 1]
    assert found.src_word.tolist() == [1, 4, 2, 5, 3, 6], "words, then [CLS], then [SEP]"
    assert found.tgt_word.tolist() == [0, 4, 1, 5, 2, 6]


@pytest.mark.parametrize("batch_tokens", [1, 1000])
def test_each_sentence_gets_the_vectors_of_its_own_first_and_last_piece(
    aligned: AlignedEncoder, monkeypatch: pytest.MonkeyPatch, batch_tokens: int
) -> None:
    """Layers are added up, and the vectors and marks of words stay those of the words."""
    encoder = aligned.encoder
    assert isinstance(encoder, TransformerEncoder)
    monkeypatch.setattr(encoder, "batch_tokens", batch_tokens)
    vectors = torch.arange(1.0, 4.0)[:, None].expand(3, encoder.hidden_size)
    read = np.array([True, False, True])
    wide, wide_read = add_specials(aligned, SideWords(SENTENCES), "de", vectors, read, "1-2")
    assert wide.shape == (7, encoder.hidden_size)
    assert wide_read.tolist() == [True, False, True, True, True, True, True]
    assert wide[[0, 1, 4], 0].tolist() == [1, 2, 3]
    for start, sentence in ((2, SENTENCES[0]), (5, SENTENCES[1])):
        with torch.no_grad():
            states = aligned.hidden(encoder.collate(encoder.pieces([sentence], "de")))
        layers = states[1][0] + states[2][0]
        assert torch.allclose(wide[start], layers[0], atol=1e-5), f"[CLS] of {sentence}"
        assert torch.allclose(wide[start + 1], layers[-1], atol=1e-5), f"[SEP] of {sentence}"
        assert wide[start].abs().sum() > 0
