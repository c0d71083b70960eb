from __future__ import annotations

from pathlib import Path

import pytest
import torch

from raxalign.errors import RaxalignError
from raxalign.methods.base import MethodInputs
from raxalign.methods.sentence_rotation import SentenceRotation, sentence_means
from raxalign.train.runtime import Runtime
from tests.methods.planted import TableEncoder, applied, normal, rotation
from tests.methods.toy import write_pairs


def bitext(root: Path, src: list[list[str]], tgt: list[list[str]]) -> MethodInputs:
    """Sentence pairs without a single link."""
    none: list[list[int]] = [[] for _ in src]
    folder = write_pairs(
        root / "bitext",
        {"id": list(range(len(src))), "src": src, "tgt": tgt, "src_links": none, "tgt_links": none},
    )
    return MethodInputs(("de",), "en", bitext={"de": folder})


def test_the_vector_of_a_sentence_is_the_mean_of_its_words_that_were_read():
    table = torch.tensor([[1.0, 2], [3, 6], [8, 0]])
    means, present = sentence_means(
        TableEncoder({"de": table}), [["w0", "?", "w1"], [], ["?"], ["w2"]], "de", (0,), "last"
    )
    assert means[:, 0].tolist() == [[2.0, 4.0], [0.0, 0.0], [0.0, 0.0], [8.0, 0.0]]
    assert present.tolist() == [True, False, False, True]


@pytest.mark.parametrize("direction", ["to-pivot", "to-other"])
@pytest.mark.parametrize("center", [False, True])
def test_a_planted_rotation_of_words_is_found_from_sentences_in_any_order_of_words(
    tmp_path, direction, center
):
    other = normal(12, 4)
    tables = {"de": other.float(), "en": (other @ rotation(4) + (3 if center else 0)).float()}
    sentences = [[f"w{(i * k) % 12}" for k in range(1, 2 + i % 4)] for i in range(1, 30)]
    inputs = bitext(
        tmp_path, [*sentences, ["?"]], [*(sentence[::-1] for sentence in sentences), ["w1"]]
    )
    method = SentenceRotation(SentenceRotation.Params(center=center, direction=direction))
    assert method.needs().bitext
    aligned = method.align(TableEncoder(tables), inputs, Runtime())
    moving, held = ("de", "en") if direction == "to-pivot" else ("en", "de")
    assert torch.allclose(
        applied(aligned.transforms, moving, tables[moving]), tables[held], atol=1e-5
    )
    assert 1 < aligned.notes["de"].pop("effective_rank")[0] < 4
    assert aligned.notes == {"de": {"sentences": 29, "dimensions": 4, "rank": [4]}}


def test_a_bitext_without_sentences_is_an_error_that_names_the_languages(tmp_path):
    with pytest.raises(RaxalignError, match="no sentence pairs for de-en"):
        SentenceRotation(SentenceRotation.Params()).align(
            TableEncoder({"de": torch.ones(1, 2)}), bitext(tmp_path, [], []), Runtime()
        )
