"""The encoder that the package carries: what it was made from, and that it is the one that was
made.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from raxalign.config.grid import load
from raxalign.corpora.phrases.rows import LANGS, sentences
from raxalign.encoders.base import EncoderInputs
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.encoders.phrasebook import FOLDER, Phrasebook
from raxalign.encoders.training.masked_lm import Pretraining, new_bert, training_rows
from raxalign.encoders.training.phrasebook import (
    PARAMS,
    Alternating,
    Recipe,
    make,
    monolingual,
    translations,
)
from raxalign.encoders.training.wordpiece import train_wordpiece
from raxalign.plan.expansion.expand import expand
from raxalign.train.objective import Step
from raxalign.train.runtime import Runtime
from tests.golden import grid

SHA256 = "6c0818835cc36b601b65970d197b13b454efa1b352e1453ed3f5c23031f0a972"
MOST_BYTES = 2_000_000
FEW = Recipe(PARAMS.model_copy(update={"steps": 2, "hidden_size": 8, "vocab_size": 400}), 12, 5)


def test_the_weights_are_those_that_the_program_made() -> None:
    weights = (FOLDER / "model.safetensors").read_bytes()
    assert hashlib.sha256(weights).hexdigest() == SHA256


def test_it_is_small() -> None:
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < MOST_BYTES


def test_it_reads_every_word_of_its_six_languages() -> None:
    encoder = Phrasebook(Phrasebook.Params()).load(EncoderInputs(), "cpu")
    for lang in LANGS:
        read = [list(own.words) for (own,) in sentences((lang,), 200)]
        unknown = encoder.tokenizer.unk_token_id
        assert not any(unknown in row.ids for row in encoder.pieces(read, lang))


def test_its_depth_and_its_size_are_those_of_its_config() -> None:
    kind = Phrasebook(Phrasebook.Params())
    encoder = kind.load(EncoderInputs(), "cpu")
    footprint = kind.footprint(lambda name: None)
    assert kind.depth(lambda name: None) == encoder.n_layers
    assert footprint is not None
    assert footprint.width == encoder.hidden_size


def test_a_grid_names_it_by_one_word_and_its_stages_are_keyed_by_the_content_of_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def keys(folder: Path) -> set[str]:
        monkeypatch.setattr("raxalign.encoders.phrasebook.FOLDER", folder)
        file = tmp_path / "grid.yaml"
        file.write_text(grid("{each: [de]}", encoder="phrasebook"), encoding="utf-8")
        return {trial.key for trial in expand(load(file)).trials}

    copy, other = tmp_path / "copy", tmp_path / "other"
    for folder in (copy, other):
        folder.mkdir()
        for path in FOLDER.iterdir():
            (folder / path.name).write_bytes(path.read_bytes())
    (other / "model.safetensors").write_bytes(b"other weights")
    assert keys(FOLDER) == keys(copy)
    assert not keys(FOLDER) & keys(other)


def test_its_text_has_no_sentence_that_grids_read_and_none_twice() -> None:
    text = monolingual(300)
    for lang, part in text.items():
        known = {own.words for (own,) in sentences((lang,), 300)}
        read = [tuple(words) for words in part]
        assert not known & set(read)
        assert len(set(read)) == len(read)


def test_its_text_has_no_sentence_in_two_languages() -> None:
    text, said = monolingual(2), list(sentences(("en", "de"), 8, first=10_000))
    assert text["en"] == [list(said[number][0].words) for number in (0, 6)]
    assert text["de"] == [list(said[number][1].words) for number in (1, 7)]


def test_the_dictionary_has_one_translation_per_pair_of_languages() -> None:
    dictionary = translations(100)
    assert dictionary["airport"] == ["Flughafen", "αεροδρόμιο", "aeropuerto", "aéroport"]
    assert all(word not in others for word, others in dictionary.items())


def test_a_translation_is_read_in_place_of_a_mask_and_the_word_is_still_predicted() -> None:
    text = monolingual(40)
    tokenizer = train_wordpiece([words for part in text.values() for words in part], 2_000)
    encoder = TransformerEncoder(new_bert(FEW.params, len(tokenizer)), tokenizer)
    rows, _ = training_rows(encoder, text, FEW.params)
    step = Step(0, 0, np.arange(len(rows)), seed=0, micro=len(rows))
    plain = Pretraining(encoder, rows, FEW.params)
    vocabulary = tokenizer.get_vocab()
    alternating = Alternating(encoder, rows, FEW.params, {"the": ["die"], "die": ["the"]})
    plain.begin(step)
    alternating.begin(step)
    the, die = vocabulary["the"], vocabulary["die"]
    before, after = plain.host.masks, alternating.host.masks
    changed = before.inputs != after.inputs
    assert np.array_equal(before.targets, after.targets)
    assert set(zip(after.targets[changed], after.inputs[changed], strict=True)) == {
        (the, die),
        (die, the),
    }
    either = np.isin(after.targets, [the, die])
    assert 0.15 < changed[either].mean() < 0.45


def test_the_program_makes_the_same_weights_twice(tmp_path: Path) -> None:
    made = []
    for name in ("one", "two"):
        make(tmp_path / name, FEW, Runtime())
        made.append((tmp_path / name / "model.safetensors").read_bytes())
    assert made[0] == made[1]
