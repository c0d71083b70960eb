"""The encoder that the package carries: what it was made from, and that it is the one that was
made.
"""

import hashlib
import json

from raxalign.corpora.phrasebook import LANGS, read, sentences
from raxalign.encoders.base import EncoderInputs
from raxalign.encoders.phrasebook import FOLDER, Phrasebook
from raxalign.grid.expansion.expand import expand
from raxalign.grid.file import load
from tests.golden import grid

MOST_BYTES = 2_000_000


def test_the_weights_are_those_of_the_record_and_small():
    weights = (FOLDER / "model.safetensors").read_bytes()
    record = json.loads(FOLDER.with_suffix(".json").read_text(encoding="utf-8"))
    assert hashlib.sha256(weights).hexdigest() == record["sha256"]
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < MOST_BYTES


def test_it_reads_every_word_of_its_six_languages_and_its_sizes_are_those_of_its_config():
    kind = Phrasebook(Phrasebook.Params())
    encoder = kind.load(EncoderInputs(), "cpu")
    for lang in LANGS:
        words = [list(own.words) for (own,) in sentences((lang,), 200)]
        unknown = encoder.tokenizer.unk_token_id
        assert not any(unknown in row.ids for row in encoder.pieces(words, lang))
    footprint = kind.footprint(lambda name: None)
    assert kind.depth(lambda name: None) == encoder.n_layers
    assert footprint.width == encoder.hidden_size


def test_a_grid_names_it_by_a_word_and_keys_have_the_content_of_its_files(tmp_path, monkeypatch):
    def keys(folder):
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


def test_its_text_has_no_sentence_that_grids_read_and_none_twice():
    for lang in LANGS:
        known = {own.words for (own,) in sentences((lang,), 300)}
        texts = read("text", "0", (lang,), range(300))
        trained = [tuple(words.split(" ")) for ((words,),) in texts]
        assert not known & set(trained)
        assert len(set(trained)) == len(trained)
