"""The module that an export holds for sentence-transformers: its vectors are raxalign's, and it
refuses what would be others.
"""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.model_inputs import make_bidirectional
from raxalign.encoders.models.pieces import set_text_form
from raxalign.encoders.models.sentence_config import SentenceConfig
from raxalign.encoders.models.sentence_module import CODE, SentenceUse
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.encoders.models.transforms import Affine, Transform, Unit
from raxalign.errors import RaxalignError
from raxalign.running import Sentence
from raxalign.tasks.vectors.sentences import SentenceReading, sentence_vectors
from tests.families.catalogue import FAMILIES, build

TEXTS = ["der Hund schläft .", "die Katze", "the dogs , the cat"]
H, TOP = 32, 3


def turn(seed: int, layer: int = TOP, sort: Any = "readout", **where: Any) -> Transform:
    """Some map, which differs from seed to seed."""
    torch.manual_seed(seed)
    affine = Affine(torch.randn(H), torch.randn(H, H), torch.randn(H))
    steps = (Affine(shift=torch.randn(H)),) if sort == "inside" else (Unit(), affine)
    return Transform(where.pop("lang", "de"), layer, sort, steps, **where)


def opened(folder: Path) -> Any:
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(folder), device="cpu", trust_remote_code=True)


def own(
    aligned: AlignedEncoder, lang: str = "de", layers: str = "last", pooling: Any = "mean"
) -> torch.Tensor:
    sentences = [Sentence.of_text(text) for text in TEXTS]
    return sentence_vectors(aligned, sentences, lang, SentenceReading(layers, pooling, True))[0]


def same(theirs: Any, ours: torch.Tensor) -> None:
    assert torch.allclose(torch.as_tensor(theirs), ours, atol=1e-5)


CASES: dict[str, tuple[tuple[Transform, ...], SentenceUse]] = {
    "readout": ((turn(1), turn(2, lang="en")), SentenceUse()),
    "inside": ((turn(1, 1, "inside"), turn(2, lang="en")), SentenceUse()),
    "inside before the first block": ((turn(1, 0, "inside"),), SentenceUse()),
    "both": ((turn(1, 2, "inside"), turn(2), turn(3)), SentenceUse()),
    "of a lower layer": ((turn(1, 2), turn(2, 1)), SentenceUse()),
    "of layers that are added up": ((turn(1, 2), turn(2, 1)), SentenceUse(layers="1-2")),
    "of the embeddings": ((turn(1, 0),), SentenceUse()),
    "read by the first piece": ((turn(1),), SentenceUse(pooling="cls")),
}
LAYERS = {"of a lower layer": "2", "of layers that are added up": "1-2", "of the embeddings": "0"}


@pytest.mark.parametrize("case", CASES)
def test_sentences_have_the_vectors_that_raxalign_gives_them(case, encoder, tmp_path):
    transforms, use = CASES[case]
    aligned = AlignedEncoder(encoder, transforms)
    aligned.export(tmp_path, use)
    ours = own(aligned, layers=LAYERS.get(case, "last"), pooling=use.pooling or "mean")
    same(opened(tmp_path).encode(TEXTS, language="de"), ours)
    unaligned = own(AlignedEncoder(encoder), layers=LAYERS.get(case, "last"))
    assert (ours - unaligned).abs().max() > 0.1


def test_a_language_is_given_by_a_keyword_a_prompt_or_the_export(encoder, tmp_path):
    aligned = AlignedEncoder(encoder, (turn(1), turn(2, lang="fr")))
    use = SentenceUse(("de", "fr", "en"))
    assert aligned.export(tmp_path / "open", use) == ("de", "fr", "en")
    model = opened(tmp_path / "open")
    for given in ({"language": "de"}, {"language": "deu_Latn"}, {"prompt_name": "de"}):
        same(model.encode(TEXTS, **given), own(aligned))
    same(model.encode_query(TEXTS, prompt_name="fr"), own(aligned, "fr"))
    same(model.encode(TEXTS, language="en"), own(AlignedEncoder(encoder), "en"))
    aligned.export(tmp_path / "fixed", SentenceUse(("de", "fr", "en"), "de"))
    fixed = opened(tmp_path / "fixed")
    for vectors in (fixed.encode(TEXTS), fixed.encode_document(TEXTS)):
        same(vectors, own(aligned))
    same(fixed.encode(TEXTS, language="fr"), own(aligned, "fr"))


