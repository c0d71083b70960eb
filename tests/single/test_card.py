"""What the card of an exported encoder says of how it is opened."""

from __future__ import annotations

import pytest

from raxalign.single.card import Card


@pytest.mark.parametrize("has_transforms", [False, True])
def test_a_card_tells_how_its_family_of_encoders_is_opened(*, has_transforms: bool) -> None:
    transformer = Card("none", {}, "mini", ("de",), "en", None).text(has_transforms=has_transforms)
    static = Card("rotation", {}, "fasttext", ("de",), "en", None, family="static").text(
        has_transforms=has_transforms
    )
    assert "library_name: transformers" in transformer
    assert "gensim" not in transformer
    assert ("AutoModelForMaskedLM" in transformer) is not has_transforms
    assert "transformers" not in static.split("made with")[0]
    assert "load_word2vec_format" in static
    assert ("from_export" in static) is ("from_export" in transformer) is has_transforms


@pytest.mark.parametrize("opened_by", ["AutoModel", "AutoModelForTextEncoding"])
def test_a_card_of_an_encoder_without_a_head_does_not_promise_one(opened_by: str) -> None:
    text = Card("none", {}, "mini", ("de",), "en", None, opened_by=opened_by).text(
        has_transforms=False
    )
    assert f"model = {opened_by}.from_pretrained(folder)" in text
    assert "pipeline_tag: feature-extraction" in text
    assert "ForMaskedLM" not in text
