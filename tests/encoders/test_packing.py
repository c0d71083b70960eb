"""Packed rows, and blocks that torch.compile has made."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from raxalign.encoders.models import transformer
from raxalign.encoders.models.rows import Packed, Rows
from raxalign.encoders.models.transformer import TransformerEncoder, compiled_blocks
from raxalign.encoders.models.vectors import Batch
from raxalign.errors import RaxalignError
from raxalign.train.devices import recomputed
from tests.encoders.architectures import encoder_of
from tests.methods.toy import WORDS, toy_encoder


def test_rows_are_filled_evenly_and_hold_every_piece_once() -> None:
    lengths = np.array([3, 7, 2, 5, 4, 9])
    packed = Packed.of([Rows.of(np.arange(100, 130), lengths)], pad=0, width=10)
    assert packed.ids_BT.shape == (3, 11)
    assert sorted(packed.ids_BT[packed.sentences_BT >= 0]) == list(range(100, 130))
    flat, firsts = packed.ids_BT.reshape(-1), np.cumsum(lengths) - lengths
    for s, start in enumerate(packed.starts_S):
        own, places = slice(start, start + lengths[s]), np.arange(lengths[s])
        assert flat[own].tolist() == (100 + firsts[s] + places).tolist()
        assert packed.positions_BT.reshape(-1)[own].tolist() == places.tolist()
    longer = Packed.of(
        [Rows.of(np.arange(12), np.array([2, 10]))], pad=0, width=4
    )  # than the width
    assert longer.ids_BT.shape == (3, 10)


def test_packed_sentences_and_pairs_have_the_states_that_they_have_alone(tmp_path: Path) -> None:
    encoder = toy_encoder(tmp_path)
    assert encoder.can_pack()
    words = list(WORDS)
    singles = encoder.pieces([words[:3], words[3:9], words[1:2], words[::2]], "de")
    pairs = encoder.pieces([words[:3], words[1:2]], "de", [words[3:9], words[::2]], "en")
    rows = [(source, np.array([r])) for source in (singles, pairs) for r in range(len(source))]
    parts = [source.take() for source in (singles, pairs)]
    for width in (0, 16, 60):
        states = encoder.states(packed := Packed.of(parts, 0, width), (0, 1, 2))
        untyped = [replace(part, segments=np.zeros_like(part.segments)) for part in parts]
        plain = encoder.states(Packed.of(untyped, 0, width), (2,))
        for s, row in enumerate(rows):
            alone = encoder.hidden(batch := encoder.collate(*row))
            part = slice(packed.starts_S[s], packed.starts_S[s] + packed.lengths_S[s])
            for found, wanted in zip(states, alone, strict=True):
                assert torch.allclose(found[part], wanted[0], atol=1e-5)
            typed = bool(batch.segments_BT.any())
            assert torch.allclose(plain[0][part], alone[2][0], atol=1e-3) is not typed


def test_an_encoder_without_a_second_token_type_ignores_them(tmp_path: Path) -> None:
    encoder = toy_encoder(tmp_path)
    encoder.inputs.segment_types = 1
    ids, lengths = np.arange(5, 11), np.array([6])
    rows = (Packed.of([Rows.of(ids, lengths, types)], 0, 0) for types in (np.ones(6, int), None))
    assert torch.equal(*(encoder.states(packed, (2,))[0] for packed in rows))


def test_the_probe_computes_in_float32_also_within_a_block_of_autocast() -> None:
    encoder, seen = encoder_of("bert"), list[torch.dtype]()
    encoder.precision = "bf16"
    block = encoder.model.base_model.encoder.layer[0].attention.self.query
    block.register_forward_hook(lambda *made: seen.append(made[-1].dtype))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert encoder.can_pack()
    assert (seen, encoder.precision) == ([torch.float32] * 2, "bf16")


def with_config(name: str, **config: object) -> TransformerEncoder:
    model = encoder_of(name).model
    for key, value in config.items():
        setattr(model.config, key, value)
    return TransformerEncoder(model, encoder_of("bert").tokenizer)


def batch_of(*languages: str) -> Batch:
    """A row of three pieces per language."""
    ids = torch.full((len(languages), 3), 7)
    none, numbers = torch.full_like(ids, -1), torch.arange(len(languages))[:, None].expand(-1, 3)
    return Batch(ids, torch.ones_like(ids), torch.zeros_like(ids), none, none, numbers, languages)


def test_items_of_several_parts_keep_their_languages() -> None:
    ids, one = np.arange(3), np.array([1])
    both = replace(
        Rows.of(ids, np.array([2, 1])), langs=np.array([1, 1, 0]), languages=("de", "en")
    )
    other = replace(Rows.of(ids[:1], one), langs=np.array([0]), languages=("fr",))
    joined = Packed.of([both, other], 0, 0)
    assert [joined.languages[n] for n in joined.langs_BT[joined.langs_BT >= 0]] == [
        *("en", "en", "de", "fr")
    ]
    assert Packed.of([both, Rows.of(ids[:1], one)], 0, 0).langs_BT is None


@pytest.mark.parametrize("name", ["xmod", "xlm"])
def test_rows_of_a_training_have_the_states_of_their_languages(name: str) -> None:
    encoder = with_config(name)
    ids, lengths = np.array([7, 8, 9, 10, 7, 8, 9]), np.array([3, 1, 3])
    langs = np.repeat([0, 1, 0], lengths)
    assert not encoder.can_pack()
    packed = Packed.of([replace(Rows.of(ids, lengths), langs=langs, languages=("de", "en"))], 0, 0)
    with torch.no_grad():
        (found,) = encoder.states(packed, (encoder.n_layers,))
        wanted = {lang: _alone(encoder, [7, 8, 9], lang) for lang in ("de", "en")}
        shorter = _alone(encoder, [10], "en")
    starts = packed.starts_S
    for start, states in zip(starts, (wanted["de"], shorter, wanted["de"]), strict=True):
        assert torch.allclose(found[start : start + len(states)], states, atol=1e-5)
    assert not torch.allclose(wanted["de"], wanted["en"], atol=1e-3)


def _alone(encoder: TransformerEncoder, ids: list[int], lang: str) -> torch.Tensor:
    row = torch.tensor([ids])
    none = torch.full_like(row, -1)
    zeros = torch.zeros_like(row)
    batch = Batch(row, torch.ones_like(row), zeros, none, none, zeros, (lang,))
    return encoder.hidden(batch)[-1][0]


def test_rows_whose_language_is_not_known_are_refused() -> None:
    encoder = with_config("xmod")
    with pytest.raises(RaxalignError, match="the language of its rows is not known"):
        encoder.states(Packed.of([Rows.of(np.array([7, 8]), np.array([2]))], pad=0, width=0), (1,))


def test_an_adapter_is_found_by_its_language_in_every_form_of_its_code():
    encoder = with_config("xmod", languages=["en_XX", "de_DE", "zh_CN", "zh_TW", "he_IL", "sr_RS"])
    langs = ("en", "eng_Latn", "de", "zh", "zho_Hans", "zh-Hant", "zh_TW", "iw", "sr-Latn")
    found = [encoder.inputs.of(batch_of(lang))["lang_ids"].tolist() for lang in langs]
    assert found == [[0], [0], [1], [2], [2], [3], [3], [4], [5]]


def test_a_language_embedding_is_found_by_its_code_even_if_it_is_not_a_tag() -> None:
    encoder = with_config("xlm", lang2id={"simple": 3, "zh_classical": 4, "en": 5})
    found = encoder.inputs.of(batch_of("eng", "simple"))["langs"]
    assert found.tolist() == [[5] * 3, [3] * 3]


_SECONDS = 300


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")
def test_compiled_blocks_have_the_same_states_and_gradients_with_few_graphs(tmp_path: Path) -> None:
    """In a process of its own, without inductor's processes, ended after some minutes."""
    made = subprocess.run(
        [sys.executable, "-m", "tests.encoders.compiled_states", str(tmp_path / "encoder")],
        env={
            **os.environ,
            "TORCHINDUCTOR_COMPILE_THREADS": "1",
            "TORCHINDUCTOR_VEC_ISA_OK": "0",  # code without vectors is compiled sooner
            "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache"),
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        },
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    found = json.loads(made.stdout.splitlines()[-1])
    assert found["values"] > 100
    assert found["gap"] <= 1e-5
    assert found["graphs"] <= 2
    assert found["breaks"] == 0
    assert found["left"] == []


