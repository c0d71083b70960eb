"""A scratch encoder: what it is trained on, how, what comes of it, and what comes between."""

from __future__ import annotations

import hashlib
import json
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from raxalign.encoders.base import EncoderInputs
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.encoders.models.vocabulary import (
    SPECIALS,
    read_words,
    train_wordpiece,
    wrap_vocabulary,
)
from raxalign.encoders.scratch import (
    Pretraining,
    Scratch,
    joined,
    new_bert,
    pack_rows,
    slice_rows,
    train_settings,
    training_rows,
)
from raxalign.errors import DataError, RaxalignError
from raxalign.options.sources import LocalFile
from raxalign.train.objective import Step
from raxalign.train.runtime import Runtime
from tests.methods.contract import masked_losses
from tests.methods.toy import write_text as write_words
from tests.train.workers import run_workers

NOUNS = {"en": "dog cat house river", "de": "Hund Katze Haus Fluß", "bg": "куче котка къща река"}
VERBS = {"en": "sees loves has", "de": "sieht liebt hat", "bg": "вижда обича има"}
SIZE = {"layers": 1, "hidden_size": 32, "heads": 2, "intermediate": 32, "positions": 32}
PARAMS = {**SIZE, "window": 16, "vocab_size": 150, "batch_size": 8, "steps": 40}
SMALL = Scratch.Params.model_validate(PARAMS)


def sentences(lang: str, count: int = 300) -> list[list[str]]:
    rng, nouns, verbs = random.Random(lang), NOUNS[lang].split(), VERBS[lang].split()
    return [[rng.choice(nouns), rng.choice(verbs), rng.choice(nouns), "."] for _ in range(count)]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("text")
    return {lang: write_words(root / lang, sentences(lang)) for lang in NOUNS}


def build(text, folder, runtime=None, locations=None, **options):
    folder.mkdir()
    kind = Scratch(Scratch.Params.model_validate({**PARAMS, "learning_rate": 0.01, **options}))
    inputs = EncoderInputs(text=text, locations=locations or {})
    return dict(kind.build(inputs, runtime or Runtime(), folder))


def test_the_loss_falls_and_is_reported_and_the_folder_is_an_encoder(text, tmp_path):
    curve: list[tuple[int, float]] = []
    watching = Runtime(report=lambda found, step: curve.append((step, found["scratch/loss"])))
    notes = build(text, tmp_path / "a", watching)
    assert [step for step, _ in curve] == list(range(1, 41))
    assert curve[-1][1] < 0.75 * float(str(notes["first_loss"]))
    assert notes["sentences"] == {"bg": 300, "de": 300, "en": 300}
    encoder = Scratch(Scratch.Params()).load(EncoderInputs(folder=tmp_path / "a"), "cpu")
    found = encoder.words([["куче", "обича", "река"], ["Fluß"]], "bg", layers=(1,), pooling="mean")
    assert found.present_N.all()
    assert encoder.max_positions == 32


def test_one_seed_gives_one_encoder_whose_rate_rises_and_falls_and_another_seed_another(
    text, tmp_path
):
    """And the random state is left as it was."""
    rates: list[float] = []
    name = "scratch/learning_rate"
    runtime = Runtime(report=lambda metrics, _: rates.append(metrics[name] / 0.01))
    for folder, seed in (("a", 1), ("b", 1), ("c", 2)):
        torch.manual_seed(hash(folder))
        expected = torch.rand(1)
        torch.manual_seed(hash(folder))
        build(text, tmp_path / folder, runtime, steps=4, seed=seed)
        assert torch.equal(torch.rand(1), expected)
    assert rates == pytest.approx([1, 1, 2 / 3, 1 / 3] * 3)
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in "abc"]
    assert weights[0] == weights[1] != weights[2]
    tokenizers = [(tmp_path / name / "tokenizer.json").read_bytes() for name in "ac"]
    assert tokenizers[0] == tokenizers[1]


def test_the_vocabulary_covers_all_scripts_cased_and_with_accents() -> None:
    everything = [words for lang in NOUNS for words in sentences(lang)]
    tokenizer = train_wordpiece(everything, 200)
    ids = tokenizer(everything, is_split_into_words=True, add_special_tokens=False)["input_ids"]
    assert not any(tokenizer.unk_token_id in row for row in ids)
    assert len(tokenizer) <= 200
    assert tokenizer.convert_ids_to_tokens(range(5)) == list(SPECIALS)
    assert tokenizer.tokenize("Fluß река") == ["Fluß", "река"]
    assert train_wordpiece(everything, 200, lowercase=True).tokenize("FLUß") == ["fluß"]


