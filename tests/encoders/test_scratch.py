from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

from raxalign.corpora.text.dataset import DatasetWriter
from raxalign.encoders.base import EncoderInputs
from raxalign.encoders.models.pieces import PieceRow
from raxalign.encoders.scratch import Scratch
from raxalign.encoders.training.masked_lm import batches, mask_pieces, pack_rows, read_words
from raxalign.encoders.training.wordpiece import train_wordpiece
from raxalign.errors import DataError, RaxalignError
from raxalign.train.runtime import Runtime

NOUNS = {"en": ["dog", "cat", "house", "river"], "de": ["Hund", "Katze", "Haus", "Fluß"], "bg": ["куче", "котка", "къща", "река"]}
VERBS = {"en": ["sees", "loves", "has"], "de": ["sieht", "liebt", "hat"], "bg": ["вижда", "обича", "има"]}
PARAMS = {
    "layers": 1,
    "hidden_size": 32,
    "heads": 2,
    "intermediate": 32,
    "positions": 32,
    "window": 16,
    "vocab_size": 150,
    "batch_size": 16,
    "steps": 60,
}


def sentences(lang: str, count: int = 300) -> list[list[str]]:
    rng = random.Random(lang)
    return [[rng.choice(NOUNS[lang]), rng.choice(VERBS[lang]), rng.choice(NOUNS[lang]), "."] for _ in range(count)]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folders = {}
    for lang in NOUNS:
        folders[lang] = tmp_path_factory.mktemp("text") / lang
        with DatasetWriter(folders[lang], pa.schema([("words", pa.list_(pa.string()))]), {}) as writer:
            writer.write({"words": sentences(lang)})
    return folders


def build(text: dict[str, Path], folder: Path, runtime: Runtime | None = None, **options: object) -> dict[str, object]:
    folder.mkdir()
    kind = Scratch(Scratch.Params.model_validate({**PARAMS, "learning_rate": 0.01, **options}))
    return dict(kind.build(EncoderInputs(text=text), runtime or Runtime(), folder))


def test_the_loss_falls_and_is_reported_and_the_folder_is_an_encoder(text: dict[str, Path], tmp_path: Path) -> None:
    curve: list[tuple[int, float]] = []
    notes = build(text, tmp_path / "a", Runtime(report=lambda metrics, step: curve.append((step, metrics["scratch/loss"]))))
    assert [step for step, _ in curve] == [20, 40, 60]
    assert curve[-1][1] < 0.75 * float(str(notes["first_loss"]))
    assert notes["sentences"] == {"bg": 300, "de": 300, "en": 300}
    encoder = Scratch(Scratch.Params()).load(EncoderInputs(folder=tmp_path / "a"), "cpu")
    found = encoder.words([["куче", "обича", "река"], ["Fluß"]], "bg", layers=(1,), pooling="mean")
    assert found.present_N.all()
    assert encoder.max_positions == 32


def test_one_seed_gives_one_encoder_and_another_seed_another(text: dict[str, Path], tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        torch.manual_seed(hash(name))
        build(text, tmp_path / name, steps=5, seed=seed)
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in "abc"]
    assert weights[0] == weights[1] != weights[2]
    assert (tmp_path / "a" / "tokenizer.json").read_bytes() == (tmp_path / "c" / "tokenizer.json").read_bytes()


def test_training_leaves_random_state_and_threads_as_they_were(text: dict[str, Path], tmp_path: Path) -> None:
    torch.manual_seed(7)
    expected = torch.rand(1)
    torch.manual_seed(7)
    before = torch.get_num_threads()
    build(text, tmp_path / "a", Runtime(threads=2), steps=2)
    assert torch.equal(torch.rand(1), expected)
    assert torch.get_num_threads() == before


def test_the_vocabulary_covers_all_scripts_cased_and_with_accents() -> None:
    everything = [words for lang in NOUNS for words in sentences(lang)]
    tokenizer = train_wordpiece(everything, 200)
    ids = tokenizer(everything, is_split_into_words=True, add_special_tokens=False)["input_ids"]
    assert not any(tokenizer.unk_token_id in row for row in ids)
    assert len(tokenizer) <= 200
    assert tokenizer.convert_ids_to_tokens(range(5)) == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert tokenizer.tokenize("Fluß река") == ["Fluß", "река"]
    assert train_wordpiece(everything, 200, lowercase=True).tokenize("FLUß") == ["fluß"]