def test_the_pivot_is_given_with_the_language_that_it_moves_toward(encoder, tmp_path):
    toward = (turn(1, lang="en", toward="de"), turn(2, lang="en", toward="fr"))
    aligned = AlignedEncoder(encoder, toward)
    assert aligned.export(tmp_path, SentenceUse(("de", "fr", "en"))) == (
        "de",
        "fr",
        "en>de",
        "en>fr",
    )
    model = opened(tmp_path)
    same(model.encode(TEXTS, prompt_name="en>de"), own(aligned.toward("de"), "en"))
    same(model.encode(TEXTS, language="eng>fra"), own(aligned.toward("fr"), "en"))
    with pytest.raises(ValueError, match=r"not aligned for the language 'en'\. Choose one of de"):
        model.encode(TEXTS, language="en")


def test_nothing_is_opened_or_read_without_the_alignment(encoder, tmp_path):
    from sentence_transformers import SentenceTransformer

    aligned = AlignedEncoder(encoder, (turn(1),))
    aligned.export(tmp_path / "out", SentenceUse(("de", "en")))
    with pytest.raises(ValueError, match="trust_remote_code=True"):
        SentenceTransformer(str(tmp_path / "out"), device="cpu")
    model = opened(tmp_path / "out")
    with pytest.raises(ValueError, match=r"none was given\. Choose one of de, en: encode"):
        model.encode(TEXTS)
    with pytest.raises(ValueError, match="is not aligned for the language 'deu-eng'"):
        model.encode(TEXTS, language="deu-eng")
    (tmp_path / "out" / "transforms.safetensors").unlink()
    with pytest.raises(OSError, match=r"needs the files .*transforms\.safetensors"):
        opened(tmp_path / "out")
    with pytest.raises(RaxalignError, match=r"--language fr: .* choose one of de, en"):
        aligned.export(tmp_path / "not", SentenceUse(("de", "en"), "fr"))


def test_what_sentence_transformers_saves_opens_again_with_the_alignment(encoder, tmp_path):
    encoder.sentences = SentenceConfig("mean", normalize=True, prompt="the cat : ")
    aligned = AlignedEncoder(encoder, (turn(1),))
    aligned.export(tmp_path / "out")
    assert TransformerEncoder.from_folder(tmp_path / "out").sentences == encoder.sentences
    model = opened(tmp_path / "out")
    for given in ({"language": "de"}, {"prompt_name": "de"}):
        same(model.encode(TEXTS, **given), own(aligned, pooling="own"))
    model.save(str(tmp_path / "again"), create_model_card=False)
    again = opened(tmp_path / "again").encode(TEXTS, language="de")
    same(again, own(aligned, pooling="own"))


def test_a_language_has_its_adapter_and_a_text_its_form(encoder, tmp_path):
    xmod = TransformerEncoder.from_folder(build(FAMILIES["X-MOD"], tmp_path / "x-mod"))
    AlignedEncoder(xmod).export(tmp_path / "adapters", SentenceUse(("de", "en")))
    model = opened(tmp_path / "adapters")
    found = {lang: model.encode(TEXTS, language=lang) for lang in ("de", "en")}
    for lang, vectors in found.items():
        same(vectors, own(AlignedEncoder(xmod), lang))
    assert abs(found["de"] - found["en"]).max() > 0.01
    set_text_form(encoder.model.config, encoder.tokenizer, "clean")
    assert AlignedEncoder(encoder).export(tmp_path / "form") == ()
    joined = [f"Ka\u200dtze {text}" for text in TEXTS]
    plain = [f"Katze {text}" for text in TEXTS]
    model = opened(tmp_path / "form")
    same(model.encode(joined), torch.as_tensor(model.encode(plain)))


def test_a_decoder_that_sees_both_ways_does_so_there_too(tmp_path: Path) -> None:
    qwen = TransformerEncoder.from_folder(build(FAMILIES["Qwen3"], tmp_path / "qwen"))
    one_way = own(AlignedEncoder(qwen))
    make_bidirectional(qwen.model)
    AlignedEncoder(qwen).export(tmp_path / "out")
    same(opened(tmp_path / "out").encode(TEXTS), own(AlignedEncoder(qwen)))
    assert (own(AlignedEncoder(qwen)) - one_way).abs().max() > 0.01


def test_the_module_reads_nothing_of_raxalign() -> None:
    nodes = list(ast.walk(ast.parse(CODE.read_text(encoding="utf-8"))))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    modules = {name.split(".")[0] for name in names}
    outside = modules - set(sys.stdlib_module_names)
    assert outside == {"sentence_transformers", "safetensors", "tokenizers", "torch"}


def test_a_folder_without_transforms_is_plain(encoder: TransformerEncoder, tmp_path: Path) -> None:
    assert AlignedEncoder(encoder).export(tmp_path, SentenceUse(("de",), "de")) == ()
    kinds = [part["type"] for part in json.loads((tmp_path / "modules.json").read_text())]
    assert all(kind.startswith("sentence_transformers.") for kind in kinds)
    assert not (tmp_path / CODE.name).exists()