@pytest.mark.slow
def test_two_processes_make_the_same_vocabulary() -> None:
    program = "from tests.encoders.test_scratch import vocabulary_of_chance; print("
    command = [sys.executable, "-c", f"{program}vocabulary_of_chance())"]
    other = subprocess.run(command, capture_output=True, text=True, check=True)
    assert other.stdout == f"{vocabulary_of_chance()}\n"
    assert other.stdout.startswith("400 ")


def vocabulary_of_chance() -> str:
    """The size and the digest of a tokenizer of made-up words."""
    rng = random.Random(0)
    letters = (rng.choices("abcdeäßжщ漢", k=rng.randint(1, 6)) for _ in range(3000))
    words = ["".join(chosen) for chosen in letters]
    tokenizer = train_wordpiece([words[i : i + 5] for i in range(0, 3000, 5)], 400)
    made = tokenizer.backend_tokenizer.to_str()
    return f"{len(tokenizer)} {hashlib.sha256(made.encode()).hexdigest()}"


def single(length: int) -> np.ndarray:
    return np.array([2, *range(10, 8 + length), 3])


def test_packed_rows_hold_every_sentence_once_within_the_window() -> None:
    singles = [single(length) for length in [5, 7, 4, 12, 30, 3] * 20]
    rows = pack_rows(singles, 20, np.random.default_rng(0))
    assert max(len(row) for row, _ in rows) == 20
    assert all(row[0] == 2 and row[1] != 2 for row, _ in rows)
    assert sum(int((row == 3).sum()) for row, _ in rows) == 100  # all but the twenty that were cut
    pairs = [(row, second) for row, second in rows if second < len(row)]
    assert pairs
    assert all(row[second - 1] == 3 for row, second in pairs)


def test_a_step_has_its_windows_of_pieces_on_average_whatever_the_rows() -> None:
    for lengths, expected in (([16] * 40, 8), ([8] * 40, 16), ([4, 12] * 20, 16), ([16] * 3, 8)):
        rows = joined([(single(length), length) for length in lengths])
        assert train_settings(SMALL, rows).batch_size == expected


def objective(params: Scratch.Params) -> Pretraining:
    everything = [words for lang in NOUNS for words in sentences(lang)]
    tokenizer = train_wordpiece(everything, params.vocab_size)
    torch.manual_seed(0)
    encoder = TransformerEncoder(new_bert(params, len(tokenizer)), tokenizer)
    singles = [row.ids for row in encoder.pieces(everything[:40], "en")]
    rows = pack_rows(singles, params.window, np.random.default_rng(0))
    encoder.model.eval()
    return Pretraining(encoder, joined(rows), params)


def test_the_loss_is_that_of_each_row_alone_over_the_masks_of_the_global_batch() -> None:
    training = objective(SMALL)
    step = Step(3, 0, np.array([4, 0, 7, 2]), seed=1, micro=4)
    training.begin(step)
    rows, masks = training.host.rows, training.host.masks
    losses = masked_losses(training.encoder.model, rows, masks)
    with torch.no_grad():
        whole = float(training.loss(step, step.micro_batches()[0]))
        parts = sum(float(training.loss(step, np.array(part))) for part in ([0, 2], [1], [3]))
    assert rows.segments.any()
    assert len(losses) == masks.total
    assert whole == pytest.approx(sum(losses) / masks.total, rel=1e-5)
    assert parts == pytest.approx(whole, rel=1e-5)


def test_text_is_read_as_far_as_asked_for_and_an_error_where_it_is_not_there(text, tmp_path):
    assert read_words(text["de"], 7) == sentences("de")[:7]
    assert read_words(text["de"], 10_000) == sentences("de")
    with pytest.raises(DataError, match=r"is not a dataset: it has no state.json"):
        read_words(tmp_path, 10)
    with pytest.raises(RaxalignError, match="there is none"):
        Scratch(Scratch.Params()).build(EncoderInputs(), Runtime(), tmp_path)
    with pytest.raises(RaxalignError, match="has to be built"):
        Scratch(Scratch.Params()).load(EncoderInputs(), "cpu")


def test_sizes_that_do_not_fit_are_refused() -> None:
    for wrong in ({"hidden_size": 30, "heads": 4}, {"window": 64, "positions": 32}):
        with pytest.raises(ValueError, match=r"hidden_size 30|window 64"):
            Scratch.Params.model_validate(wrong)


CLS, SEP = 2, 3
SHAPE = {**PARAMS, "hidden_size": 16, "intermediate": 16, "window": 20, "steps": 2, "batch_size": 2}
WORDS = ["dog", "cat", "house", "sees", "loves", "."]


