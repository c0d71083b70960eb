"""The report on an encoder, as `raxalign doctor --encoder` prints it."""

import logging
from logging.handlers import QueueHandler
from queue import SimpleQueue

import pytest

from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.errors import RaxalignError
from raxalign.grid.load import open_grid
from raxalign.inspect.encoder import BROKEN, DIFFERENT, HEALTHY, examine_encoder, piece_kind
from tests.families.catalogue import FAMILIES, build
from tests.grids import write_grid
from tests.tiny import tiny_bert

PIECES = {"mBERT": "WordPiece", "XLM-R": "Unigram", "XLM": "BPE", "Gemma": "BPE with byte fallback"}
PIECES |= dict.fromkeys(("RoBERTa", "Llama"), "byte-level BPE")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    words, place = ["the", "a", "dog", "der", "die", "das", "."], tmp_path_factory.mktemp("encoder")
    return tiny_bert(place / "tiny", words, positions=32, layers=1, hidden=8)


def field(lines, label):
    """What follows a label, its continued lines included."""
    start = next(i for i, line in enumerate(lines) if line.startswith(f"{label} "))
    rest = lines[start + 1 :]
    end = next((i for i, line in enumerate(rest) if not line.startswith(" ")), len(rest))
    return " ".join(line[14:].strip() for line in lines[start : start + 1 + end])


def test_a_model_is_described_in_aligned_lines_that_fit_a_terminal(folder):
    lines, _ = examine_encoder(str(folder))
    assert field(lines, "architecture") == "BertForMaskedLM (bert)"
    assert field(lines, "layers") == "1 of 8 dimensions"
    assert field(lines, "positions") == "32 subword tokens per row, special ones included"
    assert field(lines, "rows") == "several sentences share a row in training"
    assert field(lines, "masked LM") == "has a head"
    assert field(lines, "tokenizer").startswith("WordPiece of ")
    assert field(lines, "sentences") == "built in"
    assert "not " not in field(lines, "methods") + field(lines, "tasks")
    assert all(len(line) <= 80 or "/" in line for line in lines)
    lines, code = examine_encoder(f"{folder}/nowhere")
    assert code == BROKEN
    assert field(lines, "broken").startswith(f"{folder}/nowhere: no such encoder folder")


def moses(folder, english, german):
    """A grid of two lines of local text in each language."""
    for lang, text in (("en", english), ("de", german)):
        (folder / f"text.{lang}").write_text(text, encoding="utf-8")
    own = f"source: moses\n  path: {folder}/text\n  split: {{test: 1, dev: 0}}"
    path = write_grid(folder, languages="{each: [de]}", sentences="1", corpus=own)
    return open_grid(path, storage=str(folder / "storage"))


def test_languages_have_pieces_per_word_and_a_share_of_unknown_ones(folder, tmp_path):
    """English has 7 pieces in 6 words, as "dogs" is two; German 6 in 6, of which ö is unknown."""
    opened = moses(tmp_path, "the dog.\nthe dogs.\n", "der die.\nö die.\n")
    lines, _ = examine_encoder(str(folder), opened)
    assert field(lines, "sentences") == "the first of the grid's corpus"
    rows = {line.split()[0]: line.split()[1:3] for line in lines[lines.index("") + 2 :]}
    assert rows == {"en": [f"{7 / 6:.2f}", "0.0"], "de": ["1.00", "16.7"]}
    assert list(rows) == ["en", "de"]  # the pivot first


def test_text_is_looked_at_as_it_was_published_and_composed(tmp_path):
    """Of four German words the decomposed one is unknown as published; composed it is not."""
    bert = tiny_bert(tmp_path / "bert", ["the", "dog", "der", "\u00fcber"])
    opened = moses(tmp_path, "the dog\nthe dog\n", "der u\u0308ber\nder der\n")
    lines, code = examine_encoder(str(bert), opened)
    assert code == HEALTHY
    assert next(line for line in lines if line.startswith("de ")).split()[2] == "25.0"
    told = "0.0 % unknown where it is composed (`normalize: nfc` under `encoder`)"
    assert field(lines, "de").endswith(told)


def test_a_text_longer_than_the_encoders_positions_is_read_without_a_warning(folder, monkeypatch):
    warnings = SimpleQueue()
    monkeypatch.setattr(logging.getLogger("transformers"), "handlers", [QueueHandler(warnings)])
    lines, code = examine_encoder(str(folder))
    assert code == HEALTHY
    assert any(float(line.split()[1]) > 1 for line in lines[lines.index("") + 2 :])
    assert warnings.empty()


def test_pieces_that_are_not_those_of_running_text_are_shown_with_their_exit_code(
    folder, monkeypatch
):
    pieces = TransformerEncoder.pieces

    def backwards(self, sentences, lang, *more):
        return pieces(self, [words[::-1] for words in sentences], lang, *more)

    monkeypatch.setattr(TransformerEncoder, "pieces", backwards)
    lines, code = examine_encoder(str(folder))
    assert code == DIFFERENT
    told = field(lines, "running text")
    assert int(told.split(" of 80 sentences")[0]) < 80
    assert "en: The teacher opened" in told


def test_what_needs_a_masked_lm_head_does_not_take_an_encoder_without_one(
    folder, tmp_path, monkeypatch
):
    def refuse(self, states):
        raise RaxalignError("no head")

    monkeypatch.setattr(TransformerEncoder, "lm_logits", refuse)
    lines, _ = examine_encoder(str(folder))
    assert field(lines, "masked LM") == "has no head"
    assert field(lines, "methods").endswith(
        "not awesome_align, code_switching, mlm, ppa, tlm, weam: needs a masked-LM head"
    )
    assert field(lines, "tasks").endswith("not token_translation: needs a masked-LM head")
    grid = write_grid(tmp_path, languages="{each: [de]}", methods=("none: {}", "mine: {kind: mlm}"))
    lines, code = examine_encoder(str(folder), open_grid(grid, storage=str(tmp_path / "storage")))
    assert field(lines, "methods") == "none; not mine: needs a masked-LM head"
    assert code == DIFFERENT


@pytest.mark.parametrize(("family", "kind"), PIECES.items())
def test_tokenizers_are_told_apart(family, kind, tmp_path):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(build(FAMILIES[family], tmp_path / "encoder"))
    assert piece_kind(tokenizer) == kind
