"""Folders of sentence-transformers, read, written, and with a module that applies transforms."""

import ast
import json
import sys

import pytest
import torch

from raxalign.corpora.text.words import Sentence
from raxalign.encoders.base import EncoderInputs
from raxalign.encoders.models.aligned import CODE, AlignedEncoder, SentenceUse
from raxalign.encoders.models.sentence_config import SentenceConfig, files_of
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.encoders.models.transforms import Affine, Transform, Unit
from raxalign.encoders.transformer import Transformer
from raxalign.errors import DataError, RaxalignError
from raxalign.tasks.vectors.frame import SentenceReading
from tests.encoders.architectures import encoder_of
from tests.families.catalogue import FAMILIES, build

SENTENCES = [["the", "dogs", "sleeps", "."], ["der", "Hund"], ["play"]]


def vectors(encoder, pooling):
    reading = SentenceReading("last", pooling)
    return reading.vectors(AlignedEncoder(encoder), SENTENCES, "en")[0]


def states(encoder):
    """The last layer's states of each sentence alone, special pieces included."""
    found = []
    with torch.no_grad():
        for sentence in SENTENCES:
            rows = encoder.pieces([sentence], "en")
            found.append(encoder.hidden(encoder.collate(rows))[-1][0])
    return found


def test_poolings_by_hand(encoder):
    alone = states(encoder)
    last = torch.stack([state[-2] for state in alone])
    assert torch.allclose(vectors(encoder, "last"), last, atol=1e-5)
    wanted = []
    for state in alone:
        places = torch.arange(1.0, len(state) + 1)[:, None]
        wanted.append((state * places).sum(0) / places.sum())
    assert torch.allclose(vectors(encoder, "weighted"), torch.stack(wanted), atol=1e-5)


@pytest.mark.parametrize(
    "config",
    [
        None,
        SentenceConfig("cls", normalize=True),
        SentenceConfig("last"),
        SentenceConfig("mean", prompt="the cat : "),
        SentenceConfig("weighted", normalize=True, prompt="the cat : ", include_prompt=False),
    ],
)
def test_sentence_transformers_has_the_same_vectors_of_an_export(config, encoder, tmp_path):
    encoder.sentences = config
    AlignedEncoder(encoder).export(tmp_path)
    theirs = opened(tmp_path).encode([*map(" ".join, SENTENCES)], convert_to_tensor=True)
    again = TransformerEncoder.from_folder(tmp_path)
    assert again.sentences == (config or SentenceConfig())
    assert torch.allclose(vectors(again, "own"), theirs, atol=1e-5)
    assert torch.allclose(vectors(encoder, "own" if config else "mean"), theirs, atol=1e-5)
    if config is None:  # nothing but what sentence-transformers has itself
        kinds = [part["type"] for part in json.loads((tmp_path / "modules.json").read_text())]
        assert all(kind.startswith("sentence_transformers.") for kind in kinds)
        assert not (tmp_path / CODE.name).exists()


def test_what_sentence_transformers_itself_writes_is_read(tiny_folder, tmp_path):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Normalize
    from sentence_transformers.base.modules import Transformer as Theirs
    from sentence_transformers.sentence_transformer.modules import Pooling

    modules = [Theirs(str(tiny_folder)), Pooling(32, "cls"), Normalize()]
    prompts = {"query": "query: ", "document": "passage: "}
    SentenceTransformer(modules=modules, prompts=prompts, device="cpu").save(str(tmp_path))
    config = SentenceConfig("cls", normalize=True, prompt="query: ")
    assert SentenceConfig.read(files_of(tmp_path)) == config
    own = {"modules.json", "config_sentence_transformers.json", "1_Pooling/config.json"}
    assert own <= set(Transformer(Transformer.Params(name=str(tmp_path))).sources())


def changed(folder, name, **entries):
    SentenceConfig().write(folder, 32, 24)
    record = json.loads((folder / name).read_text())
    if isinstance(record, list):
        record += [{"idx": 9, "name": "9", **entries}]
    else:
        record |= entries
    (folder / name).write_text(json.dumps(record))
    return SentenceConfig.read(files_of(folder))


def test_a_prefix_of_the_grid_is_the_prompt_of_a_folder_without_one(encoder, tmp_path):
    encoder.sentences = SentenceConfig("cls", normalize=True)
    encoder.model.save_pretrained(tmp_path)
    encoder.tokenizer.save_pretrained(tmp_path)
    kind = Transformer(Transformer.Params(name=str(tmp_path), prefix="the cat :"))
    opened_here = kind.load(EncoderInputs(), "cpu")
    assert opened_here.sentences == SentenceConfig("mean", prompt="the cat : ")
    encoder.write_sentences(tmp_path, encoder.sentences)
    with_prefix = kind.load(EncoderInputs(), "cpu")
    assert with_prefix.sentences == SentenceConfig("cls", normalize=True, prompt="the cat : ")
    AlignedEncoder(with_prefix).export(tmp_path / "out")
    theirs = opened(tmp_path / "out").encode([*map(" ".join, SENTENCES)], convert_to_tensor=True)
    assert torch.allclose(vectors(with_prefix, "own"), theirs, atol=1e-5)
    assert not torch.allclose(vectors(encoder, "own"), theirs, atol=1e-2)