def sliced(
    folder: Path, sentences: list[list[str]], vocabulary: Path | None = None, **options: object
) -> dict[str, object]:
    """Train on the sentences in a folder; returns the notes."""
    text = {"en": write_words(folder.with_name(f"{folder.name}-text"), sentences)}
    named = {} if vocabulary is None else {"vocabulary": str(vocabulary)}
    return build(text, folder, locations=named, **{**SHAPE, **named, **options})


def numbered(lengths: np.ndarray) -> list[np.ndarray]:
    """Sentences of these lengths, whose pieces count from 100 on."""
    return np.split(np.arange(100, 100 + lengths.sum()), np.cumsum(lengths)[:-1])


@pytest.mark.parametrize("window", [20, 128])
def test_every_piece_of_the_text_is_in_one_row_in_its_order(window: int) -> None:
    """Second segments begin where sentences do."""
    rng = np.random.default_rng(1)
    sentences = numbered(rng.integers(1, 60, 300))
    rows = slice_rows(sentences, window, (CLS, SEP), rng)
    kept = [row[(row != CLS) & (row != SEP)] for row, _ in rows]
    assert np.array_equal(np.concatenate(kept), np.concatenate(sentences))
    assert {len(row) for row, _ in rows[:-1]} == {window}
    assert len(rows[-1][0]) <= window
    assert all(row[0] == CLS and row[-1] == SEP for row, _ in rows)
    pairs = [(row, second) for row, second in rows if second < len(row)]
    assert 0.1 * len(rows) < len(pairs) < 0.65 * len(rows)
    begins = {int(sentence[0]) for sentence in sentences}
    assert all(row[second - 1] == SEP and int(row[second]) in begins for row, second in pairs)
    assert all((row == SEP).sum() == 1 + (second < len(row)) for row, second in rows)


def test_rows_by_hand() -> None:
    """Eight pieces per row without specials but one of two segments, which has seven."""
    assert slice_rows([], 20, (CLS, SEP), np.random.default_rng(0)) == []
    sentences = [np.arange(10, 14), np.arange(20, 33)]
    none = slice_rows(sentences, 10, (CLS, SEP), np.random.default_rng(0))
    rows = [row.tolist() for row, _ in none]
    assert rows[0] == [CLS, 10, 11, 12, 13, 20, 21, 22, 23, SEP]  # not divided with this seed
    assert rows[1] == [CLS, *range(24, 32), SEP]
    assert rows[2] == [CLS, 32, SEP]
    two = slice_rows(sentences, 10, (CLS, SEP), np.random.default_rng(2))
    assert two[0][0].tolist() == [CLS, 10, 11, 12, 13, SEP, 20, 21, 22, SEP]
    assert joined(two).segments[:10].tolist() == [0] * 6 + [1] * 4
    assert two[1][0].tolist() == [CLS, *range(23, 31), SEP]


def test_sliced_text_reads_as_its_file_does_whose_last_line_comes_first_in_the_dataset() -> None:
    params = Scratch.Params.model_validate({**SHAPE, "slicing": True, "window": 8})
    tokenizer = wrap_vocabulary([*SPECIALS, *WORDS])
    encoder = TransformerEncoder(new_bert(params, len(tokenizer)), tokenizer)
    text = {"de": [["house"], ["cat", "cat"], ["dog"]], "en": [["loves"], ["sees"]]}
    rows, _ = training_rows(encoder, text, params)
    ids = [i for i in rows.ids.tolist() if i >= len(SPECIALS)]
    assert tokenizer.convert_ids_to_tokens(ids) == ["dog", "cat", "cat", "house", "sees", "loves"]


def test_short_windows_lose_the_ends_of_sentences_unless_the_text_is_sliced(tmp_path: Path) -> None:
    """Each sentence has 40 pieces of words; a window of 20 holds 18 or 19 of them."""
    sentences = [WORDS[:4] * 10] * 30
    whole = sliced(tmp_path / "sliced", sentences, slicing=True, vocab_size=100)
    assert whole["sentences_cut"] == {"en": 0}
    assert 1200 < int(str(whole["pieces"])) <= 1200 + 3 * 1200 / 17 + 3
    cut = sliced(tmp_path / "cut", sentences, vocab_size=100)
    assert cut["sentences_cut"] == {"en": 30}
    assert json.loads(json.dumps(cut)) == cut  # notes go into the manifest
    assert int(str(cut["pieces"])) == 30 * 20
    assert sliced(tmp_path / "fits", [WORDS] * 30)["sentences_cut"] == {"en": 0}


