from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from raxalign.encoders.models.packing import can_pack, flat_states, pack
from raxalign.methods.rows.linked_words import tokenise
from tests.methods.toy import WORDS, toy_encoder


def test_rows_are_filled_evenly_and_hold_every_piece_once() -> None:
    lengths = np.array([3, 7, 2, 5, 4, 9])
    packed = pack(np.arange(100, 130), lengths, pad=0, width=10)
    assert packed.ids_BT.shape == (3, 11)
    assert sorted(packed.ids_BT[packed.sentences_BT >= 0]) == list(range(100, 130))
    flat, firsts = packed.ids_BT.reshape(-1), np.cumsum(lengths) - lengths
    for s, start in enumerate(packed.starts_S):
        assert flat[start : start + lengths[s]].tolist() == list(
            range(100 + firsts[s], 100 + firsts[s] + lengths[s])
        )
        assert packed.positions_BT.reshape(-1)[start : start + lengths[s]].tolist() == list(
            range(lengths[s])
        )


def test_a_sentence_longer_than_the_width_has_room() -> None:
    assert pack(np.arange(12), np.array([2, 10]), pad=0, width=4).ids_BT.shape == (3, 10)


def test_packed_sentences_have_the_states_that_they_have_alone(tmp_path: Path) -> None:
    encoder = toy_encoder(tmp_path)
    assert can_pack(encoder)
    words = list(WORDS)
    sentences = [words[:3], words[3:9], words[1:2], words[::2]]
    side = tokenise(encoder, [sentences], 64)
    lengths = np.diff(side.offsets)
    for width in (0, 12, 40):
        packed = pack(side.ids(np.arange(len(side))), lengths, pad=0, width=width)
        states = flat_states(encoder, packed, (0, 1, 2))
        for s, sentence in enumerate(sentences):
            alone = encoder.hidden(encoder.collate(encoder.pieces([sentence], "de")))
            for layer in range(3):
                found = states[layer][packed.starts_S[s] : packed.starts_S[s] + lengths[s]]
                assert torch.allclose(found, alone[layer][0], atol=1e-5)


def test_packed_pairs_have_the_states_of_pairs_with_their_token_types(tmp_path: Path) -> None:
    encoder = toy_encoder(tmp_path)
    words = list(WORDS)
    pairs = [(words[:3], words[3:9]), (words[1:2], words[::2]), (words[2:4], words[:1])]
    rows = [encoder.pieces([first], "de", [second], "en")[0] for first, second in pairs]
    lengths = np.array([len(row) for row in rows])
    ids, segments = (
        np.concatenate([getattr(row, name) for row in rows]) for name in ("ids", "segments")
    )
    for width in (0, 16, 60):
        (states,) = flat_states(encoder, packed := pack(ids, lengths, 0, width, segments), (2,))
        (plain,) = flat_states(encoder, pack(ids, lengths, 0, width), (2,))
        for s, row in enumerate(rows):
            alone = encoder.hidden(encoder.collate([row]))[2][0]
            part = slice(packed.starts_S[s], packed.starts_S[s] + lengths[s])
            assert torch.allclose(states[part], alone, atol=1e-5)
            assert not torch.allclose(plain[part], alone, atol=1e-3)


def test_an_encoder_without_a_second_token_type_ignores_them(tmp_path: Path) -> None:
    encoder = toy_encoder(tmp_path)
    encoder.model.config.type_vocab_size = 1
    with_types, without = (
        flat_states(encoder, pack(np.arange(5, 11), np.array([6]), 0, 0, part), (2,))[0]
        for part in (np.ones(6), None)
    )
    assert torch.equal(with_types, without)