def test_what_cannot_be_read_is_named_where_it_is_asked_for(encoder, tmp_path):
    kind = {"path": "2_Dense", "type": "sentence_transformers.models.Dense"}
    dense = changed(tmp_path, "modules.json", **kind)
    assert dense == SentenceConfig(unread="the modules Transformer, Pooling, Dense")
    several = changed(tmp_path, "1_Pooling/config.json", pooling_mode=["mean", "max"])
    assert several == SentenceConfig(unread="the pooling mean and max")
    encoder.sentences = dense
    with pytest.raises(
        RaxalignError, match="this encoder has the modules Transformer, Pooling, Dense"
    ):
        vectors(encoder, "own")
    encoder.sentences = None
    with pytest.raises(RaxalignError, match=r"this encoder has no modules.json; choose cls"):
        vectors(encoder, "own")
    (tmp_path / "modules.json").write_text("{")
    with pytest.raises(DataError, match=r"modules.json: cannot be read: it is not JSON"):
        SentenceConfig.read(files_of(tmp_path))


def test_the_default_prompt_comes_before_the_one_of_queries(tmp_path):
    name = "config_sentence_transformers.json"
    prompts = {"query": "q: ", "sts": "s: "}
    assert changed(tmp_path, name, prompts=prompts) == SentenceConfig(prompt="q: ")
    found = changed(tmp_path, name, prompts=prompts, default_prompt_name="sts")
    assert found == SentenceConfig(prompt="s: ")


def test_the_last_piece_before_special_ones_has_no_configuration():
    assert SentenceConfig.trained("last", trailing=1) is None
    assert SentenceConfig.trained("last", trailing=0) == SentenceConfig("last")
    assert SentenceConfig.trained("cls", trailing=1) == SentenceConfig("cls")


TEXTS = ["der Hund schläft .", "die Katze", "the dogs , the cat"]
H, TOP = 32, 3


def turn(seed, layer=TOP, sort="readout", **where):
    """Some map, which differs from seed to seed."""
    torch.manual_seed(seed)
    affine = Affine(torch.randn(H), torch.randn(H, H), torch.randn(H))
    steps = (Affine(shift=torch.randn(H)),) if sort == "inside" else (Unit(), affine)
    return Transform(where.pop("lang", "de"), layer, sort, steps, **where)


def opened(folder):
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(folder), device="cpu", trust_remote_code=True)


def own(aligned, lang="de", layers="last", pooling="mean"):
    sentences = [Sentence.of_text(text) for text in TEXTS]
    return SentenceReading(layers, pooling).vectors(aligned, sentences, lang)[0]


def same(theirs, ours):
    assert torch.allclose(torch.as_tensor(theirs), ours, atol=1e-5)


ADDED = SentenceUse(layers="1-2")
CASES = {
    "readout": ((turn(1), turn(2, lang="en")), SentenceUse(), "last"),
    "inside before the first block": ((turn(1, 0, "inside"),), SentenceUse(), "last"),
    "both": ((turn(1, 2, "inside"), turn(2), turn(3)), SentenceUse(), "last"),
    "of the embeddings": ((turn(1, 0),), SentenceUse(), "0"),
    "of layers that are added up": ((turn(1, 2), turn(2, 1)), ADDED, "1-2"),
    "of a lower layer, by the first piece": ((turn(1, 2),), SentenceUse(pooling="cls"), "2"),
}


@pytest.mark.parametrize("case", CASES)
def test_sentences_have_the_vectors_that_raxalign_gives_them(case, encoder, tmp_path):
    transforms, use, layers = CASES[case]
    aligned = AlignedEncoder(encoder, transforms)
    aligned.export(tmp_path, use)
    ours = own(aligned, layers=layers, pooling=use.pooling or "mean")
    same(opened(tmp_path).encode(TEXTS, language="de"), ours)
    assert (ours - own(AlignedEncoder(encoder), layers=layers)).abs().max() > 0.1