def test_the_given_vocabulary_is_the_encoders(tmp_path: Path) -> None:
    pieces = [*SPECIALS, "do", "##g", "cat", "house", "sees", "loves", "."]
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("\n".join(pieces) + "\n", encoding="utf-8")
    notes = sliced(tmp_path / "a", [WORDS] * 20, vocabulary, slicing=True)
    assert notes["vocabulary"] == 12
    encoder = Scratch(Scratch.Params()).load(EncoderInputs(folder=tmp_path / "a"), "cpu")
    (row,) = encoder.pieces([["dog", "cat"]], "en")
    assert row.ids.tolist() == [2, 5, 6, 7, 3]


def test_a_vocabulary_without_special_pieces_is_refused(tmp_path):
    vocabulary = tmp_path / "vocab.txt"
    for name, left, told in (
        ("a", "[PAD] [UNK] [CLS] [SEP]", r"has no \[MASK\], which the vocabulary of a BERT"),
        ("b", "[PAD] [MASK]", r"has no \[UNK\], \[CLS\], \[SEP\], which the vocabulary"),
    ):
        vocabulary.write_text("\n".join([*left.split(), "dog"]) + "\n", encoding="utf-8")
        with pytest.raises(DataError, match=told):
            sliced(tmp_path / name, [WORDS], vocabulary)


def test_the_options_enter_keys_only_where_they_are_set() -> None:
    identity = Scratch.Params().identity()
    assert not {"slicing", "vocabulary"} & set(identity)
    assert Scratch(Scratch.Params()).sources() == {}
    given = Scratch(Scratch.Params(vocabulary="vocab.txt", slicing=True))
    assert given.sources() == {"vocabulary": LocalFile(Path("vocab.txt"))}
    del identity["vocab_size"]
    assert given.params.identity() == {**identity, "slicing": True}


def pretrained(root: Path, name: str, runtime: Runtime, **options: float) -> dict[str, object]:
    """Pre-train on the language in `root/en` into the folder `root/name`; returns the notes."""
    few = {"batch_size": 4, "steps": 9, "vocab_size": 100, "seed": 5}
    return build({"en": root / "en"}, root / name, runtime, **few, **options)


def test_an_interrupted_pretraining_goes_on_from_its_checkpoint_bit_for_bit(tmp_path: Path) -> None:
    steps: list[int] = []

    def report(_: object, step: int) -> None:
        steps.append(step)
        if steps == list(range(1, 6)):
            raise KeyboardInterrupt

    write_words(tmp_path / "en", sentences("en", 40))
    options = {"checkpoints": tmp_path / "checkpoints", "checkpoint_every": 2}
    with pytest.raises(KeyboardInterrupt):
        pretrained(tmp_path, "killed", Runtime(**options, report=report))
    (kept,) = (tmp_path / "checkpoints" / "scratch").glob("step-*")
    assert kept.name == "step-00000004"
    resumed = pretrained(tmp_path, "resumed", Runtime(**options, report=report))
    assert steps == [*range(1, 6), *range(5, 10)]
    assert resumed == pretrained(tmp_path, "whole", Runtime())
    files = {path.name: path.read_bytes() for path in (tmp_path / "whole").iterdir()}
    assert "model.safetensors" in files
    assert all((tmp_path / "resumed" / n).read_bytes() == held for n, held in files.items())


def work(rank: int, folder: Path) -> None:
    """One of two workers that pre-train together."""
    notes = pretrained(folder, f"worker-{rank}", Runtime(rank=rank, world_size=2), dropout=0.0)
    (folder / f"{rank}.json").write_text(json.dumps(notes))


@pytest.mark.slow
def test_two_workers_give_the_encoder_of_one(tmp_path: Path) -> None:
    from safetensors.torch import load_file

    write_words(tmp_path / "en", sentences("en", 40))
    run_workers(work, 2, tmp_path)
    expected = pretrained(tmp_path, "whole", Runtime(), dropout=0.0)
    for rank in (0, 1):
        notes = json.loads((tmp_path / f"{rank}.json").read_text())
        assert notes.pop("last_loss") == pytest.approx(expected["last_loss"], rel=1e-4)
        assert notes.pop("first_loss") == pytest.approx(expected["first_loss"], rel=1e-5)
        assert notes.items() <= expected.items()
    files = (tmp_path / name / "model.safetensors" for name in ("worker-0", "whole"))
    found, weights = map(load_file, files)
    assert max(float((found[name] - tensor).abs().max()) for name, tensor in weights.items()) < 2e-3
    assert not list((tmp_path / "worker-1").iterdir()), "the first worker saves what all have"
