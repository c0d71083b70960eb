from __future__ import annotations

import random
import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

from raxalign.corpora.text.dataset import DatasetWriter
from raxalign.encoders.base import EncoderInputs
from raxalign.encoders.models.pieces import PieceRow
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.encoders.scratch import Scratch
from raxalign.encoders.training.masked_lm import (
    PackedRows,
    Pretraining,
    new_bert,
    pack_rows,
    train_settings,
)
from raxalign.encoders.training.params import ScratchParams
from raxalign.encoders.training.text import read_words, train_wordpiece
from raxalign.errors import DataError, RaxalignError
from raxalign.train.objective import Step
from raxalign.train.runtime import Runtime

NOUNS = {
    "en": ["dog", "cat", "house", "river"],
    "de": ["Hund", "Katze", "Haus", "Fluß"],
    "bg": ["куче", "котка", "къща", "река"],
}
VERBS = {
    "en": ["sees", "loves", "has"],
    "de": ["sieht", "liebt", "hat"],
    "bg": ["вижда", "обича", "има"],
}
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
SMALL = ScratchParams.model_validate(PARAMS)


def sentences(lang: str, count: int = 300) -> list[list[str]]:
    rng = random.Random(lang)
    return [
        [rng.choice(NOUNS[lang]), rng.choice(VERBS[lang]), rng.choice(NOUNS[lang]), "."]
        for _ in range(count)
    ]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folders = {}
    for lang in NOUNS:
        folders[lang] = tmp_path_factory.mktemp("text") / lang
        with DatasetWriter(
            folders[lang], pa.schema([("words", pa.list_(pa.string()))]), {}
        ) as writer:
            writer.write({"words": sentences(lang)})
    return folders


def build(
    text: dict[str, Path], folder: Path, runtime: Runtime | None = None, **options: object
) -> dict[str, object]:
    folder.mkdir()
    kind = Scratch(Scratch.Params.model_validate({**PARAMS, "learning_rate": 0.01, **options}))
    return dict(kind.build(EncoderInputs(text=text), runtime or Runtime(), folder))


def test_the_loss_falls_and_is_reported_and_the_folder_is_an_encoder(
    text: dict[str, Path], tmp_path: Path
) -> None:
    curve: list[tuple[int, float]] = []
    notes = build(
        text,
        tmp_path / "a",
        Runtime(report=lambda metrics, step: curve.append((step, metrics["scratch/loss"]))),
    )
    assert [step for step, _ in curve] == list(range(1, 61))
    assert curve[-1][1] < 0.75 * float(str(notes["first_loss"]))
    assert notes["sentences"] == {"bg": 300, "de": 300, "en": 300}
    encoder = Scratch(Scratch.Params()).load(EncoderInputs(folder=tmp_path / "a"), "cpu")
    found = encoder.words([["куче", "обича", "река"], ["Fluß"]], "bg", layers=(1,), pooling="mean")
    assert found.present_N.all()
    assert encoder.max_positions == 32


def test_one_seed_gives_one_encoder_and_another_seed_another(
    text: dict[str, Path], tmp_path: Path
) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        torch.manual_seed(hash(name))
        build(text, tmp_path / name, steps=5, seed=seed)
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in "abc"]
    assert weights[0] == weights[1] != weights[2]
    assert (tmp_path / "a" / "tokenizer.json").read_bytes() == (
        tmp_path / "c" / "tokenizer.json"
    ).read_bytes()


def test_training_leaves_random_state_and_threads_as_they_were(
    text: dict[str, Path], tmp_path: Path
) -> None:
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
    assert tokenizer.convert_ids_to_tokens(range(5)) == [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
    ]
    assert tokenizer.tokenize("Fluß река") == ["Fluß", "река"]
    assert train_wordpiece(everything, 200, lowercase=True).tokenize("FLUß") == ["fluß"]


def test_two_processes_make_the_same_vocabulary() -> None:
    program = (
        "import random, hashlib; from raxalign.encoders.training.text import"
        " train_wordpiece\nrng = random.Random(0)\nwords = [''.join(rng.choice('abcdeäßжщ漢') for _"
        " in range(rng.randint(1, 6))) for _ in range(3000)]\ntokenizer ="
        " train_wordpiece([words[i:i + 5] for i in range(0, 3000, 5)], 400)\nprint(len(tokenizer),"
        " hashlib.sha256(tokenizer.backend_tokenizer.to_str().encode()).hexdigest())"
    )
    other = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    with redirect_stdout(StringIO()) as here:
        exec(program, {})
    assert here.getvalue() == other.stdout
    assert other.stdout.startswith("400 ")