def test_what_is_not_compiled_is_left_as_it_is_and_a_frozen_copy_is_compiled_too() -> None:
    encoder = encoder_of("bert")
    with compiled_blocks(encoder):
        assert not any("forward" in vars(part) for part in encoder.model.modules())
    encoder.compiled = True
    assert encoder.with_model(encoder.model).compiled


def test_blocks_are_compiled_for_a_while_also_where_they_run_again(monkeypatch):
    encoder = encoder_of("bert")
    encoder.compiled, calls = True, []

    def compiled(kind: Any) -> Any:
        return lambda block, *given, **named: (
            calls.append(block) or kind.forward(block, *given, **named)
        )

    monkeypatch.setattr(transformer, "_compiled", compiled)
    blocks = list(encoder.model.encoder.layer)
    packed = Packed.of([Rows.of(np.arange(5, 12), np.array([3, 4]))], 0, 7)
    encoder.states(packed, (1, 3))
    assert calls == blocks
    assert not any("forward" in vars(block) for block in blocks)
    encoder.hidden(encoder.collate(encoder.pieces([["w1"]], "de")))
    assert len(calls) == 3
    calls.clear()
    with recomputed(blocks):
        wrappers = [block.forward for block in blocks]
        (states,) = encoder.states(packed, (3,))
        assert [block.forward for block in blocks] == wrappers
        states.sum().backward()
    assert calls == [*blocks, *reversed(blocks)]
