"""An encoder reads text as it was published, or in the form that its option names, on disk too."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest

from raxalign.encoders.base import EncoderInputs
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.pieces import text_pieces
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.encoders.transformer import Transformer

TEXT = unicodedata.normalize("NFD", "caf\u00e9 o\u200ck")


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of the class of mBERT's tokenizer, which transformers makes anew from its options."""
    from transformers import BertTokenizer

    from tests.tiny import tiny_bert, tiny_vocabulary

    words = ["caf\u00e9", "ok", "cafe"]
    folder = tiny_bert(tmp_path_factory.mktemp("bert"), words)
    for file in folder.glob("*token*"):
        file.unlink()
    (folder / "vocab.txt").write_text("\n".join(tiny_vocabulary(words)), encoding="utf-8")
    BertTokenizer(str(folder / "vocab.txt"), do_lower_case=False).save_pretrained(folder)
    return folder


def load(folder: Path, **params: str) -> TransformerEncoder:
    kind = Transformer(Transformer.Params(name=str(folder), **params))
    return kind.load(EncoderInputs(), "cpu")


def pieces(encoder: TransformerEncoder) -> list[str]:
    """The pieces of a text that words stand in, and of one that is read for itself: the same."""
    (row,) = encoder.pieces([TEXT.split()], "en")
    (found,) = text_pieces(encoder.tokenizer, [TEXT], "en")
    assert row.ids.tolist()[1:-1] == found.ids.tolist()
    names: list[str] = encoder.tokenizer.convert_ids_to_tokens(found.ids.tolist())
    return names


def test_text_is_read_as_published_unless_a_form_is_named(bert: Path) -> None:
    assert pieces(load(bert)) == ["[UNK]", "ok"]
    assert pieces(load(bert, normalize="nfc")) == ["caf\u00e9", "ok"]


def test_a_form_takes_joiners_out_only_where_it_is_named(bert: Path) -> None:
    from tokenizers import normalizers

    without_own = load(bert)
    without_own.tokenizer.backend_tokenizer.normalizer = normalizers.NFC()
    assert pieces(without_own) == ["caf\u00e9", "[UNK]"]
    assert pieces(load(bert, normalize="clean")) == ["caf\u00e9", "ok"]


@pytest.mark.parametrize("form", ["nfc", "clean"])
def test_an_encoder_that_was_saved_keeps_its_form(bert: Path, tmp_path: Path, form: str) -> None:
    encoder = load(bert, normalize=form)
    AlignedEncoder(encoder, weights_changed=True).save(tmp_path / "stage")
    AlignedEncoder(encoder).export(tmp_path / "export")
    again = AlignedEncoder.load(tmp_path / "stage", lambda: encoder)
    assert pieces(again.encoder) == ["caf\u00e9", "ok"]
    assert pieces(AlignedEncoder.from_export(tmp_path / "export").encoder) == ["caf\u00e9", "ok"]