def test_two_processes_make_the_same_vocabulary() -> None:
    program = (
        "import random, hashlib; from raxalign.encoders.training.wordpiece import train_wordpiece\n"
        "rng = random.Random(0)\n"
        "words = [''.join(rng.choice('abcdeäßжщ漢') for _ in range(rng.randint(1, 6))) for _ in range(3000)]\n"
        "tokenizer = train_wordpiece([words[i:i + 5] for i in range(0, 3000, 5)], 400)\n"
        "print(len(tokenizer), hashlib.sha256(tokenizer.backend_tokenizer.to_str().encode()).hexdigest())"
    )
    found = {subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout for _ in range(3)}
    assert len(found) == 1
    assert next(iter(found)).startswith("400 ")


def single(length: int) -> PieceRow:
    ids = np.array([2, *range(10, 8 + length), 3])
    return PieceRow(ids, np.full(length, -1), length, length - 2, ("en",))


def test_packed_rows_hold_every_sentence_once_within_the_window() -> None:
    singles = [single(length) for length in [5, 7, 4, 12, 30, 3] * 20]
    rows = pack_rows(singles, 20, np.random.default_rng(0))
    assert max(len(row) for row in rows) == 20
    assert all(row.ids[0] == 2 and row.ids[1] != 2 for row in rows)
    assert sum(int((row.ids == 3).sum()) for row in rows) == 100  # all but the twenty that were cut
    pairs = [row for row in rows if row.first < len(row)]
    assert pairs
    assert all(row.ids[row.first - 1] == 3 for row in pairs)


def test_batches_keep_to_their_budget_and_go_on_for_ever() -> None:
    rows = [single(length) for length in [5, 7, 4, 12] * 30]
    stream = batches(rows, 64, np.random.default_rng(0))
    taken = [next(stream) for _ in range(60)]
    assert all(len(batch) * max(len(row) for row in batch) <= 64 for batch in taken)
    first_pass = 0
    for k, batch in enumerate(taken):
        first_pass += len(batch)
        if first_pass >= len(rows):
            assert first_pass == len(rows)
            assert k < 30
            break


def test_masking_takes_its_share_and_splits_it_80_10_10() -> None:
    ids = np.arange(10, 20_010).reshape(100, 200)
    candidates = np.ones_like(ids, dtype=bool)
    candidates[:, 0] = False
    changed, places = mask_pieces(ids, candidates, 0.15, 4, np.arange(5, 10), np.random.default_rng(0))
    assert len(places) == round(0.15 * 19_900)
    assert len(set(places.tolist())) == len(places)
    assert not (places % 200 == 0).any()
    values = changed.reshape(-1)[places]
    assert (values == 4).mean() == pytest.approx(0.8, abs=0.03)
    assert (values < 10).mean() - (values == 4).mean() == pytest.approx(0.1, abs=0.02)
    untouched = np.setdiff1d(np.arange(ids.size), places)
    assert (changed.reshape(-1)[untouched] == ids.reshape(-1)[untouched]).all()


def test_one_place_at_least_is_masked() -> None:
    _, places = mask_pieces(np.array([[2, 11, 3]]), np.array([[False, True, False]]), 0.15, 4, np.arange(5, 10), np.random.default_rng(0))
    assert places.tolist() == [1]


def test_no_more_sentences_are_read_than_asked_for(text: dict[str, Path]) -> None:
    assert read_words(text["de"], 7) == sentences("de")[:7]
    assert read_words(text["de"], 10_000) == sentences("de")


def test_text_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no text dataset"):
        read_words(tmp_path, 10)
    with pytest.raises(RaxalignError, match="there is none"):
        Scratch(Scratch.Params()).build(EncoderInputs(), Runtime(), tmp_path)
    with pytest.raises(RaxalignError, match="has to be built"):
        Scratch(Scratch.Params()).load(EncoderInputs(), "cpu")


def test_sizes_that_do_not_fit_are_refused() -> None:
    for wrong in ({"hidden_size": 30, "heads": 4}, {"window": 64, "positions": 32}):
        with pytest.raises(ValueError, match=r"hidden_size 30|window 64"):
            Scratch.Params.model_validate(wrong)
