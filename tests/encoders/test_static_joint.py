"""Static vectors of several languages in one space: what is shared, saved, and gained."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

from raxalign.corpora.text.dataset import DatasetWriter
from raxalign.encoders.base import EncoderInputs
from raxalign.encoders.models.aligned import Affine, AlignedEncoder, Transform
from raxalign.encoders.models.static import RECORD, StaticEncoder
from raxalign.encoders.static import Static
from raxalign.errors import DataError, RaxalignError
from raxalign.tasks.base import TaskInputs
from raxalign.tasks.dictionary_retrieval import DictionaryRetrieval
from raxalign.train.runtime import Runtime

TOPICS = 20
PARAMS = {"dimension": 12, "min_count": 1, "epochs": 20, "seed": 3}


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Word i of either language is only ever next to the names i and i+1, which both share."""
    folders = {}
    for lang in ("de", "en"):
        rng = np.random.default_rng(len(folders))
        folders[lang] = tmp_path_factory.mktemp("text") / lang
        sentences = [
            [f"{lang}{i}", f"Name{i}", f"{lang}{i}", f"Name{(i + 1) % TOPICS}"]
            for i in rng.integers(0, TOPICS, 600).tolist()
        ]
        with DatasetWriter(
            folders[lang], pa.schema([("words", pa.list_(pa.string()))]), {}
        ) as writer:
            writer.write({"words": sentences})
    return folders


def build(text: dict[str, Path], folder: Path, **options: object) -> StaticEncoder:
    folder.mkdir()
    kind = Static(Static.Params.model_validate({**PARAMS, **options}))
    kind.build(EncoderInputs(text=text), Runtime(), folder)
    return kind.load(EncoderInputs(folder=folder), "cpu")


def mrr(encoder: StaticEncoder, text: dict[str, Path], folder: Path) -> float:
    """The mean reciprocal rank over the dictionary of all topics, both ways."""
    dictionary = folder / "de-en.txt"
    dictionary.write_text("".join(f"de{i} en{i}\n" for i in range(TOPICS)), encoding="utf-8")
    task = DictionaryRetrieval(DictionaryRetrieval.Params(dictionary=str(dictionary)))
    inputs = TaskInputs("en", files={"dictionary": {"de": dictionary}}, text=text)
    outcome = task.evaluate(AlignedEncoder(encoder), ("de",), inputs, Runtime(), None)
    return next(score.value for score in outcome.scores if score.metric == "mrr")


def vectors_of(encoder: StaticEncoder, lang: str, *words: str) -> torch.Tensor:
    return encoder.words([list(words)], lang, layers=(0,), pooling="mean").vectors_NLH[:, 0]


@pytest.mark.parametrize("algorithm", ["word2vec", "glove", "fasttext"])
def test_translations_that_share_their_contexts_are_found_in_a_joint_space_and_not_across_spaces(
    algorithm: str, text: dict[str, Path], tmp_path: Path
) -> None:
    """By chance the mean reciprocal rank among 20 words is (1 + 1/2 + ... + 1/20) / 20 = .18."""
    options = {"algorithm": algorithm, "buckets": 500, "min_n": 6, "learning_rate": 0.05}
    joint = build(text, tmp_path / "joint", spaces="joint", **options)
    separate = build(text, tmp_path / "separate", **options)
    assert mrr(joint, text, tmp_path) > 0.8
    assert mrr(separate, text, tmp_path) < 0.4


def test_pieces_that_languages_share_have_one_vector(text: dict[str, Path], tmp_path: Path) -> None:
    options = {"algorithm": "glove", "units": "pieces", "vocab_size": 200}
    joint = build(text, tmp_path / "joint", spaces="joint", **options)
    separate = build(text, tmp_path / "separate", **options)
    assert vectors_of(joint, "de", "Name3").equal(vectors_of(joint, "en", "Name3"))
    assert not vectors_of(separate, "de", "Name3").equal(vectors_of(separate, "en", "Name3"))
    assert joint.space("de") is joint.space("en")


def test_a_joint_space_is_one_file_that_comes_back_as_it_was_and_is_the_same_for_one_seed(
    text: dict[str, Path], tmp_path: Path
) -> None:
    encoder = build(text, tmp_path / "a", spaces="joint", algorithm="word2vec")
    build(text, tmp_path / "b", spaces="joint", algorithm="word2vec")
    assert {p.name for p in (tmp_path / "a").iterdir()} == {"joint.vec", RECORD}
    assert all(
        path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()
        for path in (tmp_path / "a").iterdir()
    )
    turn = Transform("de", 0, steps=(Affine(weight=-torch.eye(12)),))
    AlignedEncoder(encoder, (turn,)).export(tmp_path / "out")
    again = AlignedEncoder.from_export(tmp_path / "out")
    assert isinstance(again.encoder, StaticEncoder)
    assert again.encoder.languages == ("de", "en")
    before = vectors_of(encoder, "en", "Name0", "de1", "en1")
    assert vectors_of(again.encoder, "en", "Name0", "de1", "en1").equal(before)
    assert again.words([["Name0"]], "de").vectors_NLH[0, 0].equal(-before[0])


def test_languages_that_were_not_trained_on_have_no_vectors(
    text: dict[str, Path], tmp_path: Path
) -> None:
    encoder = build(text, tmp_path / "a", spaces="joint", algorithm="word2vec")
    with pytest.raises(RaxalignError, match="no vectors for fr; it has de, en"):
        vectors_of(encoder, "fr", "Name0")


def test_a_record_of_another_version_is_refused(text: dict[str, Path], tmp_path: Path) -> None:
    build(text, tmp_path / "a", spaces="joint", algorithm="word2vec")
    record = json.loads((tmp_path / "a" / RECORD).read_text(encoding="utf-8"))
    assert record["format"] == 2
    (tmp_path / "a" / RECORD).write_text(json.dumps({**record, "format": 3}), encoding="utf-8")
    with pytest.raises(DataError, match="format 3, but this version reads 1 and 2"):
        StaticEncoder.from_folder(tmp_path / "a")


def test_the_notes_count_the_sentences_of_each_language(
    text: dict[str, Path], tmp_path: Path
) -> None:
    (tmp_path / "a").mkdir()
    kind = Static(
        Static.Params.model_validate({**PARAMS, "spaces": "joint", "algorithm": "word2vec"})
    )
    notes = kind.build(EncoderInputs(text=text), Runtime(), tmp_path / "a")
    assert notes["sentences"] == {"de": 600, "en": 600}
    assert notes["words"] == 4800
    assert notes["vocabulary"] == 3 * TOPICS


def test_the_option_enters_keys_only_where_it_is_set_and_files_make_it_idle() -> None:
    identity = Static.Params().identity()
    assert "spaces" not in identity
    assert Static.Params(spaces="joint").identity() == {**identity, "spaces": "joint"}
    files = Static.Params(vectors="wiki.{lang}.vec", spaces="joint").identity()
    assert files == Static.Params(vectors="wiki.{lang}.vec").identity()