def test_a_language_is_given_by_a_keyword_a_prompt_or_the_export(encoder, tmp_path):
    aligned = AlignedEncoder(encoder, (turn(1), turn(2, lang="fr")))
    use = SentenceUse(("de", "fr", "en"))
    assert aligned.export(tmp_path / "open", use) == ("de", "fr", "en")
    model = opened(tmp_path / "open")
    for given in ({"language": "de"}, {"language": "deu_Latn"}, {"prompt_name": "de"}):
        same(model.encode(TEXTS, **given), own(aligned))
    same(model.encode_query(TEXTS, prompt_name="fr"), own(aligned, "fr"))
    same(model.encode(TEXTS, language="en"), own(AlignedEncoder(encoder), "en"))
    with pytest.raises(ValueError, match=r"none was given\. Choose one of de, fr, en: encode"):
        model.encode(TEXTS)
    with pytest.raises(ValueError, match="is not aligned for the language 'deu-eng'"):
        model.encode(TEXTS, language="deu-eng")
    aligned.export(tmp_path / "fixed", SentenceUse(("de", "fr", "en"), "de"))
    fixed = opened(tmp_path / "fixed")
    for vectors in (fixed.encode(TEXTS), fixed.encode_document(TEXTS)):
        same(vectors, own(aligned))
    same(fixed.encode(TEXTS, language="fr"), own(aligned, "fr"))


def test_the_pivot_is_given_with_the_language_that_it_moves_toward(encoder, tmp_path):
    toward = (turn(1, lang="en", toward="de"), turn(2, lang="en", toward="fr"))
    aligned = AlignedEncoder(encoder, toward)
    choices = aligned.export(tmp_path, SentenceUse(("de", "fr", "en")))
    assert choices == ("de", "fr", "en>de", "en>fr")
    model = opened(tmp_path)
    same(model.encode(TEXTS, prompt_name="en>de"), own(aligned.toward("de"), "en"))
    same(model.encode(TEXTS, language="eng>fra"), own(aligned.toward("fr"), "en"))
    with pytest.raises(ValueError, match=r"not aligned for the language 'en'\. Choose one of de"):
        model.encode(TEXTS, language="en")


def test_nothing_is_opened_without_the_alignment(encoder, tmp_path):
    from sentence_transformers import SentenceTransformer

    aligned = AlignedEncoder(encoder, (turn(1),))
    aligned.export(tmp_path / "out", SentenceUse(("de", "en")))
    with pytest.raises(ValueError, match="trust_remote_code=True"):
        SentenceTransformer(str(tmp_path / "out"), device="cpu")
    (tmp_path / "out" / "transforms.safetensors").unlink()
    with pytest.raises(OSError, match=r"needs the files .*transforms\.safetensors"):
        opened(tmp_path / "out")
    with pytest.raises(RaxalignError, match=r"--language fr: .* choose one of de, en"):
        aligned.export(tmp_path / "not", SentenceUse(("de", "en"), "fr"))


def test_what_sentence_transformers_saves_opens_again_with_the_alignment(encoder, tmp_path):
    encoder.sentences = SentenceConfig("mean", normalize=True, prompt="the cat : ")
    aligned = AlignedEncoder(encoder, (turn(1),))
    aligned.export(tmp_path / "out")
    model = opened(tmp_path / "out")
    for given in ({"language": "de"}, {"prompt_name": "de"}):
        same(model.encode(TEXTS, **given), own(aligned, pooling="own"))
    model.save(str(tmp_path / "again"), create_model_card=False)
    again = opened(tmp_path / "again").encode(TEXTS, language="de")
    same(again, own(aligned, pooling="own"))


def test_a_language_has_its_adapter_and_a_text_its_form(encoder, tmp_path):
    xmod = TransformerEncoder(encoder_of("xmod").model, encoder.tokenizer)
    AlignedEncoder(xmod).export(tmp_path / "adapters", SentenceUse(("de", "en")))
    model = opened(tmp_path / "adapters")
    found = {lang: model.encode(TEXTS, language=lang) for lang in ("de", "en")}
    for lang, vectors in found.items():
        same(vectors, own(AlignedEncoder(xmod), lang))
    assert abs(found["de"] - found["en"]).max() > 0.01
    encoder.inputs.set_text_form("clean")
    assert AlignedEncoder(encoder).export(tmp_path / "form") == ()
    joined = [f"Ka\u200dtze {text}" for text in TEXTS]
    plain = [f"Katze {text}" for text in TEXTS]
    model = opened(tmp_path / "form")
    same(model.encode(joined), torch.as_tensor(model.encode(plain)))


def test_a_decoder_that_sees_both_ways_does_so_there_too(tmp_path):
    qwen = TransformerEncoder.from_folder(build(FAMILIES["Qwen3"], tmp_path / "qwen"))
    one_way = own(AlignedEncoder(qwen))
    qwen.inputs.make_bidirectional()
    AlignedEncoder(qwen).export(tmp_path / "out")
    same(opened(tmp_path / "out").encode(TEXTS), own(AlignedEncoder(qwen)))
    assert (own(AlignedEncoder(qwen)) - one_way).abs().max() > 0.01


def test_the_module_reads_nothing_of_raxalign():
    nodes = list(ast.walk(ast.parse(CODE.read_text(encoding="utf-8"))))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    modules = {name.split(".")[0] for name in names}
    outside = modules - set(sys.stdlib_module_names)
    assert outside == {"sentence_transformers", "safetensors", "tokenizers", "torch"}