def single(length: int) -> PieceRow:
    ids = np.array([2, *range(10, 8 + length), 3])
    none = np.full(length, -1)
    return PieceRow(ids, none, none, length, length - 2, ("en",))


def test_packed_rows_hold_every_sentence_once_within_the_window() -> None:
    singles = [single(length) for length in [5, 7, 4, 12, 30, 3] * 20]
    rows = pack_rows(singles, 20, np.random.default_rng(0))
    assert max(len(row) for row in rows) == 20
    assert all(row.ids[0] == 2 and row.ids[1] != 2 for row in rows)
    assert sum(int((row.ids == 3).sum()) for row in rows) == 100  # all but the twenty that were cut
    pairs = [row for row in rows if row.first < len(row)]
    assert pairs
    assert all(row.ids[row.first - 1] == 3 for row in pairs)


def test_a_step_has_its_windows_of_pieces_on_average_whatever_the_rows() -> None:
    for lengths, expected in (([16] * 40, 16), ([8] * 40, 32), ([4, 12] * 20, 32), ([16] * 3, 16)):
        rows = PackedRows.of([single(length) for length in lengths])
        assert train_settings(SMALL, rows).batch_size == expected


@pytest.mark.parametrize(
    ("warmup", "expected"),
    [(0.5, [0.5, 1, 1, 0.5]), (0.0, [1, 1, 2 / 3, 1 / 3]), (1.0, [0.25, 0.5, 0.75, 1])],
)
def test_the_rate_rises_over_the_warm_up_and_falls_linearly(
    text: dict[str, Path], tmp_path: Path, warmup: float, expected: list[float]
) -> None:
    rates: list[float] = []
    runtime = Runtime(
        report=lambda metrics, _: rates.append(metrics["scratch/learning_rate"] / 0.01)
    )
    build(text, tmp_path / "a", runtime, steps=4, warmup=warmup)
    assert rates == pytest.approx(expected)


def objective(params: ScratchParams) -> Pretraining:
    everything = [words for lang in NOUNS for words in sentences(lang)]
    tokenizer = train_wordpiece(everything, params.vocab_size)
    torch.manual_seed(0)
    encoder = TransformerEncoder(new_bert(params, len(tokenizer)), tokenizer)
    rows = pack_rows(encoder.pieces(everything[:40], "en"), params.window, np.random.default_rng(0))
    encoder.model.eval()
    return Pretraining(encoder, PackedRows.of(rows), params)


def test_the_loss_is_that_of_each_row_alone_over_the_masks_of_the_global_batch() -> None:
    training = objective(SMALL)
    step = Step(3, 0, np.array([4, 0, 7, 2]), seed=1, micro=4)
    training.begin(step)
    rows, model = training.host.rows, training.encoder.model
    changed, flat = training.host.masks.applied(rows), training.host.masks.flat(rows.offsets)
    labels = np.full(len(rows.ids), -100)
    labels[flat] = rows.ids[flat]
    total = 0.0
    with torch.no_grad():
        for r in range(4):
            part = slice(rows.offsets[r], rows.offsets[r + 1])
            ids, types, wanted = (
                torch.from_numpy(values[part].astype(np.int64))[None]
                for values in (changed, rows.segments, labels)
            )
            logits = model(input_ids=ids, token_type_ids=types).logits[0]
            total += float(
                torch.nn.functional.cross_entropy(
                    logits, wanted[0], ignore_index=-100, reduction="sum"
                )
            )
        whole = float(training.loss(step, step.micro_batches()[0]))
        parts = sum(
            float(training.loss(step, positions))
            for positions in (np.array([0, 2]), np.array([1]), np.array([3]))
        )
    assert rows.segments.any()
    assert whole == pytest.approx(total / training.host.masks.total, rel=1e-5)
    assert parts == pytest.approx(whole, rel=1e-5)


def test_no_more_sentences_are_read_than_asked_for(text: dict[str, Path]) -> None:
    assert read_words(text["de"], 7) == sentences("de")[:7]
    assert read_words(text["de"], 10_000) == sentences("de")


def test_text_that_is_not_there_is_an_error(tmp_path: Path) -> None:
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
